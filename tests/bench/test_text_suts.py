"""Memory folders and the reference MCP server on the bench: bare they serve edits, guarded they refuse each one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.catalogue import DRAFT_CASES, Case
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case

ROOT = Path(__file__).resolve().parents[2]
#: A server is started twice a case: the nine, and what only a table of seals beside a file can be tried by.
MCP_CASES = (
    *DRAFT_CASES,
    *(BY_ID[c] for c in ("X02", "X07", "X17", "X27", "X29", "X32", "X39", "X44", "X47", "X52")),
)


def measured(name: str, folder: Path, cases: tuple[Case, ...], point: str = "read") -> dict[str, Any]:
    lab = Lab(name, folder, 0)
    lab.prepare()
    cells = {case.id: rows.cell(run_case(lab, case, point), point) for case in cases}
    held = {c: run_control(lab, c, point) for c in ("C1", "C2", "C4")} if point == "read" else {}
    return {"cells": cells, "controls": held}


def failed(row: dict[str, Any], wanted: str) -> dict[str, str]:
    assert all(control["ok"] for control in row["controls"].values()), row["controls"]
    return {
        case: f"{cell['strict_verdict']}: {cell['detail']}"
        for case, cell in row["cells"].items()
        if cell["verdict"] != "N/A" and cell["strict_verdict"] != wanted
    }


def test_a_guarded_folder_refuses_every_edit_and_serves_the_other_owner(tmp_path: Path) -> None:
    row = measured("memory-folder+memguard", tmp_path, CASES)
    assert failed(row, "REJECTED") == {}
    assert sum(cell["verdict"] != "N/A" for cell in row["cells"].values()) == 46
    disturbed = {c for c, cell in row["cells"].items() if cell["collateral"] not in ("served", "none")}
    assert disturbed <= {"X39", "X47"}  # the table of seals is one for all owners


def test_the_audit_of_a_folder_reports_each_of_the_nine(tmp_path: Path) -> None:
    assert failed(measured("memory-folder+memguard", tmp_path, DRAFT_CASES, "audit"), "REPORTED") == {}


def test_a_bare_folder_serves_the_nine(tmp_path: Path) -> None:
    assert failed(measured("memory-folder", tmp_path, DRAFT_CASES), "ACCEPTED") == {}


@pytest.mark.parametrize(
    ("name", "verdict"), [("mcp-memory", "ACCEPTED"), ("mcp-memory+memguard", "REJECTED")]
)
def test_the_reference_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, verdict: str
) -> None:
    entry = os.environ.get("MEMGUARD_MCP_SERVER") or str(
        ROOT / ".venv/mcp-server/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    )
    if shutil.which("node") is None or not Path(entry).is_file():
        pytest.skip("the reference MCP memory server is not here: make mcp (needs node and npm)")
    monkeypatch.setenv("MEMGUARD_MCP_SERVER", entry)
    cases = MCP_CASES if verdict == "REJECTED" else DRAFT_CASES
    assert failed(measured(name, tmp_path, cases), verdict) == {}
