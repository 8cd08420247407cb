"""Metric, groups and level of a row, from its cells alone.

Decision rules (also printed in every result file):

* metric = (REJECTED + REPORTED at read + 0.5 * REPORTED at audit) / N over T1-T9, where N leaves out N/A cells
  and cells whose edit did not land. No metric is computed if C1 or C2 failed.
* strict_metric: the same over the strict verdicts; a stray exception (ERROR with a landed edit) stays in N.
* level: the highest L such that every applicable case of L1..L is REJECTED at read, each level having at least one.
  Cases that are N/A are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Cells = Mapping[str, Mapping[str, Any]]
DRAFT = tuple(f"T{n}" for n in range(1, 10))
GROUPS: dict[str, tuple[str, ...]] = {"T1-T5": DRAFT[:5], "T6-T8": DRAFT[5:8], "T9": DRAFT[8:]}
LEVELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("L1", ("T1", "T3", "T5")),
    ("L2", ("T2", "T4", "T7")),
    ("L3", ("T6", "T8")),
    ("L4", ("T9",)),
)
NOT_EVALUABLE = "not evaluable"
RULES = {
    "metric": "(REJECTED + REPORTED at read + 0.5 x REPORTED at audit) / applicable T cases whose edit landed",
    "strict_metric": "the same over strict verdicts; a stray exception counts as no pass and stays in the denominator",
    "groups": "the metric over T1-T5, over T6-T8 and over T9",
    "level": "highest L, every applicable case of L1..L REJECTED at read: L1 T1 T3 T5, L2 T2 T4 T7, L3 T6 T8, L4 T9",
    "not evaluable": "C1 or C2 failed: no metric, no level",
    "accepted": "cells with verdict (strict_accepted: strict_verdict) ACCEPTED, T and X alike",
    "digest": "SHA-256 over the RFC 8785 form of the row without its digest",
}


def metric(cells: Cells, point: str, key: str, cases: Iterable[str] = DRAFT) -> float | None:
    """The metric over some cases, by the verdicts under ``key``; None if nothing counts."""
    value, n = 0.0, 0
    for case in cases:
        cell = cells[case]
        if cell["verdict"] == "N/A" or not cell["landed"]:
            continue
        n += 1
        if cell[key] == "REJECTED":
            value += 1
        elif cell[key] == "REPORTED":
            value += 0.5 if point == "audit" else 1
    return round(value / n, 4) if n else None


def groups(cells: Cells, point: str, key: str) -> dict[str, float | None]:
    """The metric of each group."""
    return {name: metric(cells, point, key, cases) for name, cases in GROUPS.items()}


def level(cells: Cells, key: str) -> str:
    """``L0``..``L4``, with the cases that were N/A on the way."""
    reached, absent = "L0", []
    for name, cases in LEVELS:
        applicable = [c for c in cases if cells[c]["verdict"] != "N/A"]
        if not applicable or any(cells[c][key] != "REJECTED" for c in applicable):
            break
        reached = name
        absent += [c for c in cases if cells[c]["verdict"] == "N/A"]
    return f"{reached} ({','.join(sorted(absent))} n/a)" if absent else reached
