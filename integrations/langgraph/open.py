"""The SQLite kinds of LangGraph as the command line opens them: by URI, with what ``memguard doctor`` needs.

Opening a store for an audit is not the application's way of opening it: there is no event loop, no TTL sweeper,
and a database that does not exist is an error and never made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from memguard.integrations.sqlite_file import FULL, copied, database

_CANARY_NAMESPACE = ("memguard-doctor",)


class SqliteKind:
    """One kind: how to open it, copy it, and put a canary through it.

    Args:
        name: the ``kind`` of ``[stores.NAME]``.
        types: names of the types it stands for.
        open_: a connection to an opened bare object.
        canary: writes, reads and edits one record.
        autocommit: whether the bare object wants a connection in autocommit mode.
        aopen: an asynchronous context manager over a path, for kinds with an asynchronous type.
    """

    def __init__(
        self,
        name: str,
        types: tuple[str, ...],
        open_: Callable[[sqlite3.Connection], Any],
        canary: type[SaverCanary] | type[StoreCanary],
        *,
        autocommit: bool = False,
        aopen: Callable[[Path], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self.name, self.types, self.canary = name, types, canary
        self._open, self._autocommit, self._aopen = open_, autocommit, aopen

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` (a bare object) is of this kind."""
        return any(cls.__name__ in self.types for cls in type(inner).__mro__)

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """The bare object over the database that ``uri`` names.

        Raises:
            ConfigError: MG151.
        """
        path = database(uri)
        options: dict[str, Any] = {"isolation_level": None} if self._autocommit else {}
        with closing(sqlite3.connect(path, check_same_thread=False, **options)) as connection:
            yield self._open(connection)

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The object inside a running loop: of the asynchronous type where there is one.

        Raises:
            ConfigError: MG151.
        """
        if self._aopen is None:
            with self.open(uri) as inner:
                yield inner
            return
        async with self._aopen(database(uri)) as inner:
            yield inner

    def path(self, inner: Any) -> Path | None:
        """The database file of an open bare object; None if it is in memory or belongs to an event loop."""
        connection = getattr(inner, "conn", None)
        if not isinstance(connection, sqlite3.Connection):
            return None
        row = connection.execute("PRAGMA database_list").fetchone()
        return Path(row[2]) if row and row[2] else None

    def durable(self, inner: Any) -> bool | None:
        """Whether its connection commits with synchronous=FULL; None if that cannot be asked."""
        connection = getattr(inner, "conn", None)
        if not isinstance(connection, sqlite3.Connection):
            return None
        return int(connection.execute("PRAGMA synchronous").fetchone()[0]) >= FULL

    def swept(self, inner: Any) -> bool | None:
        """Whether expired rows are swept: None without a TTL, else whether the sweeper runs."""
        if not getattr(inner, "ttl_config", None):
            return None
        thread = getattr(inner, "_ttl_sweeper_thread", None)
        return bool(thread is not None and thread.is_alive())

    def texts(self, guarded: Any) -> Iterator[str]:
        """What a guarded object serves, text by text; optional for a kind."""
        from memguard.integrations.langgraph.texts import texts_of

        return texts_of(guarded)

    def copy(self, path: Path, folder: Path) -> str:
        """A consistent copy of the database in ``folder``, sidecars folded in; its URI."""
        return copied(path, folder)


class SaverCanary:
    """One checkpoint of a thread of its own."""

    def __init__(self, token: str) -> None:
        self._thread = token
        self._config = {"configurable": {"thread_id": token, "checkpoint_ns": ""}}

    def write(self, guarded: Any, text: str) -> None:
        """Put a checkpoint that holds ``text``."""
        from langgraph.checkpoint.base import empty_checkpoint

        checkpoint = {
            **empty_checkpoint(),
            "channel_values": {"canary": text},
            "channel_versions": {"canary": "1"},
        }
        guarded.put(self._config, checkpoint, {"source": "input", "step": -1, "parents": {}}, {"canary": "1"})

    def read(self, guarded: Any) -> str | None:
        """The text of the thread's head."""
        return self._text(guarded.get_tuple(self._config))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the asynchronous twin."""
        return self._text(await guarded.aget_tuple(self._config))

    @staticmethod
    def _text(found: Any) -> str | None:
        return None if found is None else str(found.checkpoint["channel_values"]["canary"])

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` (of the same length) in the stored bytes; whether a row changed."""
        with closing(sqlite3.connect(database(uri))) as connection, connection:
            row = connection.execute(
                "SELECT checkpoint FROM checkpoints WHERE thread_id = ?", (self._thread,)
            ).fetchone()
            if row is None or old.encode() not in row[0]:
                return False
            edited = bytes(row[0]).replace(old.encode(), new.encode())
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = ?", (edited, self._thread)
            )
            return True


class StoreCanary:
    """One item of a namespace of its own."""

    def __init__(self, token: str) -> None:
        self._namespace, self._key = (*_CANARY_NAMESPACE, token), "canary"

    def write(self, guarded: Any, text: str) -> None:
        """Put an item that holds ``text``."""
        guarded.put(self._namespace, self._key, {"text": text}, index=False)

    def read(self, guarded: Any) -> str | None:
        """The item's text."""
        return self._text(guarded.get(self._namespace, self._key))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the asynchronous twin."""
        return self._text(await guarded.aget(self._namespace, self._key))

    @staticmethod
    def _text(found: Any) -> str | None:
        return None if found is None else str(found.value["text"])

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the stored JSON; whether a row changed."""
        with closing(sqlite3.connect(database(uri))) as connection, connection:
            done = connection.execute(
                "UPDATE store SET value = replace(value, ?, ?) WHERE prefix = ? AND instr(value, ?) > 0",
                (old, new, ".".join(self._namespace), old),
            )
            return done.rowcount == 1


def _saver(connection: sqlite3.Connection) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(connection)


def _store(connection: sqlite3.Connection) -> Any:
    from langgraph.store.sqlite import SqliteStore

    return SqliteStore(connection)


@asynccontextmanager
async def _async_saver(path: Path) -> AsyncIterator[Any]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        yield saver


@asynccontextmanager
async def _async_store(path: Path) -> AsyncIterator[Any]:
    from langgraph.store.sqlite.aio import AsyncSqliteStore

    async with AsyncSqliteStore.from_conn_string(str(path)) as store:
        yield store


# The asynchronous types write the same tables, so an audit opens their databases synchronously.
SQLITE_SAVER = SqliteKind("langgraph-sqlite-saver", ("SqliteSaver",), _saver, SaverCanary)
ASYNC_SQLITE_SAVER = SqliteKind(
    "langgraph-async-sqlite-saver", ("AsyncSqliteSaver",), _saver, SaverCanary, aopen=_async_saver
)
SQLITE_STORE = SqliteKind("langgraph-sqlite-store", ("SqliteStore",), _store, StoreCanary, autocommit=True)
ASYNC_SQLITE_STORE = SqliteKind(
    "langgraph-async-sqlite-store",
    ("AsyncSqliteStore",),
    _store,
    StoreCanary,
    autocommit=True,
    aopen=_async_store,
)
