"""Statements on the connection, pool or pipeline that a PostgreSQL store was given, and its own batch."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import _ainternal, _internal
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from memguard.integrations.langgraph.postgres_session import check_session, learned
from memguard.integrations.langgraph.store_jsonb import JsonbForm

#: What cannot be read for want of its column or type: not as the framework made it.
_CROOKED = (psycopg.DataError, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction,
            psycopg.errors.DatatypeMismatch, psycopg.errors.WrongObjectType)  # fmt: skip


class Link:
    """PostgresStore's. All methods are plain functions, performed as effects."""

    form: JsonbForm

    def __init__(self, store: Any) -> None:
        #: The wrapped store's copy, which shares everything but its sweeper and its deserializer.
        self.store = self._copied(store)
        self.form = JsonbForm(store._deserializer)
        # What a search answers is looked up again by key: what is no dict need not be understood for that.
        self.store._deserializer = lambda raw: {}
        self._known_session = False

    def _copied(self, store: Any) -> Any:
        raw = copy.copy(store)
        raw._ttl_sweeper_thread, raw._ttl_stop_event = None, threading.Event()
        return raw

    def _check_connection(self) -> None:
        """See :func:`~.postgres_session.check_session`; a pool's connections are checked when they are used."""
        if not isinstance(self.store.conn, ConnectionPool | AsyncConnectionPool):
            check_session(self.store.conn)

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


class AsyncLink(Link):
    """AsyncPostgresStore's: coroutines in their place."""

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
