"""An in-memory ledger, for stores that die with the process, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from memguard.errors import IntegrityError
from memguard.ports import LedgerEntry


class MemoryLedger:
    """A ledger in a list. Threads may share it."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []
        self._seen: set[tuple[str, int, int]] = set()
        self._guard = threading.Lock()
        self._closed = False

    def append(self, entries: Sequence[LedgerEntry]) -> None:
        """Add entries in order; the same (context, generation, fence) twice is ignored."""
        self._open()
        with self._guard:
            for entry in entries:
                place = (entry.context, entry.generation, entry.fence)
                if place not in self._seen:
                    self._seen.add(place)
                    self._entries.append(entry)

    def sync(self) -> None:
        """As durable as it gets."""
        self._open()

    def entries(self, context: str | None = None) -> Iterator[LedgerEntry]:
        """Entries oldest first, of one context or of all, as of now."""
        self._open()
        with self._guard:
            found = [entry for entry in self._entries if context in (None, entry.context)]
        return iter(found)

    def last(self, context: str) -> LedgerEntry | None:
        """The newest entry of a context."""
        self._open()
        with self._guard:
            return next((entry for entry in reversed(self._entries) if entry.context == context), None)

    def close(self) -> None:
        """Refuse further calls. Idempotent."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise IntegrityError("The ledger is closed.", case="state", record="memory", do="Open it again.")
