"""What one call of a guarded Memory works on: Mem0's own methods, on guarded stand-ins for its stores.

Mem0's pipeline is not written again: a copy of the Memory, made for one call, has its vector store, its entity store
and its database replaced, and Mem0's method is run on that copy. What the call is about (who speaks, what was kept
out, what was verified) is the stand-ins' own, so it reaches Mem0's worker threads as well.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

from memguard.collection import Entry
from memguard.effects import Operation, drive
from memguard.errors import MemguardError, UnsupportedError
from memguard.integrations.mem0.keeping import Keeping, Refusal
from memguard.integrations.mem0.owners import ENTITY, MEMORY, Owner
from memguard.integrations.mem0.speaking import Speaking
from memguard.labels import Label


class Session:
    """One call: what it may see, what it declared, and what came of it.

    Args:
        mine: whether an owner is the principal's; default everybody is.
        speaking: where the texts of the call are from; None for calls that write none.
        raises: a refused memory raises inside Mem0's method, which then leaves it out of history and entities by
            itself; else Mem0 goes on, and the stand-ins leave it out.
    """

    def __init__(
        self,
        keeping: Keeping,
        memory: Any,
        *,
        mine: Callable[[Owner], bool] = lambda owner: True,
        speaking: Speaking | None = None,
        raises: bool = True,
    ) -> None:
        self.keeping, self.inner, self.mine, self.speaking = keeping, memory, mine, speaking
        self.raises = raises
        #: Places in the call of the messages that become memories one by one, in the order of their inserts.
        self.order: list[int] = []
        self.mutex = threading.Lock()
        #: Verified records by identifier.
        self.entries: dict[str, Entry] = {}
        #: Labels of what was stored, and whose it is, by identifier.
        self.labels: dict[str, Label | None] = {}
        self.owners: dict[str, Owner] = {}
        self.stored: set[str] = set()
        self.refused: dict[str, Refusal] = {}
        #: What memguard raised in here: Mem0 logs some errors and goes on.
        self.raised: list[MemguardError] = []
        self.memory = self._working()

    def _working(self) -> Any:
        """The copy of the Memory that Mem0's methods run on."""
        from memguard.integrations.mem0.database import Database
        from memguard.integrations.mem0.vectors import Vectors

        working = copy.copy(self.inner)
        working.__class__ = _working_type(type(self.inner))
        working._session = self
        working.vector_store = Vectors(self, MEMORY)
        working.db = Database(self)
        working._entity_store = None if self.inner._entity_store is None else Vectors(self, ENTITY)
        return working

    def run(self, operation: Operation[Any]) -> Any:
        """Run an operation, and remember what memguard raises."""
        try:
            return drive(operation)
        except MemguardError as error:
            if not isinstance(error, Held):
                with self.mutex:
                    self.raised.append(error)
            raise

    def remember(self, entry: Entry) -> None:
        """A verified record."""
        with self.mutex:
            self.entries[entry.key] = entry


class Held(UnsupportedError):
    """A memory was kept out by a guard. Only Mem0's own methods see it; they go on without that memory."""


def held() -> Held:
    """The error by which Mem0 leaves a memory out."""
    return Held("a guard kept this memory out; the call reports it.", code="MG545")


_types: dict[type, type] = {}


def _working_type(inner: type) -> type:
    """Mem0's class, with an entity store that is guarded from the first use on."""
    made = _types.get(inner)
    if made is None:

        def entity_store(self: Any) -> Any:
            """The guarded stand-in of Mem0's lazy property."""
            from memguard.integrations.mem0.vectors import Vectors

            if self._entity_store is None:
                _ = self._session.inner.entity_store
                self._entity_store = Vectors(self._session, ENTITY)
            return self._entity_store

        made = _types[inner] = type(inner.__name__, (inner,), {"entity_store": property(entity_store)})
    return made
