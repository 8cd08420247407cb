"""``SQLAlchemyChatStore`` on SQLite as the command line opens it: by URI, every key of the table."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from memguard.integrations.sqlite_file import FULL, copied, database, replaced

#: The table that LlamaIndex's Memory makes.
TABLE = "llama_index_memory"


def _parts(uri: str) -> tuple[Path, str]:
    """File and table behind ``sqlite:PATH`` or ``sqlite:PATH#TABLE``."""
    file, _, table = uri.partition("#")
    return database(file), table or TABLE


class SqliteChats:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "llamaindex-sqlite"

    def canary(self, token: str) -> Canary:
        """See the protocol."""
        return Canary(token)

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is LlamaIndex's own SQL chat store, on SQLite."""
        known = any(
            cls.__name__ == "SQLAlchemyChatStore" and cls.__module__.startswith("llama_index.")
            for cls in type(inner).__mro__
        )
        return known and bool(getattr(inner, "_is_sqlite_database", bool)())

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """A store over the database that ``uri`` names.

        Raises:
            ConfigError: MG151.
        """
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        path, table = _parts(uri)
        store = SQLAlchemyChatStore(table, async_database_uri=f"sqlite+aiosqlite:///{path}")
        try:
            yield store
        finally:
            if store._async_engine is not None:
                _closed(store._async_engine)

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The same inside a running loop."""
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        path, table = _parts(uri)
        store = SQLAlchemyChatStore(table, async_database_uri=f"sqlite+aiosqlite:///{path}")
        try:
            yield store
        finally:
            if store._async_engine is not None:
                await store._async_engine.dispose()

    def path(self, inner: Any) -> Path | None:
        """The database file; None in memory."""
        from sqlalchemy.engine import make_url

        engine = inner._async_engine
        url = make_url(inner.async_database_uri) if engine is None else engine.url
        return Path(url.database) if url.database and url.database != ":memory:" else None

    def durable(self, inner: Any) -> bool | None:
        """Whether SQLite's default, which the store leaves as it is, commits with synchronous=FULL."""
        path = self.path(inner)
        if path is None:
            return None
        with closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0]) >= FULL

    def swept(self, inner: Any) -> bool | None:
        """Nothing expires."""
        return None

    def texts(self, guarded: Any) -> Iterator[str]:
        """What the messages of the database say, text by text."""
        from memguard.integrations.llamaindex.messages import words

        operations = guarded._ops
        for key in guarded._run(operations.collection.names()):
            for entry in guarded._run(operations.entries(key)):
                yield words(entry.value.data, 10_000)

    def copy(self, path: Path, folder: Path) -> str:
        """A consistent copy of the database; its URI."""
        return copied(path, folder)


def _closed(engine: Any) -> None:
    """Let go of an engine's connections from synchronous code."""
    from memguard.collection.faces import blocking
    from memguard.effects import Call

    def work() -> Any:
        yield Call(engine.dispose)

    blocking(work())


class Canary:
    """One message of a key of its own."""

    def __init__(self, token: str) -> None:
        self._key = token

    def write(self, guarded: Any, text: str) -> None:
        """Add a message that says ``text``."""
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.storage.chat_store.base_db import MessageStatus

        message = ChatMessage(role="user", content=text)
        guarded._run(guarded._ops.add(self._key, [message], MessageStatus.ACTIVE))

    def read(self, guarded: Any) -> str | None:
        """What it says."""
        return self._text(guarded._run(guarded._ops.get(self._key, None)))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the store's own method."""
        return self._text(await guarded.get_messages(self._key))

    @staticmethod
    def _text(messages: Any) -> str | None:
        return str(messages[-1].content) if messages else None

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the stored JSON; whether a row changed."""
        path, table = _parts(uri)
        return replaced(path, table, "data", ("key", self._key), old, new)


SQLITE = SqliteChats()
