"""Golden scores: partial credit, N/A, edits that did not land, the ladder of levels."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import score

T = score.DRAFT


def cells(words: str) -> dict[str, dict[str, Any]]:
    """Nine letters, T1 to T9: R rejected, P reported, A accepted, - n/a, ! did not land, E stray exception."""
    kinds = {"R": "REJECTED", "P": "REPORTED", "A": "ACCEPTED", "-": "N/A", "!": "ERROR", "E": "ERROR"}
    return {
        case: {
            "verdict": "REJECTED" if w == "E" else kinds[w],
            "strict_verdict": kinds[w],
            "landed": w != "!",
        }
        for case, w in zip(T, words, strict=True)
    }


@pytest.mark.parametrize(
    ("words", "point", "loose", "hard"),
    [
        ("AAAAAAAAA", "read", 0.0, 0.0),
        ("RRRRRRRRR", "read", 1.0, 1.0),
        ("RRRRRRRRA", "read", 0.8889, 0.8889),
        ("PPPPPPPPP", "read", 1.0, 1.0),  # at read a report is a full pass
        ("PPPPPPPPP", "audit", 0.5, 0.5),  # at audit it is half a one
        ("PPPPAPPAP", "audit", 0.3889, 0.3889),  # 7 halves of 9: the published row of langgraph-ledger
        ("RAAARAARA", "read", 0.3333, 0.3333),  # the published row of acrf-memory-guard
        ("R-R-RRR-R", "read", 1.0, 1.0),  # N/A leaves the denominator
        ("R!RRRRRRA", "read", 0.875, 0.875),  # so does an edit that did not land
        (
            "ERRRRRRRR",
            "read",
            1.0,
            0.8889,
        ),  # a stray exception: a pass for the draft, none in the strict reading
        ("---------", "read", None, None),
    ],
)
def test_metric(words: str, point: str, loose: float | None, hard: float | None) -> None:
    assert score.metric(cells(words), point, "verdict") == loose
    assert score.metric(cells(words), point, "strict_verdict") == hard


def test_groups_are_rates_of_their_own() -> None:
    assert score.groups(cells("RRAAA" + "R-A" + "A"), "read", "verdict") == {
        "T1-T5": 0.4,
        "T6-T8": 0.5,
        "T9": 0.0,
    }
    assert score.groups(cells("RRRRRRRR-"), "read", "verdict")["T9"] is None


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("AAAAAAAAA", "L0"),
        ("RARARAAAA", "L1"),
        ("RRRRRARAA", "L2"),
        ("RRRRRRRRA", "L3"),
        ("RRRRRRRRR", "L4"),
        ("ARRRRRRRR", "L0"),  # cumulative: nothing above a hole counts
        ("RRRRRPRRR", "L2"),  # a level is made of refusals, not of reports
        ("R-R-RRRRR", "L4 (T2,T4 n/a)"),
        ("R-R-RRRRA", "L3 (T2,T4 n/a)"),
        ("R-R-RAAAA", "L1"),  # T2 and T4 are named only where they were passed over
        ("RRRRRRRR-", "L3"),  # a level of which nothing could be tried is not reached
        ("R!RRRRRRR", "L1"),
    ],
)
def test_level(words: str, level: str) -> None:
    assert score.level(cells(words), "verdict") == level
