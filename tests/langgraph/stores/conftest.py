"""Scenes for tests of guarded stores: home, key, anchor and database in one folder; bare and guarded side by side."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from memguard import MemGuard
from memguard.bench.suts import vectors

INDEX: dict[str, Any] = {"dims": vectors.DIMS, "embed": vectors.embed}
QUIET = {"write": dict.fromkeys(("provenance", "scope", "sanitizer", "anomaly"), "off")}


class Scene:
    """One home with its anchor, key and database under ``root``."""

    def __init__(self, root: Path, config: dict[str, Any] | None = None) -> None:
        self.root, self._config = root, QUIET if config is None else config
        self.home, self.anchor, self.db = root / "home", root / "anchor", root / "memories.db"
        self._open: list[Any] = []
        self.mg: MemGuard

    def guard(self) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.anchor}", "keys": f"file:{self.root / 'key.json'}"}
        if self.home.exists():
            self.mg = MemGuard.open(self.home, **uris)
        else:
            self.mg = MemGuard.create(self.home, config=self._config, **uris)
        self._open.append(self.mg)
        return self.mg

    def bare(self, *, index: Any = None, ttl: Any = None) -> SqliteStore:
        """The store without a guard, on a connection of its own."""
        connection = vectors.connect(str(self.db))
        self._open.append(connection)
        made = SqliteStore(connection, index=index, ttl=ttl)
        made.setup()
        return made

    def store(self, *, index: Any = None, ttl: Any = None, **overrides: Any) -> Any:
        """The guarded store of a newly opened home, as after a restart."""
        return self.guard().guard(self.bare(index=index, ttl=ttl), name="memories", **overrides)

    @asynccontextmanager
    async def abare(self, *, index: Any = None, ttl: Any = None) -> AsyncIterator[AsyncSqliteStore]:
        """The asynchronous store without a guard."""
        factory = sqlite3.Connection if vectors.NATIVE else vectors._PortableConnection
        async with aiosqlite.connect(str(self.db), isolation_level=None, factory=factory) as connection:
            made = AsyncSqliteStore(connection, index=index, ttl=ttl)
            await made.setup()
            yield made

    @asynccontextmanager
    async def astore(self, *, index: Any = None, ttl: Any = None, **overrides: Any) -> AsyncIterator[Any]:
        """The guarded asynchronous store of a newly opened home."""
        async with self.abare(index=index, ttl=ttl) as inner:
            yield self.guard().guard(inner, name="memories", **overrides)

    def memory(self, *, index: Any = None) -> Any:
        """A guarded store in memory."""
        return self.guard().guard(InMemoryStore(index=index), name="memories")

    def close(self) -> None:
        """Close everything that was opened, in reverse."""
        while self._open:
            self._open.pop().close()

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard. An edit that changes no row fails the test."""
        connection = sqlite3.connect(self.db)
        try:
            with connection:
                cursor = connection.execute(statement, values)
                found = cursor.fetchall()
                assert cursor.rowcount != 0, f"the edit landed nowhere: {statement}"
        finally:
            connection.close()
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def screened(tmp_path: Path) -> Iterator[Scene]:
    """With the content guards of the preset on."""
    made = Scene(tmp_path, config={})
    yield made
    made.close()


@pytest.fixture
def new_scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """Further scenes, each in a folder of its own."""
    made: list[Scene] = []

    def make(config: dict[str, Any] | None = None) -> Scene:
        folder = tmp_path / f"scene-{len(made)}"
        folder.mkdir()
        made.append(Scene(folder, config))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def index() -> dict[str, Any]:
    """An index over whole values, as by default."""
    return dict(INDEX)
