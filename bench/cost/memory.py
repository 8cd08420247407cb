"""The stores of a cell: each in a folder of its own, with the same embedder, bare or to be guarded.

A memory is what a bench asks of a store. Which store it is changes nothing of what is asked, and a defence changes
nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from memguard.bench.reading.embedding import Remembering
from memguard.bench.reading.search import connect

#: Names on the command line.
BACKENDS = ("langgraph", "mem0")


class Memory(Protocol):
    """One conversation's memories in one store."""

    def put(self, key: str, text: str) -> None:
        """Store a memory under the id of its turn."""
        ...

    def search(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Ids of the store's own answer, best first, with its similarity."""
        ...

    def fetch(self, keys: Sequence[str]) -> list[str]:
        """Those of these ids that the store serves, in their order."""
        ...

    def count(self) -> int:
        """How many memories it holds."""
        ...

    def key_of(self, record: str) -> str | None:
        """The id of a memory as events name its record; None where that is another record."""
        ...


class StoreMemory:
    """A LangGraph store, bare or guarded."""

    def __init__(self, store: Any, space: tuple[str, ...]) -> None:
        self._store, self._space = store, space
        self._names: dict[str, str] = {}

    def put(self, key: str, text: str) -> None:
        from memguard.integrations.langgraph.store_rows import name

        self._names[name(self._space, key)] = key
        self._store.put(self._space, key, {"text": text})

    def search(self, query: str, limit: int) -> list[tuple[str, float]]:
        found = self._store.search(self._space, query=query, limit=limit)
        return [(item.key, item.score or 0.0) for item in found]

    def fetch(self, keys: Sequence[str]) -> list[str]:
        from langgraph.store.base import GetOp

        found = self._store.batch([GetOp(self._space, key) for key in keys])
        return [item.key for item in found if item is not None]

    def count(self) -> int:
        return len(self._store.search(self._space, limit=1_000_000))

    def key_of(self, record: str) -> str | None:
        return self._names.get(record)


@contextmanager
def sqlite_store(folder: Path, embedder: Remembering | None) -> Iterator[Any]:
    """A new SqliteStore with the store's own vector index over the member ``text``, or without an index."""
    from langgraph.store.sqlite import SqliteStore

    folder.mkdir(parents=True, exist_ok=True)
    connection = connect(str(folder / "store.db"))
    # What is measured is what a defence costs, in answers and tokens; how long a commit takes is another bench.
    connection.execute("PRAGMA synchronous=OFF")
    try:
        # Documented as "fields", and read as "text_fields": without both, values are embedded with their braces.
        fields: Mapping[str, Any] = {"fields": ["text"], "text_fields": ["text"]}
        index: Any = None if embedder is None else {"dims": embedder.dim, "embed": embedder.embed, **fields}
        store = SqliteStore(connection, index=index)
        store.setup()
        yield store
    finally:
        connection.close()
