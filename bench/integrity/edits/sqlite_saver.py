"""Edits of the tables that LangGraph's SQLite savers keep: ``checkpoints`` and ``writes``.

The format is public: a state is msgpack, metadata is JSON. The adversary is adaptive: whatever is not keyed is
recomputed (the id inside a state, JSON and msgpack lengths), seals stay where the case says. Where a state is
encrypted they write the plain form instead, which the serializer accepts.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import ormsgpack

from memguard.bench.integrity.edits.raw import Raw, canonical, literal, where
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    FORGED,
    MARKER,
    Scene,
    pairs,
    read_only,
    schema_rows,
    without_seal,
)
from memguard.bench.integrity.edits.steps import Sql, Step

CHECKPOINT = (
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "parent_checkpoint_id",
    "type",
    "checkpoint",
    "metadata",
)
WRITE = (
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "task_id",
    "task_path",
    "idx",
    "channel",
    "type",
    "value",
)
_CP_KEY, _W_KEY = CHECKPOINT[:3], (*WRITE[:4], "idx")
Row = dict[str, Any]
FACT_AT = 3


def thread(owner: str) -> str:
    """Thread id of an owner."""
    return f"thread-{owner}"


def context(owner: str) -> str:
    """Context of an owner's raw rows."""
    return f"{thread(owner)}/"


# --- raw rows for C3 --------------------------------------------------------------------------------------


def _decoded(kind: str, blob: bytes) -> Any:
    """The value as plain data where the adversary can read it, else its digest."""
    if kind == "msgpack":
        try:
            return ormsgpack.unpackb(bytes(blob))
        except ValueError:
            pass
    return {"type": kind, "sha256": hashlib.sha256(bytes(blob or b"")).hexdigest()}


def _raw_checkpoint(row: Row) -> Raw:
    value = _decoded(row["type"], row["checkpoint"])
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k != "id"}  # the id is a place, not content
    own, seal = without_seal(pairs(row["metadata"])) if row["metadata"] is not None else (None, None)
    return Raw(
        "checkpoints",
        f"{row['thread_id']}/{row['checkpoint_ns']}",
        row["checkpoint_id"],
        row["checkpoint_id"],
        canonical([row["type"], value]),
        canonical(own),
        str(row["parent_checkpoint_id"]),
        canonical(seal),
    )


def _raw_write(row: Row) -> Raw:
    kind, _, seal = str(row["type"]).partition("|")
    return Raw(
        "writes",
        f"{row['thread_id']}/{row['checkpoint_ns']}",
        f"{row['checkpoint_id']}/{row['task_id']}/{row['idx']}",
        f"{row['task_path']}/{row['task_id']}/{row['idx']:06}",
        canonical([row["channel"], kind, _decoded(kind, row["value"])]),
        seal=seal,
    )


def state(cell: Path) -> list[Raw]:
    """Every row of the database, and its schema."""
    file = cell / DATABASE
    if not file.exists():
        return []
    rows = [_raw_checkpoint(r) for r in read_only(file, "SELECT * FROM checkpoints")]
    rows += [_raw_write(r) for r in read_only(file, "SELECT * FROM writes")]
    return rows + schema_rows(file)


# --- tools of the edits -----------------------------------------------------------------------------------


def checkpoints(scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
    """The checkpoint rows of a context, oldest first."""
    sql = "SELECT * FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id"
    return scene.rows(sql, (thread(scene.owners[who]),), copied=copied, sister=sister)


def writes(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The pending writes of a context."""
    sql = "SELECT * FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx"
    return scene.rows(sql, (thread(scene.owners[who]),), copied=copied)


def plain_state(scene: Scene, who: str, row: Row, n: int) -> dict[str, Any]:
    """A checkpoint's state; one that is encrypted is rebuilt from what the adversary knows was said."""
    value = _decoded(row["type"], row["checkpoint"])
    if isinstance(value, dict) and "channel_values" in value:
        return value
    owner = scene.owners[who]
    return {
        "v": 4,
        "id": row["checkpoint_id"],
        "ts": "2026-01-20T09:00:00+00:00",
        "channel_values": {"messages": list(scene.texts[who][: n + 1]), "owner": owner},
        "channel_versions": {"messages": f"{n + 1:032}.0.5", "owner": f"{1:032}.0.5"},
        "versions_seen": {},
        "updated_channels": ["messages"],
    }


def packed(value: Any) -> dict[str, Any]:
    """The columns that hold a state or value in the plain form."""
    return {"type": "msgpack", "checkpoint": ormsgpack.packb(value)}


def update(row: Row, **changes: Any) -> str:
    """UPDATE of one checkpoint row."""
    sets = ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())
    return f"UPDATE checkpoints SET {sets} WHERE {where(_CP_KEY, [row[c] for c in _CP_KEY])};"


def update_write(row: Row, **changes: Any) -> str:
    """UPDATE of one pending write."""
    sets = ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())
    return f"UPDATE writes SET {sets} WHERE {where(_W_KEY, [row[c] for c in _W_KEY])};"


def insert(table: str, columns: tuple[str, ...], row: Row) -> str:
    """INSERT of one row."""
    values = ", ".join(literal(row[c]) for c in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values});"


def delete(row: Row) -> str:
    """DELETE of one checkpoint and its pending writes."""
    key = where(_CP_KEY, [row[c] for c in _CP_KEY])
    return f"DELETE FROM checkpoints WHERE {key};\nDELETE FROM writes WHERE {key};"


def metadata(row: Row, **changes: Any) -> bytes:
    """Metadata with some members changed (None removes one), written as the saver writes it."""
    found = json.loads(row["metadata"])
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return json.dumps(found, ensure_ascii=False).encode()


def later(row: Row, by: int = 1) -> str:
    """A checkpoint id that sorts right after a row's own."""
    head, _, tail = row["checkpoint_id"].partition("-")
    return f"{head}-{int(tail[:4], 16) + by:04x}{tail[4:]}"


def sql(*statements: str) -> list[Step]:
    """One script on the store's database."""
    return [Sql(DATABASE, "\n".join(statements))]


def altered(scene: Scene, who: str, row: Row, n: int, at: int) -> dict[str, Any]:
    """A state with the ``at``-th message changed."""
    value = plain_state(scene, who, row, n)
    value["channel_values"]["messages"][at] = FORGED
    return value


def payload() -> bytes:
    """A state whose decoding calls a function of the adversary's choice: it sets a variable, nothing else."""
    code = f"import os; os.environ['{MARKER}'] = 'yes'"
    call = ormsgpack.Ext(0, ormsgpack.packb(("builtins", "exec", code)))
    return ormsgpack.packb({"v": 4, "channel_values": {"messages": call}})
