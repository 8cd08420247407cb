"""The tables of the SQLite stores, read undecoded."""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import SearchOp

from memguard.effects import Call, Operation
from memguard.errors import RollbackError
from memguard.integrations.langgraph.sqlite_schema import Layout, Schema, layout
from memguard.integrations.langgraph.store_forms import TextForm
from memguard.integrations.langgraph.store_rows import Namespace, Stored, told
from memguard.integrations.langgraph.store_table import Here, Hit, reading, searched
from memguard.integrity.canonical import frame

#: The plus keeps the connection's converters for declared types away: what is stored is what is told.
_COLUMNS = "key, value, +created_at, +updated_at, +ttl_minutes, +expires_at"
#: A last column, for a connection that has not seen vectors yet: whether there is a table of them now.
_MADE = "(SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'store_vectors')"
_ONE = f"SELECT {_COLUMNS}, {_MADE} FROM store WHERE prefix = ? AND key = ?"  # noqa: S608 - constant text
_SOME = f"SELECT {_COLUMNS}, {_MADE} FROM store WHERE prefix = ? AND key IN "  # noqa: S608
_ALL = f"SELECT {_COLUMNS}, {_MADE} FROM store WHERE prefix = ? ORDER BY rowid"  # noqa: S608
#: How many rows of a namespace the index of keys holds: a ranked search finds items by it, a scan does not.
_INDEXED = "SELECT count(*) FROM store INDEXED BY sqlite_autoindex_store_1 WHERE prefix = ?"
_VECTORS = (
    "SELECT key, field_name, typeof(embedding), CAST(embedding AS BLOB) FROM store_vectors WHERE prefix = ?"
)
_EXPIRED = "SELECT prefix, key FROM store WHERE expires_at IS NOT NULL AND expires_at < ?"
#: Keys asked for in one statement (SQLite's own limit on parameters is far above).
_CHUNK = 500


def _nothing(raw: Any) -> dict[str, Any]:
    return {}


