"""What every test shares: Hypothesis without wall-clock deadlines, and the package as a user gets it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from memguard.bench.suts.postgres_server import PostgresServer

ROOT = Path(__file__).resolve().parent.parent

# A deadline would measure the machine. On a CI the examples are the same each time, to repeat a red run.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the freshly built wheel unpacked (.ci/unpack.py fails if the wheel is not the tree).

    Tests that ask for it carry the mark `xdist_group("wheel")`, so that one worker builds it once.
    """
    spec = importlib.util.spec_from_file_location("unpack", ROOT / ".ci" / "unpack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("wheel") / "unpacked"
    module.unpack(folder)
    return folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL with pgvector, one per test process, started by the first test that asks for it.

    Tests that stop or kill a server make one of their own: ``with PostgresServer(durable=True) as server``.
    """
    from memguard.bench.suts.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def new_database(postgres_server: PostgresServer) -> Iterator[Callable[[], str]]:
    """Makes empty databases; answers with their URIs. They are dropped, and their sessions ended, after the test."""
    made: list[str] = []

    def make() -> str:
        made.append(postgres_server.database())
        return made[-1]

    yield make
    for uri in made:
        postgres_server.drop(uri.rpartition("/")[2])


@pytest.fixture
def postgres_uri(new_database: Callable[[], str]) -> str:
    """The URI of an empty database of this test's own."""
    return new_database()
