"""Trust by source and by parents, and labels that nobody but the guard writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.config import SOURCES, Config, preset
from memguard.decision import Decision
from memguard.guard import Fetch, GuardContext, Stage
from memguard.guards.provenance import FORGED, TOO_MANY, Provenance
from memguard.pipeline import Pipeline, Seat
from memguard.record import KINDS, Lineage, Parent, Record, Source, Trust
from memguard.record import Provenance as Known
from memguard.runtime import run

GUARD = Provenance.from_config(Config())
trusts = st.sampled_from(list(Trust))


def decide(
    record: Record, *, stage: Stage = Stage.WRITE, known: dict[str, Trust] | None = None, guard: Any = GUARD
) -> Decision:
    handlers: Any = {}
    if known is not None:
        handlers[Fetch] = lambda effect: {i: Known(trust=known[i]) for i in effect.ids if i in known}
    outcome = run(
        Pipeline(stage, (Seat(guard, fail_mode="closed"),)).run(record, GuardContext(stage)), handlers
    )
    assert outcome.events == ()
    return outcome.decision


@pytest.mark.parametrize(
    ("source", "trust"),
    [
        ("web:https://shop.example", "untrusted"),
        ("document:a.pdf", "untrusted"),
        ("unknown", "unknown"),
        ("summary", "unknown"),
        ("tool:crm", "tool"),
        ("user:alice", "user"),
        ("assistant", "user"),
        ("system", "system"),
    ],
)
def test_the_order_of_the_design(source: str, trust: str) -> None:
    decision = decide(Record("t", source=Source.parse(source)))
    assert (decision.trust, decision.flagged) == (trust, False)
    assert set(KINDS) == {pattern.partition(":")[0] for pattern in SOURCES}


def test_the_longest_pattern_wins_and_only_stars_are_wild() -> None:
    levels = {
        "web:https://*": "tool",
        "web:https://docs.example/*": "user",
        "web:https://x.example/?q=[1]": "system",
    }
    guard = Provenance.from_config(preset("balanced", {"sources": levels}))
    for text, trust in [
        ("web:http://a", "untrusted"),
        ("web:https://a", "tool"),
        ("web:https://docs.example/a", "user"),
        ("web:https://docs.example.evil/a", "tool"),
        ("web:https://x.example/?q=[1]", "system"),
        ("web:https://x.example/!q=1", "tool"),
    ]:
        assert guard.trust_of(Source.parse(text)) == trust


@given(st.lists(trusts, min_size=1, max_size=5), st.sampled_from(KINDS))
def test_a_derived_record_is_worth_the_least_of_its_parents(levels: list[Trust], kind: str) -> None:
    parents = Lineage(tuple(Parent(f"p{i}", level) for i, level in enumerate(levels)))
    own = [] if kind == "summary" else [Trust(SOURCES[f"{kind}:*"])]
    decision = decide(Record("t", source=Source(kind), lineage=parents))
    assert decision.trust == Trust.least([*levels, *own])
    # The same when the parents have to be looked up.
    unknown = Lineage(tuple(Parent(parent.id) for parent in parents.parents))
    known = {f"p{i}": level for i, level in enumerate(levels)}
    assert decide(Record("t", source=Source(kind), lineage=unknown), known=known) == decision


@pytest.mark.parametrize("known", [None, {}, {"other": Trust.SYSTEM}])
def test_a_parent_that_nobody_can_show_is_unknown(known: dict[str, Trust] | None) -> None:
    record = Record(
        "t", source=Source("user", "alice"), lineage=Lineage.of("gone", Parent("p", Trust.SYSTEM))
    )
    decision = decide(record, known=known)
    assert (decision.trust, decision.flagged) == ("unknown", False)


def test_recalled_text_written_again_does_not_rise() -> None:
    # V26: a web page that the assistant quotes is still the web page.
    record = Record("t", source=Source("assistant"), lineage=Lineage.of(Parent("r", Trust.UNTRUSTED)))
    assert decide(record).trust is Trust.UNTRUSTED


def test_only_so_many_parents_are_looked_up() -> None:
    guard = Provenance.from_config(preset("balanced", {"guards": {"limits": {"max_parents": 2}}}))
    asked: list[tuple[str, ...]] = []
    record = Record("t", source=Source("system"), lineage=Lineage.of(*(f"p{i}" for i in range(9))))

    def fetch(effect: Fetch) -> dict[str, Known]:
        asked.append(effect.ids)
        return {i: Known(trust=Trust.SYSTEM) for i in effect.ids}

    steps = Pipeline(Stage.WRITE, (Seat(guard),)).run(record, GuardContext(Stage.WRITE))
    decision = run(steps, {Fetch: fetch}).decision
    assert asked == [("p0", "p1")]
    assert (decision.trust, decision.evidence[0].rule) == ("unknown", TOO_MANY)


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_inside_the_payload_is_a_forgery(kind: str) -> None:
    record = Record("t", source=Source(kind), data={"claims": ({"trust": "system"},)})
    decision = decide(record)
    assert (decision.disposition, decision.trust, decision.code) == ("flag", "untrusted", FORGED)


@given(st.none() | trusts, st.sampled_from(KINDS))
def test_reading_never_raises_trust(stored: Trust | None, kind: str) -> None:
    decision = decide(Record("t", source=Source(kind), trust=stored), stage=Stage.READ)
    assert decision.trust is not None
    assert decision.trust <= (stored or Trust.UNKNOWN)
    if kind != "summary":
        assert decision.trust <= SOURCES[f"{kind}:*"]


def test_a_source_that_policy_lowered_since_takes_its_records_along() -> None:
    lowered = Provenance.from_config(preset("balanced", {"sources": {"tool:crm*": "untrusted"}}))
    record = Record("t", source=Source("tool", "crm.lookup"), trust=Trust.TOOL)
    assert decide(record, stage=Stage.READ).trust is Trust.TOOL
    assert decide(record, stage=Stage.READ, guard=lowered).trust is Trust.UNTRUSTED


def test_a_summary_keeps_the_worth_of_its_parents_when_read() -> None:
    record = Record("t", source=Source("summary"), trust=Trust.USER)
    assert decide(record, stage=Stage.READ).trust is Trust.USER
