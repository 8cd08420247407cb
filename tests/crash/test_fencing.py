"""Two hosts, one store: a writer that is cut off in the middle of an operation, and the one that takes its place."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crash_model as model
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from memguard import MemGuard
from memguard.anchorlog import AnchorLog
from memguard.anchors.postgres import PostgresAnchor
from memguard.care import handled
from memguard.errors import AnchorError, IntegrityError
from memguard.events import ReadRefused, RecoveryRun
from memguard.postgres import Session

if TYPE_CHECKING:
    from memguard.bench.suts.postgres_server import PostgresServer

CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class Interrupted(sqlite3.Connection):
    """Calls ``before`` or ``after`` once, around a commit."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def commit(self) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()
        super().commit()
        after, self.after = self.after, None
        if after is not None:
            after()


@dataclass
class Host:
    """One machine's home and its guarded saver."""

    guard: MemGuard
    saver: Any
    conn: Interrupted
    count: list[int] = field(default_factory=lambda: [0])
    recovered: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guard.events.subscribe(self._heard)

    def _heard(self, event: object) -> None:
        if isinstance(event, RecoveryRun):
            self.recovered.append(event.outcome)
        elif isinstance(event, ReadRefused):
            self.refused.append(event.code)

    def put(self, number: int) -> str:
        """Put the next checkpoint; its id."""
        newest = self.newest()
        key = f"{number:08x}-0000-6000-8000-000000000000"
        op = {
            "op": "put",
            "thread": "t",
            "ns": "",
            "id": key,
            "parent": newest,
            "value": f"v{number}",
            "step": number,
        }
        model.perform(self.saver, op)
        return key

    def newest(self) -> str | None:
        """Id of the newest checkpoint."""
        found = model.look(self.saver.get_tuple(CONFIG))
        return found[0] if found else None

    def forget(self) -> None:
        """Know no context any more, as a process that has just started: the next look is one under the lock."""
        custody = handled(self.saver).custody
        for name in custody.known():
            custody.drop(name)

    def steps(self) -> list[int]:
        """What is served, newest first."""
        return [found.metadata["step"] for found in self.saver.list(CONFIG)]

    def cut(self, server: PostgresServer) -> None:
        """End the session on which this host holds its locks."""
        assert isinstance(self.guard.anchor, PostgresAnchor)
        pid = self.guard.anchor.session.backend
        assert "t" in server.psql(f"SELECT pg_terminate_backend({pid}, 5000)", "postgres")


@pytest.fixture
def hosts(tmp_path: Path, postgres_uri: str) -> Iterator[tuple[Host, Host]]:
    config = {"write": {"sanitizer": "off", "anomaly": "off"}}
    MemGuard.create(
        tmp_path / "a", anchor=postgres_uri, keys=f"file:{tmp_path / 'key'}", config=config
    ).close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    made = []
    for name in "ab":
        conn = sqlite3.connect(
            tmp_path / "store.db", check_same_thread=False, factory=Interrupted, timeout=30
        )
        guard = MemGuard.open(tmp_path / name)
        made.append(Host(guard, guard.guard(SqliteSaver(conn), name="ck"), conn))
    a, b = made
    a.put(1)
    assert b.steps() == [1]
    b.put(2)
    assert a.steps() == [2, 1]
    yield a, b
    for host in made:
        with suppress(AnchorError):  # where a bug that was put in broke the log
            host.guard.close()
        host.conn.close()


def settled(a: Host, b: Host, steps: list[int]) -> None:
    """Both hosts serve the same, go on writing, and find nothing wrong."""
    assert a.steps() == b.steps() == steps
    b.put(90)
    a.put(91)
    assert a.steps() == b.steps() == [91, 90, *steps]
    for host in (a, b):
        report = host.guard.audit(host.saver)
        assert report.clean, report.findings
        assert host.refused == []


def test_cut_off_after_the_commit_the_row_is_adopted_by_who_takes_the_lock(
    hosts: tuple[Host, Host], postgres_server: PostgresServer
) -> None:
    a, b = hosts

    def cut() -> None:
        a.cut(postgres_server)
        b.put(4)

    a.conn.after = cut
    with pytest.raises(AnchorError) as caught:
        a.put(3)
    assert caught.value.code in ("MG521", "MG527")
    assert b.recovered == ["finished"]
    settled(a, b, [4, 3, 2, 1])


def test_cut_off_and_nobody_came_its_own_next_call_finishes_it(
    hosts: tuple[Host, Host], postgres_server: PostgresServer
) -> None:
    a, b = hosts
    a.conn.after = lambda: a.cut(postgres_server)
    with pytest.raises(AnchorError):
        a.put(3)
    assert a.steps() == [3, 2, 1]
    assert a.recovered == ["finished"]
    settled(a, b, [3, 2, 1])


