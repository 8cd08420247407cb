"""Mem0 on the integrity bench: bare it serves the edits, guarded each is refused, and the other owner works on."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.catalogue import DRAFT_CASES
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case

#: Edits of the database or the index itself, which all owners share.
SHARED = {"X39", "X45", "X46", "X47", "X53", "X54"}
#: On the slower stores: the nine, and what the brief of a memory store is: vectors, ranking, expiry, history, owner.
CHOSEN = tuple(
    case
    for case in CASES
    if case.id[0] == "T" or case.id in ("X02", "X07", "X21", "X22", "X23", "X24", "X25", "X26", "X38", "X54")
)
SUTS = {"qdrant": CASES, "faiss": CASES, "chroma": CHOSEN, "pgvector": CHOSEN}


def test_the_bare_memory_serves_what_the_guarded_one_refuses(tmp_path: Any) -> None:
    lab = Lab("mem0-qdrant", tmp_path, 0)
    lab.prepare()
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    assert all(control["ok"] for control in held.values()), held
    cells = {
        case.id: rows.cell(run_case(lab, case, "read"), "read")
        for case in (*DRAFT_CASES, BY_ID["X22"], BY_ID["X25"], BY_ID["X20"])
    }
    accepted = {case for case, cell in cells.items() if cell["strict_verdict"] == "ACCEPTED"}
    assert accepted == {*(f"T{n}" for n in range(1, 10)), "X22", "X25", "X20"}, cells
    assert cells["X20"]["payload_ran"]


@pytest.mark.parametrize("provider", SUTS)
def test_every_case_is_refused_guarded(provider: str, tmp_path: Any) -> None:
    lab = Lab(f"mem0-{provider}+memguard", tmp_path, 0)
    lab.prepare()
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    assert all(control["ok"] for control in held.values()), held
    cells = {case.id: rows.cell(run_case(lab, case, "read"), "read") for case in SUTS[provider]}
    failed = {
        case: (cell["strict_verdict"], cell["detail"])
        for case, cell in cells.items()
        if cell["verdict"] != "N/A" and (cell["verdict"], cell["strict_verdict"]) != ("REJECTED", "REJECTED")
    }
    assert failed == {}
    assert all(cells[f"T{n}"]["verdict"] == "REJECTED" for n in range(1, 10))
    assert not any(cell["payload_ran"] for cell in cells.values())
    disturbed = {case for case, cell in cells.items() if cell["collateral"] not in ("served", "none")}
    assert disturbed <= SHARED
    assert "/tmp" not in str(cells)


def test_the_audit_reports_each_of_the_nine(tmp_path: Any) -> None:
    lab = Lab("mem0-faiss+memguard", tmp_path, 0)
    lab.prepare()
    cells = [rows.cell(run_case(lab, case, "audit"), "audit") for case in DRAFT_CASES]
    assert {(cell["verdict"], cell["strict_verdict"]) for cell in cells} == {("REPORTED", "REPORTED")}, cells
