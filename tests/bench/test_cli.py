"""``memguard bench``: exit codes, files, resume, and that nothing runs before the names are right."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memguard.bench import cli
from memguard.bench.integrity import rows
from memguard.bench.integrity import run as running
from memguard.bench.integrity.catalogue import DRAFT_CASES
from memguard.bench.integrity.run import cell_ids
from memguard.bench.report.rundir import RunDir
from memguard.errors import ConfigError

SAVER = "langgraph-sqlite-saver"


def call(*args: str) -> Result:
    return CliRunner().invoke(cli.bench, args, standalone_mode=False)


def run_saver(folder: Path, *more: str) -> Result:
    return call("integrity", "--sut", SAVER, "--run", str(folder), "--jobs", "1", *more)


def test_a_run_of_a_bare_store_exits_0_and_can_be_verified_and_compared(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    done = run_saver(
        tmp_path / "run", "--json", str(out), "-o", str(tmp_path / "r.md"), "-o", str(tmp_path / "r.db")
    )
    assert done.return_value == 0, done.output
    assert "ACCEPTED" in done.stdout
    assert "cells" in done.stderr
    result = json.loads(out.read_text())
    assert result["exit"] == {"code": 0, "reason": ""}
    assert [r["sut"] for r in result["rows"]] == [SAVER]
    assert (tmp_path / "r.md").read_text().startswith("### memguard bench integrity")
    found = sqlite3.connect(tmp_path / "r.db").execute(
        "SELECT COUNT(*) FROM cells JOIN rows USING (run, \"row\") WHERE sut = ? AND cells.verdict = 'ACCEPTED'",
        (SAVER,),
    )
    assert found.fetchone()[0] == result["rows"][0]["accepted"]

    checked = call("verify", str(tmp_path / "run"))
    assert checked.return_value == 0, checked.output
    assert call("compare", str(out), str(tmp_path / "run")).return_value == 0

    result["rows"][0]["metric"] = 1.0
    out.write_text(json.dumps(result))
    forged = call("verify", str(out), "--format", "json")
    assert forged.return_value == 1
    assert {r["ground"] for r in json.loads(forged.stdout)["rejections"]} == {
        "digest_mismatch",
        "count_mismatch",
    }


def test_ctrl_c_keeps_finished_cells_and_resume_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr(running, "CASES", DRAFT_CASES)  # nine cases are enough to be interrupted in
    monkeypatch.setattr(rows, "CASES", DRAFT_CASES)
    monkeypatch.setattr(running, "BY_ID", {case.id: case for case in DRAFT_CASES})
    real, seen = running.run_case, []

    def interrupted(lab: Any, case: Any, point: str, *, alive: bool = False) -> Any:
        if case.id == "T3" and not seen:
            seen.append(case.id)
            raise KeyboardInterrupt
        return real(lab, case, point, alive=alive)

    monkeypatch.setattr(running, "run_case", interrupted)
    stopped = run_saver(folder)
    assert stopped.return_value == 130
    assert "--resume" in stopped.stderr
    kept = RunDir(folder).cells()
    assert set(kept) == set(cell_ids(SAVER, False)[: len(kept)])
    assert not (folder / "result.json").exists()

    done = run_saver(folder, "--resume")
    assert done.return_value == 0
    cells = RunDir(folder).cells()
    assert set(cells) == set(cell_ids(SAVER, False))
    assert {k: cells[k] for k in kept} == kept


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        f"{SAVER}+other",
        f"{SAVER}:tag",
        f"{SAVER}+memguard:nothing",
        f"{SAVER}+memguard:tag@anchor-held",
        "",
    ],
)
def test_a_wrong_name_is_said_before_anything_runs(name: str, tmp_path: Path) -> None:
    done = call("integrity", "--sut", name, "--run", str(tmp_path / "run"))
    assert isinstance(done.exception, ConfigError)
    assert not (tmp_path / "run").exists()


def _result(*made: dict[str, Any]) -> dict[str, Any]:
    return {"rows": list(made)}


def test_exit_codes(row_maker: Any) -> None:
    name = f"{SAVER}+memguard"
    broken = {c: {"ok": c != "C2", "detail": "no"} for c in ("C1", "C2", "C4")}
    alarm = {c: {"ok": c != "C4", "detail": "no"} for c in ("C1", "C2", "C4")}
    bare = row_maker({}, rest="ACCEPTED")
    good = row_maker({}, sut=name, guarded=True)
    holes = row_maker({"T9": "ACCEPTED"}, sut=name, guarded=True)
    stray = row_maker({"X19": "stray"}, sut=name, guarded=True)
    missed = row_maker({"X40": "ACCEPTED"}, "audit", "REPORTED", sut=name, guarded=True)
    held = row_maker({"T9": "ACCEPTED"}, sut=f"{name}@anchor-held", guarded=True)
    astray = row_maker({"T2": "ERROR"}, sut=name, guarded=True)

    assert cli.exit_for(_result(bare), "accepted")[0] == 0  # gates look at guarded systems
    assert cli.exit_for(_result(bare, good), "audit") == (0, "")
    assert cli.exit_for(_result(good, holes), "accepted")[0] == 1
    assert cli.exit_for(_result(stray), "accepted")[0] == 1  # a crash is no refusal
    assert cli.exit_for(_result(holes), "none")[0] == 0
    assert cli.exit_for(_result(good, missed), "accepted")[0] == 0
    assert cli.exit_for(_result(good, missed), "audit")[0] == 1
    assert cli.exit_for(_result(held), "accepted")[0] == 0  # the ladder is there to be compared with
    assert cli.exit_for(_result(row_maker({}, sut=name, guarded=True, held=alarm)), "accepted")[0] == 1
    assert (
        cli.exit_for(_result(row_maker({}, sut=name, guarded=True, held=broken), holes), "accepted")[0] == 3
    )
    assert cli.exit_for(_result(astray, holes), "none")[0] == 3  # 3 beats 1, and no --fail-on turns it off


def test_compare_names_what_got_worse(row_maker: Any) -> None:
    name = f"{SAVER}+memguard"
    good, worse = row_maker({}, sut=name, guarded=True), row_maker({"T9": "ACCEPTED"}, sut=name, guarded=True)
    lines, bad = cli.differences([good], [worse])
    assert bad
    assert f"{name} read T9: REJECTED -> ACCEPTED" in lines
    lines, bad = cli.differences([worse], [good, row_maker({})])
    assert not bad
    assert "some-store read: new" in lines


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "memguard.bench/1", "bench": "cost"}'])
def test_compare_refuses_what_is_no_result(text: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    assert "no result" in str(call("compare", str(file), str(file)).exception)