def test_a_commit_that_comes_after_another_took_the_lock_is_undone(
    hosts: tuple[Host, Host], postgres_server: PostgresServer
) -> None:
    """The classic of fencing tokens: the store itself knows no fence, so the late row lands, and is dead."""
    a, b = hosts

    def late() -> None:
        a.cut(postgres_server)
        b.forget()
        assert b.steps() == [2, 1], "settled without it: it was not there yet"

    a.conn.before = late
    with pytest.raises(AnchorError) as caught:
        a.put(3)
    assert caught.value.code in ("MG521", "MG527")
    assert b.recovered == ["undone"]
    assert a.conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0] == 3, (
        "the late row is in the store"
    )
    assert b.newest() == f"{2:08x}-0000-6000-8000-000000000000"
    assert b.recovered == ["undone", "undone"]
    assert b.steps() == [2, 1]
    assert a.conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0] == 2
    settled(a, b, [2, 1])


def test_a_late_commit_is_undone_after_others_went_on_too(
    hosts: tuple[Host, Host], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    a, b = hosts
    kept = tmp_path / "kept.db"

    def late() -> None:
        a.cut(postgres_server)
        b.forget()
        assert b.steps() == [2, 1]

    a.conn.before = late
    with pytest.raises(AnchorError):
        a.put(3)
    with sqlite3.connect(kept) as copy:
        a.conn.backup(copy)
    b.steps()
    b.put(4)
    b.put(5)
    # It lands only now, as from a server that had it in its queue.
    a.conn.execute("ATTACH ? AS kept", (str(kept),))
    a.conn.execute(
        "INSERT INTO checkpoints SELECT * FROM kept.checkpoints WHERE checkpoint_id LIKE '00000003%'"
    )
    a.conn.commit()
    a.conn.execute("DETACH kept")
    settled(a, b, [5, 4, 2, 1])


def test_a_row_that_was_counted_once_is_no_late_one(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Only a row of a fence that was raised too early for it is dropped: anything else put back is refused."""
    a, b = hosts
    a.put(3)
    with sqlite3.connect(tmp_path / "kept.db") as copy:
        a.conn.backup(copy)
    a.saver.delete_thread("t")
    assert b.steps() == []
    a.conn.execute("ATTACH ? AS kept", (str(tmp_path / "kept.db"),))
    a.conn.execute("INSERT INTO checkpoints SELECT * FROM kept.checkpoints")
    a.conn.commit()
    with pytest.raises(IntegrityError) as caught:
        b.steps()
    assert caught.value.code in ("MG401", "MG402", "MG415")
    assert a.conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0] == 3, "and nothing was dropped"


# -- the tests' own control: without these two checks the same story ends in a log that nobody can read ----------------


def unfenced(monkeypatch: pytest.MonkeyPatch, *checks: str) -> None:
    """Put a bug in: a process goes on with a new session as if its lock were still held; an append ignores fences."""
    if "session" in checks:
        monkeypatch.setattr(Session, "_orphaned", lambda self: False)
    if "append" in checks:
        monkeypatch.setattr(AnchorLog, "_fenced", lambda self, record: False)


@pytest.mark.parametrize(("removed", "code"), [("session", "MG416"), ("append", "MG527")])
def test_either_check_alone_keeps_a_late_writer_out(
    hosts: tuple[Host, Host],
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    removed: str,
    code: str,
) -> None:
    a, b = hosts
    unfenced(monkeypatch, removed)

    def late() -> None:
        a.cut(postgres_server)
        b.forget()
        assert b.steps() == [2, 1]
        a.guard.anchor.session.drop()  # type: ignore[attr-defined]  # as after a statement that found it dead

    a.conn.before = late
    with pytest.raises(AnchorError) as caught:
        a.put(3)
    assert caught.value.code == code
    assert b.steps() == [2, 1]


def test_without_both_a_late_writer_breaks_the_log(
    hosts: tuple[Host, Host], postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    unfenced(monkeypatch, "session", "append")

    def late() -> None:
        a.cut(postgres_server)
        b.forget()
        assert b.steps() == [2, 1]
        a.guard.anchor.session.drop()  # type: ignore[attr-defined]

    a.conn.before = late
    a.put(3)
    with pytest.raises(AnchorError) as caught:
        b.newest()
    assert caught.value.code == "MG414"


async def test_writers_in_event_loops_of_two_hosts_take_turns(tmp_path: Path, postgres_uri: str) -> None:
    config = {"write": {"sanitizer": "off", "anomaly": "off"}}
    MemGuard.create(
        tmp_path / "a", anchor=postgres_uri, keys=f"file:{tmp_path / 'key'}", config=config
    ).close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    guards = [MemGuard.open(tmp_path / name) for name in "ab"]
    place = str(tmp_path / "store.db")
    async with (
        AsyncSqliteSaver.from_conn_string(place) as one,
        AsyncSqliteSaver.from_conn_string(place) as two,
    ):
        await one.setup()
        savers = [guard.guard(saver, name="ck") for guard, saver in zip(guards, (one, two), strict=True)]

        async def work(saver: Any, writer: int) -> None:
            for number in range(1, 6):
                config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
                checkpoint = {**empty_checkpoint(), "id": f"{number:08x}-{writer:04x}-6000-8000-000000000000"}
                await saver.aput(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})
                assert await saver.aget_tuple(config) is not None

        await asyncio.gather(*(work(savers[writer % 2], writer) for writer in range(4)))
        for guard, saver in zip(guards, savers, strict=True):
            assert len([found async for found in saver.alist(CONFIG)]) == 20
            report = await guard.aaudit(saver)
            assert report.clean, report.findings
    for guard in guards:
        guard.close()
