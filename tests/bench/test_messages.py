"""Sessions and chat stores on the bench: bare ones accept, guarded ones refuse every case that can be made there."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import CASES
from memguard.bench.integrity.catalogue import DRAFT_CASES
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case

BASES = ("openai-agents-sqlite", "openai-agents-sqlite-encrypted", "llamaindex-sqlite")
GUARDED = [f"{base}+memguard" for base in BASES]
#: Edits of the database itself, which all contexts share: there the other owner may be refused as well.
SHARED = {"X39", "X45", "X46", "X47", "X48"}
#: What cannot be made on these stores, and nothing more: the reason is in the table of edits.
NEVER = {
    "X03",
    "X04",
    "X05",
    "X06",
    "X18",
    "X20",
    "X21",
    "X22",
    "X24",
    "X25",
    "X26",
    "X43",
    "X53",
    "X54",
    "X55",
}
NOT_HERE = {
    "openai-agents-sqlite+memguard": NEVER | {"X23", "X45", "X46", "X49", "X50"},
    # Seal and label are inside the envelope, whose key the adversary does not hold.
    "openai-agents-sqlite-encrypted+memguard": NEVER
    | {"X17", "X23", "X27", "X28", "X29", "X30", "X31", "X45", "X46", "X49", "X50"},
    "llamaindex-sqlite+memguard": NEVER | {"X41"},
}
#: What a bare one refuses: the encrypted session cannot be given another session's envelope, and leaves it out.
BARE: dict[str, set[str]] = {base: set() for base in BASES}


def row_of(name: str, folder: Any, cases: Any) -> dict[str, Any]:
    lab = Lab(name, folder, 0)
    lab.prepare()
    cells = {case.id: rows.cell(run_case(lab, case, "read"), "read") for case in cases}
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    return rows.row(rows.describe(lab.fresh()), "read", cells, held, stopped=True)


@pytest.fixture(scope="module", params=[pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in GUARDED])
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return row_of(request.param, tmp_path_factory.mktemp("lab"), CASES)


def test_controls_hold(row: dict[str, Any]) -> None:
    assert all(control["ok"] for control in row["controls"].values()), row["controls"]


def test_every_case_that_can_be_made_is_refused_in_both_readings(row: dict[str, Any]) -> None:
    cells = row["cells"]
    assert {c for c, cell in cells.items() if cell["verdict"] == "N/A"} == NOT_HERE[row["sut"]]
    failed = {
        c: cell["detail"]
        for c, cell in cells.items()
        if cell["verdict"] != "N/A" and (cell["verdict"], cell["strict_verdict"]) != ("REJECTED", "REJECTED")
    }
    assert failed == {}
    assert (row["metric"], row["strict_metric"], row["level"]) == (1.0, 1.0, "L4")


def test_the_other_owner_works_on(row: dict[str, Any]) -> None:
    disturbed = {c for c, cell in row["cells"].items() if cell["collateral"] not in ("served", "none")}
    assert disturbed <= SHARED


@pytest.mark.parametrize("name", BASES)
def test_bare_ones_accept_the_nine(name: str, tmp_path: Any) -> None:
    row = row_of(name, tmp_path, DRAFT_CASES)
    assert all(row["controls"][c]["ok"] for c in ("C1", "C2")), row["controls"]
    assert {c for c, cell in row["cells"].items() if cell["strict_verdict"] != "ACCEPTED"} == BARE[name]


@pytest.mark.parametrize("name", GUARDED)
def test_the_audit_reports_each_of_the_nine(name: str, tmp_path: Any) -> None:
    lab = Lab(name, tmp_path, 0)
    lab.prepare()
    cells = {case.id: rows.cell(run_case(lab, case, "audit"), "audit") for case in DRAFT_CASES}
    assert {(c["verdict"], c["strict_verdict"]) for c in cells.values()} == {("REPORTED", "REPORTED")}, cells
