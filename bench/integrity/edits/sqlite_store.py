"""Edits of the tables that LangGraph's SqliteStore keeps: ``store`` and ``store_vectors``.

A value is JSON text, a vector is packed float32. Order is ``updated_at``; timestamps are the only metadata beside
a value, so T4 exchanges two ``updated_at`` stamps and T8 changes ``created_at``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.raw import Raw, canonical, literal, where
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    Scene,
    pairs,
    read_only,
    schema_rows,
    without_seal,
)
from memguard.bench.integrity.edits.steps import Sql, Step

ITEM = ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")
VECTOR = ("prefix", "key", "field_name", "embedding", "created_at", "updated_at")
_KEY = ("prefix", "key")
Row = dict[str, Any]
FACT_AT = 3


def prefix(owner: str) -> str:
    """Namespace of an owner, as the store writes it."""
    return f"users.{owner}"


# --- raw rows for C3 --------------------------------------------------------------------------------------


def _raw_item(row: Row) -> Raw:
    try:
        own, seal = without_seal(pairs(row["value"]))
    except ValueError:
        own, seal = {"unreadable": row["value"]}, None
    return Raw(
        "store",
        row["prefix"],
        row["key"],
        str(row["updated_at"]),
        canonical(own),
        canonical([row["created_at"], row["expires_at"], row["ttl_minutes"]]),
        seal=canonical(seal),
    )


def state(cell: Path) -> list[Raw]:
    """Every row of the database, and its schema."""
    file = cell / DATABASE
    if not file.exists():
        return []
    rows = [_raw_item(r) for r in read_only(file, "SELECT * FROM store")]
    vectors = read_only(file, "SELECT prefix, key, field_name, embedding FROM store_vectors")
    rows += [
        Raw("vectors", r["prefix"], f"{r['key']}/{r['field_name']}", "", canonical(r["embedding"]))
        for r in vectors
    ]
    return rows + schema_rows(file)


# --- tools of the edits -----------------------------------------------------------------------------------


def items(scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
    """The items of a context in the store's order, oldest first."""
    sql_ = "SELECT * FROM store WHERE prefix = ? ORDER BY updated_at, rowid"
    return scene.rows(sql_, (prefix(scene.owners[who]),), copied=copied, sister=sister)


def vectors(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The vectors of a context."""
    sql_ = "SELECT * FROM store_vectors WHERE prefix = ? ORDER BY key, field_name"
    return scene.rows(sql_, (prefix(scene.owners[who]),), copied=copied)


def update(row: Row, table: str = "store", **changes: Any) -> str:
    """UPDATE of one item (or of its vectors)."""
    sets = ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())
    return f"UPDATE {table} SET {sets} WHERE {where(_KEY, [row[c] for c in _KEY])};"


def insert(row: Row, table: str = "store", columns: tuple[str, ...] = ITEM) -> str:
    """INSERT of one row."""
    values = ", ".join(literal(row[c]) for c in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values});"


def delete(row: Row) -> str:
    """DELETE of one item and its vectors."""
    key = where(_KEY, [row[c] for c in _KEY])
    return f"DELETE FROM store WHERE {key};\nDELETE FROM store_vectors WHERE {key};"


def value(row: Row, **changes: Any) -> bytes:
    """An item's value with some members changed (None removes one), written as the store writes it."""
    found = json.loads(row["value"])
    for name, new in changes.items():
        if new is None:
            found.pop(name, None)
        else:
            found[name] = new
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def seal_of(row: Row) -> Any:
    """The guard's part of a value."""
    return json.loads(row["value"]).get("memguard")


def sql(*statements: str) -> list[Step]:
    """One script on the store's database."""
    return [Sql(DATABASE, "\n".join(statements))]
