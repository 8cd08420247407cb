"""The raw store in a form that control C3 can compare: one value per row, its parts kept apart.

Every row of every table is in it, and the schema, so "and nothing else" in C3 means what it says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Raw:
    """One row of the raw store.

    Args:
        table: the table it stands in.
        context: the owner it belongs to, by its identifiers alone.
        slot: the identifiers that name its place.
        order: what decides its position among the rows of its context.
        content: its content without identifiers, in canonical form.
        meta: owner, role, source, timestamps.
        link: the row it points back to.
        seal: what a guard keeps with the row.
    """

    table: str
    context: str
    slot: str
    order: str
    content: str
    meta: str = ""
    link: str = ""
    seal: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """What a row is looked up by."""
        return (self.table, self.context, self.slot)


#: The parts of a row that an edit may change.
PARTS = ("order", "content", "meta", "link", "seal")


@dataclass(frozen=True, slots=True)
class Diff:
    """How two states of the raw store differ."""

    added: tuple[Raw, ...]
    removed: tuple[Raw, ...]
    #: (before, after, names of the parts that changed)
    changed: tuple[tuple[Raw, Raw, frozenset[str]], ...]

    @property
    def nothing(self) -> bool:
        """Whether the two states are the same."""
        return not (self.added or self.removed or self.changed)

    def count(self) -> str:
        """The difference in numbers, for a message."""
        return f"{len(self.added)} added, {len(self.removed)} removed, {len(self.changed)} changed"


def diff(before: Sequence[Raw], after: Sequence[Raw]) -> Diff:
    """Compare two states, row by row and part by part."""
    old, new = {r.place: r for r in before}, {r.place: r for r in after}
    if len(old) != len(before) or len(new) != len(after):
        raise ValueError("two raw rows share one place")
    changed = []
    for place in old.keys() & new.keys():
        a, b = old[place], new[place]
        parts = frozenset(p for p in PARTS if getattr(a, p) != getattr(b, p))
        if parts:
            changed.append((a, b, parts))
    return Diff(
        tuple(sorted((new[p] for p in new.keys() - old.keys()), key=lambda r: r.place)),
        tuple(sorted((old[p] for p in old.keys() - new.keys()), key=lambda r: r.place)),
        tuple(sorted(changed, key=lambda c: c[0].place)),
    )


def rows_of(state: Sequence[Raw], table: str, context: str) -> list[Raw]:
    """The rows of one table and context in their order, oldest first."""
    return sorted((r for r in state if r.table == table and r.context == context), key=lambda r: r.order)


def canonical(value: Any) -> str:
    """Sorted JSON; bytes as hex. For comparing, not for tagging."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_hex)


def _hex(value: object) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else repr(value)


def literal(value: Any) -> str:
    """A SQLite literal: text quoted, bytes as x'..', numbers as they are, None as NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    if "\x00" in text:
        return f"CAST(x'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"


def where(columns: Sequence[str], values: Sequence[Any]) -> str:
    """``a = 1 AND b IS NULL`` for a row's key."""
    return " AND ".join(f"{c} IS {literal(v)}" for c, v in zip(columns, values, strict=True))
