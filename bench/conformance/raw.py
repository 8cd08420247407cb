"""A store's data at rest: records as they lie there, and putting changed ones back with no code of the store loaded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record at rest.

    Args:
        context, key: the identifiers that name its place.
        value: the value as it is stored, the guard's field ``memguard`` included where a guard wrote it.
        meta: what the store keeps beside the value (timestamps, owners), by name.
    """

    context: str
    key: str
    value: Any
    meta: dict[str, Any] = field(default_factory=dict)


class RawStore(Protocol):
    """How the data are read and edited at rest. ``where`` is the store's folder; for an in-process store, the store."""

    def load(self, where: Any) -> list[RawRecord]:
        """Every record, those of a context in the store's order."""
        ...

    def save(self, where: Any, records: Sequence[RawRecord]) -> None:
        """Make these, in this order, the records that lie there."""
        ...


@dataclass(frozen=True)
class Functions:
    """A raw store of two functions."""

    loading: Callable[[Any], list[RawRecord]]
    saving: Callable[[Any, Sequence[RawRecord]], None]

    def load(self, where: Any) -> list[RawRecord]:
        return self.loading(where)

    def save(self, where: Any, records: Sequence[RawRecord]) -> None:
        self.saving(where, records)


@dataclass(frozen=True)
class JsonFile:
    """``{context: [{"key": …, "value": …}, …]}`` in one JSON file, further members of a record being its metadata."""

    file: str

    def load(self, where: Path) -> list[RawRecord]:
        path = where / self.file
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return [
            RawRecord(context, item["key"], item["value"], _without(item, "key", "value"))
            for context, items in found.items()
            for item in items
        ]

    def save(self, where: Path, records: Sequence[RawRecord]) -> None:
        found: dict[str, list[Any]] = {}
        for record in records:
            found.setdefault(record.context, []).append(
                {"key": record.key, "value": record.value, **record.meta}
            )
        (where / self.file).write_text(json.dumps(found), encoding="utf-8")


def _without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


@dataclass(frozen=True)
class SqliteTable:
    """Records in one table of one SQLite file, a row each, the value as JSON text.

    Args:
        file, table: where they are.
        context, key, value: columns.
        order: the column that decides the order; its numbers stay with the positions when records change places.
            None orders by rowid.
        meta: columns that hold metadata.
    """

    file: str
    table: str
    context: str = "context"
    key: str = "key"
    value: str = "value"
    order: str | None = None
    meta: tuple[str, ...] = ()

    def _columns(self) -> list[str]:
        return [self.order or "rowid", self.context, self.key, self.value, *self.meta]

    def load(self, where: Path) -> list[RawRecord]:
        path = where / self.file
        if not path.exists():
            return []
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            columns = self._columns()
            rows = connection.execute(
                f"SELECT {', '.join(columns)} FROM {self.table} ORDER BY {columns[0]}"
            ).fetchall()
        finally:
            connection.close()
        return [
            RawRecord(row[1], row[2], json.loads(row[3]), dict(zip(self.meta, row[4:], strict=True)))
            for row in rows
        ]

    def save(self, where: Path, records: Sequence[RawRecord]) -> None:
        columns = self._columns()
        connection = sqlite3.connect(where / self.file)
        try:
            connection.execute(f"DELETE FROM {self.table}")
            marks = ", ".join("?" for _ in columns)
            for at, record in enumerate(records, start=1):
                values = [at, record.context, record.key, json.dumps(record.value)]
                connection.execute(
                    f"INSERT INTO {self.table} ({', '.join(columns)}) VALUES ({marks})",
                    [*values, *(record.meta[name] for name in self.meta)],
                )
            connection.commit()
        finally:
            connection.close()
