"""The two readings, from evidence to a word."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.integrity import verdict
from memguard.bench.suts.protocol import Refusal

OK = verdict.served("A", "head", 1, same=True, empty=False)
EDITED = verdict.served("A", "list", 6, same=False, empty=False)
EMPTY = verdict.served("A", "list", 0, same=False, empty=True)
REFUSED = verdict.raised("A", "list", Refusal("TamperedError", True, "MG401", "T1"))
STRAY = verdict.raised("A", "list", Refusal("ValueError", False))
SHUT = verdict.raised("*", "open", Refusal("AnchorError", True, "MG411"))
OTHER_EDITED = verdict.served("B", "list", 6, same=False, empty=False)


@pytest.mark.parametrize(
    ("evidence", "signals", "loose", "hard"),
    [
        ([EDITED], 0, "ACCEPTED", "ACCEPTED"),
        ([OK, REFUSED], 1, "REJECTED", "REJECTED"),
        (
            [STRAY],
            0,
            "REJECTED",
            "ERROR",
        ),  # any exception passes the draft; only an integrity error is a refusal
        (
            [EMPTY],
            0,
            "REJECTED",
            "ACCEPTED",
        ),  # an empty answer passes the draft; what is missing was not missed
        ([EDITED, REFUSED], 1, "REJECTED", "ACCEPTED"),  # one path refused, another served the edit
        ([STRAY, REFUSED], 0, "REJECTED", "ERROR"),
        (
            [EDITED],
            1,
            "REPORTED",
            "ACCEPTED",
        ),  # a warning does not take the edit back out of the agent's hands
        ([OK], 1, "REPORTED", "REPORTED"),
        ([OK], 0, "ACCEPTED", "ACCEPTED"),  # nobody noticed anything
        ([SHUT], 0, "REJECTED", "REJECTED"),
        (
            [REFUSED, OTHER_EDITED],
            0,
            "ACCEPTED",
            "ACCEPTED",
        ),  # both contexts are affected; one is served edited
    ],
)
def test_read(evidence: list[Any], signals: int, loose: str, hard: str) -> None:
    assert verdict.draft(evidence, signals, "read") == loose
    assert verdict.strict(evidence, signals, "read", False) == hard


@pytest.mark.parametrize(
    ("evidence", "loose", "hard"),
    [
        ([verdict.audited(0)], "ACCEPTED", "ACCEPTED"),
        ([verdict.audited(3)], "REPORTED", "REPORTED"),
        ([SHUT], "REPORTED", "REPORTED"),
        ([verdict.raised("*", "audit", Refusal("KeyError", False))], "REPORTED", "ERROR"),
    ],
)
def test_audit_never_gives_a_rejection(evidence: list[Any], loose: str, hard: str) -> None:
    assert verdict.draft(evidence, 0, "audit") == loose
    assert verdict.strict(evidence, 0, "audit", False) == hard


def test_code_that_ran_is_accepted_even_if_the_read_was_refused_afterwards() -> None:
    assert verdict.strict([REFUSED], 1, "read", payload_ran=True) == "ACCEPTED"


def test_detail_names_errors_and_paths_and_nothing_else() -> None:
    text = verdict.detail([OK, EDITED, REFUSED, STRAY], 2, payload_ran=True)
    assert text == (
        "the code in the record ran; A (head): served the genuine records; A (list): served other than the genuine "
        "records; A (list): TamperedError MG401; A (list): ValueError, no integrity error of this SUT; 2 signals logged"
    )


def test_collateral() -> None:
    assert verdict.collateral([]) == "none"
    assert verdict.collateral([OK]) == "served"
    assert verdict.collateral([OK, REFUSED]) == "refused"
    assert verdict.collateral([OTHER_EDITED, REFUSED]) == "changed"
