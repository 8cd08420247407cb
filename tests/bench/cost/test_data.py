"""Corpora that are given by path: the published counts, the traps, and every broken file named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memguard.bench.data import locomo, longmemeval
from memguard.errors import ConfigError

DATA = Path(os.environ.get("MEMGUARD_DATA", Path(__file__).parents[4] / "shared" / "data"))
LOCOMO = DATA / "locomo" / "locomo10.json"
LONG = DATA / "longmemeval"
locomo_here = pytest.mark.skipif(not LOCOMO.exists(), reason=f"did not run: {LOCOMO} is not here")
long_here = pytest.mark.skipif(not LONG.exists(), reason=f"did not run: {LONG} is not here")


@locomo_here
def test_locomo_as_published() -> None:
    talks = locomo.load(LOCOMO)
    assert len(talks) == 10
    questions = [q for talk in talks for q in talk.questions]
    by_category = [sum(q.category == n for q in questions) for n in (1, 2, 3, 4, 5)]
    assert by_category == [282, 321, 96, 841, 446]
    assert sum(bool(q.evidence) and not talk.evidence(q) for talk in talks for q in talk.questions) == 9
    assert sum(not q.evidence for q in questions) == 4
    assert all(q.answer for q in questions if not q.adversarial)
    assert all(len({q.id for q in talk.questions}) == len(talk.questions) for talk in talks)
    kept = [len(talk.truncated().questions) for talk in talks if talk.id in locomo.SEED_000]
    assert kept == [75, 51, 32, 42, 55]


@long_here
def test_longmemeval_samples() -> None:
    talks, digest = longmemeval.load(LONG / "longmemeval_oracle_sample.json")
    assert len(talks) == 16
    assert len(digest) == 64
    assert sum(len(talk.turns) for talk in talks) == 306
    assert {q.category for talk in talks for q in talk.questions} == {1, 2, 3, 4}
    albums = next(q for talk in talks for q in talk.questions if q.id == "q5")
    assert albums.answer == "3"  # a number in the file
    abstaining, _ = longmemeval.load(LONG / "longmemeval_abstain_sample.json")
    assert [q.adversarial for talk in abstaining for q in talk.questions] == [True] * 4
    assert [q.answer for talk in abstaining for q in talk.questions] == [""] * 4


def _official() -> dict[str, Any]:
    turns = [
        {"role": "user", "content": "I adopted Miso.", "has_answer": True},
        {"role": "assistant", "content": "A cat?"},
    ]
    return {
        "question_id": "x1",
        "question_type": "single-session-user",
        "question": "What is the pet called?",
        "answer": "Miso",
        "haystack_dates": ["2024/01/02", "2024/02/03"],
        "haystack_sessions": [[{"role": "user", "content": "Hello."}], turns],
    }


def test_the_published_form_marks_its_evidence(tmp_path: Path) -> None:
    file = tmp_path / "oracle.json"
    file.write_text(json.dumps([_official(), {**_official(), "question_id": "x1_abs"}]))
    (talk, abstaining), _ = longmemeval.load(file)
    assert talk.questions[0].evidence == ("S2:1",)
    assert talk.evidence(talk.questions[0]) == ("S2:1",)
    assert [turn.memory for turn in talk.turns][1] == "[2024/02/03] user: I adopted Miso."
    assert abstaining.questions[0].adversarial


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[1]",
        '{"data": 3}',
        '[{"question": "x"}]',
        json.dumps([{**_official(), "question_type": "new"}]),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as error:
        longmemeval.load(file)
    assert error.value.code == "MG101"
    with pytest.raises(ConfigError) as error:
        longmemeval.load(tmp_path / "missing.json")
    assert error.value.code == "MG102"
    file.write_text("[]")
    with pytest.raises(ConfigError) as error:
        locomo.load(file)
    assert error.value.code == "MG101"
