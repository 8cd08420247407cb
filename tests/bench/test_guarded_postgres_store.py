"""The guarded PostgresStore on the bench: nine of nine refused on a real server, and what only PostgreSQL has.

Every case of ours runs with ``memguard bench integrity --sut langgraph-postgres-store+memguard``; here are those
whose edit differs from the SqliteStore's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case

STORE = "langgraph-postgres-store"
NINE = tuple(f"T{n}" for n in range(1, 10))
OURS = (
    "X07",
    "X19",
    "X21",
    "X22",
    "X23",
    "X24",
    "X39",
    "X41",
    "X45",
    "X46",
    "X47",
    "X49",
    "X50",
    "X53",
    "X54",
)

pytestmark = pytest.mark.xdist_group("bench-postgres")


def verdicts(
    name: str, folder: Path, cases: tuple[str, ...], *, alive: bool = False
) -> tuple[Lab, dict[str, Any]]:
    lab = Lab(name, folder, 0)
    lab.prepare()
    cells = {c: rows.cell(run_case(lab, BY_ID[c], "read", alive=alive), "read") for c in cases}
    return lab, {c: (cell["verdict"], cell["strict_verdict"]) for c, cell in cells.items()}


def test_nine_of_nine_and_ours_are_refused_and_the_controls_hold(tmp_path: Path) -> None:
    lab, found = verdicts(f"{STORE}+memguard", tmp_path, NINE + OURS)
    assert found == dict.fromkeys(NINE + OURS, ("REJECTED", "REJECTED"))
    controls = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    assert all(control["ok"] for control in controls.values()), controls


def test_the_bare_store_serves_what_was_edited(tmp_path: Path) -> None:
    cases = ("T1", "T2", "T5", "T6", "T9", "X21", "X23")
    _, found = verdicts(STORE, tmp_path, cases)
    assert found == dict.fromkeys(cases, ("ACCEPTED", "ACCEPTED"))


def test_edits_under_its_feet_are_refused(tmp_path: Path) -> None:
    cases = ("T1", "T2", "T3", "T4", "T7", "X22", "X24", "X53")
    _, found = verdicts(f"{STORE}+memguard", tmp_path, cases, alive=True)
    assert found == dict.fromkeys(cases, ("REJECTED", "REJECTED"))
