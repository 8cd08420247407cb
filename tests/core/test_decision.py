"""Decisions: severity, folding, ceilings, and that no content gets out."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.decision import Decision, Disposition, Evidence, fold
from memguard.record import Trust

dispositions = st.sampled_from(list(Disposition))


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    done, full = sorted([draw(dispositions), draw(dispositions)])
    return Decision(
        done,
        reason=draw(st.sampled_from(["a", "b"])),
        code=draw(st.sampled_from(["MG203", "MG204"])),
        evidence=tuple(Evidence(rule, "r") for rule in draw(st.lists(st.sampled_from("xy"), max_size=2))),
        score=draw(st.sampled_from([0.0, 0.5, 1.0])),
        guard=draw(st.sampled_from(["g", "h"])),
        would=None if full is done else full,
        rewritten=draw(st.sampled_from(["t", "u"])) if done is Disposition.REWRITE else None,
        trust=draw(st.none() | st.sampled_from(list(Trust))),
    )


def test_severity_is_ordered_as_the_design_says() -> None:
    assert [str(d) for d in sorted(reversed(Disposition))] == [
        "allow",
        "flag",
        "rewrite",
        "quarantine",
        "reject",
    ]


@given(st.lists(decisions(), max_size=5))
def test_the_fold_is_the_most_severe_in_any_order(every: list[Decision]) -> None:
    result = fold(every)
    assert result.disposition == max((d.disposition for d in every), default=Disposition.ALLOW)
    assert result.full == max((d.full for d in every), default=Disposition.ALLOW)
    assert result.trust == Trust.least(d.trust for d in every if d.trust is not None)
    assert sorted(e.rule for e in result.evidence) == sorted(e.rule for d in every for e in d.evidence)
    shuffled = random.Random(0).sample(every, len(every))
    other = fold(shuffled)
    assert (other.disposition, other.full, other.trust, other.score) == (
        result.disposition,
        result.full,
        result.trust,
        result.score,
    )


@given(decisions(), decisions(), decisions())
def test_folding_in_groups_changes_nothing(a: Decision, b: Decision, c: Decision) -> None:
    assert fold([fold([a, b]), c]) == fold([a, fold([b, c])]) == fold([a, b, c])


@given(decisions())
def test_allowing_is_the_identity(decision: Decision) -> None:
    assert fold([decision]) == decision
    assert fold([Decision(), decision]).disposition == decision.disposition
    assert fold([Decision(), decision]).full == decision.full


@given(decisions(), dispositions)
def test_a_ceiling_holds_and_is_remembered(decision: Decision, ceiling: Disposition) -> None:
    capped = decision.capped(ceiling)
    assert capped.disposition <= ceiling
    assert capped.full == decision.full
    assert capped.capped(ceiling) == capped
    assert capped.disposition is not Disposition.REWRITE or capped.rewritten is not None


def test_observing_keeps_a_flag_from_lowering_trust() -> None:
    flagged = Decision(Disposition.FLAG, trust=Trust.UNTRUSTED)
    assert flagged.capped(Disposition.ALLOW).trust is None
    assert flagged.capped(Disposition.FLAG).trust is Trust.UNTRUSTED


@pytest.mark.parametrize(
    ("before", "after"),
    [("allow", "allow"), ("flag", "flag"), ("rewrite", "flag"), ("quarantine", "flag"), ("reject", "reject")],
)
def test_a_state_is_never_cut_apart(before: str, after: str) -> None:
    decision = Decision(Disposition(before), rewritten="x" if before == "rewrite" else None)
    state = decision.for_state()
    assert (state.disposition, state.full) == (after, before)
    assert state.rewritten is None


def test_a_decision_is_json_and_holds_no_content() -> None:
    decision = Decision(
        Disposition.REWRITE,
        "why",
        "MG204",
        (Evidence("MG204", "r", (1, 2), 0.5),),
        0.5,
        "g",
        rewritten="heron",
    )
    text = json.dumps(decision.as_dict())
    assert "heron" not in text + repr(decision)
    assert json.loads(text)["evidence"] == [{"rule": "MG204", "reason": "r", "span": [1, 2], "score": 0.5}]


def test_every_pair_compares_like_its_place() -> None:
    for (i, a), (j, b) in itertools.product(enumerate(Disposition), repeat=2):
        assert (a < b, a <= b, a > b, a >= b) == (i < j, i <= j, i > j, i >= j)
