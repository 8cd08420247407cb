"""Reading a saver's rows without decoding them: one class for each way to reach them.

``rows`` gives custody every row of a context; ``contexts`` the (thread, namespace) pairs that
have rows; ``hint`` something that changes when another connection changed the store (None where
the store has nothing of the kind).
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from langgraph.checkpoint.base import CheckpointTuple

from memguard.effects import Call, Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.sqlite_schema import Layout, Schema, layout
from memguard.integrity.verifier import Claim, Context

_CHECKPOINTS = (
    "SELECT checkpoint_id, parent_checkpoint_id, type, metadata FROM checkpoints "
    "WHERE thread_id = ? AND checkpoint_ns = ?"
)
_WRITES = (
    "SELECT checkpoint_id, task_id, task_path, idx, channel, type FROM writes "
    "WHERE thread_id = ? AND checkpoint_ns = ?"
)
TABLES = ("checkpoints", "writes")
_CONTEXTS = (
    "SELECT thread_id, checkpoint_ns FROM checkpoints {0} "
    "UNION SELECT thread_id, checkpoint_ns FROM writes {0}"
)


class Scan(Protocol):
    """How a kind of saver is read undecoded."""

    #: Whether :meth:`hint` tells of every change by others (but for edits of raw pages).
    hinted: bool

    def bind(self, raw: Any) -> None:
        """Use this copy of the saver, whose serializer hands bytes through."""
        ...

    def hint(self, thread: str | None = None) -> Operation[object]:
        """A value that differs after another connection changed the store, or this thread of it."""
        ...

    def contexts(self, thread: str | None) -> Operation[Sequence[str]]:
        """Ids of the contexts that have rows, of one thread or of all."""
        ...

    def rows(self, context: Context) -> Operation[Iterable[Claim]]:
        """Every row of a context."""
        ...

    def collect(self, method: Callable[..., Any], config: Any, **options: Any) -> Any:
        """The saver's list as a sequence (a coroutine of one for an async saver)."""
        ...

    def clear(self, context: Context) -> Any:
        """Delete the rows of one context; of its whole thread where the saver knows no less."""
        ...

    def abandon(self) -> Any:
        """Roll back what a failed method of the saver left uncommitted."""
        ...


