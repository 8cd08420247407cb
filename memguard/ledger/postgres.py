"""The ledger in PostgreSQL, for the guards of several hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memguard.ledger.sqlite import COLUMNS, TABLE, entry_of
from memguard.ports import LedgerEntry

if TYPE_CHECKING:
    from memguard.postgres.tables import PostgresTables

_PAGE, _BATCH = 1000, 64
_ORDER = "ORDER BY id"


class PostgresLedger:
    """A ledger among the tables of a home. Threads and hosts may share it; every host brings what it has heard of,
    so most entries are brought more than once, and the first stays.

    Raises:
        IntegrityError: from every method: the server is not there, or a row is not one that memguard wrote.
    """

    def __init__(self, tables: PostgresTables, where: str) -> None:
        self._tables, self.where = tables, where

    @classmethod
    def schema(cls) -> str:
        """Its table."""
        return TABLE.replace("id INTEGER PRIMARY KEY", "id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY")

    def append(self, entries: Sequence[LedgerEntry]) -> None:
        """Add entries in order; the same (context, generation, fence) twice is ignored."""
        for start in range(0, len(entries), _BATCH):
            values: list[object] = []
            for e in entries[start : start + _BATCH]:
                records = json.dumps(e.records, ensure_ascii=False)
                values += (
                    e.context,
                    e.generation,
                    e.fence,
                    e.operation,
                    records,
                    e.kid,
                    e.time,
                    e.chain.hex(),
                )
            marks = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * (len(values) // 8))
            self._tables.execute(
                f"INSERT INTO ledger ({COLUMNS}) VALUES {marks} ON CONFLICT DO NOTHING",  # noqa: S608
                values,
            )

    def sync(self) -> None:
        """Nothing is left to do: every append is durable."""

    def entries(self, context: str | None = None) -> Iterator[LedgerEntry]:
        """Entries oldest first, of one context or of all; read a page at a time."""
        last = 0
        clause = "" if context is None else "context = ? AND "
        query = f"SELECT id, {COLUMNS} FROM ledger WHERE {clause}id > ? {_ORDER} LIMIT {_PAGE}"  # noqa: S608
        while True:
            values = (last,) if context is None else (context, last)
            rows = self._tables.execute(query, values).fetchall()
            for row in rows:
                yield entry_of(row[1:], self.where)
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def last(self, context: str) -> LedgerEntry | None:
        """The newest entry of a context."""
        query = f"SELECT {COLUMNS} FROM ledger WHERE context = ? {_ORDER} DESC LIMIT 1"  # noqa: S608
        row = self._tables.execute(query, (context,)).fetchone()
        return None if row is None else entry_of(row, self.where)

    def close(self) -> None:
        """Release handles. Idempotent."""
        self._tables.close()
