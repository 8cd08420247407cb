"""The table at the end: plain words, whole verdict words, no line wider than 110 columns."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import rows, table
from memguard.bench.integrity.cases import CASES

BASE = "langgraph-sqlite-saver"
SUTS = ("", "+memguard", "+memguard@anchor-held", "+memguard:head-beside", "+memguard:chain", "+memguard:tag")


@pytest.fixture
def document(row_maker: Any) -> dict[str, Any]:
    made = [
        row_maker(
            {}, sut=BASE + s, guarded=bool(s), rest="REJECTED" if s else "ACCEPTED", versions={"x" * 60: "1"}
        )
        for s in SUTS
    ]
    made[2] = row_maker({"T9": "ACCEPTED"}, sut=BASE + SUTS[2], guarded=True)
    made.append(row_maker({"X40": "ACCEPTED"}, "audit", "REPORTED", sut=f"{BASE}+memguard", guarded=True))
    return rows.document(rows.configuration([BASE + s for s in SUTS], 0, False), made, "2026-12-01T00:00:00Z")


def test_nothing_is_wider_than_it_may_be(document: dict[str, Any]) -> None:
    lines = table.render(document).splitlines()
    assert max(map(len, lines)) <= 110
    assert max(len(case.plain) for case in CASES) < 110 - 5 - 6 * 9  # six columns, and no text is cut


def test_one_line_per_edit_with_bare_and_guarded_side_by_side(document: dict[str, Any]) -> None:
    lines = table.render(document).splitlines()
    for case in CASES:
        [line] = [text for text in lines if text.startswith(f"{case.id} ")]
        assert f" {case.plain} " in line
        assert "ACCEPTED" in line
        assert line.index("ACCEPTED") < line.index("REJECTED")  # bare stands first


def test_totals_holders_and_the_sentence(document: dict[str, Any]) -> None:
    text = table.render(document)
    [levels] = [line for line in text.splitlines() if "level L0-L4, strict" in line]
    assert levels.split()[-6:] == ["L0", "L4", "L3", "L4", "L4", "L4"]
    assert "the adversary holds" in text
    assert f"{BASE}+memguard: metric 0.50, {len(CASES) - 1} of {len(CASES)} edits REPORTED, not: X40" in text
    assert text.splitlines()[-1] == (
        f"In one sentence: bare stores served {len(CASES)} of {len(CASES)} edits as genuine memory; "
        f"guarded ones served 0 of {len(CASES)}."
    )
    for word in ("REJECTED:", "REPORTED:", "ACCEPTED:", "N/A:", "ERROR:"):
        assert f"  {word} " in text


def test_a_failed_control_is_shouted_and_no_number_is_printed(
    document: dict[str, Any], row_maker: Any
) -> None:
    held = {c: {"ok": c != "C1", "detail": "served nothing"} for c in ("C1", "C2", "C4")}
    document["rows"][1] = row_maker({}, sut=f"{BASE}+memguard", guarded=True, held=held)
    text = table.render(document)
    assert "guarded: NOT EVALUABLE, no number of it counts: CONTROL C1 failed: served nothing" in text
    [levels] = [line for line in text.splitlines() if "level L0-L4, strict" in line]
    assert levels.split()[-6:-4] == ["L0", "void"]
    assert text.splitlines()[-1].startswith("At least one row is not evaluable")


def test_readings_that_differ_are_listed(document: dict[str, Any], row_maker: Any) -> None:
    document["rows"][0] = row_maker({"X19": "stray"}, sut=BASE, rest="ACCEPTED")
    assert "bare: the draft's reading of X19 is REJECTED, the strict one ERROR" in table.render(document)