class SqliteTable(Here):
    """SqliteStore: its two tables, over its own connection and under its own lock."""

    sql = ordered = expiring = cached = True

    def __init__(self, store: Any) -> None:
        self.form = TextForm(store._deserializer)
        #: The wrapped store's copy, which shares everything but its sweeper and its deserializer.
        self.store = self._copied(store)
        # What a search answers is looked up again by key; its text need not be parsed for that.
        self.store._deserializer = _nothing
        self.vectored = bool(store.index_config)
        self._schema = Schema(_layout(type(store)))  # type: ignore[arg-type]

    def _copied(self, store: Any) -> Any:
        raw = copy.copy(store)
        raw._ttl_sweeper_thread, raw._ttl_stop_event = (
            None,
            threading.Event(),
        )  # its own, not the wrapped one's
        return raw

    # -- plain functions, performed as effects -----------------------------------------------

    def _all(self, sql: str, values: Sequence[Any] = ()) -> Any:
        store = self.store
        if not store.is_setup:
            store.setup()
        with store.lock:
            return store.conn.execute(sql, values).fetchall()

    def change(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Any:
        """Run statements in one transaction."""
        store = self.store
        if not store.is_setup:
            store.setup()
        with store.lock:
            conn = store.conn
            conn.execute("BEGIN IMMEDIATE")
            try:
                for sql, values in statements:
                    conn.execute(sql, values)
            except BaseException:
                conn.execute("ROLLBACK")
                raise
            conn.execute("COMMIT")

    def _call(self, ops: Sequence[Any]) -> Any:
        return self.store.batch(ops)

    # -- the table ---------------------------------------------------------------------------

    def hint(self, names: Iterable[str]) -> Operation[object]:
        found = yield Call(self._all, "PRAGMA data_version")
        return found[0][0]

    def sound(self, hint: object) -> Operation[None]:
        with reading("the store's tables"):
            yield from self._schema.check(self._all, hint)

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        with reading("the store's namespaces"):
            found = yield Call(self._all, "SELECT DISTINCT prefix FROM store")
        return [tuple(str(prefix).split(".")) for (prefix,) in found]

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        prefix = ".".join(namespace)
        with reading(f"namespace {prefix!r}"):
            found = yield Call(self._all, _ALL, (prefix,))
            if found:
                yield from self._check_index(prefix, len(found))
            vectors = (yield from self._digests(prefix, None)) if self._vectors_by(found) else {}
        return [_stored(row, vectors) for row in found]

    def _check_index(self, prefix: str, rows: int) -> Operation[None]:
        try:
            ((indexed,),) = yield Call(self._all, _INDEXED, (prefix,))
        except sqlite3.OperationalError as error:
            if "no such index" in str(error):  # then nothing can be found by it
                return
            raise
        if indexed != rows:
            raise RollbackError(
                "an index of the store does not hold the rows of its table.",
                case="T2",
                record=f"namespace {prefix!r}",
                why="What is searched by it would be left out.",
                do="Restore the database from a copy that is whole, or REINDEX it and audit again.",
            )

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        prefix = ".".join(namespace)
        with reading(f"namespace {prefix!r}"):
            if len(keys) == 1:
                found = yield Call(self._all, _ONE, (prefix, keys[0]))
            else:
                found = []
                for at in range(0, len(keys), _CHUNK):
                    chunk = keys[at : at + _CHUNK]
                    found += yield Call(self._all, _SOME + _marks(chunk), (prefix, *chunk))
            vectors = (yield from self._digests(prefix, keys)) if self._vectors_by(found) else {}
        return {row[0]: _stored(row, vectors) for row in found}

    def _vectors_by(self, found: Sequence[Any]) -> bool:
        """Whether these rows may have vectors: a store without an index may stand on tables with vectors."""
        if found and not self.vectored:
            self.vectored = bool(found[-1][-1])
        return bool(found) and self.vectored

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any] = yield Call(self._call, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        if self.vectored:
            return (yield from searched(self, op))
        # The store's own statement, without the items it makes of the rows: they are made from what was checked.
        ((sql, values, _),), _ = self.store._prepare_batch_search_queries([(0, op)])
        found = yield Call(self._all, sql, values)
        return [
            Hit(tuple(prefix.split(".")), key, score, _told(key, value, created, updated, ttl, expires))
            for prefix, key, value, created, updated, expires, ttl, score in found
        ]

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        return (yield from self._digests(".".join(namespace), keys)) if self.vectored else {}

    def _digests(self, prefix: str, keys: Sequence[str] | None) -> Operation[dict[str, bytes]]:
        found: list[Any] = []
        if keys is None:
            found = yield Call(self._all, f"{_VECTORS} ORDER BY key, field_name", (prefix,))
        elif len(keys) == 1:
            found = yield Call(self._all, f"{_VECTORS} AND key = ? ORDER BY field_name", (prefix, keys[0]))
        else:
            for at in range(0, len(keys), _CHUNK):
                chunk = keys[at : at + _CHUNK]
                sql = f"{_VECTORS} AND key IN {_marks(chunk)} ORDER BY key, field_name"
                found += yield Call(self._all, sql, (prefix, *chunk))
        parts: dict[str, list[bytes]] = {}
        for key, field, kind, data in found:
            parts.setdefault(key, []).append(_vector(field, kind, data))
        return {key: hashlib.sha256(frame(*each)).digest() for key, each in parts.items()}

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        if self.vectored and keys:
            prefix = ".".join(namespace)
            sql = "DELETE FROM store_vectors WHERE prefix = ? AND key = ?"
            yield Call(self.change, [(sql, (prefix, key)) for key in keys])

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        with reading("the store's expiries"):
            found = yield Call(self._all, _EXPIRED, (now,))
        return [(tuple(str(prefix).split(".")), key) for prefix, key in found]

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        prefix = ".".join(namespace)
        sql = "DELETE FROM store WHERE prefix = ? AND key = ? AND expires_at IS NOT NULL AND expires_at < ?"
        yield Call(self.change, [(sql, (prefix, key, now)) for key in keys])


class AsyncSqliteTable(SqliteTable):
    """AsyncSqliteStore: the same tables over aiosqlite."""

    def _copied(self, store: Any) -> Any:
        raw = copy.copy(store)
        raw._task = None  # the wrapped store's own: it must not be cancelled with the copy
        raw._ttl_sweeper_task, raw._ttl_stop_event = None, asyncio.Event()
        return raw

    async def _all(self, sql: str, values: Sequence[Any] = ()) -> Any:
        store = self.store
        if not store.is_setup:
            await store.setup()
        async with store.lock:
            return await store.conn.execute_fetchall(sql, values)

    async def change(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Any:
        store = self.store
        if not store.is_setup:
            await store.setup()
        async with store.lock:
            conn = store.conn
            await conn.execute("BEGIN IMMEDIATE")
            try:
                for sql, values in statements:
                    await conn.execute(sql, values)
            except BaseException:
                await conn.execute("ROLLBACK")
                raise
            await conn.execute("COMMIT")

    async def _call(self, ops: Sequence[Any]) -> Any:
        return await self.store.abatch(ops)


@functools.cache
def _layout(kind: type) -> Layout:
    """What the migrations of a store's class make."""

    def migrated(conn: sqlite3.Connection) -> None:
        for script in (*kind.MIGRATIONS, *kind.VECTOR_MIGRATIONS):  # type: ignore[attr-defined]
            conn.executescript(script)

    return layout((migrated,), ("store", "store_vectors"))


def _marks(values: Sequence[Any]) -> str:
    return "(" + ",".join(["?"] * len(values)) + ")"


def _stored(row: Sequence[Any], vectors: dict[str, bytes]) -> Stored:
    key, value, created, updated, ttl, expires, _ = row
    return _told(key, value, created, updated, ttl, expires, vectors=vectors.get(key, b""))


def _told(key: Any, value: Any, *columns: Any, vectors: bytes = b"") -> Stored:
    created, updated, ttl, expires = map(told, columns)
    return Stored(key, value, created, updated, ttl, expires, vectors)


def _vector(field: object, kind: str, data: object) -> bytes:
    text = field.encode("utf-8", "surrogatepass") if isinstance(field, str) else repr(field).encode()
    return frame(text, kind.encode(), bytes(data) if isinstance(data, bytes) else b"")
