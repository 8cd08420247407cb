"""The conversations that come with the project (``bench/data/cost``): written for it, so that everybody has them."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files

from memguard.bench.data.conversations import Conversation, Question, Turn


def load() -> tuple[tuple[Conversation, ...], str]:
    """The conversations, and the SHA-256 of their file."""
    content = files("memguard.bench").joinpath("data/cost/conversations.json").read_bytes()
    talks = tuple(
        Conversation(
            found["id"],
            tuple(Turn(t["id"], t["speaker"], t["text"], t["date"]) for t in found["turns"]),
            tuple(
                Question(q["question"], tuple(q["evidence"]), q["category"], q["id"], q["answer"])
                for q in found["questions"]
            ),
        )
        for found in json.loads(content)
    )
    return talks, hashlib.sha256(content).hexdigest()
