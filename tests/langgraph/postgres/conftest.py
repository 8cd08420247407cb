"""Scenes over PostgreSQL: the scene of the SQLite tests with a database of its own on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from memguard import MemGuard

WAYS = ("connection", "pipeline", "pool")
_OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class PgScene:
    """One home with its anchor, key and PostgreSQL database."""

    def __init__(self, root: Path, uri: str, preset: str = "balanced") -> None:
        self.root, self.uri, self._preset = root, uri, preset
        self.home, self.anchor, self.key = root / "home", root / "anchor", root / "key.json"
        self._open = ExitStack()

    def guard(self, **overrides: Any) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.anchor}", "keys": f"file:{self.key}"}
        if self.home.exists():
            made = MemGuard.open(self.home, **uris, config=overrides or None)
        else:
            made = MemGuard.create(self.home, preset=self._preset, config=overrides or None, **uris)
        self._open.callback(made.close)
        return made

    def bare(self, serde: Any = None, way: str = "connection") -> PostgresSaver:
        """The saver without a guard, on a connection, pipeline or pool of its own."""
        if way == "pool":
            pool = self._open.enter_context(
                ConnectionPool(self.uri, kwargs=_OPTIONS, min_size=1, max_size=3, open=True)
            )
            saver = PostgresSaver(pool, serde=serde)  # type: ignore[arg-type]
        else:
            conn = psycopg.connect(self.uri, **_OPTIONS)
            self._open.callback(_closed, conn)
            pipe = self._open.enter_context(conn.pipeline()) if way == "pipeline" else None
            saver = PostgresSaver(conn, pipe, serde=serde)
        self.set_up()
        return saver

    def saver(self, serde: Any = None, way: str = "connection", **overrides: Any) -> Any:
        """The guarded saver of a newly opened home."""
        return self.guard().guard(self.bare(serde, way), name="checkpoints", **overrides)

    @asynccontextmanager
    async def abare(self, serde: Any = None, way: str = "connection") -> AsyncIterator[AsyncPostgresSaver]:
        """The asynchronous saver without a guard."""
        self.set_up()
        if way == "pool":
            async with AsyncConnectionPool(self.uri, kwargs=_OPTIONS, min_size=1, max_size=3) as pool:
                saver = AsyncPostgresSaver(pool, serde=serde)  # type: ignore[arg-type]
                yield saver
        else:
            pipeline = way == "pipeline"
            made = AsyncPostgresSaver.from_conn_string(self.uri, pipeline=pipeline, serde=serde)
            async with made as saver:
                yield saver

    @asynccontextmanager
    async def asaver(
        self, serde: Any = None, way: str = "connection", **overrides: Any
    ) -> AsyncIterator[Any]:
        """The guarded AsyncPostgresSaver of a newly opened home."""
        async with self.abare(serde, way) as inner:
            yield self.guard().guard(inner, name="checkpoints", **overrides)

    def close(self) -> None:
        """Close everything that was opened, in reverse."""
        self._open.close()

    def set_up(self) -> None:
        """Make the tables: over a plain connection, because the saver's own setup fails in a pipeline."""
        with PostgresSaver.from_conn_string(self.uri) as saver:
            saver.setup()

    # -- the adversary's side --------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard; tests assert on ``changed``."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            self.changed = cursor.rowcount
            return cursor.fetchall() if cursor.description else []


def _closed(conn: Any) -> None:
    with suppress(psycopg.Error):
        conn.close()


@pytest.fixture
def scene(tmp_path: Path, postgres_uri: str) -> Iterator[PgScene]:
    made = PgScene(tmp_path, postgres_uri)
    yield made
    made.close()


@pytest.fixture
def new_scene(tmp_path: Path, new_database: Callable[[], str]) -> Iterator[Callable[..., PgScene]]:
    """Further scenes, each with a folder and a database of its own."""
    made: list[PgScene] = []

    def make(**options: Any) -> PgScene:
        folder = tmp_path / f"scene-{len(made)}"
        folder.mkdir()
        made.append(PgScene(folder, new_database(), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
