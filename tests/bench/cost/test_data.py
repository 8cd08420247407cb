"""Corpora that are given by path: the published counts, the traps, and every broken file named."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memguard.bench.cost.talks import talks_of
from memguard.bench.data import bundled, locomo, longmemeval
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


# -- the bundled corpus ------------------------------------------------------------------------------------

MATERIAL = Path(__file__).parents[3] / "bench" / "data" / "cost"


def test_the_bundled_file_is_what_its_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("make_conversations", MATERIAL / "make_conversations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (MATERIAL / "conversations.json").read_text(encoding="utf-8") == module.text()


def test_the_bundled_corpus_is_what_its_page_says() -> None:
    talks, digest = bundled.load()
    assert len(talks) == 8
    assert min(len(talk.turns) for talk in talks) >= 150
    questions = [q for talk in talks for q in talk.questions]
    assert [sum(q.category == n for q in questions) for n in (1, 2, 3, 4, 5)] == [240, 40, 16, 272, 64]
    page = (MATERIAL.parents[2] / "docs" / "bundled-conversations.md").read_text(encoding="utf-8")
    assert (
        "(632 in all): 272 single-hop, 240 multi-hop, 40 temporal, 16 open-domain and 64 adversarial" in page
    )
    for talk in talks:
        assert len({turn.id for turn in talk.turns}) == len(talk.turns)
        assert all(a.date <= b.date for a, b in pairwise(talk.turns))
        for question in talk.questions:
            assert talk.evidence(question)
            assert bool(question.answer) is not question.adversarial
            assert not re.search(r"[{}]", question.text + question.answer)
        assert not any(re.search(r"[{}]", turn.text) for turn in talk.turns)
    assert talks_of("bundled", "full")[1] == {"name": "bundled", "sha256": digest}
    assert [len(talk.turns) for talk in talks_of("bundled", "seed-000")[0]] == [150] * 8


def test_an_answer_stands_in_its_evidence_and_corrections_come_later() -> None:
    """Answers that are words of the conversation are in the turns that are named (dates and countries follow)."""
    talks, _ = bundled.load()
    missing = []
    for talk in talks:
        turns = {turn.id: turn.text.lower() for turn in talk.turns}
        order = {turn.id: at for at, turn in enumerate(talk.turns)}
        for q in talk.questions:
            said = " ".join(turns[e] for e in q.evidence)
            words = re.findall(r"\w+", q.answer.lower())
            told = q.category in (1, 4) and len(words) <= 3
            if told and not all(re.search(rf"\b{re.escape(word)}", said) for word in words[-1:]):
                missing.append((talk.id, q.id, q.answer))
        before = next(
            q for q in talk.questions if q.text.startswith("On which day did the choir rehearse before")
        )
        first, second = (order[e] for e in before.evidence)
        assert first < second
    assert missing == []


@pytest.mark.parametrize("spec", ["", "bundle", "locomo", "locomo:", "http://x", "longmemeval:"])
def test_data_that_is_not_known_is_named(spec: str) -> None:
    with pytest.raises(ConfigError):
        talks_of(spec, "full")
