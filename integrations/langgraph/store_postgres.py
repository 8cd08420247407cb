"""The tables of the PostgreSQL stores, read undecoded."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import _ainternal, _internal
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.postgres.base import PLACEHOLDER
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from memguard.custody import Custody
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph import store_postgres_sql as statements
from memguard.integrations.langgraph.postgres_schema import Schema
from memguard.integrations.langgraph.postgres_session import check_session, ended, learned
from memguard.integrations.langgraph.store_jsonb import JsonbForm, Split
from memguard.integrations.langgraph.store_postgres_seen import Seen
from memguard.integrations.langgraph.store_rows import Namespace, Stored, context_of, namespace_of, told
from memguard.integrations.langgraph.store_table import Here, Hit, altered, reading

#: How far the server's clock may be off this machine's, seconds; beyond it nothing can be said of its stamps.
MOST_SKEW = 120.0
#: How long ago the clocks may have been compared when an expiry is reckoned, seconds.
_RECENT = 5.0
#: How far a stamp may lie outside the time of its write, seconds: what reading two clocks costs.
_SLACK = 1.0
#: What cannot be read for want of its column or type: not as the framework made it.
_CROOKED = (psycopg.DataError, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction,
            psycopg.errors.DatatypeMismatch, psycopg.errors.WrongObjectType)  # fmt: skip
_COLUMNS = {
    "store": {"prefix": "text", "key": "text", "value": "jsonb", "created_at": "timestamptz",
              "updated_at": "timestamptz", "expires_at": "timestamptz", "ttl_minutes": "int4"},
    "store_vectors": {"prefix": "text", "key": "text", "field_name": "text", "embedding": "",
                      "created_at": "timestamptz", "updated_at": "timestamptz"},
}  # fmt: skip


class PostgresTable(Here):
    """PostgresStore: its two tables, over its own connection or pool."""

    sql = expiring = keeps = True
    ordered = cached = False
    custody: Custody

    def __init__(self, store: Any) -> None:
        #: The wrapped store's copy, which shares everything but its sweeper and its deserializer.
        self.store = self._copied(store)
        self.form = JsonbForm(store._deserializer)
        # What a search answers is looked up again by key: what is no dict need not be understood for that.
        self.store._deserializer = lambda raw: {}
        self.vectored = bool(store.index_config)
        #: The function that writes out a vector, and the type it is of.
        self._send: str | None = None
        self._vector: str | None = None
        self._schema = Schema(_COLUMNS)
        self._seen = Seen()
        self._seed = secrets.randbits(62)
        self._known_session = False
        self._offset, self._error, self._offset_at = 0.0, float("inf"), float("-inf")
        #: The server's clock as last told, when that was, and when the write under way began.
        self._told, self._told_at, self._began = 0.0, 0.0, 0.0
        self._zone: tzinfo = UTC
        self.lasting = False

    def _copied(self, store: Any) -> Any:
        raw = copy.copy(store)
        raw._ttl_sweeper_thread, raw._ttl_stop_event = None, threading.Event()
        return raw

    # -- plain functions, performed as effects -----------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        store = self.store
        with _internal.get_connection(store.conn) as conn:
            self._learn(conn)
            if isinstance(store.conn, ConnectionPool):
                yield conn
                return
            with store.lock:
                try:
                    yield conn
                finally:
                    if store.pipe:
                        store.pipe.sync()

    def _learn(self, conn: Any) -> None:
        check_session(conn)
        if not self._known_session:
            self.form.learn(*learned(conn))
            self._known_session = True

    def _all(self, statement: str, values: Any = None) -> Any:
        began = time.time()
        try:
            with self._connection() as conn, conn.cursor(binary=True, row_factory=tuple_row) as cursor:
                cursor.execute(statement, values)
                return cursor.fetchall(), began, time.time()
        except _CROOKED as error:
            raise ValueError(type(error).__name__) from None

    def change(self, statements: Sequence[tuple[str, Any]]) -> Any:
        """Run statements in one transaction."""
        with self._connection() as conn, conn.transaction(), conn.cursor(binary=True) as cursor:
            for statement, values in statements:
                cursor.execute(statement, values)

    def _call(self, ops: Sequence[Any]) -> Any:
        store = self.store
        if store.pipe:  # one cursor at a time
            with store.lock:
                return store.batch(ops)
        return store.batch(ops)

    def _embed(self, texts: list[str]) -> Any:
        return self.store.embeddings.embed_documents(texts)

    def key(self, key: object) -> str:
        text = super().key(key)
        writable(text, "an item key")
        return text

    # -- the server's clock ------------------------------------------------------------------

    def now(self) -> float:
        return time.time() + self._offset

    def clock(self) -> Operation[float]:
        if time.monotonic() - self._offset_at > _RECENT:
            found, began, ended = yield Call(self._all, statements.CLOCK)
            self._time(found[0][0], began, ended)
        return self.now()

    def _time(self, told_: datetime, began: float, ended: float) -> None:
        """Compare the server's clock with this machine's; keep the most exact comparison of the last minute.

        One that contradicts it says that one of the clocks was set since.
        """
        self._told, self._told_at = told_.timestamp(), time.monotonic()
        error, offset = (ended - began) / 2, self._told - (began + ended) / 2
        moved = abs(offset - self._offset) > error + self._error
        if error <= self._error or moved or self._told_at - self._offset_at > 60:
            self._offset, self._error, self._offset_at = offset, error, self._told_at

    def moment(self, text: str) -> str | datetime:
        return text if text == "NULL" else datetime.fromisoformat(text).astimezone(self._zone)

    def fresh(self, stored: Stored, since: float, until: float, created: str | None) -> bool:
        if stored.updated == "NULL" or stored.created == "NULL":
            return False
        # By the server's clock as the reading back told it, and by how long that is after the write began.
        last = self._told + _SLACK
        first = self._told - (self._told_at - self._began) - _SLACK
        if not first <= datetime.fromisoformat(stored.updated).timestamp() <= last:
            return False
        return stored.created == (stored.updated if created is None else created or stored.created)

    # -- the table ---------------------------------------------------------------------------

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """By context: how many rows there are and what their versions add up to (:mod:`~.store_postgres_seen`)."""
        by_name = {name: ".".join(namespace_of(name)) for name in names}
        if not by_name:
            return {}
        yield from self._sending()
        prefixes = list(by_name.values())
        while True:
            known = self._seen.snapshot(prefixes)
            values = {"prefixes": prefixes, "seed": self._seed, "snapshot": known}
            statement = statements.hint(vectored=self._send is not None)
            with reading("the store's tables"):
                try:
                    found, began, ended = yield Call(self._all, statement, values)
                except ValueError:  # a view has no versions
                    yield from self.sound(None)
                    raise
            snapshot, start, clock, expires = found[0][:4]
            self.lasting = not expires
            self._time(clock, began, ended)
            if self._seen.tell((snapshot, start), known, prefixes, [row[4:] for row in found]):
                return {name: self._seen.sums(prefix) for name, prefix in by_name.items()}

    def sound(self, hint: object) -> Operation[None]:
        if hint is not None and self._schema.seen == self._seen.at:
            return
        at = self._seen.at
        with reading("the store's tables"):
            found, _, _ = yield Call(self._all, self._schema.statement, self._schema.values)
        vector = self._schema.check(found).get("store_vectors", {}).get("embedding")
        if vector != self._vector:
            self._vector, self._send = vector, None
        self._schema.seen = at if hint is not None else None

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        with reading("the store's namespaces"):
            found, _, _ = yield Call(self._all, statements.NAMESPACES, {"snapshot": self._seen.listed_at})
        return self._seen.list(found)

    def quiet(self) -> Operation[None]:
        """Wait for transactions of writers that were killed; see :func:`~.postgres_session.ended`."""
        yield from ended(self.change, "store")

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        prefix = ".".join(namespace)
        with reading(f"namespace {prefix!r}"):
            found = yield from self._read(prefix, None)
            self._seen.read(context_of(namespace), [(row[0], row[10], row[11]) for row in found])
            return [self._stored(row) for row in found]

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        prefix, context = ".".join(namespace), context_of(namespace)
        with reading(f"namespace {prefix!r}"):
            found = yield from self._read(prefix, keys)
            if self._seen.expecting(context):
                held = self.custody.peek(context)
                self._seen.wrote(context, held, [(row[0], row[10], row[11]) for row in found])
            return {row[0]: self._stored(row) for row in found}

    def _read(self, prefix: str, keys: Sequence[str] | None) -> Operation[list[Any]]:
        yield from self._sending()
        which = "all" if keys is None else "one" if len(keys) == 1 else "some"
        values: dict[str, Any] = {"prefix": prefix, "seed": self._seed}
        if keys is not None:
            values["keys"] = keys[0] if which == "one" else list(keys)
        while True:
            found, began, ended = yield Call(self._all, statements.rows(self._send, which), values)
            if found:
                self._time(found[0][8], began, ended)
                if found[0][4] is not None:
                    self._zone = found[0][4].tzinfo
                if (
                    self._send is None and found[0][9]
                ):  # vectors: a store without an index may stand on them too
                    self.vectored = True
                    yield from self._sending()
                    if self._send is None:
                        raise ValueError("a table of vectors without vectors")
                    continue
            return list(found)

    def _sending(self) -> Operation[None]:
        """Look up how vectors are written out, where there may be vectors and it is not known yet."""
        if self.vectored and self._send is None:
            found, _, _ = yield Call(self._all, statements.SEND)
            if found:
                self._send = found[0][0]

    def _stored(self, row: Sequence[Any]) -> Stored:
        key, body, seal, own, created, updated, ttl, expires, _, _, _, _, vectors = row[:13]
        digest = b"" if vectors is None else hashlib.sha256(vectors).digest()
        times = _stamp(created), _stamp(updated), told(ttl), _stamp(expires)
        return Stored(key, Split(body, seal, own), *times, digest)

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        writes = [op for op in ops if isinstance(op, PutOp)]
        if writes:
            self._check_writing()
            self._began = time.monotonic()
        try:
            answer: list[Any] = yield Call(self._call, ops)
        except (
            psycopg.errors.ForeignKeyViolation
        ):  # an item of this very transaction is not there for its vectors
            raise altered(f"namespace {'/'.join(writes[0].namespace)!r}" if writes else "") from None
        for op in writes:
            context = context_of(op.namespace)
            if op.value is None:
                self._seen.deleted(context, self.custody.peek(context), op.key)
            else:
                self._seen.expect(context, op.key)
        return answer

    def _check_writing(self) -> None:
        if not isinstance(self.store.conn, ConnectionPool | AsyncConnectionPool):
            check_session(self.store.conn)
        if abs(self._offset) > MOST_SKEW:
            raise UnsupportedError(
                "the database server's clock is not that of this machine.",
                code="MG511",
                where=f"{self._offset:+.0f} s",
                why="Stamps and expiries of what is written could not be told from invented ones.",
                do="Set both clocks by NTP.",
            )

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        for wanted in (op.filter or {}).values():
            for operand in wanted.values() if isinstance(wanted, dict) else (wanted,):
                if isinstance(operand, str):
                    writable(operand, "what a filter compares with")
        yield from self._sending()
        # The store's own statement, its rows as stored: items are made from what was checked.
        ((statement, values),), wanted = self.store._prepare_batch_search_queries([(0, op)])
        if wanted:
            (vector,) = yield Call(self._embed, [query for _, query in wanted])
            values = [vector if value is PLACEHOLDER else value for value in values]
        found, _, _ = yield Call(self._all, statements.joined(statement, self._send), values)
        return [
            Hit(
                tuple(row[13].split(".")),
                row[0],
                None if row[14] is None else float(row[14]),
                self._stored(row),
            )
            for row in found
        ]

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        yield from self._sending()
        if self._send is None or not keys:
            return {}
        values = {"prefix": ".".join(namespace), "keys": list(keys)}
        with reading(f"namespace {values['prefix']!r}"):
            found, _, _ = yield Call(self._all, statements.vectors(self._send), values)
        return {key: hashlib.sha256(digest).digest() for key, digest in found}

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        if self._send is not None and keys:
            values = {"prefix": ".".join(namespace), "keys": list(keys)}
            yield Call(self.change, [(statements.DROP_VECTORS, values)])

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        with reading("the store's expiries"):
            found, _, _ = yield Call(self._all, statements.EXPIRED, {"now": now})
        return [(tuple(str(prefix).split(".")), key) for prefix, key in found]

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        values = {"prefix": ".".join(namespace), "keys": list(keys), "now": now}
        yield Call(self.change, [(statements.DELETE_EXPIRED, values)])


class AsyncPostgresTable(PostgresTable):
    """AsyncPostgresStore: the same tables over an asynchronous connection or pool."""

    def _copied(self, store: Any) -> Any:
        raw = copy.copy(store)
        raw._task = None  # the wrapped store's own: it must not be cancelled with the copy
        raw._ttl_sweeper_task, raw._ttl_stop_event = None, asyncio.Event()
        return raw

    async def _held(self, work: Any) -> Any:
        """Do ``work`` on the connection, alone on it."""
        store = self.store
        async with _ainternal.get_connection(store.conn) as conn:
            self._learn(conn)
            if isinstance(store.conn, AsyncConnectionPool):
                return await work(conn)
            async with store.lock:
                try:
                    return await work(conn)
                finally:
                    if store.pipe:
                        await store.pipe.sync()

    async def _all(self, statement: str, values: Any = None) -> Any:
        async def work(conn: Any) -> Any:
            began = time.time()
            async with conn.cursor(binary=True, row_factory=tuple_row) as cursor:
                await cursor.execute(statement, values)
                return await cursor.fetchall(), began, time.time()

        try:
            return await self._held(work)
        except _CROOKED as error:
            raise ValueError(type(error).__name__) from None

    async def change(self, statements: Sequence[tuple[str, Any]]) -> Any:
        async def work(conn: Any) -> None:
            async with conn.transaction(), conn.cursor(binary=True) as cursor:
                for statement, values in statements:
                    await cursor.execute(statement, values)

        await self._held(work)

    async def _call(self, ops: Sequence[Any]) -> Any:
        return await self.store.abatch(ops)

    async def _embed(self, texts: list[str]) -> Any:
        return await self.store.embeddings.aembed_documents(texts)


def writable(text: str, what: str) -> None:
    """That a ``text`` column can hold it.

    Raises:
        UnsupportedError: MG510.
    """
    if "\0" in text:
        raise UnsupportedError(
            f"{what} holds the character NUL.",
            code="MG510",
            why="No text of PostgreSQL can hold it. Nothing was read or stored.",
            do="Leave the character out.",
        )


def _stamp(moment: datetime | None) -> str:
    """A timestamp as text that does not depend on the session's time zone."""
    return "NULL" if moment is None else moment.astimezone(UTC).isoformat()
