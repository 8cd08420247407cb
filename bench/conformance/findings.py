"""What a verdict means for a maintainer: kept, a finding, not claimed, or not expressible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memguard.bench.integrity import score
from memguard.bench.integrity.cases import BY_ID

LEVELS = ("L0", *(name for name, _ in score.LEVELS))


class Judgement(NamedTuple):
    """``kind`` is kept, finding, unclaimed, n/a or astray; ``text`` says it in a line."""

    kind: str
    text: str


def claimed_cases(level: str) -> tuple[str, ...]:
    """The cases that a level claims.

    Raises:
        ValueError: it is no level.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no level; it is one of {', '.join(LEVELS)}")
    at = LEVELS.index(level)
    return tuple(case for name, cases in score.LEVELS if LEVELS.index(name) <= at for case in cases)


def needs(level: str) -> list[str]:
    """As :func:`claimed_cases`, for JSON."""
    return list(claimed_cases(level))


def judge(row: Mapping[str, Any], case: str, claimed: Sequence[str], *, all_cases: bool) -> Judgement:
    """What one cell means. The strict verdict counts; a signal while serving is no refusal but keeps no claim either.

    Args:
        claimed: cases that the bare store claims to refuse.
        all_cases: every case is claimed (a guarded store).
    """
    cell = row["cells"][case]
    word, plain = cell["strict_verdict"], BY_ID[case].plain
    where = f"{row['sut']} {case} ({plain})"
    if word == "N/A":
        return Judgement("n/a", f"{where}: {cell['detail']}")
    if not cell["landed"]:
        return Judgement("astray", f"{where}: {cell['detail']}")
    if word == "REJECTED":
        return Judgement("kept", f"{where}: REJECTED")
    said = f"{where}: {word}, {cell['detail']}"
    if all_cases or case in claimed:
        return Judgement("finding", said)
    return Judgement("unclaimed", f"{said}; this store claims no protection against it")


def findings(row: Mapping[str, Any], claimed: Sequence[str]) -> list[str]:
    """Every broken claim of a row, a line each."""
    if not row["evaluable"]:
        return []
    found = []
    if row["guarded"] and not row["controls"]["C4"]["ok"]:
        found.append(f"{row['sut']}: a false alarm on an ordinary day (C4)")
    for case in row["cells"]:
        said = judge(row, case, claimed, all_cases=row["guarded"])
        if said.kind == "finding" and row["detection_point"] == "read":
            found.append(said.text)
    return found


def exit_for(suites: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Exit code and its reasons: 3 where a control failed or an edit did not land, 1 for findings, else 0."""
    void, broken = [], []
    for suite in suites:
        for row in suite["rows"]:
            if not row["evaluable"]:
                void.append(f"{row['sut']}: not evaluable, {row['reason']}")
            elif not row["controls"]["C3"]["ok"]:
                void.append(
                    f"{row['sut']}: edits that did not land: {' '.join(row['controls']['C3']['failed'])}"
                )
            broken += findings(row, suite["needs"])
    return (3, void + broken) if void else (1, broken) if broken else (0, [])
