"""Reading the rows of PostgresSaver and AsyncPostgresSaver undecoded, over their own connection, pool or pipeline."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from langgraph.checkpoint.base import CheckpointTuple

from memguard.effects import Block, Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph import postgres_rows, rows
from memguard.integrations.langgraph.postgres_schema import Schema
from memguard.integrations.langgraph.scan import reading
from memguard.integrity.verifier import Claim, Context

_PLACE = "thread_id = %s AND checkpoint_ns = %s"
_CHECKPOINTS = f"SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints WHERE {_PLACE}"  # noqa: S608
_WRITES = (
    "SELECT checkpoint_id, task_id, task_path, idx, channel, type "  # noqa: S608 - constant text
    f"FROM checkpoint_writes WHERE {_PLACE}"
)
_CONTEXTS = (
    "SELECT thread_id, checkpoint_ns FROM checkpoints {0} "
    "UNION SELECT thread_id, checkpoint_ns FROM checkpoint_writes {0}"
)
#: A row that is put in, changed or taken out is another set of (transaction, place in the table): a sum over a hash
#: of them that nobody else can compute. Rows are not read, only their headers.
_HINT = (
    "SELECT count(*), coalesce(sum(hashtextextended(t.xmin::text || t.ctid::text, %s)), 0)::text "
    "FROM {} AS t {}"
)
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
#: The transactions that are visible, and when the server was started: after a restore, equal numbers say nothing.
_MOMENT = "SELECT pg_current_snapshot()::text AS shown, extract(epoch FROM pg_postmaster_start_time())::text AS started"
_COLUMNS = {
    "checkpoints": {
        "thread_id": "text",
        "checkpoint_ns": "text",
        "checkpoint_id": "text",
        "parent_checkpoint_id": "text",
        "type": "text",
        "checkpoint": "jsonb",
        "metadata": "jsonb",
    },
    "checkpoint_blobs": {
        "thread_id": "text",
        "checkpoint_ns": "text",
        "channel": "text",
        "version": "text",
        "type": "text",
        "blob": "bytea",
    },
    "checkpoint_writes": {
        "thread_id": "text",
        "checkpoint_ns": "text",
        "checkpoint_id": "text",
        "task_id": "text",
        "task_path": "text",
        "idx": "int4",
        "channel": "text",
        "type": "text",
        "blob": "bytea",
    },
}
_LOCK = f"LOCK TABLE {', '.join(TABLES)} IN SHARE MODE"
#: Seconds in which the server begins what it was sent, and that a transaction under way is waited for.
_GRACE, _PATIENCE = 0.05, 20
Statement = tuple[str, tuple[Any, ...]]


class PostgresScan:
    """PostgresSaver: its tables, through its own cursor, which holds its lock and knows pools and pipelines."""

    hinted = True

    def __init__(self) -> None:
        self._seed = secrets.randbits(62)
        self._last: tuple[object, object] = (None, None)

    def bind(self, raw: Any) -> None:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`."""
        self._saver = raw
        self._schema = Schema(_COLUMNS)

    def _all(self, sql: str, values: Any = ()) -> Any:
        with self._saver._cursor() as cursor:
            cursor.execute(sql, values)
            return [tuple(row.values()) for row in cursor.fetchall()]

    def change(self, statements: Sequence[Statement]) -> Any:
        """Run statements in one transaction (for care; a guarded saver's own writes go through the saver)."""
        with self._saver._cursor() as cursor:
            if self._saver.pipe:
                self._saver.pipe.sync()  # what ran before is not part of it
            with cursor.connection.transaction():
                for sql, values in statements:
                    cursor.execute(sql, values)

    def clear(self, context: Context) -> Any:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`."""
        place = rows.thread_of(context.id)
        return self.change([(f"DELETE FROM {table} WHERE {_PLACE}", place) for table in TABLES])  # noqa: S608

    def abandon(self) -> Any:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`: of a pipeline, that it can go on."""
        if self._saver.pipe:
            with suppress(psycopg.Error):
                self._saver.pipe.sync()

    def hint(self, thread: str | None = None) -> Operation[object]:
        """A value that differs after anybody changed rows of the thread (of any thread: None).

        As long as the server shows the same transactions as when it was last asked, nothing was changed at all.
        """
        ((moment, started),) = yield Call(self._all, _MOMENT)
        if self._last[0] == (thread, moment, started):
            return self._last[1]
        where, values = ("", ()) if thread is None else ("WHERE t.thread_id = %s", (thread,))
        sql = " UNION ALL ".join(_HINT.format(table, where) for table in (TABLES[0], TABLES[2]))
        with reading(thread or "(all)", ""):
            try:
                found = yield Call(self._all, sql, (self._seed, *values) * 2)
            except psycopg.errors.UndefinedColumn:  # not a table any more: whatever it is, it is looked at
                yield Call(self.abandon)
                return object()
        answer = (thread, started, *map(tuple, found))
        self._last = ((thread, moment, started), answer)
        return answer

    def sound(self) -> Operation[None]:
        """That nothing stands on the tables that could bend a read or a write. Looks again once anybody wrote.

        Raises:
            TamperedError: case ``schema``.
        """
        (moment,) = yield Call(self._all, _MOMENT)
        if moment != self._schema.seen:
            self._schema.check((yield Call(self._all, self._schema.statement, self._schema.values)))
            self._schema.seen = moment

    def quiet(self) -> Operation[None]:
        """Return once no transaction of a writer that was killed can still be committed.

        Its server process goes on with what it was sent: a row could appear after it was given up. A share lock
        waits for every insertion, change and deletion that is under way, and needs no more rights than those do.

        Raises:
            UnsupportedError: MG502, such a transaction does not end.
        """
        yield Block(time.sleep, _GRACE)
        try:
            yield Call(self.change, [(f"SET LOCAL lock_timeout = '{_PATIENCE}s'", ()), (_LOCK, ())])
        except psycopg.errors.LockNotAvailable:
            raise UnsupportedError(
                "a transaction of another session keeps the checkpoint tables busy.",
                code="MG502",
                why="A writer ended in the middle of an operation, and nothing can be said of its rows while "
                f"transactions on these tables are open; they were waited for {_PATIENCE} seconds.",
                do="End it (pg_stat_activity shows it; pg_terminate_backend), then try again. Nothing was changed.",
            ) from None
        except psycopg.errors.UndefinedTable:
            pass  # before setup there is nothing to wait for

    def contexts(self, thread: str | None) -> Operation[Sequence[str]]:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`."""
        where, values = ("WHERE thread_id = %s", (thread, thread)) if thread is not None else ("", ())
        with reading(thread or "(all)", ""):
            found = yield Call(self._all, _CONTEXTS.format(where), values)
        return [rows.context_of(t, n) for t, n in found]

    def rows(self, context: Context) -> Operation[Iterable[Claim]]:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`."""
        thread, namespace = rows.thread_of(context.id)
        with reading(thread, namespace):
            yield from self.sound()
            checkpoints = yield Call(self._all, _CHECKPOINTS, (thread, namespace))
            writes = yield Call(self._all, _WRITES, (thread, namespace))
        return postgres_rows.scanned(thread, namespace, checkpoints, writes)

    def deletions(self, context: Context, first: str, last: str | None) -> list[Statement]:
        """What deletes the checkpoints from ``first`` on, the writes of ``last``, and the values nobody shows then."""
        place = rows.thread_of(context.id)
        of_context = f'{_PLACE} AND checkpoint_id COLLATE "C"'
        # "After this one" is said with a NUL behind it, which no text of PostgreSQL can hold.
        since, first = (">", first[:-1]) if first.endswith("\x00") else (">=", first)
        found: list[Statement] = [
            (f"DELETE FROM {table} WHERE {of_context} {since} %s", (*place, first))  # noqa: S608 - constant text
            for table in (TABLES[0], TABLES[2])
        ]
        if last is not None:
            found.append((f"DELETE FROM checkpoint_writes WHERE {of_context} = %s", (*place, last)))  # noqa: S608
        return [*found, (_UNSHOWN, place)]

    def collect(self, method: Callable[..., Any], config: Any, **options: Any) -> Any:
        """See :class:`~memguard.integrations.langgraph.scan.Scan`."""
        return list(method(config, **options))


_UNSHOWN = """
DELETE FROM checkpoint_blobs AS b WHERE b.thread_id = %s AND b.checkpoint_ns = %s AND NOT EXISTS (
    SELECT 1 FROM checkpoints AS c WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns
    AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version
)
"""


class AsyncPostgresScan(PostgresScan):
    """AsyncPostgresSaver: the same tables over its asynchronous connection."""

    async def _all(self, sql: str, values: Any = ()) -> Any:
        async with self._saver._cursor() as cursor:
            await cursor.execute(sql, values)
            return [tuple(row.values()) for row in await cursor.fetchall()]

    async def change(self, statements: Sequence[Statement]) -> None:
        """See :class:`PostgresScan`."""
        async with self._saver._cursor() as cursor:
            if self._saver.pipe:
                await self._saver.pipe.sync()
            async with cursor.connection.transaction():
                for sql, values in statements:
                    await cursor.execute(sql, values)

    async def abandon(self) -> None:
        """See :class:`PostgresScan`."""
        if self._saver.pipe:
            with suppress(psycopg.Error):
                await self._saver.pipe.sync()

    async def collect(
        self, method: Callable[..., Any], config: Any, **options: Any
    ) -> Sequence[CheckpointTuple]:
        """See :class:`PostgresScan`."""
        return [found async for found in method(config, **options)]
