"""A working directory, a user's home and an environment of their own for every command that is run."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memguard.cli.app import cli


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; no configuration of this machine is seen."""
    for name in ("MEMGUARD_CONFIG", "MEMGUARD_STATE", "MEMGUARD_MODE", "MEMGUARD_ANCHOR", "MEMGUARD_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MEMGUARD_KEY_FILE", "MEMGUARD_LOG", "MEMGUARD_PASSPHRASE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    work, user = tmp_path / "work", tmp_path / "user"
    work.mkdir()
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user / ".config"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(work)
    return work


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run the command line in this process; ``.exit_code``, ``.stdout`` and ``.stderr`` come back."""

    def invoke(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(cli, list(args), input=input)

    return invoke


@pytest.fixture
def data() -> Callable[[Result], dict[str, Any]]:
    """The JSON document that a command printed."""

    def parse(result: Result) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return parse


@pytest.fixture
def process(place: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a process of its own, in the working directory."""

    def start(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from memguard.cli import main; main()", *args],
            cwd=place,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


PROGRAM = """
import sqlite3
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from memguard import guard


class State(TypedDict):
    limit: int


def build(saver):
    builder = StateGraph(State)
    builder.add_node("raise_limit", lambda state: {"limit": state["limit"] + 1})
    builder.add_edge(START, "raise_limit")
    builder.add_edge("raise_limit", END)
    return builder.compile(checkpointer=saver)


bare = SqliteSaver(sqlite3.connect("agent.db", check_same_thread=False))
saver = guard(bare, name="checkpoints")
graph = build(saver)
open_graph = build(bare)
"""
TABLE = """
[stores.checkpoints]
kind = "langgraph-sqlite-saver"
uri = "sqlite:agent.db"
"""


class Project:
    """A folder with a home, a store of two threads, and the program that wrote it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".memguard"
        self.anchor = folder / "elsewhere" / "anchor"
        self.database = folder / "agent.db"
        self.key = folder.parent / "user" / "key.json"

    def run_program(self) -> None:
        """Two turns of the program's graph on two threads, as a process that opens, writes and ends."""
        from langgraph.checkpoint.sqlite import SqliteSaver

        from memguard import MemGuard

        space: dict[str, Any] = {"__name__": "app"}
        exec(PROGRAM.partition("bare = ")[0], space)
        with (
            closing(sqlite3.connect(self.database, check_same_thread=False)) as connection,
            MemGuard.open(self.home) as mg,
        ):
            graph = space["build"](mg.guard(SqliteSaver(connection), name="checkpoints"))
            for thread in ("t-1", "t-2"):
                graph.invoke({"limit": 1}, {"configurable": {"thread_id": thread}})
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def edit(self, sql: str, *values: object) -> int:
        """Change the store behind the guard's back; rows changed."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(sql, values).rowcount

    def newest(self, thread: str = "t-2") -> str:
        """Id of a thread's newest checkpoint."""
        with closing(sqlite3.connect(self.database)) as connection:
            sql = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
            return str(connection.execute(sql, (thread,)).fetchone()[0])

    def state(self) -> dict[str, bytes]:
        """Every file of the project, to see that nothing changed.

        Left out: SQLite's sidecars, locks, and the ledger, which takes over finished operations when it can.
        """
        skip = ("-wal", "-shm", ".lock", ".pyc", "state.db")
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.name.endswith(skip)
        }


@pytest.fixture
def project(place: Path, run: Run) -> Iterator[Project]:
    """A home made by ``init``, a configured store, and two threads written by a real program."""
    made = Project(place)
    keys, anchor = f"file:{made.key}", f"file:{made.anchor}"
    done = run("init", "--keys", keys, "--anchor", anchor)
    assert done.exit_code == 0, done.stderr
    (place / "app.py").write_text(PROGRAM)
    with (made.home / "memguard.toml").open("a") as file:
        file.write(TABLE)
    assert run("config", "seal", "--apply").exit_code == 0
    made.run_program()
    yield made
    # The program's module, its default MemGuard and the path to it belong to this test alone.
    import memguard.default

    sys.modules.pop("app", None)
    if memguard.default._default is not None:
        memguard.default._default.close()
        memguard.default._default = None
    if str(place) in sys.path:
        sys.path.remove(str(place))
