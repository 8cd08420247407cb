"""Mem0's own SQLite database as rows: the history of memories, and the raw messages.

Neither table has a field for a seal, and none is added: the identifier of a row, which Mem0 makes up and never looks
at, carries it. ``PLACE.UUID.{"c": context, "n": number, "memguard": {...}}``, where PLACE is a digest of the context,
so that the rows of a context are one range of the primary key. Rows are written with Mem0's own columns, in one
transaction, under Mem0's own lock.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memguard.collection import FIELD, Put, Stored, opened
from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.mem0.backends import tables_only
from memguard.integrations.mem0.owners import HISTORY, MESSAGES, NOBODY, messages_context, scope_of
from memguard.integrity.canonical import canonical_json

COLUMNS = {
    HISTORY: ("memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted",
              "actor_id", "role"),
    MESSAGES: ("session_scope", "role", "content", "name", "created_at"),
}  # fmt: skip
TABLES = {HISTORY: "history", MESSAGES: "messages"}


class Line(NamedTuple):
    """One row: its columns by name, and its number, which orders rows of one moment."""

    columns: dict[str, Any]
    number: int


def content_of(kind: str, line: Line) -> bytes:
    """The canonical bytes that the tag covers."""
    values = [line.columns.get(name) for name in COLUMNS[kind]]
    return canonical_json([line.number, *(_plain(value) for value in values)])


def _plain(value: Any) -> Any:
    """A value with its storage class: bytes never spell as a text does."""
    return {"blob": bytes(value).hex()} if isinstance(value, bytes | bytearray | memoryview) else value


class Journal:
    """The two tables of one Memory.

    Args:
        memory: the wrapped Memory; its ``db`` is another object after a reset.
    """

    _sound_at: object = None

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._last = 0

    def number(self) -> int:
        """A number behind all that this process gave before."""
        self._last = max(self._last + 1, time.time_ns())
        return self._last

    def hint(self) -> object:
        """Differs after another connection changed the database."""
        db = self._memory.db
        with db._lock:
            ((version,),) = db.connection.execute("PRAGMA data_version").fetchall()
            ((schema,),) = db.connection.execute("PRAGMA schema_version").fetchall()
            if self._sound_at != (id(db), schema):
                tables_only(db.connection, str(db.db_path))
                self._sound_at = (id(db), schema)
        return (version, schema)

    def contexts(self, kind: str) -> list[str]:
        """Contexts of this kind that have rows."""
        if kind == MESSAGES:
            found = self._ask("SELECT DISTINCT session_scope FROM messages")
            return [messages_context(str(scope)) for (scope,) in found]
        return list(dict.fromkeys(_parts(id)[1] for (id,) in self._ask("SELECT id FROM history")))

    def rows(self, kind: str, context: str) -> list[Stored]:
        """Every row of a context."""
        columns = ", ".join(COLUMNS[kind])
        if kind == MESSAGES:
            query, values = "WHERE session_scope IS ?", [scope_of(context)]
        elif context == NOBODY.context(HISTORY):
            query, values = "", []
        else:
            place = _place(context)
            query, values = "WHERE id >= ? AND id < ?", [f"{place}.", f"{place}/"]
        found = self._ask(
            f"SELECT id, {columns} FROM {TABLES[kind]} {query} ORDER BY rowid",  # noqa: S608 - constants
            values,
        )
        made = [_stored(kind, id, rest) for id, *rest in found]
        return [stored for stored, said in made if kind == MESSAGES or said == context]

    def fetch(self, kind: str, context: str, keys: Sequence[str]) -> dict[str, Stored]:
        """Rows by key, those that are there."""
        wanted = set(keys)
        found: dict[str, Stored] = {}
        for stored in self.rows(kind, context):
            if stored.key in wanted:
                if stored.key in found:
                    stored = stored._replace(flaw=_twice(stored.key))
                found[stored.key] = stored
        return found

    def of_memory(self, memory_id: str) -> Iterator[tuple[str, str]]:
        """Context and key of every row of one memory's history, as the rows say."""
        for (id,) in self._ask("SELECT id FROM history WHERE memory_id = ? ORDER BY rowid", (memory_id,)):
            key, context, _ = _parts(id)
            yield context, key

    def commit(self, kind: str, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        """Insert and delete rows in one transaction."""
        columns = COLUMNS[kind]
        marks = ", ".join("?" * (len(columns) + 1))
        insert = f"INSERT INTO {TABLES[kind]} (id, {', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        gone = [stored.value["id"] for context, keys in deletes.items()
                for stored in self.fetch(kind, context, keys).values()]  # fmt: skip
        db = self._memory.db
        with db._lock:
            connection = db.connection
            connection.execute("BEGIN")
            try:
                delete = f"DELETE FROM {TABLES[kind]} WHERE id IS ?"  # noqa: S608 - constants
                connection.executemany(delete, [(id,) for id in gone])
                connection.executemany(
                    insert, [(_id(put), *(put.value.columns.get(c) for c in columns)) for put in puts]
                )
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def write_seals(self, kind: str, context: str, sealed: Iterable[tuple[Stored, dict[str, Any]]]) -> None:
        """Give rows that stand already identifiers that carry their seals."""
        db = self._memory.db
        with db._lock:
            connection = db.connection
            connection.execute("BEGIN")
            try:
                for stored, own in sealed:
                    new = _spelled(context, stored.key, stored.value["n"], own)
                    rename = f"UPDATE {TABLES[kind]} SET id = ? WHERE id IS ?"  # noqa: S608 - constants
                    connection.execute(rename, (new, stored.value["id"]))
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        db = self._memory.db
        with db._lock:
            found: list[Any] = db.connection.execute(query, tuple(values)).fetchall()
        return found


def _place(context: str) -> str:
    return hashlib.sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _id(put: Put) -> str:
    return _spelled(put.context, put.name, put.value.number, put.field)


def _spelled(context: str, key: str, number: int, own: Mapping[str, Any]) -> str:
    said = {"c": context, "n": number, FIELD: dict(own)}
    return f"{_place(context)}.{key}.{json.dumps(said, ensure_ascii=False, separators=(',', ':'))}"


def _parts(id: object) -> tuple[str, str, dict[str, Any]]:
    """Key, context and the rest of an identifier; one that memguard did not make is the key of nobody's row."""
    if isinstance(id, str):
        place, _, rest = id.partition(".")
        key, _, said = rest.partition(".")
        try:
            found = json.loads(said)
            if isinstance(found, dict) and isinstance(found["c"], str) and isinstance(found["n"], int):
                if place == _place(found["c"]):
                    return key, found["c"], found
        except (ValueError, KeyError, RecursionError):
            pass
    return str(id), NOBODY.context(HISTORY), {}


def _stored(kind: str, id: object, values: Sequence[Any]) -> tuple[Stored, str]:
    """A row, and the context that its identifier names."""
    key, context, found = _parts(id)
    columns = dict(zip(COLUMNS[kind], values, strict=True))
    number = found.get("n", 0)
    if kind == MESSAGES:
        named, context = context, messages_context(str(columns["session_scope"]))
        if found and named != context:
            found = {}  # it says another session than its column does: no seal of this one
    seal, own = opened(found.get(FIELD))
    value = {"id": id, "n": number, "columns": columns}
    return Stored(key, content_of(kind, Line(columns, number)), seal, own, value=value), context


def _twice(key: str) -> IntegrityError:
    return TamperedError("a row stands twice.", case="T5", record=key, why="Two rows have one identifier.")
