"""Synthetic results: rows built from given verdicts, with evidence that fits them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memguard.bench.integrity import rows, verdict
from memguard.bench.integrity.cases import CASES
from memguard.bench.suts.protocol import Refusal

ABOUT: dict[str, Any] = {
    "sut": "some-store",
    "guarded": False,
    "versions": {"some-store": "1.0"},
    "backend": "none",
    "features": {},
    "adversary_holds": ["the store"],
    "witness": "W0",
}
HELD = {c: {"ok": True, "detail": "held"} for c in ("C1", "C2", "C4")}


def cell_of(word: str, point: str = "read") -> dict[str, Any]:
    """A cell whose evidence gives ``word`` in both readings (``stray``: REJECTED in one, ERROR in the other)."""
    refused = verdict.raised("A", "get", Refusal("TamperedError", True, "MG401", "T1"))
    stray = verdict.raised("A", "get", Refusal("ValueError", False))
    served = verdict.served("A", "get", 6, same=False, empty=False)
    out = rows.Outcome()
    out.script = "sqlite3 store/agent.db"
    if word == "N/A":
        out.reason = "it cannot"
    elif word == "ERROR":
        out.not_landed = "it did not"
    elif word == "REPORTED":
        if point == "audit":
            out.evidence = [verdict.audited(1)]
        else:
            out.evidence, out.signals = [verdict.served("A", "get", 6, same=True, empty=False)], 1
    elif point == "audit":
        out.evidence = [verdict.audited(0)]
    else:
        out.evidence = [{"REJECTED": refused, "ACCEPTED": served, "stray": stray}[word]]
    return rows.cell(out, point)


def make_row(
    words: dict[str, str], point: str = "read", rest: str = "REJECTED", **about: Any
) -> dict[str, Any]:
    """A row with the given words, ``rest`` for every other case."""
    held = about.pop("held", HELD)
    cells = {case.id: cell_of(words.get(case.id, rest), point) for case in CASES}
    return rows.row({**ABOUT, **about}, point, cells, held, stopped=True)


@pytest.fixture
def result() -> dict[str, Any]:
    """A result of two systems, one of which refuses all but two edits, and whose audit misses one."""
    name = "some-store+memguard"
    made = [
        make_row({}, rest="ACCEPTED"),
        make_row({"T9": "ACCEPTED", "X19": "stray", "X25": "N/A"}, sut=name, guarded=True),
        make_row({"X19": "ACCEPTED", "X25": "N/A"}, "audit", "REPORTED", sut=name, guarded=True),
    ]
    made = json.loads(json.dumps(made))  # as from a file: no two rows share a value
    return rows.document(rows.configuration(["some-store", name], 0, False), made, "2026-12-01T00:00:00Z")


@pytest.fixture
def row_maker() -> Any:
    """:func:`make_row`, for tests that build results of their own."""
    return make_row
