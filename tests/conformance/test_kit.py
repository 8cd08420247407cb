"""The parts of the kit by themselves: positions, judgements, reports, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from memguard import registry
from memguard.bench.conformance import findings, report, rest
from memguard.bench.conformance.edits import EDITS, FOLDERS, WHY_NOT
from memguard.bench.conformance.raw import RawRecord
from memguard.bench.integrity.cases import BY_ID
from memguard.bench.integrity.edits.raw import diff
from memguard.bench.integrity.edits.steps import EditFailed
from memguard.testing import conformance


def records(*keys: str) -> list[RawRecord]:
    return [RawRecord("alice", key, {"text": key, "role": "user"}) for key in keys]


def test_positions_stay_when_a_record_goes_and_change_when_two_change_places() -> None:
    order = rest.Order(True)
    before = rest.state(records("a", "b", "c", "d"), order)
    gone = diff(before, rest.state(records("a", "c", "d"), order))
    assert ([r.slot for r in gone.removed], gone.added, gone.changed) == (["b"], (), ())
    swapped = diff(before, rest.state(records("a", "c", "b", "d"), order))
    assert [(old.slot, parts) for old, _, parts in swapped.changed] == [("b", {"order"}), ("c", {"order"})]
    more = diff(before, rest.state(records("a", "b", "x", "c", "d"), order))
    assert ([r.slot for r in more.added], more.changed) == (["x"], ())
    [x] = more.added
    by_slot = {r.slot: r.order for r in before}
    assert by_slot["b"] < x.order < by_slot["c"]


def test_without_an_order_no_position_is_named_and_one_place_holds_one_record() -> None:
    assert {r.order for r in rest.state(records("a", "b"), rest.Order(False))} == {""}
    with pytest.raises(EditFailed):
        rest.state(records("a", "a"), rest.Order(True))


def test_a_change_beside_the_text_is_a_change_of_metadata() -> None:
    order = rest.Order(True)
    one = [RawRecord("a", "k", {"text": "t", "role": "user", "memguard": {"seal": "s"}}, {"at": 1})]
    before = rest.state(one, order)
    for value, meta, part in (
        ({"text": "t", "role": "tool", "memguard": {"seal": "s"}}, {"at": 1}, "meta"),
        ({"text": "t", "role": "user", "memguard": {"seal": "s"}}, {"at": 2}, "meta"),
        ({"text": "x", "role": "user", "memguard": {"seal": "s"}}, {"at": 1}, "content"),
        ({"text": "t", "role": "user"}, {"at": 1}, "seal"),
    ):
        [(_, _, parts)] = diff(before, rest.state([RawRecord("a", "k", value, meta)], order)).changed
        assert parts == {part}


def test_every_case_has_an_edit_or_a_reason() -> None:
    assert set(BY_ID) == set(EDITS) | set(FOLDERS) | set(WHY_NOT)
    assert not set(EDITS) & set(WHY_NOT)


def test_levels_claim_what_the_draft_says() -> None:
    assert findings.claimed_cases("L0") == ()
    assert findings.claimed_cases("L2") == ("T1", "T3", "T5", "T2", "T4", "T7")
    assert sorted(findings.claimed_cases("L4")) == [f"T{n}" for n in range(1, 10)]
    with pytest.raises(ValueError, match="L9"):
        findings.claimed_cases("L9")


def test_a_guarded_edit_that_is_served_is_a_finding_and_a_bare_one_only_if_claimed(row_maker: Any) -> None:
    bare = row_maker({"T2": "ACCEPTED", "T4": "N/A"}, rest="REJECTED")
    assert findings.exit_for([{"rows": [bare], "needs": []}]) == (0, [])
    code, [said] = findings.exit_for([{"rows": [bare], "needs": findings.needs("L2")}])
    assert code == 1
    assert "some-store T2" in said
    guarded = row_maker({"X08": "ACCEPTED"}, rest="REJECTED", guarded=True)
    code, [said] = findings.exit_for([{"rows": [guarded], "needs": []}])
    assert (code, "X08" in said) == (1, True)
    alarm = row_maker({}, guarded=True, held={**HELD, "C4": {"ok": False, "detail": "alarm"}})
    assert findings.exit_for([{"rows": [alarm], "needs": []}])[0] == 1
    astray = row_maker({"T5": "ERROR"}, guarded=True)
    assert findings.exit_for([{"rows": [astray], "needs": []}])[0] == 3


HELD = {name: {"ok": True, "detail": "held"} for name in ("C1", "C2", "C4")}


def test_junit_says_the_same_in_its_own_words(row_maker: Any) -> None:
    row = row_maker({"T1": "ACCEPTED", "T2": "ACCEPTED", "T4": "N/A", "T5": "ERROR"}, rest="REJECTED")
    text = report.junit([{"suite": "S", "needs": findings.needs("L1"), "rows": [row]}])
    [suite] = ET.fromstring(text).findall("testsuite")
    # T1 is claimed and served; T2 is served and not claimed; T4 cannot be expressed; T5 (and so C3) went astray
    assert suite.attrib["failures"] == "2"
    assert suite.attrib["errors"] == "1"
    assert suite.attrib["skipped"] == "2"
    assert int(suite.attrib["tests"]) == len(BY_ID) + 4 == len(suite.findall("testcase"))
    failed = {case.attrib["name"] for case in suite.findall("testcase") if case.find("failure") is not None}
    assert failed == {"C3", "T1"}


def test_a_badge_shows_the_level_and_where_the_head_is(row_maker: Any) -> None:
    row = row_maker({}, rest="REJECTED", witness="W1 another volume", sut="<store>")
    picture = ET.fromstring(report.badge(row))
    assert picture.attrib["aria-label"] == "memory integrity: L4 W1"
    void = row_maker({}, held={**HELD, "C1": {"ok": False, "detail": "it refused"}})
    assert ET.fromstring(report.badge(void)).attrib["aria-label"] == "memory integrity: not evaluable"


def test_the_tables_leave_out_what_no_column_expresses(row_maker: Any) -> None:
    rows = [row_maker({"T1": "ACCEPTED", "X21": "N/A"}), row_maker({"X21": "N/A"}, guarded=True, sut="g")]
    suites = [{"suite": "S", "needs": [], "rows": rows}]
    for text in (report.table(suites), report.markdown(suites)):
        assert "X21" not in text
        [line] = [line for line in text.splitlines() if line.lstrip("| ").startswith("T1")]
        assert line.index("ACCEPTED") < line.index("REJECTED")
        assert "metric 0.89 (8 of 9 refused) · level L0" in text


def test_the_kit_is_fetched_when_it_is_asked_for() -> None:
    assert set(conformance.__all__) == set(registry.kits.names())
    code = (
        "import sys, memguard.testing.conformance as kit\n"
        "assert not [m for m in sys.modules if m.startswith(('memguard.bench', 'pytest', 'langgraph'))]\n"
        "kit.Subject\n"
        "assert 'pytest' not in sys.modules and not [m for m in sys.modules if m.startswith('langgraph')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        conformance.Nothing  # noqa: B018
