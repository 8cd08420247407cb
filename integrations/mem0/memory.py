"""Mem0's Memory and AsyncMemory, guarded: the same methods, with everything sealed and every read checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memguard.collection.faces import awaited
from memguard.effects import drive
from memguard.integrations.face import Face
from memguard.integrations.mem0.calls import Calls

#: Attributes of a Memory that users reach. What stands behind the others is memguard's business.
REACHABLE = ("config", "embedding_model", "llm", "collection_name", "api_version", "custom_instructions",
             "reranker", "project", "chat", "from_config")  # fmt: skip


class GuardedMemory(Face):
    """A Memory whose memories cannot be changed behind its back.

    Results are Mem0's own. What a guard kept out of an ``add`` or an ``update`` stands under ``"memguard"``; items
    carry their label (``mg.label(item)``).

    Attributes:
        inner: the wrapped Memory, unchanged and unguarded.

    Raises (from every method): IntegrityError if what is stored is not what was written; ScopeError for a missing or
    wildcard identity; RejectedError from a write of which nothing was stored because a guard refused it.
    """

    reachable = REACHABLE

    def __init__(self, inner: Any, calls: Calls) -> None:
        self.inner = inner
        self._calls = calls

    @property
    def vector_store(self) -> Any:
        """The vector store, guarded: its reads are checked and its writes sealed."""
        return self._calls.session().memory.vector_store

    @property
    def entity_store(self) -> Any:
        """The store of entities, guarded."""
        return self._calls.session().memory.entity_store

    @property
    def db(self) -> Any:
        """The history database, guarded."""
        return self._calls.session().memory.db

    def add(self, messages: Any, **options: Any) -> Any:
        """See ``Memory.add``. What a guard kept out is listed under ``"memguard"`` in the result."""
        return drive(self._calls.add(messages, options))

    def search(self, query: str, **options: Any) -> Any:
        """See ``Memory.search``."""
        return drive(self._calls.search(query, options))

    def get(self, memory_id: str) -> Any:
        """See ``Memory.get``. A memory of another owner than the principal is not there."""
        return drive(self._calls.get(memory_id))

    def get_all(self, **options: Any) -> Any:
        """See ``Memory.get_all``."""
        return drive(self._calls.get_all(options))

    def update(self, memory_id: str, *args: Any, **options: Any) -> Any:
        """See ``Memory.update``. Where the new text is from is what the program declares: ``with source(...)``."""
        return drive(self._calls.update(memory_id, args, options))

    def delete(self, memory_id: str) -> Any:
        """See ``Memory.delete``."""
        return drive(self._calls.delete(memory_id))

    def delete_all(self, user_id: Any = None, agent_id: Any = None, run_id: Any = None) -> Any:
        """See ``Memory.delete_all``."""
        return drive(self._calls.delete_all({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}))

    def history(self, memory_id: str) -> Any:
        """See ``Memory.history``."""
        return drive(self._calls.history(memory_id))

    def reset(self) -> Any:
        """See ``Memory.reset``: everything goes, as one operation that the head counts."""
        return drive(self._calls.reset())

    def close(self) -> None:
        """Close the wrapped Memory."""
        self._calls.close()


class GuardedSyncMemory(GuardedMemory):
    """A Memory whose memories cannot be changed behind its back; see :class:`GuardedMemory`."""

    def __enter__(self) -> GuardedSyncMemory:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


class GuardedAsyncMemory(GuardedMemory):
    """An AsyncMemory whose memories cannot be changed behind its back; see :class:`GuardedMemory`."""

    async def add(self, messages: Any, **options: Any) -> Any:
        """See ``AsyncMemory.add``."""
        return await awaited(self._calls.add(messages, options))

    async def search(self, query: str, **options: Any) -> Any:
        """See ``AsyncMemory.search``."""
        return await awaited(self._calls.search(query, options))

    async def get(self, memory_id: str) -> Any:
        """See ``AsyncMemory.get``."""
        return await awaited(self._calls.get(memory_id))

    async def get_all(self, **options: Any) -> Any:
        """See ``AsyncMemory.get_all``."""
        return await awaited(self._calls.get_all(options))

    async def update(self, memory_id: str, *args: Any, **options: Any) -> Any:
        """See ``AsyncMemory.update``."""
        return await awaited(self._calls.update(memory_id, args, options))

    async def delete(self, memory_id: str) -> Any:
        """See ``AsyncMemory.delete``."""
        return await awaited(self._calls.delete(memory_id))

    async def delete_all(self, user_id: Any = None, agent_id: Any = None, run_id: Any = None) -> Any:
        """See ``AsyncMemory.delete_all``."""
        named: Mapping[str, Any] = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return await awaited(self._calls.delete_all(named))

    async def history(self, memory_id: str) -> Any:
        """See ``AsyncMemory.history``."""
        return await awaited(self._calls.history(memory_id))

    async def reset(self) -> Any:
        """See ``AsyncMemory.reset``."""
        return await awaited(self._calls.reset())

    async def __aenter__(self) -> GuardedAsyncMemory:
        return self

    async def __aexit__(self, *details: Any) -> None:
        self.close()
