"""Reading a store's rows without decoding them: one class for each kind of store.

A *table* answers what operations ask: every row of a namespace in the store's own order, some of them
by key, the namespaces that have rows, and a hint that differs after somebody else changed the store.
Writes, searches and lists of namespaces go through the wrapped store's own ``batch``.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from langgraph.store.base import GetOp, Item, ListNamespacesOp, SearchOp

from memguard.custody import Custody
from memguard.effects import Call, Operation, Twin
from memguard.errors import IntegrityError, RollbackError, TamperedError
from memguard.integrations.langgraph.sqlite_schema import Layout, Schema, layout
from memguard.integrations.langgraph.store_rows import (
    Form,
    Namespace,
    ObjectForm,
    Stored,
    TextForm,
    namespace_of,
)
from memguard.integrations.langgraph.store_values import Forms, ObjectForms
from memguard.integrity.canonical import frame

_COLUMNS = "key, value, quote(created_at), quote(updated_at), quote(ttl_minutes), quote(expires_at)"
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
_HAS_VECTORS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'store_vectors'"
_EXPIRED = "SELECT prefix, key FROM store WHERE expires_at IS NOT NULL AND expires_at < ?"
#: Keys asked for in one statement (SQLite's own limit on parameters is far above).
_CHUNK = 500
_PAGE = 1000


class Hit(NamedTuple):
    """One result of a search, to be looked up again by its key."""

    namespace: Namespace
    key: str
    score: float | None


class Table(Protocol):
    """How a kind of store is read undecoded."""

    #: What the table's own methods and the store's sweeper are called on.
    store: Any

    @property
    def form(self) -> Form:
        """How its values are sealed."""
        ...

    #: Whether a filter becomes part of an SQL statement.
    sql: bool
    #: Whether :meth:`rows` gives rows in an order that the store keeps (and that seals number).
    ordered: bool
    #: Whether the store's expiry column can be seen.
    expiring: bool
    #: Whether :meth:`hint` also tells when others made or emptied a namespace.
    cached: bool

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """A value that differs after somebody else changed the store; None where nothing tells."""
        ...

    def sound(self, hint: object) -> Operation[None]:
        """That what answers is the store's own tables, unless ``hint`` says that nothing changed.

        A view in a table's place may answer differently from one moment to the next, so that no check of
        its rows says anything about the next question.

        Raises:
            TamperedError: it is not.
        """
        ...

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        """Namespaces that have rows."""
        ...

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        """Every row of a namespace."""
        ...

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        """Rows by key, those that are there."""
        ...

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        """The wrapped store's own ``batch``. Items in its answer are not to be believed."""
        ...

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        """What the wrapped store finds."""
        ...

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        """Digest of the vectors stored under each key that has any, with or without an item."""
        ...

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        """Delete the vectors under these keys."""
        ...

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        """Items whose expiry column lies before ``now`` (``YYYY-MM-DD HH:MM:SS``, UTC)."""
        ...

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        """Delete those of these items whose expiry column still lies before ``now``."""
        ...


@contextmanager
def reading(record: str) -> Iterator[None]:
    """Errors of a store that cannot be read become integrity errors of this record alone.

    A busy or closed database is not damage: those errors pass as they are.
    """
    try:
        yield
    except IntegrityError:
        raise
    except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
        # Its message quotes the column: it must not reach a log.
        if "UTF-8" not in str(error) and "malformed JSON" not in str(error):
            raise
        raise _unreadable(record, error) from None
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(record, error) from None


def _unreadable(record: str, error: Exception) -> TamperedError:
    return TamperedError(
        "stored rows cannot be read.",
        case="undecodable",
        record=record,
        code="MG405",
        why=f"The store answered with {type(error).__name__}; memguard never stores what it cannot read back.",
        do="memguard audit STORE lists what is damaged.",
    )


def _nothing(raw: Any) -> dict[str, Any]:
    return {}


