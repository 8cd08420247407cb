"""The guarded stores on the bench: nine of nine and every case of ours refused, others served on, audits complete."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.catalogue import DRAFT_CASES, Case
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case

SAVER = "langgraph-sqlite-saver"
GUARDED = [f"{base}+memguard" for base in (SAVER, "langgraph-async-sqlite-saver", "langgraph-sqlite-store")]
#: Edits of the database itself, which all contexts share: there the other owner may be refused as well.
SHARED = {"X39", "X45", "X46", "X47", "X48"}
#: What each rung accepts of T1-T9: the reason for the rung above it.
LADDER = {
    f"{SAVER}+memguard@anchor-held": ({"T9"}, "L3"),
    f"{SAVER}+memguard:head-beside": ({"T9"}, "L3"),
    f"{SAVER}+memguard:chain": ({"T2", "T9"}, "L1"),
    f"{SAVER}+memguard:tag": ({"T2", "T3", "T9"}, "L0"),
}


def measure(
    name: str, folder: Any, cases: tuple[Case, ...], point: str
) -> tuple[Lab, dict[str, dict[str, Any]]]:
    lab = Lab(name, folder, 0)
    lab.prepare()
    return lab, {case.id: rows.cell(run_case(lab, case, point), point) for case in cases}


@pytest.fixture(scope="module", params=[pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in GUARDED])
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One guarded SUT's read row, measured once."""
    lab, cells = measure(request.param, tmp_path_factory.mktemp("lab"), CASES, "read")
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    return rows.row(rows.describe(lab.fresh()), "read", cells, held, stopped=True)


def test_controls_hold(row: dict[str, Any]) -> None:
    assert all(control["ok"] for control in row["controls"].values()), row["controls"]


def test_nine_of_nine_are_refused_on_read_in_both_readings(row: dict[str, Any]) -> None:
    assert {
        (c, row["cells"][c]["verdict"], row["cells"][c]["strict_verdict"]) for c in BY_ID if c[0] == "T"
    } == {(f"T{n}", "REJECTED", "REJECTED") for n in range(1, 10)}
    assert (row["metric"], row["strict_metric"], row["level"], row["strict_level"]) == (1.0, 1.0, "L4", "L4")


def test_every_case_of_ours_is_refused(row: dict[str, Any]) -> None:
    failed = {
        case: cell["detail"]
        for case, cell in row["cells"].items()
        if cell["verdict"] != "N/A" and cell["strict_verdict"] != "REJECTED"
    }
    assert failed == {}
    assert not any(cell["payload_ran"] for cell in row["cells"].values())


def test_the_other_owner_works_on(row: dict[str, Any]) -> None:
    disturbed = {c for c, cell in row["cells"].items() if cell["collateral"] not in ("served", "none")}
    assert disturbed <= SHARED


def test_a_row_names_no_folder_of_this_machine(row: dict[str, Any]) -> None:
    assert "/tmp" not in str(row)


@pytest.mark.parametrize("name", GUARDED)
def test_the_audit_reports_each_of_the_nine(name: str, tmp_path: Any) -> None:
    _, cells = measure(name, tmp_path, DRAFT_CASES, "audit")
    assert {(c["verdict"], c["strict_verdict"]) for c in cells.values()} == {("REPORTED", "REPORTED")}, cells


@pytest.mark.parametrize(("name", "accepted", "level"), [(n, *what) for n, what in LADDER.items()])
def test_each_rung_buys_what_the_rung_below_accepts(
    name: str, accepted: set[str], level: str, tmp_path: Any
) -> None:
    from memguard.bench.integrity import score

    _, cells = measure(name, tmp_path, DRAFT_CASES, "read")
    assert {c for c, cell in cells.items() if cell["strict_verdict"] == "ACCEPTED"} == accepted
    assert {c for c, cell in cells.items() if cell["strict_verdict"] == "REJECTED"} == set(cells) - accepted
    assert score.level(cells, "strict_verdict") == level


def test_what_encryption_alone_accepts_is_refused_with_the_guard(tmp_path: Any) -> None:
    chosen = tuple(BY_ID[c] for c in ("T1", "T6", "T7", "X20"))
    _, guarded = measure(f"{SAVER}-encrypted+memguard", tmp_path / "guarded", chosen, "read")
    assert {cell["strict_verdict"] for cell in guarded.values()} == {"REJECTED"}, guarded
