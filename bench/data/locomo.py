"""LoCoMo (Maharana et al., 2024): ten long conversations with questions and the turns that answer them.

Its licence (CC BY-NC 4.0) does not let it be part of this repository: the file is given by path. Its traps are
handled here: sessions are taken in numeric order, date keys without a session are passed over, evidence strings that
name no turn stay as they are (the question counts as one whose evidence is not complete), answers may be numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.bench.data.conversations import Conversation, Question, Turn
from memguard.errors import ConfigError

SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
#: The conversations of seeds/000.
SEED_000 = ("conv-26", "conv-30", "conv-41", "conv-42", "conv-43")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


def load(path: Path) -> tuple[Conversation, ...]:
    """The ten conversations.

    Raises:
        ConfigError: MG102, the file is not there; MG101, it is another one.
    """
    try:
        content = path.read_bytes()
    except OSError:
        raise ConfigError(
            "the LoCoMo file cannot be read.",
            code="MG102",
            where=str(path),
            do="Give the path of locomo10.json: --data locomo:PATH.",
        ) from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ConfigError(
            "this is not the published locomo10.json.",
            code="MG101",
            where=str(path),
            why=f"Its SHA-256 is not {SHA256[:16]}…; figures of another file could not be compared.",
            do="Fetch the file again from where its authors publish it.",
        )
    return tuple(_conversation(sample) for sample in json.loads(content))


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    said = sample["conversation"]
    numbers = sorted(int(k[8:]) for k, v in said.items() if k.startswith("session_") and isinstance(v, list))
    turns = [
        Turn(turn["dia_id"], turn["speaker"], turn["text"], said.get(f"session_{n}_date_time", ""))
        for n in numbers
        for turn in said[f"session_{n}"]
    ]
    questions = [
        Question(
            str(q["question"]),
            tuple(q["evidence"]),
            int(q["category"]),
            id=f"q{at}",
            # Six answers are numbers. The "adversarial answer" is the wrong one that a model may be led to.
            answer=str(q["answer"]) if "answer" in q else "",
        )
        for at, q in enumerate(sample["qa"], 1)
    ]
    return Conversation(sample["sample_id"], tuple(turns), tuple(questions))