@contextmanager
def reading(thread: str, namespace: str) -> Iterator[None]:
    """Errors of a store that cannot be read become integrity errors of this context alone.

    A busy or closed database is not damage: those errors pass as they are.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - what is not damage passes as it is
        raise readable_error(error, thread, namespace) from None


def readable_error(error: Exception, thread: str, namespace: str) -> Exception:
    """What :func:`reading` raises for an error of the store's read path."""
    if isinstance(error, IntegrityError):
        return error
    if isinstance(error, (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError)):
        # Undecodable text is named in a message that quotes the column: that must not reach a log.
        return _unreadable(thread, namespace, error) if "UTF-8" in str(error) else error
    damaged = (sqlite3.DatabaseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
    if isinstance(error, damaged) or _is_postgres_damage(error):
        return _unreadable(thread, namespace, error)
    return error


def _is_postgres_damage(error: Exception) -> bool:
    """Whether PostgreSQL could not make values of what is stored: an invalid value, a damaged page or index."""
    if not type(error).__module__.startswith("psycopg"):
        return False
    state = getattr(error, "sqlstate", None)
    return state[:2] in ("22", "XX") if isinstance(state, str) else type(error).__name__ == "DataError"


def _unreadable(thread: str, namespace: str, error: Exception) -> TamperedError:
    return TamperedError(
        "stored rows cannot be read.",
        case="undecodable",
        record=f"thread {thread!r}" + (f" namespace {namespace!r}" if namespace else ""),
        code="MG405",
        why=f"The store answered with {type(error).__name__}; memguard never stores what it cannot read back.",
        do="memguard audit STORE lists what is damaged.",
    )


class SqliteScan:
    """SqliteSaver: its two tables, over its own connection and under its own lock."""

    hinted = True

    def bind(self, raw: Any) -> None:
        self._saver = raw
        self._schema = Schema(_layout())

    def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._saver.cursor(transaction=False) as cursor:
            return list(cursor.execute(sql, values))

    def change(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """Run statements in one transaction (for care; a guarded saver's own writes go through the saver)."""
        with self._saver.cursor() as cursor:
            for sql, values in statements:
                cursor.execute(sql, values)

    def clear(self, context: Context) -> Any:
        place = rows.thread_of(context.id)
        where = "WHERE thread_id = ? AND checkpoint_ns = ?"
        return self.change([(f"DELETE FROM {table} {where}", place) for table in TABLES])  # noqa: S608

    def abandon(self) -> Any:
        with self._saver.lock, suppress(sqlite3.Error):
            if self._saver.conn.in_transaction:
                self._saver.conn.rollback()

    def hint(self, thread: str | None = None) -> Operation[object]:
        found = yield Call(self._all, "PRAGMA data_version")
        return found[0][0]

    def sound(self) -> Operation[None]:
        """That the tables are laid out as LangGraph lays them out."""
        yield from self._schema.check(self._all, (yield from self.hint()))

    def deletions(self, context: Context, first: str, last: str | None) -> list[tuple[str, tuple[Any, ...]]]:
        """What deletes the checkpoints of a context from ``first`` on, and the pending writes of ``last``."""
        place, where = rows.thread_of(context.id), "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id"
        found: list[tuple[str, tuple[Any, ...]]] = [
            (f"DELETE FROM {table} WHERE {where} >= ?", (*place, first))  # noqa: S608 - constant text
            for table in TABLES
        ]
        if last is not None:
            found.append((f"DELETE FROM writes WHERE {where} = ?", (*place, last)))  # noqa: S608 - constant text
        return found

    def contexts(self, thread: str | None) -> Operation[Sequence[str]]:
        where, values = ("WHERE thread_id = ?", (thread, thread)) if thread is not None else ("", ())
        with reading(thread or "(all)", ""):
            found = yield Call(self._all, _CONTEXTS.format(where), values)
        return [rows.context_of(str(t), str(n)) for t, n in found]

    def rows(self, context: Context) -> Operation[Iterable[Claim]]:
        thread, namespace = rows.thread_of(context.id)
        with reading(thread, namespace):
            yield from self.sound()
            checkpoints = yield Call(self._all, _CHECKPOINTS, (thread, namespace))
            writes = yield Call(self._all, _WRITES, (thread, namespace))
        return _sqlite_claims(thread, namespace, checkpoints, writes)

    def collect(self, method: Callable[..., Any], config: Any, **options: Any) -> Sequence[CheckpointTuple]:
        return list(method(config, **options))


class AsyncSqliteScan(SqliteScan):
    """AsyncSqliteSaver: the same tables over aiosqlite."""

    async def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:  # type: ignore[override]
        await self._saver.setup()
        async with self._saver.lock, self._saver.conn.execute(sql, values) as cursor:
            return list(await cursor.fetchall())

    async def change(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        await self._saver.setup()
        async with self._saver.lock:
            for sql, values in statements:
                await self._saver.conn.execute(sql, values)
            await self._saver.conn.commit()

    async def abandon(self) -> None:
        async with self._saver.lock:
            with suppress(sqlite3.Error, ValueError):  # ValueError: the connection is closed
                if self._saver.conn.in_transaction:
                    await self._saver.conn.rollback()

    async def collect(  # type: ignore[override]
        self, method: Callable[..., Any], config: Any, **options: Any
    ) -> Sequence[CheckpointTuple]:
        return [found async for found in method(config, **options)]


@functools.cache
def _layout() -> Layout:
    """What the installed SqliteSaver makes, and what it makes of a database from before ``task_path``."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    def fresh(conn: sqlite3.Connection) -> None:
        SqliteSaver(conn).setup()

    def older(conn: sqlite3.Connection) -> None:
        fresh(conn)
        (text,) = conn.execute("SELECT sql FROM sqlite_master WHERE name = 'writes'").fetchone()
        conn.execute("DROP TABLE writes")
        conn.execute(re.sub(r"\s*task_path[^,]*,", "", text))
        SqliteSaver(conn).setup()

    return layout((fresh, older), TABLES)


def _sqlite_claims(
    thread: str, namespace: str, checkpoints: Sequence[Any], writes: Sequence[Any]
) -> Iterator[Claim]:
    where, claim_of = rows.name(thread, namespace, "")[len("checkpoint ") :], rows.text_claim
    for key, parent, kind, metadata in checkpoints:
        yield claim_of(str(key), parent, kind, metadata, f"checkpoint {key}{where}")
    for key, task, path, index, channel, kind in writes:
        record = f"pending write {channel!r} of {rows.name(thread, namespace, str(key))}"
        claim, order = rows.write_claim(str(key), task, channel, kind, record)
        if claim.flaw is None and order != (path, task, index):
            claim = claim._replace(flaw=rows.misplaced(record))
        yield claim


class GeneralScan:
    """Any other saver: its own list, with a serializer that decodes nothing. Reads every blob."""

    hinted = False

    def __init__(self, is_async: bool) -> None:
        self._async = is_async

    def bind(self, raw: Any) -> None:
        self._saver = raw

    def hint(self, thread: str | None = None) -> Operation[object]:
        return None
        yield  # makes this an operation like its siblings

    def clear(self, context: Context) -> Any:
        thread, _ = rows.thread_of(context.id)
        return self._saver.adelete_thread(thread) if self._async else self._saver.delete_thread(thread)

    def abandon(self) -> Any:
        """Such a saver's transactions are its own."""

    def _listed(self, config: Any) -> Operation[Sequence[CheckpointTuple]]:
        method = self._saver.alist if self._async else self._saver.list
        with reading(config["configurable"]["thread_id"] if config else "(all)", ""):
            found: Sequence[CheckpointTuple] = yield Call(self.collect, method, config)
        return found

    def contexts(self, thread: str | None) -> Operation[Sequence[str]]:
        config = {"configurable": {"thread_id": thread}} if thread is not None else None
        found = yield from self._listed(config)
        return list(dict.fromkeys(rows.context_of(*_place(item.config)) for item in found))

    def rows(self, context: Context) -> Operation[Iterable[Claim]]:
        thread, namespace = rows.thread_of(context.id)
        found = yield from self._listed({"configurable": {"thread_id": thread, "checkpoint_ns": namespace}})
        return self._claims(found, thread, namespace)

    def _claims(self, found: Sequence[CheckpointTuple], thread: str, namespace: str) -> Iterator[Claim]:
        for item in found:
            try:
                yield from rows.tuple_claims(item, thread, namespace, self.layout)
            except IntegrityError as error:
                key = str(item.config["configurable"].get("checkpoint_id"))
                yield rows.checkpoint_claim(key, None, "", None, error.record or "")._replace(flaw=error)

    layout = "split"

    def collect(self, method: Callable[..., Any], config: Any, **options: Any) -> Any:
        return _acollect(method, config, options) if self._async else list(method(config, **options))


async def _acollect(
    method: Callable[..., Any], config: Any, options: dict[str, Any]
) -> Sequence[CheckpointTuple]:
    return [found async for found in method(config, **options)]


def _place(config: Any) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), config["configurable"].get("checkpoint_ns", "") or ""
