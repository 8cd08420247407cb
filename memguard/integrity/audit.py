"""Everything that is wrong with a context, instead of the first thing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from memguard.errors import IntegrityError
from memguard.integrity.head import MODULUS
from memguard.integrity.index import Index, unpack_key
from memguard.integrity.verifier import Claim, Context, Observation, Row, incomplete


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was left: identifiers, never content."""

    case: str
    record: str
    what: str
    code: str

    @classmethod
    def of(cls, error: IntegrityError, record: str = "") -> Finding:
        """The finding that an error stands for."""
        return cls(error.case, error.record or record, error.what, error.code)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(slots=True)
class Examination:
    """A context looked at row by row: the rows that hold, the claims that do not, and why."""

    seen: Observation
    good: list[tuple[Claim, Row]]
    bad: list[tuple[Claim, IntegrityError]]


def examine(context: Context, claims: Iterable[Claim]) -> Examination:
    """Check every claim; a failure is noted and the next one looked at."""
    index, total, top = Index(), 0, context.head.generation
    newer: list[Row] = []
    good: list[tuple[Claim, Row]] = []
    bad: list[tuple[Claim, IntegrityError]] = []
    for claim in claims:
        try:
            row = context.check(claim)
        except IntegrityError as error:
            bad.append((claim, error))
            continue
        good.append((claim, row))
        index.add(row.group, row.cell)
        total += context.term(row.group, row.cell)
        top = max(top, row.seal.generation)
        if row.seal.generation > context.head.generation:
            newer.append(row)
    return Examination(Observation(index, context.term, newer, top, total % MODULUS), good, bad)


def findings(context: Context, examined: Examination, expected: Iterable[str] = ()) -> list[Finding]:
    """What an examination found.

    Args:
        expected: record keys that the ledger says are live, to name what is missing.
    """
    found = [Finding.of(error, claim.record) for claim, error in examined.bad]
    if context.matches(examined.seen):
        return found
    there = {unpack_key(group) for group in examined.seen.index.groups}
    there |= {unpack_key(claim.group) for claim, _ in examined.bad}
    for key in expected:
        if key not in there:
            found.append(Finding("T2", f"{context.store} {context.id} {key}", "a record is missing", "MG402"))
    for row in extra(context, examined):
        found.append(Finding("T5", row.record, "a record that the head does not count", "MG401"))
    if not found:
        found.append(Finding.of(incomplete(context, examined.seen)))
    return found


def extra(context: Context, examined: Examination) -> list[Row]:
    """Rows with a good tag whose absence would make the context whole; empty if no such few exist.

    Rows ahead of the head are taken first; then any one or two of the others.
    """
    rows = [row for _, row in examined.good]
    terms = {id(row): context.term(row.group, row.cell) for row in rows}
    surplus = examined.seen.index.cells - context.head.cells
    for ahead in ([], examined.seen.newer):
        rest = (examined.seen.total - context.total - sum(terms[id(r)] for r in ahead)) % MODULUS
        left = surplus - len(ahead)
        others = [row for row in rows if row not in ahead]
        if left == 0 and rest == 0:
            return list(ahead)
        if left == 1:
            for row in others:
                if terms[id(row)] == rest:
                    return [*ahead, row]
        if left == 2:
            by_term = {terms[id(row)]: row for row in others}
            for row in others:
                other = by_term.get((rest - terms[id(row)]) % MODULUS)
                if other is not None and other is not row:
                    return [*ahead, row, other]
    return []
