"""The guarded PostgreSQL savers on the bench: nine of nine refused on a real server, and what only PostgreSQL has.

Every case of ours runs with ``memguard bench integrity --sut langgraph-postgres-saver+memguard``; here are those
whose edit differs from the SQLite saver's.
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

SAVER = "langgraph-postgres-saver"
NINE = tuple(f"T{n}" for n in range(1, 10))
OURS = ("X02", "X04", "X06", "X10", "X20", "X32", "X39", "X41", "X45", "X49", "X52")

pytestmark = pytest.mark.xdist_group("bench-postgres")


def verdicts(
    name: str, folder: Path, cases: tuple[str, ...], *, alive: bool = False
) -> tuple[Lab, dict[str, Any]]:
    lab = Lab(name, folder, 0)
    lab.prepare()
    cells = {c: rows.cell(run_case(lab, BY_ID[c], "read", alive=alive), "read") for c in cases}
    return lab, {c: (cell["verdict"], cell["strict_verdict"]) for c, cell in cells.items()}


def test_nine_of_nine_and_ours_are_refused_and_the_controls_hold(tmp_path: Path) -> None:
    lab, found = verdicts(f"{SAVER}+memguard", tmp_path, NINE + OURS)
    assert found == dict.fromkeys(NINE + OURS, ("REJECTED", "REJECTED"))
    controls = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    assert all(control["ok"] for control in controls.values()), controls


def test_the_bare_saver_serves_what_was_edited(tmp_path: Path) -> None:
    cases = ("T1", "T5", "T6", "T9", "X04")
    _, found = verdicts(SAVER, tmp_path, cases)
    assert found == dict.fromkeys(cases, ("ACCEPTED", "ACCEPTED"))


def test_the_async_saver_refuses_edits_under_its_feet(tmp_path: Path) -> None:
    cases = ("T1", "T2", "T3", "T7", "X03")
    _, found = verdicts("langgraph-async-postgres-saver+memguard", tmp_path, cases, alive=True)
    assert found == dict.fromkeys(cases, ("REJECTED", "REJECTED"))
