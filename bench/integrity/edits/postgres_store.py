"""Edits of the tables that LangGraph's PostgresStore keeps: ``store`` and ``store_vectors``.

A value is jsonb, a vector is pgvector's. Order is ``updated_at``; timestamps are the only metadata beside a value,
so T4 exchanges two ``updated_at`` stamps and T8 changes ``created_at``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.postgres_saver import _STANDS as STANDS
from memguard.bench.integrity.edits.postgres_saver import literal, sql, where
from memguard.bench.integrity.edits.raw import Raw, canonical
from memguard.bench.integrity.edits.scene import COPY, DATABASE, SISTER, Scene
from memguard.bench.suts import postgres_cell

__all__ = [
    "FACT_AT", "ITEM", "KEY", "VECTOR", "delete", "insert", "items", "literal", "prefix", "seal_of", "sql", "state",
    "update", "value", "vectors", "where",
]  # fmt: skip
ITEM = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")
VECTOR = ("prefix", "key", "field_name", "embedding", "created_at", "updated_at")
KEY = ("prefix", "key")
Row = dict[str, Any]
FACT_AT = 3
_ITEMS = "SELECT * FROM store"
_VECTORS = (
    "SELECT prefix, key, field_name, embedding::text AS embedding, created_at, updated_at FROM store_vectors"
)


def prefix(owner: str) -> str:
    """Namespace of an owner, as the store writes it."""
    return f"users.{owner}"


def _found(folder: Path) -> dict[str, list[Row]]:
    return postgres_cell.rows(folder, (_ITEMS, _VECTORS, STANDS))


def state(cell: Path) -> list[Raw]:
    """Every row of the database, and its schema."""
    if not postgres_cell.there(cell / DATABASE):
        return []
    found = _found(cell / DATABASE)
    rows = [_raw_item(r) for r in found[_ITEMS]]
    rows += [
        Raw(
            "vectors",
            r["prefix"],
            f"{r['key']}/{r['field_name']}",
            "",
            canonical(r["embedding"]),
            canonical([r["created_at"], r["updated_at"]]),
        )
        for r in found[_VECTORS]
    ]
    return rows + [Raw("schema", "", f"{r['kind']}:{r['name']}", "", str(r["text"])) for r in found[STANDS]]


def _raw_item(row: Row) -> Raw:
    held = row["value"]
    own, seal = held, None
    if isinstance(held, dict):
        own, seal = {k: v for k, v in held.items() if k != "memguard"}, held.get("memguard")
    return Raw(
        "store",
        row["prefix"],
        row["key"],
        str(row["updated_at"]),
        canonical(own),
        canonical([row["created_at"], row["expires_at"], row["ttl_minutes"]]),
        seal=canonical(seal),
    )


def _folder(scene: Scene, *, copied: bool, sister: bool) -> Path:
    name = SISTER if sister else DATABASE
    return scene.cell / (f"{COPY}/{name}" if copied else name)


def items(scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
    """The items of a context in the store's order, oldest first."""
    found = _found(_folder(scene, copied=copied, sister=sister))[_ITEMS]
    mine = [r for r in found if r["prefix"] == prefix(scene.owners[who])]
    return sorted(mine, key=lambda r: (r["updated_at"], r["key"]))


def vectors(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The vectors of a context."""
    found = _found(_folder(scene, copied=copied, sister=False))[_VECTORS]
    mine = [r for r in found if r["prefix"] == prefix(scene.owners[who])]
    return sorted(mine, key=lambda r: (r["key"], r["field_name"]))


def update(row: Row, table: str = "store", **changes: Any) -> str:
    """UPDATE of one item (or of its vectors)."""
    sets = ", ".join(f"{column} = {literal(new)}" for column, new in changes.items())
    return f"UPDATE {table} SET {sets} WHERE {where(KEY, row)};"


def insert(row: Row, table: str = "store", columns: tuple[str, ...] = ITEM) -> str:
    """INSERT of one row."""
    values = ", ".join(literal(row[c]) for c in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values});"


def delete(row: Row) -> str:
    """DELETE of one item, which takes its vectors along."""
    return f"DELETE FROM store WHERE {where(KEY, row)};"


def value(row: Row, **changes: Any) -> dict[str, Any]:
    """An item's value with some members changed (None removes one)."""
    return {k: v for k, v in {**row["value"], **changes}.items() if v is not None}


def seal_of(row: Row) -> Any:
    """The guard's part of a value."""
    return row["value"].get("memguard")
