"""Scenes for the LangGraph tests: home, key, anchor and database in one folder, opened and closed as a user would.

No test here replaces a part by a mock: databases are files, edits are SQL through a connection of their own.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from memguard import MemGuard


class CountingSerde(JsonPlusSerializer):
    """LangGraph's own serializer, counting what goes through it; ``decoded`` keeps the bytes it was asked to read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.made = 0
        self.decoded: list[bytes] = []

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.made += 1
        return super().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.decoded.append(data[1])
        return super().loads_typed(data)


class Scene:
    """One home with its anchor, key and database under ``root``."""

    def __init__(self, root: Path, preset: str = "balanced", config: dict[str, Any] | None = None) -> None:
        self.root, self._preset, self._config = root, preset, config
        self.home, self.anchor, self.key = root / "home", root / "anchor", root / "key.json"
        self.db = root / "agent.db"
        self._open: list[Any] = []

    # -- opening ---------------------------------------------------------------------------------

    def guard(self, **overrides: Any) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.anchor}", "keys": f"file:{self.key}"}
        if self.home.exists():
            made = MemGuard.open(self.home, **uris, config=overrides or None)
        else:
            made = MemGuard.create(self.home, preset=self._preset, config=self._config, **uris)
        self._open.append(made)
        return made

    def bare(self, serde: Any = None, timeout: float = 5.0) -> SqliteSaver:
        """The saver without a guard, on a connection of its own."""
        connection = sqlite3.connect(self.db, check_same_thread=False, timeout=timeout)
        self._open.append(connection)
        return SqliteSaver(connection, serde=serde)

    def saver(self, serde: Any = None, **overrides: Any) -> Any:
        """The guarded saver of a newly opened home."""
        return self.guard().guard(self.bare(serde), name="checkpoints", **overrides)

    @asynccontextmanager
    async def asaver(self, serde: Any = None, **overrides: Any) -> AsyncIterator[Any]:
        """The guarded AsyncSqliteSaver of a newly opened home."""
        async with AsyncSqliteSaver.from_conn_string(str(self.db)) as inner:
            if serde is not None:
                inner.serde = serde
            yield self.guard().guard(inner, name="checkpoints", **overrides)

    def close(self) -> None:
        """Close everything that was opened, in reverse."""
        while self._open:
            self._open.pop().close()

    # -- the adversary's side ----------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard; -1 rows changed is not noticed, so tests assert on it."""
        with sqlite3.connect(self.db) as connection:
            cursor = connection.execute(statement, values)
            found = cursor.fetchall()
            self.changed = cursor.rowcount
        connection.close()
        return found

    def fold(self) -> None:
        """Fold the write-ahead log into the database file, so that copying one file copies all."""
        connection = sqlite3.connect(self.db)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    def copy(self, root: Path) -> Scene:
        """The closed scene in another folder."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        twin = Scene(root, self._preset, self._config)
        return twin


class Maker:
    """Checkpoints with ids in order and a value that tests recognise."""

    def __init__(self) -> None:
        self._clock = 0

    def checkpoint(self, value: Any = None, **fields: Any) -> Any:
        self._clock += 1
        made = empty_checkpoint()
        made["id"] = str(uuid6(clock_seq=self._clock % 16384))
        made["channel_values"] = {"x": value}
        made["channel_versions"] = {"x": str(self._clock)}
        made.update(fields)  # type: ignore[typeddict-item]
        return made

    def put(self, saver: Any, config: Any, value: Any, **metadata: Any) -> Any:
        made = self.checkpoint(value)
        full = {"source": "loop", "step": self._clock, "parents": {}, **metadata}
        return saver.put(config, made, full, {"x": made["channel_versions"]["x"]})

    def fill(self, saver: Any) -> dict[str, Any]:
        """Two threads and a subgraph's namespace, with pending writes of both kinds; their configs."""
        last: dict[str, Any] = {}
        for thread, namespace, length in (("alice", "", 3), ("alice", "sub:1", 2), ("bob", "", 2)):
            config = place(thread, namespace)
            for number in range(length):
                config = self.put(saver, config, f"{thread}/{namespace}/{number} limit=100", user=thread)
                saver.put_writes(config, [("x", f"w{number}"), ("y", {"n": number})], "task-1", "~a")
                saver.put_writes(config, [("x", "second")], "task-2", "~b")
                saver.put_writes(config, [("__resume__", [f"yes {number}"])], "task-1", "~a")
            last[f"{thread}|{namespace}"] = config
        return last


def place(thread: str, namespace: str = "", checkpoint: str | None = None) -> Any:
    """A config."""
    configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    if checkpoint:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The classes above, for tests that make their own."""
    return SimpleNamespace(Scene=Scene, Maker=Maker, CountingSerde=CountingSerde)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def new_scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """Further scenes, each in a folder of its own."""
    made: list[Scene] = []

    def make(**options: Any) -> Scene:
        folder = tmp_path / f"scene-{len(made)}"
        folder.mkdir()
        made.append(Scene(folder, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture(name="place")
def place_fixture() -> Callable[..., Any]:
    return place


@pytest.fixture
def counting() -> type[CountingSerde]:
    return CountingSerde


@pytest.fixture
def mg(scene: Scene) -> MemGuard:
    return scene.guard()


@pytest.fixture
def sqlite_saver(scene: Scene) -> SqliteSaver:
    """A bare saver over the scene's database."""
    return scene.bare()


@pytest.fixture
async def async_sqlite_saver(scene: Scene) -> AsyncIterator[AsyncSqliteSaver]:
    """A bare asynchronous saver over the scene's database."""
    async with AsyncSqliteSaver.from_conn_string(str(scene.db)) as saver:
        yield saver


@pytest.fixture
def memory_saver() -> InMemorySaver:
    return InMemorySaver()
