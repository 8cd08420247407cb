"""LangGraph's SqliteStore, bare or guarded: one context is one namespace, one record one item, with a vector index.

The store stamps items to the second and orders by that stamp, so a write waits for the next second whenever
an item of its context was written in this one; otherwise "the newest record" would mean nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.store.sqlite import SqliteStore

from memguard.bench.suts import vectors
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.langgraph_saver import OWNERS
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

#: What the agent asks for on the ranked path: words that one seeded record of each context shares.
QUERY = "spending limit approved amount"
TOP = 2


def namespace_of(owner: str) -> tuple[str, ...]:
    """Namespace of an owner."""
    return ("users", owner)


def key_of(n: int) -> str:
    """Key of the n-th item."""
    return f"m-{n}"


class StoreSut(Guarded):
    """SqliteStore with its semantic index on, bare or guarded."""

    kind = "sqlite-store"

    def __init__(self, cell: Path, name: Name) -> None:
        super().__init__(cell, name, "memories")
        self._conn: sqlite3.Connection | None = None
        self._store: Any = None
        self._second: dict[str, int] = {}
        self._in_order = True

    def versions(self) -> dict[str, str]:
        """Versions of the store, of LangGraph and, where used, of the guard."""
        names = ["langgraph-checkpoint-sqlite", "langgraph-checkpoint", "langgraph"]
        return self.package_versions(*names, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """SQLite with a rollback journal, and who computes vector distances."""
        distance = "sqlite-vec" if vectors.NATIVE else "a Python function in place of sqlite-vec"
        return f"SQLite {sqlite3.sqlite_version}, rollback journal, vector distance by {distance}"

    def features(self) -> dict[str, str]:
        """The semantic index (off by default), expiry, and the guard."""
        return {
            "semantic index": "on (off by default)",
            "ttl": "on, no default expiry (off by default)",
            **self.guard_features(),
        }

    def start(self) -> None:
        """Connect, build the store, guard it."""
        self._conn = vectors.connect(str(self.database))
        index: Any = {"dims": vectors.DIMS, "embed": vectors.embed, "fields": ["text"]}
        inner = SqliteStore(self._conn, index=index, ttl={"refresh_on_read": False})
        inner.setup()
        self._store = self.wrap(inner)

    def stop(self) -> None:
        """Close the guard, then the connection."""
        self.unwrap()
        conn, self._conn, self._store = self._conn, None, None
        if conn is not None:
            conn.close()

    def _tick(self, context: str) -> None:
        """Wait until the second of the context's last write is over, where order matters."""
        while self._in_order and int(time.time()) <= self._second.get(context, 0):
            time.sleep(0.02)
        self._second[context] = int(time.time())

    def write(self, record: Record) -> None:
        """``store.put``."""
        self._tick(record.context)
        self._store.put(namespace_of(record.owner), key_of(record.n), dict(self.body(record)))
        self.records.setdefault(record.context, []).append(record)

    def finish(self, context: str) -> None:
        """Nothing is left pending; but the next write, whoever makes it, must fall into a later second."""
        self._tick(context)

    def delete(self, context: str) -> None:
        """``store.delete`` of the context's second item."""
        self._store.delete(namespace_of(OWNERS[context]), key_of(1))

    def replace(self, context: str) -> None:
        """``store.put`` of a new value under the third item's key."""
        old = self.records[context][2]
        self._tick(context)
        value = {**self.body(old), "text": f"{old.text} (withdrawn, ask first)"}
        self._store.put(namespace_of(old.owner), key_of(2), value)

    def sister(self, context: str) -> None:
        """As ever, but in a hurry: nobody asks for the order of the other store."""
        self._in_order = False
        try:
            super().sister(context)
        finally:
            self._in_order = True

    def sweep(self) -> None:
        """``store.sweep_ttl``, which the store's own background thread would run."""
        self._store.sweep_ttl()

    def key(self, record: Record) -> str:
        """The item's key."""
        return key_of(record.n)

    def body(self, record: Record) -> Mapping[str, Any]:
        """The value that is put."""
        return {
            "text": record.text,
            "owner": record.owner,
            "role": record.role,
            "source": record.source,
            "topic": record.topic,
            "ts": record.ts,
        }

    def paths(self) -> tuple[str, ...]:
        """By key, the list in the store's order, the ranked search, and a filtered list."""
        return ("get", "list", "query", "filtered")

    def wide_paths(self) -> tuple[str, ...]:
        """The search above all namespaces, and the list of namespaces."""
        return ("everywhere", "namespaces")

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path of a namespace, or of all of them."""
        if path == "namespaces":
            return [Item(".".join(space), {}) for space in self._store.list_namespaces(prefix=("users",))]
        if path == "everywhere":
            return [_item(item) for item in self._store.search(("users",), limit=100)]
        space = namespace_of(OWNERS[context])
        if path == "get":
            found = [self._store.get(space, key_of(r.n)) for r in self.records.get(context, [])]
        elif path == "query":
            found = self._store.search(space, query=QUERY, limit=TOP)
        else:
            chosen = {"owner": OWNERS[context]} if path == "filtered" else None
            found = self._store.search(space, filter=chosen, limit=100)
        return [_item(item) for item in found if item is not None]


def _item(item: Any) -> Item:
    """A served item as plain values, whatever an adversary made of it."""
    value = dict(item.value) if isinstance(item.value, dict) else {"unreadable": repr(item.value)}
    value.pop("memguard", None)
    body = json.loads(json.dumps(value, default=repr, sort_keys=True))
    stamps = {
        "namespace": list(item.namespace),
        "created_at": str(item.created_at),
        "updated_at": str(item.updated_at),
    }
    return Item(str(item.key), body, stamps)


def sqlite(cell: Path, name: Name) -> StoreSut:
    """SqliteStore."""
    return StoreSut(cell, name)
