"""The corpora of the cost bench behind one option."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memguard.bench.data import bundled, locomo, longmemeval
from memguard.bench.data.conversations import Conversation
from memguard.errors import ConfigError


def talks_of(spec: str, profile: str) -> tuple[Sequence[Conversation], dict[str, Any]]:
    """The conversations of a ``--data`` and what a report says of them.

    Args:
        spec: ``bundled``, ``locomo:PATH`` or ``longmemeval:PATH``.
        profile: ``full``, or ``seed-000``: 150 turns and at most 75 questions of each conversation, of LoCoMo the
            five of the paper.

    Raises:
        ConfigError: MG101, MG102: there is no such data.
    """
    kind, _, path = spec.partition(":")
    talks: Sequence[Conversation]
    if spec == "bundled":
        talks, digest = bundled.load()
    elif kind == "locomo" and path:
        talks, digest = locomo.load(Path(path)), locomo.SHA256
    elif kind == "longmemeval" and path:
        talks, digest = longmemeval.load(Path(path))
    else:
        raise ConfigError(
            f"{spec[:60]!r} is no data of this bench.",
            code="MG101",
            do="Write bundled, locomo:PATH or longmemeval:PATH.",
        )
    if profile == "seed-000":
        if kind == "locomo":
            talks = [talk for talk in talks if talk.id in locomo.SEED_000]
        talks = [talk.truncated() for talk in talks]
    return talks, {"name": kind, "sha256": digest}
