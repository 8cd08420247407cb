"""Texts to train on and to measure on, given by path: nothing of them is in this repository.

A folder holds ``manifest.json`` (file, label, licence, origin, sha256 of each) and JSON lines files with a ``text``.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memguard.errors import ConfigError

#: Sources that one author wrote: none of them may be trained on when another is measured.
FAMILIES: Sequence[frozenset[str]] = (
    frozenset({"bastioncorpus_mal", "bastioncorpus_ben"}),
    frozenset({"mg_subtle_poison_share", "mg_hard_benign_share"}),
    frozenset({"spc_personas", "spc_utterances"}),
    frozenset({"bipia_attacks", "bipia_email_ctx"}),
)
#: Reported apart: a false statement of fact is worded like a true one.
KNOWLEDGE = frozenset({"poisonedrag_nq"})
NOTES = Path(__file__).with_name("notes.toml")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts of one source; ``planted`` says which kind they are, ``templates`` which of them share one."""

    name: str
    planted: bool
    licence: str
    origin: str
    texts: tuple[str, ...]
    templates: tuple[int, ...] = ()


def family(name: str) -> frozenset[str]:
    """Every source of the author of ``name``."""
    return next((group for group in FAMILIES if name in group), frozenset({name}))


def read(folder: Path) -> dict[str, Corpus]:
    """Every source of a folder, by name.

    Raises:
        ConfigError: MG102, it has no manifest; MG101, a file is not the one that the manifest names.
    """
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            "the corpora have no manifest.json that can be read", code="MG102", where=str(folder)
        ) from error
    return {corpus.name: corpus for corpus in (_corpus(folder, entry) for entry in manifest)}


def _corpus(folder: Path, entry: Mapping[str, str]) -> Corpus:
    path = folder / entry["file"]
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ConfigError(
            "a corpus is not the file that its manifest describes",
            where=str(path),
            why="It is missing, or its sha256 differs.",
            do="Fetch it again, or correct the manifest if the change is yours.",
        )
    # bastioncorpus leaves a place for a secret word of the one who runs it.
    texts = [json.loads(line)["text"].replace("{canary}", "zk-81") for line in content.splitlines() if line]
    name, planted = path.stem, entry["label"] == "attack"
    return Corpus(name, planted, entry["licence"], entry["origin"], tuple(texts))


def locomo(path: Path) -> Corpus:
    """The turns of LoCoMo's conversations as honest memories. For measuring only: its licence is CC BY-NC 4.0.

    Raises:
        ConfigError: MG102, it cannot be read.
    """
    try:
        conversations = json.loads(path.read_text(encoding="utf-8"))
        talks = [c["conversation"] for c in conversations]
        sessions = [turns for talk in talks for turns in talk.values() if isinstance(turns, list)]
        texts = tuple(turn["text"] for turns in sessions for turn in turns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("this is no LoCoMo file", code="MG102", where=str(path)) from error
    return Corpus("locomo_turns", False, "CC-BY-NC-4.0", "snap-research/locomo", texts)


def notes(seed: int, copies: int = 3) -> dict[str, Corpus]:
    """The notes of this project (notes.toml), each template filled ``copies`` times. For training only."""
    data = tomllib.loads(NOTES.read_text(encoding="utf-8"))
    slots, draw, found = data.pop("slots"), random.Random(seed), {}
    for section, table in data.items():
        texts: list[str] = []
        templates: list[int] = []
        for number, line in enumerate(table["lines"]):
            filled = {_filled(line, slots, draw) for _ in range(copies if _SLOT.search(line) else 1)}
            texts += sorted(filled)
            templates += [number] * len(filled)
        name = f"notes_{section}"
        found[name] = Corpus(
            name, section == "planted", "CC0-1.0", "this repository", tuple(texts), tuple(templates)
        )
    return found


def _filled(line: str, slots: Mapping[str, Sequence[str]], draw: random.Random) -> str:
    text = _SLOT.sub(lambda slot: draw.choice(slots[slot[1]]), line)
    return text[:1].upper() + text[1:]
