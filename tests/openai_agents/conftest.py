"""Scenes for the session tests: home, key, anchor and database in one folder, opened and closed as a user would.

No part is replaced by a mock: databases are files, edits are SQL over a connection of their own.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import EncryptedSession, SQLAlchemySession
from agents.extensions.memory.async_sqlite_session import AsyncSQLiteSession
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memguard import MemGuard

KEY = "a test key of enough bytes, for nothing else"


class ListSession:
    """A session of somebody's own: the protocol and nothing else, kept in a dictionary."""

    session_settings = None

    def __init__(self, session_id: str, kept: dict[str, list[Any]]) -> None:
        self.session_id, self.kept = session_id, kept

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items = [dict(item) for item in self.kept.get(self.session_id, [])]
        if limit is None:
            return items
        return items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[Any]) -> None:
        self.kept.setdefault(self.session_id, []).extend(dict(item) for item in items)

    async def pop_item(self) -> Any:
        held = self.kept.get(self.session_id)
        return held.pop() if held else None

    async def clear_session(self) -> None:
        self.kept.pop(self.session_id, None)


FLAVOURS = ("sqlite", "sqlalchemy", "async-sqlite", "encrypted", "encrypted-sqlalchemy", "custom")


class Scene:
    """One home with its anchor, key and database under ``root``."""

    def __init__(self, root: Path, config: dict[str, Any] | None = None) -> None:
        self.root, self._config = root, config
        self.home, self.db = root / "home", root / "agent.db"
        self.kept: dict[str, list[Any]] = {}
        self._open: list[Any] = []

    def guard(self) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.root / 'anchor'}", "keys": f"file:{self.root / 'key.json'}"}
        if self.home.exists():
            made = MemGuard.open(self.home, **uris)
        else:
            made = MemGuard.create(self.home, config=self._config, **uris)
        self._open.append(made)
        return made

    def bare(self, flavour: str, name: str = "alice", key: str = KEY, ttl: int = 3600) -> Any:
        """A session without a guard."""
        if flavour == "sqlite":
            return self._kept(SQLiteSession(name, self.db))
        if flavour == "sqlalchemy":
            engine = create_async_engine(f"sqlite+aiosqlite:///{self.db}", poolclass=NullPool)
            return SQLAlchemySession(name, engine=engine, create_tables=True)
        if flavour == "async-sqlite":
            return self._kept(AsyncSQLiteSession(name, self.db))
        if flavour == "custom":
            return ListSession(name, self.kept)
        under = flavour.removeprefix("encrypted").strip("-") or "sqlite"
        return EncryptedSession(name, self.bare(under, name), key, ttl=ttl)

    def session(self, flavour: str, name: str = "alice", mg: MemGuard | None = None, **more: Any) -> Any:
        """A guarded session of a newly opened home (or of ``mg``)."""
        return (mg or self.guard()).guard(self.bare(flavour, name, **more), name="chat")

    def _kept(self, session: Any) -> Any:
        self._open.append(session)
        return session

    async def aclose(self) -> None:
        """Close everything that was opened, in reverse."""
        while self._open:
            closed = self._open.pop().close()
            if asyncio.iscoroutine(closed):
                await closed

    # -- the adversary's side ----------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard."""
        connection = sqlite3.connect(self.db)
        with connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def take(self) -> None:
        """Copy the database aside, its log folded in."""
        connection = sqlite3.connect(self.db)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.copyfile(self.db, self.root / "older.db")

    def put_back(self) -> None:
        """Restore that copy."""
        for name in ("agent.db-wal", "agent.db-shm"):
            (self.root / name).unlink(missing_ok=True)
        shutil.copyfile(self.root / "older.db", self.db)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    asyncio.run(made.aclose())


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


@pytest.fixture
def say() -> Any:
    return said
