"""The work that is timed: checkpoints of a given number of messages, and store items, the same on every machine.

A message of 195 characters makes rows of about 0.6, 18 and 180 kB at 1, 50 and 500 messages, serialised by
LangGraph's own serde. Every checkpoint of a thread brings exactly one new message and drops the oldest, so its
size stays put while its content does not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

#: size name -> messages in a checkpoint
SIZES = {"1 msg": 1, "50 msg": 50, "500 msg": 500}
#: size name -> about how large one row is
ROW_SIZES = {"1 msg": "0.6 kB", "50 msg": "18 kB", "500 msg": "180 kB"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz     "
_LENGTH = 195


def messages(seed: int = 0) -> Iterator[Any]:
    """Human and assistant messages in turn, endless, with ids; the text is random letters."""
    from langchain_core.messages import AIMessage, HumanMessage

    rng = random.Random(seed)
    index = 0
    while True:
        kind = HumanMessage if index % 2 == 0 else AIMessage
        yield kind(content="".join(rng.choices(_LETTERS, k=_LENGTH)), id=f"m-{seed}-{index:07d}")
        index += 1


def checkpoints(size: int, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Checkpoints of one thread, endless; each holds ``size`` messages, one of them new."""
    from langgraph.checkpoint.base.id import uuid6

    source, chance = messages(seed), random.Random(seed)
    window = [next(source) for _ in range(size)]
    version = 0
    while True:
        version += 1
        drawn = f"{version:032}.{chance.random():016}"  # as the savers' get_next_version draws them
        yield {
            "v": 4,
            "id": str(uuid6(clock_seq=version % 16384)),
            "ts": "2026-12-01T09:00:00+00:00",
            "channel_values": {"messages": list(window), "step": version},
            "channel_versions": {"messages": drawn, "step": drawn},
            "versions_seen": {"agent": {"messages": drawn}},
            "updated_channels": ["messages", "step"],
        }
        window = [*window[1:], next(source)]


def item(index: int) -> dict[str, Any]:
    """Value of the ``index``-th store item, about 200 bytes of JSON."""
    rng = random.Random(index)
    return {"text": "".join(rng.choices(_LETTERS, k=150)), "kind": "fact", "n": index}
