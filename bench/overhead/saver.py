"""A bare and a guarded SqliteSaver side by side, and the operations that are timed on both."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memguard.bench.overhead.guarding import Guarding
from memguard.bench.overhead.timing import Operation
from memguard.bench.overhead.work import checkpoints, messages

THREAD = "overhead"


@dataclass
class Side:
    """One saver, the thread it writes, and where that thread stands."""

    saver: Any
    thread: str = THREAD
    head: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.head = {"configurable": {"thread_id": self.thread, "checkpoint_ns": ""}}

    @property
    def newest(self) -> dict[str, Any]:
        """The configuration that asks for the newest checkpoint."""
        return {"configurable": {"thread_id": self.thread, "checkpoint_ns": ""}}

    def put(self, checkpoint: dict[str, Any], step: int) -> None:
        """Store the next checkpoint of the thread."""
        self.head = self.saver.put(
            self.head,
            checkpoint,
            {"source": "loop", "step": step, "parents": {}},
            checkpoint["channel_versions"],
        )

    def put_writes(self, writes: list[tuple[str, Any]], task: str) -> None:
        """Store one task's pending writes under the newest checkpoint."""
        self.saver.put_writes(self.head, writes, task)

    def get(self) -> Any:
        """The newest checkpoint."""
        return self.saver.get_tuple(self.newest)

    def list(self, limit: int) -> int:
        """Read ``limit`` checkpoints; gives back how many came."""
        return sum(1 for _ in self.saver.list(self.newest, limit=limit))


@dataclass
class SaverPair:
    """The same thread in two databases of one folder: bare and guarded."""

    bare: Side
    guarded: Side
    guarding: Guarding
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        self._source = checkpoints(self.size, seed=self.seed)
        self._made: list[dict[str, Any]] = []
        self._messages = messages(seed=7)

    def _checkpoint(self, index: int) -> dict[str, Any]:
        while len(self._made) <= index:
            self._made.append(next(self._source))
        return self._made[index]

    @property
    def made(self) -> int:
        """Checkpoints made so far."""
        return len(self._made)

    def fill(self, n: int, *, bare: bool = True) -> None:
        """Give the threads ``n`` more checkpoints, untimed; ``bare=False`` leaves the bare one as it is."""
        start = len(self._made)
        for index in range(start, start + n):
            checkpoint = self._checkpoint(index)
            if bare:
                self.bare.put(checkpoint, index)
            self.guarded.put(checkpoint, index)
            self._made[index] = {}  # both have it; long histories need not stay in memory

    def puts(self, n: int) -> tuple[Operation, Operation]:
        """``put`` on both; ``n`` checkpoints are made beforehand, so that making them is not timed."""
        start = len(self._made)
        self._checkpoint(start + n - 1)
        return (
            lambda i: self.bare.put(self._made[start + i], start + i),
            lambda i: self.guarded.put(self._made[start + i], start + i),
        )

    def writes(self, n: int) -> tuple[Operation, Operation]:
        """``put_writes`` of one message and one step counter on both."""
        ready = [[("messages", [m]), ("step", i)] for i, m in enumerate(itertools.islice(self._messages, n))]
        return (
            lambda i: self.bare.put_writes(ready[i], f"task-{i:06d}"),
            lambda i: self.guarded.put_writes(ready[i], f"task-{i:06d}"),
        )

    def gets(self) -> tuple[Operation, Operation]:
        """``get_tuple`` of the head on both."""
        return (lambda _: self.bare.get(), lambda _: self.guarded.get())

    def lists(self, limit: int) -> tuple[Operation, Operation]:
        """``list`` of ``limit`` checkpoints on both, read to the end."""
        return (lambda _: self.bare.list(limit), lambda _: self.guarded.list(limit))


def connect(path: Path) -> sqlite3.Connection:
    """A connection as SqliteSaver.from_conn_string makes it."""
    return sqlite3.connect(path, check_same_thread=False)


@contextmanager
def saver_pair(
    folder: Path, size: int, *, sync: str = "strict", guards: str = "off", seed: int = 0
) -> Iterator[SaverPair]:
    """Open both savers in ``folder`` (empty), one of them guarded; both are closed afterwards.

    ``sync="bulk"`` is for long histories whose making is not timed: no durability at all, on either side.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver

    folder.mkdir(parents=True)
    bare, inner = (SqliteSaver(connect(folder / name)) for name in ("bare.db", "guarded.db"))
    for saver in (bare, inner):
        saver.setup()
        if sync == "bulk":
            saver.conn.execute("PRAGMA synchronous=OFF")
    guarding = Guarding.create(folder, sync=sync, guards=guards)
    try:
        guarded = guarding.guard(inner, "overhead")
        yield SaverPair(Side(bare), Side(guarded), guarding, size, seed)
    finally:
        guarding.close()
        bare.conn.close()
        inner.conn.close()
