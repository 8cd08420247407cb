"""Edits of the three tables that LangGraph's PostgreSQL savers keep.

A record is a checkpoint with the values that its versions show; a value has a row of its own. The adversary uses
psql on a server of theirs over the stopped data folder, or on the SUT's own while it runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ormsgpack

from memguard.bench.integrity.edits.raw import Raw, canonical
from memguard.bench.integrity.edits.scene import COPY, DATABASE, FORGED, SISTER, Scene
from memguard.bench.integrity.edits.steps import EditFailed, Step
from memguard.bench.suts import postgres_cell

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
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
    "blob",
)
BLOB = ("thread_id", "checkpoint_ns", "channel", "version", "type", "blob")
FACT_AT = 3
#: A version that no genuine checkpoint has.
FREE = f"{99:032}.0.7"
Row = dict[str, Any]
_STANDS = """
SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' ELSE 'table' END AS kind, c.relname::text AS name,
    coalesce(pg_get_viewdef(c.oid), (SELECT string_agg(a.attname || ' ' || a.atttypid::regtype, ', ' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)) AS text
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', t.tgname::text, pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE NOT t.tgisinternal
UNION ALL SELECT 'rule', r.rulename::text, pg_get_ruledef(r.oid) FROM pg_rewrite r
    JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = 'public'::regnamespace AND r.rulename <> '_RETURN'
"""
_QUERIES = (*(f"SELECT * FROM {table}" for table in TABLES), _STANDS)


def thread(owner: str) -> str:
    """Thread id of an owner."""
    return f"thread-{owner}"


def context(owner: str) -> str:
    """Context of an owner's raw rows."""
    return f"{thread(owner)}/"


def tables(folder: Path) -> dict[str, list[Row]]:
    """Every row of a data folder, by table; and what stands in its schema, as ``schema``."""
    found = postgres_cell.rows(folder, _QUERIES)
    return dict(zip((*TABLES, "schema"), (found[query] for query in _QUERIES), strict=True))


# --- raw rows for C3 --------------------------------------------------------------------------------------


def _decoded(kind: str, blob: bytes | None) -> Any:
    if kind == "msgpack" and blob is not None:
        try:
            return ormsgpack.unpackb(bytes(blob))
        except ValueError:
            pass
    return [kind, bytes(blob).hex() if blob is not None else None]


def values(row: Row, blobs: Sequence[Row]) -> dict[str, Row]:
    """The rows that a checkpoint's versions show, by channel."""
    versions = row["checkpoint"].get("channel_versions", {})
    mine = [
        b for b in blobs if b["thread_id"] == row["thread_id"] and b["checkpoint_ns"] == row["checkpoint_ns"]
    ]
    return {b["channel"]: b for b in mine if str(versions.get(b["channel"])) == b["version"]}


def _raw_checkpoint(row: Row, blobs: Sequence[Row]) -> Raw:
    frame, metadata = dict(row["checkpoint"]), dict(row["metadata"])
    for place in ("id", "channel_versions"):  # where it stands, not what it holds
        frame.pop(place, None)
    seal = metadata.pop("memguard", None)
    shown = {c: _decoded(b["type"], b["blob"]) for c, b in values(row, blobs).items()}
    return Raw(
        "checkpoints",
        f"{row['thread_id']}/{row['checkpoint_ns']}",
        row["checkpoint_id"],
        row["checkpoint_id"],
        canonical([frame, shown]),
        canonical(metadata),
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
        canonical([row["channel"], kind, _decoded(kind, row["blob"])]),
        seal=seal,
    )


def state(cell: Path) -> list[Raw]:
    """Every record of the database and its schema; values that no checkpoint shows are not served, and left out."""
    if not postgres_cell.there(cell / DATABASE):
        return []
    found = tables(cell / DATABASE)
    rows = [_raw_checkpoint(r, found["checkpoint_blobs"]) for r in found["checkpoints"]]
    rows += [_raw_write(r) for r in found["checkpoint_writes"]]
    return rows + [Raw("schema", "", f"{r['kind']}:{r['name']}", "", str(r["text"])) for r in found["schema"]]


# --- tools of the edits -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PgSql:
    """A SQL script on the cell's database; with ``crash`` the server then crashes, so that it stands in its log."""

    script: str
    crash: bool = False
    #: It can be made under a running SUT.
    live = True

    def run(self, cell: Path) -> None:
        """Apply it with psql, and look at once (a view that waits hides something later)."""
        error = postgres_cell.run(cell / DATABASE, self.script, crash=self.crash)
        if error:
            raise EditFailed(error)

    def text(self) -> str:
        """The step as shell commands."""
        end = "-m immediate " if self.crash else ""
        return (
            f"pg_ctl -w -D {DATABASE} start\npsql -1 {postgres_cell.NAME} <<'SQL'\n{self.script}\nSQL\n"
            f"pg_ctl -w -D {DATABASE} {end}stop"
        )


@dataclass(frozen=True, slots=True)
class CopyTree:
    """Put one data folder in the place of another."""

    source: str = SISTER
    target: str = DATABASE

    def run(self, cell: Path) -> None:
        """Copy every file."""
        shutil.rmtree(cell / self.target)
        shutil.copytree(cell / self.source, cell / self.target)

    def text(self) -> str:
        """The step as a shell command."""
        return f"rm -r {self.target} && cp -a {self.source} {self.target}"


def sql(*statements: str) -> list[Step]:
    """One script on the store's database."""
    return [PgSql("\n".join(statements))]  # type: ignore[list-item]


def _folder(scene: Scene, *, copied: bool, sister: bool) -> Path:
    name = SISTER if sister else DATABASE
    return scene.cell / (f"{COPY}/{name}" if copied else name)


def checkpoints(scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
    """The checkpoint rows of a context, oldest first, each with the ``values`` that it shows."""
    found = tables(_folder(scene, copied=copied, sister=sister))
    mine = [r for r in found["checkpoints"] if r["thread_id"] == thread(scene.owners[who])]
    full = [{**r, "values": values(r, found["checkpoint_blobs"])} for r in mine if r["checkpoint_ns"] == ""]
    return sorted(full, key=lambda r: str(r["checkpoint_id"]))


def writes(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The pending writes of a context."""
    found = tables(_folder(scene, copied=copied, sister=False))["checkpoint_writes"]
    mine = [r for r in found if r["thread_id"] == thread(scene.owners[who])]
    return sorted(mine, key=lambda r: (r["checkpoint_id"], r["task_id"], r["idx"]))


def literal(value: Any) -> str:
    """A PostgreSQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"'\\x{bytes(value).hex()}'::bytea"
    if isinstance(value, (dict, list)):
        return literal(json.dumps(value, ensure_ascii=False)) + "::jsonb"
    if isinstance(value, (int, float)):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def where(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """``a = 'x' AND b = 1`` for a row's key."""
    return " AND ".join(f"{c} = {literal(row[c])}" for c in columns)


def _set(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())


def update(row: Row, **changes: Any) -> str:
    """UPDATE of one checkpoint row."""
    return f"UPDATE checkpoints SET {_set(changes)} WHERE {where(CHECKPOINT[:3], row)};"


def update_value(row: Row, channel: str, **changes: Any) -> str:
    """UPDATE of the value that a checkpoint shows in a channel."""
    return f"UPDATE checkpoint_blobs SET {_set(changes)} WHERE {where(BLOB[:4], row['values'][channel])};"


def update_write(row: Row, **changes: Any) -> str:
    """UPDATE of one pending write."""
    return f"UPDATE checkpoint_writes SET {_set(changes)} WHERE {where((*WRITE[:4], 'idx'), row)};"


def insert(table: str, columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """INSERT of one row; a value that stands there already is replaced."""
    listed = ", ".join(literal(row[c]) for c in columns)
    again = (
        " ON CONFLICT (thread_id, checkpoint_ns, channel, version) "
        "DO UPDATE SET type = EXCLUDED.type, blob = EXCLUDED.blob"
    )
    made = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({listed})"
    return made + (again if table == "checkpoint_blobs" else "") + ";"


def insert_checkpoint(row: Row) -> str:
    """INSERT of a checkpoint with the values that it shows."""
    place = {c: row[c] for c in CHECKPOINT[:2]}
    shown = [insert("checkpoint_blobs", BLOB, {**blob, **place}) for blob in row["values"].values()]
    return "\n".join([*shown, insert("checkpoints", CHECKPOINT, row)])


def delete(row: Row) -> str:
    """DELETE of one checkpoint and its pending writes; its values show nowhere then."""
    key = where(CHECKPOINT[:3], row)
    return f"DELETE FROM checkpoints WHERE {key};\nDELETE FROM checkpoint_writes WHERE {key};"


def metadata(row: Row, **changes: Any) -> dict[str, Any]:
    """Metadata with some members changed (None removes one)."""
    return {k: v for k, v in {**row["metadata"], **changes}.items() if v is not None}


def later(row: Row, by: int = 1) -> str:
    """A checkpoint id that sorts right after a row's own."""
    head, _, tail = str(row["checkpoint_id"]).partition("-")
    return f"{head}-{int(tail[:4], 16) + by:04x}{tail[4:]}"


def packed(value: Any) -> dict[str, Any]:
    """The columns that hold a value."""
    return {"type": "msgpack", "blob": ormsgpack.packb(value)}


def messages(row: Row) -> list[str]:
    """The messages that a checkpoint shows."""
    found: list[str] = ormsgpack.unpackb(bytes(row["values"]["messages"]["blob"]))
    return found


def altered(row: Row, at: int) -> str:
    """The statement that changes the ``at``-th message of a checkpoint."""
    said = messages(row)
    said[at] = FORGED
    return update_value(row, "messages", **packed(said))


def authored(base: Row, said: list[str], **changes: Any) -> Row:
    """A checkpoint of the adversary's on top of another, with a version and an id that are free."""
    version = f"{int(str(base['values']['messages']['version'])[:32]) + 1:032}.0.7"
    key = changes.get("checkpoint_id", later(base))
    frame = json.loads(json.dumps(base["checkpoint"]))
    frame["id"] = key
    frame["channel_versions"]["messages"] = version
    blob = {**base["values"]["messages"], **packed(said), "version": version}
    made = {
        **base, "checkpoint_id": key, "parent_checkpoint_id": base["checkpoint_id"], "checkpoint": frame, **changes
    }  # fmt: skip
    made["values"] = {"messages": {**blob, "thread_id": made["thread_id"]}}
    return made


def copied(donor: Row, onto: Row, keep_seal: bool = False) -> str:
    """The statements that put a donor's content over a row, with the values that it shows."""
    meta = donor["metadata"]
    if keep_seal:
        meta = metadata(donor, memguard=onto["metadata"].get("memguard"))
    if donor["thread_id"] == onto["thread_id"]:
        place, frame, shown = {c: onto[c] for c in CHECKPOINT[:2]}, donor["checkpoint"], donor["values"]
    else:  # its values stand in another thread: here they need versions that no other checkpoint shows
        free = {channel: FREE for channel in donor["values"]}
        place, frame = {c: onto[c] for c in CHECKPOINT[:2]}, {**donor["checkpoint"]}
        frame["channel_versions"] = {**frame["channel_versions"], **free}
        shown = {channel: {**blob, "version": FREE} for channel, blob in donor["values"].items()}
    values_there = [insert("checkpoint_blobs", BLOB, {**blob, **place}) for blob in shown.values()]
    return "\n".join([*values_there, update(onto, checkpoint=frame, metadata=meta)])


def payload() -> bytes:
    """A value whose decoding calls a function of the adversary's choice: it sets a variable, nothing else."""
    from memguard.bench.integrity.edits.scene import MARKER

    code = f"import os; os.environ['{MARKER}'] = 'yes'"
    return ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("builtins", "exec", code))))
