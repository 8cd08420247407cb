"""A bare and a guarded SqliteStore side by side, with one namespace of many items."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.overhead.guarding import Guarding
from memguard.bench.overhead.timing import Operation
from memguard.bench.overhead.work import item

NAMESPACE = ("users", "alice")
_BATCH = 1000


@dataclass
class StorePair:
    """The same items in two databases of one folder: bare and guarded."""

    bare: Any
    guarded: Any
    guarding: Guarding
    items: int

    def fill(self) -> None:
        """Give both stores their items, in batches."""
        from langgraph.store.base import PutOp

        for store in (self.bare, self.guarded):
            for start in range(0, self.items, _BATCH):
                stop = min(start + _BATCH, self.items)
                store.batch([PutOp(NAMESPACE, f"k-{i:06d}", item(i)) for i in range(start, stop)])

    def gets(self) -> tuple[Operation, Operation]:
        """``get`` of one item; another item each time."""

        def on(store: Any) -> Operation:
            return lambda i: store.get(NAMESPACE, f"k-{(i * 7919) % self.items:06d}")

        return on(self.bare), on(self.guarded)

    def puts(self) -> tuple[Operation, Operation]:
        """``put`` of one new item."""

        def on(store: Any) -> Operation:
            return lambda i: store.put(NAMESPACE, f"new-{i:06d}", item(self.items + i))

        return on(self.bare), on(self.guarded)

    def updates(self) -> tuple[Operation, Operation]:
        """``put`` over an item that is there."""

        def on(store: Any) -> Operation:
            return lambda i: store.put(NAMESPACE, f"k-{(i * 104729) % self.items:06d}", item(self.items + i))

        return on(self.bare), on(self.guarded)

    def searches(self) -> tuple[Operation, Operation]:
        """The top 10 of the namespace."""

        def on(store: Any) -> Operation:
            return lambda _: store.search(NAMESPACE, limit=10)

        return on(self.bare), on(self.guarded)


def connect(path: Path) -> sqlite3.Connection:
    """A connection as SqliteStore.from_conn_string makes it (autocommit)."""
    return sqlite3.connect(path, check_same_thread=False, isolation_level=None)


@contextmanager
def store_pair(folder: Path, items: int, *, sync: str = "strict", guards: str = "off") -> Iterator[StorePair]:
    """Open both stores in ``folder`` (empty) and fill them; both are closed afterwards."""
    from langgraph.store.sqlite import SqliteStore

    folder.mkdir(parents=True)
    bare, inner = (SqliteStore(connect(folder / name)) for name in ("bare.db", "guarded.db"))
    bare.setup()
    inner.setup()
    guarding = Guarding.create(folder, sync=sync, guards=guards)
    try:
        pair = StorePair(bare, guarding.guard(inner, "overhead-store"), guarding, items)
        pair.fill()
        yield pair
    finally:
        guarding.close()
        bare.conn.close()
        inner.conn.close()
