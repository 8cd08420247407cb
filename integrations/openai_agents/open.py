"""``SQLiteSession`` databases as the command line opens them: by URI, every session of the file at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from memguard.integrations.sqlite_file import FULL, copied, database, replaced

#: The session that an opened database speaks for; the audit reads all of them.
_OWN = "memguard-doctor"


class SqliteSessions:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "openai-agents-sqlite"

    def canary(self, token: str) -> Canary:
        """See the protocol."""
        return Canary()

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is the SDK's own session on SQLite."""
        return any(
            cls.__name__ == "SQLiteSession" and cls.__module__.startswith("agents.")
            for cls in type(inner).__mro__
        )

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """A session over the database that ``uri`` names.

        Raises:
            ConfigError: MG151.
        """
        from agents.memory.sqlite_session import SQLiteSession

        session = SQLiteSession(_OWN, database(uri))
        try:
            yield session
        finally:
            session.close()

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The same inside a running loop."""
        with self.open(uri) as session:
            yield session

    def path(self, inner: Any) -> Path | None:
        """The database file; None in memory."""
        return None if str(inner.db_path) == ":memory:" else Path(inner.db_path)

    def durable(self, inner: Any) -> bool | None:
        """Whether its connections commit with synchronous=FULL."""
        with inner._locked_connection() as connection:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0]) >= FULL

    def swept(self, inner: Any) -> bool | None:
        """Nothing expires."""
        return None

    def texts(self, guarded: Any) -> Iterator[str]:
        """What the sessions of the database say, text by text."""
        from memguard.integrations.openai_agents.items import words

        operations = guarded._ops
        for context in guarded._run(operations.collection.names()):
            for entry in guarded._run(operations.collection.all(context)):
                yield words(entry.value, 10_000)

    def copy(self, path: Path, folder: Path) -> str:
        """A consistent copy of the database; its URI."""
        return copied(path, folder)


class Canary:
    """One item of a session of its own."""

    def write(self, guarded: Any, text: str) -> None:
        """Add an item that says ``text``."""
        guarded._run(guarded._ops.add([{"role": "user", "content": text}]))

    def read(self, guarded: Any) -> str | None:
        """What the newest item says."""
        return self._text(guarded._run(guarded._ops.get(1)))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the session's own method."""
        return self._text(await guarded.get_items(1))

    @staticmethod
    def _text(items: Any) -> str | None:
        return str(items[-1]["content"]) if items else None

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the stored JSON; whether a row changed."""
        return replaced(database(uri), "agent_messages", "message_data", ("session_id", _OWN), old, new)


SQLITE = SqliteSessions()
