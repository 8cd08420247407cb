"""A failover to a standby that lacks the newest transactions: never accepted in silence, settled by an operator."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crash_model as model
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard import MemGuard
from memguard.bench.suts.postgres_server import PostgresServer, binaries
from memguard.errors import AnchorError

CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def put(saver: Any, number: int) -> None:
    """Put the next checkpoint of the thread."""
    key = f"{number:08x}-0000-6000-8000-000000000000"
    parent = f"{number - 1:08x}-0000-6000-8000-000000000000" if number > 1 else None
    op = {
        "op": "put",
        "thread": "t",
        "ns": "",
        "id": key,
        "parent": parent,
        "value": f"v{number}",
        "step": number,
    }
    model.perform(saver, op)


def steps(saver: Any) -> list[int]:
    """What is served, newest first."""
    return [found.metadata["step"] for found in saver.list(CONFIG)]


class Cluster:
    """A primary, and what a standby had received of it at some moment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.primary = PostgresServer(durable=True, settings={"max_wal_senders": "4"}).start()
        self.standby = PostgresServer(root / "standby", durable=True)
        database = self.primary.database().rpartition("/")[2]
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.uri = f"postgresql://postgres@{hosts}/{database}"

    def received(self) -> None:
        """The standby has everything up to now, and nothing of what comes."""
        words = [str(binaries() / "pg_basebackup"), "-h", "127.0.0.1", "-p", str(self.primary.port)]
        words += [
            "-U",
            "postgres",
            "-D",
            str(self.root / "standby"),
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ]
        subprocess.run(words, check=True, capture_output=True)

    def fail_over(self) -> None:
        """The primary dies, and the standby takes its place."""
        self.primary.stop(signal.SIGQUIT)
        self.standby.start()

    def close(self) -> None:
        self.primary.close()
        self.standby.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # run as root, the server has another account
    made = Cluster(tmp_path)
    yield made
    made.close()


def guarded(mg: MemGuard, root: Path) -> Any:
    return mg.guard(SqliteSaver(sqlite3.connect(root / "store.db", check_same_thread=False)), name="ck")


@pytest.mark.parametrize("lost", [2, 1, 0])
def test_a_standby_without_the_newest_heads(cluster: Cluster, tmp_path: Path, lost: int) -> None:
    home, keys = tmp_path / "home", f"file:{tmp_path / 'key.json'}"
    mg = MemGuard.create(home, anchor=cluster.uri, keys=keys, config={"write": {"sanitizer": "off"}})
    saver = guarded(mg, tmp_path)
    for number in (1, 2, 3):
        put(saver, number)
        if number == 3 - lost:
            cluster.received()
    idle = MemGuard.open(home)
    reader = guarded(idle, tmp_path)
    assert steps(reader) == [3, 2, 1]
    cluster.fail_over()
    for guard, running in ((mg, saver), (idle, reader)):  # both had read the heads that are gone
        if not lost:
            assert steps(running) == [3, 2, 1]
            guard.close()
            continue
        with pytest.raises(AnchorError) as caught:
            running.get_tuple(CONFIG)
        assert caught.value.code == "MG411"
        assert "rolled back" in caught.value.what
        for call in (lambda running=running: put(running, 9), guard.close):
            with pytest.raises(AnchorError, match="rolled back"):
                call()
    with MemGuard.open(home) as fresh:
        after = guarded(fresh, tmp_path)
        if lost == 2:
            with pytest.raises(AnchorError) as caught:
                steps(after)
            assert caught.value.code == "MG415"
            assert not fresh.audit(after).clean
            assert fresh.accept(after, "failover of Tuesday", apply=True).actions
        # One whole operation ahead is what a crash leaves: adopted. None is nothing lost.
        assert steps(after) == [3, 2, 1]
        put(after, 4)
        assert steps(after) == [4, 3, 2, 1]
        report = fresh.audit(after)
        assert report.clean, report.findings
        assert [note.operation for note in fresh._log.notes()] == (["accept"] if lost == 2 else [])
