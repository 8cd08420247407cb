"""LongMemEval (Wu et al., 2025): one conversation of many sessions for each question. Given by path, never bundled.

The published files (oracle, s, m) are lists of questions with their haystack; turns that answer are marked. A sample
that was cut from them may be a mapping with ``data``, whose turns are not marked: its questions have no evidence, and
the retrieval mode cannot grade them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memguard.bench.data.conversations import ADVERSARIAL, Conversation, Question, Turn
from memguard.errors import ConfigError

_CATEGORIES = {
    "multi-session": 1,
    "knowledge-update": 2,
    "temporal-reasoning": 2,
    "single-session-preference": 3,
    "single-session-user": 4,
    "single-session-assistant": 4,
    "abstention": ADVERSARIAL,
}


def load(path: Path) -> tuple[tuple[Conversation, ...], str]:
    """The conversations, and the SHA-256 of the file: its releases differ, so it goes into every report.

    Raises:
        ConfigError: MG102, the file is not there; MG101, it is not of this form.
    """
    try:
        content = path.read_bytes()
    except OSError:
        raise ConfigError(
            "the LongMemEval file cannot be read.",
            code="MG102",
            where=str(path),
            do="Give the path of the file: --data longmemeval:PATH.",
        ) from None
    try:
        found = json.loads(content)
        listed = found["data"] if isinstance(found, dict) else found
        talks = tuple(_conversation(at, entry) for at, entry in enumerate(listed))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "this is not a LongMemEval file.",
            code="MG101",
            where=str(path),
            why=f"Reading it ended in {type(error).__name__}.",
            do="Fetch the file again from where its authors publish it.",
        ) from None
    return talks, hashlib.sha256(content).hexdigest()


def _conversation(at: int, entry: Mapping[str, Any]) -> Conversation:
    if "conversation" in entry:
        turns = tuple(
            Turn(f"T{n}", turn["role"], turn["content"], str(turn.get("date", "")))
            for n, turn in enumerate(entry["conversation"], 1)
        )
        questions = tuple(
            Question(str(q["question"]), (), _category(entry, q), str(q["id"]), _answer(entry, q))
            for q in entry["questions"]
        )
        return Conversation(str(entry["id"]), turns, questions)
    said = list(_turns(entry))
    marked = tuple(turn.id for turn, answers in said if answers)
    question = Question(
        str(entry["question"]), marked, _category(entry, {}), f"q{at + 1}", _answer(entry, entry)
    )
    return Conversation(str(entry["question_id"]), tuple(turn for turn, _ in said), (question,))


def _turns(entry: Mapping[str, Any]) -> Iterator[tuple[Turn, bool]]:
    dates = entry.get("haystack_dates") or [""] * len(entry["haystack_sessions"])
    for session, (date, turns) in enumerate(zip(dates, entry["haystack_sessions"], strict=True), 1):
        for n, turn in enumerate(turns, 1):
            made = Turn(f"S{session}:{n}", str(turn["role"]), str(turn["content"]), str(date))
            yield made, bool(turn.get("has_answer"))


def _category(entry: Mapping[str, Any], question: Mapping[str, Any]) -> int:
    if question.get("is_abstention") or str(entry.get("question_id", "")).endswith("_abs"):
        return ADVERSARIAL
    return _CATEGORIES[entry["question_type"]]


def _answer(entry: Mapping[str, Any], question: Mapping[str, Any]) -> str:
    return "" if _category(entry, question) == ADVERSARIAL else str(question["answer"])
