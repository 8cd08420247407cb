"""A run's folder: append-only, resumable by id, never mixed, a torn line is no cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from memguard.bench.report.rundir import RunDir, latest
from memguard.errors import ConfigError


def test_cells_come_back_by_id_and_the_first_one_counts(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    date = run.begin({"a": 1}, "digest", resume=False)
    run.append("one", "x", {"v": 1})
    run.append("two+memguard@held", "y", None)
    run.append("one", "x", {"v": 2})
    assert RunDir(run.path).cells() == {"x": {"v": 1}, "y": None}
    assert RunDir(run.path).begin({"a": 1}, "digest", resume=True) == date


def test_a_line_that_a_kill_cut_short_or_somebody_changed_is_no_cell(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.begin({}, "digest", resume=False)
    for cell in ("a", "b", "c"):
        run.append("w", cell, {"verdict": "REJECTED"})
    file = tmp_path / "cells" / "w.jsonl"
    lines = file.read_text().splitlines()
    file.write_text(f"{lines[0]}\n{lines[1].replace('REJECTED', 'ACCEPTED')}\n{lines[2][:-9]}")
    assert set(run.cells()) == {"a"}


def test_configurations_are_never_mixed(tmp_path: Path) -> None:
    RunDir(tmp_path).begin({}, "one", resume=False)
    with pytest.raises(ConfigError, match="another configuration"):
        RunDir(tmp_path).begin({}, "two", resume=True)


def test_cells_that_are_there_are_not_taken_up_by_accident(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.begin({}, "one", resume=False)
    run.begin({}, "one", resume=False)  # nothing was finished: the same start again
    run.append("w", "a", 1)
    with pytest.raises(ConfigError, match="holds cells already"):
        run.begin({}, "one", resume=False)


def test_latest(tmp_path: Path) -> None:
    assert latest(tmp_path / "none") is None
    assert latest(tmp_path) is None
    RunDir(tmp_path / "r1").begin({}, "d", resume=False)
    assert latest(tmp_path) == tmp_path / "r1"
