"""Scenes for guarded PostgreSQL stores: home, key and anchor in one folder, a database of its own on a real server."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from memguard import MemGuard
from memguard.bench.suts import vectors

INDEX: dict[str, Any] = {"dims": vectors.DIMS, "embed": vectors.embed}
QUIET = {"write": dict.fromkeys(("provenance", "scope", "sanitizer", "anomaly"), "off")}
#: How the framework may be given its connection.
WAYS: dict[str, dict[str, Any]] = {
    "connection": {},
    "pipeline": {"pipeline": True},
    "pool": {"pool_config": {"min_size": 1, "max_size": 3}},
}


class Scene:
    """One home with its anchor and key under ``root``, and one database."""

    def __init__(self, root: Path, uri: str, config: dict[str, Any] | None = None) -> None:
        self.root, self.uri, self._config = root, uri, QUIET if config is None else config
        self.home, self.anchor = root / "home", root / "anchor"
        self._open = ExitStack()
        self._set_up: set[bool] = set()
        self.mg: MemGuard

    def guard(self) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.anchor}", "keys": f"file:{self.root / 'key.json'}"}
        if self.home.exists():
            self.mg = MemGuard.open(self.home, **uris)
        else:
            self.mg = MemGuard.create(self.home, config=self._config, **uris)
        self._open.callback(self.mg.close)
        return self.mg

    def set_up(self, index: Any = None) -> None:
        """The framework's own tables."""
        if bool(index) not in self._set_up:
            with PostgresStore.from_conn_string(self.uri, index=index) as made:
                made.setup()
            self._set_up.add(bool(index))

    def bare(self, *, way: str = "connection", index: Any = None, ttl: Any = None) -> PostgresStore:
        """The store without a guard, on a connection of its own."""
        self.set_up(index)
        opened = PostgresStore.from_conn_string(self.uri, index=index, ttl=ttl, **WAYS[way])
        return self._open.enter_context(opened)

    def store(self, *, way: str = "connection", index: Any = None, ttl: Any = None, **overrides: Any) -> Any:
        """The guarded store of a newly opened home, as after a restart."""
        return self.guard().guard(self.bare(way=way, index=index, ttl=ttl), name="memories", **overrides)

    @asynccontextmanager
    async def abare(
        self, *, way: str = "connection", index: Any = None, ttl: Any = None
    ) -> AsyncIterator[AsyncPostgresStore]:
        """The asynchronous store without a guard."""
        self.set_up(index)
        options = {"index": index, "ttl": ttl, **WAYS[way]}
        async with AsyncPostgresStore.from_conn_string(self.uri, **options) as made, made:
            yield made

    @asynccontextmanager
    async def astore(
        self, *, way: str = "connection", index: Any = None, ttl: Any = None
    ) -> AsyncIterator[Any]:
        """The guarded asynchronous store of a newly opened home."""
        async with self.abare(way=way, index=index, ttl=ttl) as inner:
            yield self.guard().guard(inner, name="memories")

    def close(self) -> None:
        """Close everything that was opened, in reverse."""
        self._open.close()

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard. An edit that changes no row fails the test."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            assert cursor.rowcount != 0, f"the edit landed nowhere: {statement}"
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def new_scene(tmp_path: Path, new_database: Callable[[], str]) -> Iterator[Callable[..., Scene]]:
    """Scenes, each in a folder and a database of its own."""
    made: list[Scene] = []

    def make(config: dict[str, Any] | None = None) -> Scene:
        folder = tmp_path / f"scene-{len(made)}"
        folder.mkdir()
        made.append(Scene(folder, new_database(), config))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def scene(new_scene: Callable[..., Scene]) -> Scene:
    return new_scene()


@pytest.fixture
def screened(new_scene: Callable[..., Scene]) -> Scene:
    """With the content guards of the preset on."""
    return new_scene({})


@pytest.fixture
def index() -> dict[str, Any]:
    """An index over whole values, as by default."""
    return dict(INDEX)


@pytest.fixture(scope="session")
def equality() -> ModuleType:
    """The steps that every guarded store must answer as its bare one (tests/langgraph/stores)."""
    path = Path(__file__).parents[2] / "stores" / "test_store_equality.py"
    spec = importlib.util.spec_from_file_location("store_equality_steps", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