class SqliteTable:
    """SqliteStore: its two tables, over its own connection and under its own lock."""

    sql = ordered = expiring = cached = True

    def __init__(self, store: Any) -> None:
        self.form = TextForm(store._deserializer)
        #: The wrapped store's copy, which shares everything but its sweeper and its deserializer.
        self.store = self._copied(store)
        # What a search answers is looked up again by key; its text need not be parsed for that.
        self.store._deserializer = _nothing
        self._has_vectors = bool(store.index_config)
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
        if found and not self._has_vectors:
            self._has_vectors = bool(found[-1][-1])
        return bool(found) and self._has_vectors

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any] = yield Call(self._call, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        return (yield from _searched(self, op))

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        if not self._has_vectors:
            self._has_vectors = bool((yield Call(self._all, _HAS_VECTORS)))
        return (yield from self._digests(".".join(namespace), keys)) if self._has_vectors else {}

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
        if self._has_vectors and keys:
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


def _searched(table: Table, op: SearchOp) -> Operation[list[Hit]]:
    (found,) = yield from table.batch([op])
    return [Hit(tuple(item.namespace), item.key, item.score) for item in found]


def _marks(values: Sequence[Any]) -> str:
    return "(" + ",".join(["?"] * len(values)) + ")"


def _stored(row: Sequence[Any], vectors: dict[str, bytes]) -> Stored:
    key, value, created, updated, ttl, expires, _ = row
    return Stored(key, value, created, updated, ttl, expires, vectors.get(key, b""))


def _vector(field: object, kind: str, data: object) -> bytes:
    text = field.encode("utf-8", "surrogatepass") if isinstance(field, str) else repr(field).encode()
    return frame(text, kind.encode(), bytes(data) if isinstance(data, bytes) else b"")


class MemoryTable:
    """InMemoryStore: its two dictionaries, which its authors promise not to rename."""

    sql = ordered = expiring = cached = False
    custody: Custody

    def __init__(self, store: Any) -> None:
        self.store = store
        self.form: Form = ObjectForm(ObjectForms(), plain=False)

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """Namespaces that hold more or fewer items than their heads count: normally none.

        Who replaces an item in the dictionary without changing their number is noticed when it is served.
        """
        drifting = []
        for name in names:
            context = self.custody.peek(name)
            if context is not None:
                namespace = namespace_of(name)
                if len(self.store._data.get(namespace, ())) != context.index.cells:
                    drifting.append(name)
        return tuple(drifting)
        yield  # makes this an operation like its siblings

    def sound(self, hint: object) -> Operation[None]:
        return
        yield

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        return [namespace for namespace, items in list(self.store._data.items()) if items]
        yield

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        with reading(f"namespace {'/'.join(namespace)!r}"):
            items = list(self.store._data.get(namespace, {}).items())
            return [self._stored(namespace, key, item) for key, item in items]
        yield

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        items = self.store._data.get(namespace, {})
        with reading(f"namespace {'/'.join(namespace)!r}"):
            return {key: self._stored(namespace, key, items[key]) for key in keys if key in items}
        yield

    def _stored(self, namespace: Namespace, key: str, item: Any) -> Stored:
        if item.key != key or item.namespace != namespace:
            raise TamperedError(
                "an item lies under another name than its own.",
                case="T6",
                record=f"namespace {'/'.join(namespace)!r}",
            )
        created, updated = item.created_at.isoformat(), item.updated_at.isoformat()
        return Stored(key, item.value, created, updated, vectors=self._digest(namespace, key))

    def _digest(self, namespace: Namespace, key: str) -> bytes:
        found = self.store._vectors.get(namespace, {}).get(key) if self.store.index_config else None
        if not found:
            return b""
        parts = [
            frame(str(path).encode("utf-8", "surrogatepass"), repr(list(v)).encode())
            for path, v in found.items()
        ]
        return hashlib.sha256(frame(*sorted(parts))).digest()

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any] = yield Twin(self.store.batch, self.store.abatch, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        return (yield from _searched(self, op))

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        found = {key: self._digest(namespace, key) for key in keys}
        return {key: digest for key, digest in found.items() if digest}
        yield

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        for key in keys:
            self.store._vectors.get(namespace, {}).pop(key, None)
        return
        yield

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        return ()
        yield

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        return
        yield


class GeneralTable:
    """Any other store: through its own ``batch``. Values are JSON; vectors and expiry cannot be seen."""

    sql, ordered, expiring, cached = True, False, False, False

    def __init__(self, store: Any, *, is_async: bool) -> None:
        self.store, self._async = store, is_async
        self.form: Form = ObjectForm(Forms(), plain=True)

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        answer: list[Any]
        if self._async:
            answer = yield Call(self.store.abatch, ops)
        else:
            answer = yield Twin(self.store.batch, self.store.abatch, ops)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        return (yield from _searched(self, op))

    def hint(self, names: Iterable[str]) -> Operation[object]:
        return None
        yield

    def sound(self, hint: object) -> Operation[None]:
        return
        yield

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        found: list[Namespace] = []
        while True:
            ops = [ListNamespacesOp(limit=_PAGE, offset=len(found))]
            (page,) = yield from self.batch(ops)
            found += [tuple(ns) for ns in page]
            if len(page) < _PAGE:
                return found

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        found: list[Stored] = []
        offset = 0
        with reading(f"namespace {'/'.join(namespace)!r}"):
            while True:
                op = SearchOp(namespace, limit=_PAGE, offset=offset, refresh_ttl=False)
                (page,) = yield from self.batch([op])
                found += [_seen(item) for item in page if tuple(item.namespace) == namespace]
                offset += len(page)
                if len(page) < _PAGE:
                    return found

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        with reading(f"namespace {'/'.join(namespace)!r}"):
            answer = yield from self.batch([GetOp(namespace, key, refresh_ttl=False) for key in keys])
            found = [item for item in answer if item is not None and tuple(item.namespace) == namespace]
            return {item.key: _seen(item) for item in found}

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        return {}
        yield

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        return
        yield

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        return ()
        yield

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        return
        yield


def _seen(item: Item) -> Stored:
    return Stored(item.key, item.value, item.created_at.isoformat(), item.updated_at.isoformat())
