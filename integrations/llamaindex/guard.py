"""From an object of LlamaIndex to its guarded twin: which store, which table, which memory around it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from memguard.binding import binding, taken
from memguard.care import Handle, handle_of
from memguard.collection import Collection, CollectionCare
from memguard.engine import MemGuard
from memguard.errors import AlreadyGuardedError, UnsupportedError
from memguard.integrations.llamaindex.chat_operations import ChatOperations
from memguard.integrations.llamaindex.chat_table import ChatTable
from memguard.integrations.llamaindex.persisted import Persisted
from memguard.integrations.llamaindex.sql_operations import SqlOperations
from memguard.integrations.llamaindex.sql_table import SqlTable, shipped
from memguard.integrations.llamaindex.store import GuardedChatStore, GuardedDbStore, GuardedSimpleStore

KIND = "llamaindex-sqlite"
#: Fields of LlamaIndex's memories that hold their chat store.
_STORES = ("sql_store", "chat_store")


class _Identity:
    """Stands for a pydantic object, which has no hash, where heads of objects in memory are kept."""


_identities: dict[int, _Identity] = {}


def _identity(obj: Any) -> _Identity:
    made = _identities.get(id(obj))
    if made is None:
        made = _identities[id(obj)] = _Identity()
        weakref.finalize(obj, _identities.pop, id(obj), None)
    return made


def chat(mg: MemGuard, store: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """Guard a ``BaseChatStore``. The store itself is unchanged.

    Raises:
        ConfigError: its scope map cannot be used (MG225).
    """
    places, overrides = taken(overrides)
    collection = Collection(mg, ChatTable(store, mg.config.guards.limits.max_nodes), conversation=True)
    in_memory = any(
        cls.__name__ == "SimpleChatStore" and cls.__module__.startswith("llama_index.core.")
        for cls in type(store).__mro__
    )
    place = None if in_memory else f"{type(store).__module__}.{type(store).__qualname__}"
    collection.open(_identity(store), name, kind=KIND, place=place, overrides=overrides)
    operations = ChatOperations(store, collection, binding(mg, collection.store, places, "thread"))
    if not in_memory:
        return _attached(mg, GuardedChatStore(store, operations), collection)
    persisted = Persisted(mg._log, collection)
    guarded = _attached(mg, GuardedSimpleStore(store, operations, persisted), collection)
    guarded._run(persisted.load())
    return guarded


def sql(mg: MemGuard, store: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """Guard a ``SQLAlchemyChatStore``. The store itself is unchanged.

    Raises:
        UnsupportedError: MG590, another store of that interface.
        ConfigError: its scope map cannot be used (MG225).
    """
    if not shipped(store):
        raise UnsupportedError(
            f"memguard does not know how {type(store).__name__} keeps its messages.",
            code="MG590",
            why="Through the interface alone a row cannot be named, and so not be written again.",
            do="Use SQLAlchemyChatStore, or a BaseChatStore; a plug-in can add adapters.",
        )
    places, overrides = taken(overrides)
    table = SqlTable(store, mg.config.guards.limits.max_nodes)
    collection = Collection(mg, table, conversation=True)
    collection.open(_identity(store), name, kind=KIND, place=table.place, overrides=overrides)
    bound = binding(mg, collection.store, places, "thread")
    return _attached(mg, GuardedDbStore(store, SqlOperations(store, collection, bound)), collection)


def memory(mg: MemGuard, held: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """Guard the chat store of a memory: a copy of the memory, of its own type, over the guarded store.

    Args:
        overrides: also ``blocks="unguarded"``, for a memory with blocks that store by themselves.

    Raises:
        UnsupportedError: MG591, it has no chat store; MG592, one of its blocks keeps messages where no guard sees
            them.
        AlreadyGuardedError: its chat store is guarded.
    """
    rest = dict(overrides)
    accepted = rest.pop("blocks", None) == "unguarded"
    field = next((f for f in _STORES if f in type(held).model_fields), None)
    if field is None:
        raise UnsupportedError(
            f"{type(held).__name__} keeps its messages in no chat store.",
            code="MG591",
            do="Guard the stores of the memories that it is made of, or use Memory or ChatMemoryBuffer.",
        )
    storing = [b.name for b in getattr(held, "memory_blocks", []) if hasattr(b, "vector_store")]
    if storing and not accepted:
        raise UnsupportedError(
            f"memory blocks store messages by themselves: {', '.join(storing)}.",
            code="MG592",
            why="What they put into a vector store is neither sealed nor checked.",
            do='Leave those blocks out, or say so: guard(memory, name=…, blocks="unguarded").',
        )
    store = getattr(held, field)
    inside = handle_of(store)
    if inside is not None:
        raise AlreadyGuardedError(
            f"the chat store of this {type(held).__name__} is guarded already.",
            where=inside.custody.store,
            do="Use the memory as it is.",
        )
    guarded = mg.guard(store, name, **rest)
    handle = handle_of(guarded)
    assert handle is not None
    made = held.model_copy(update={field: guarded})
    made.__dict__["inner"] = held
    made.__dict__["_memguard"] = Handle(mg, handle.custody, handle.rows, handle.run, held)
    return made


def _attached(mg: MemGuard, guarded: Any, collection: Collection) -> Any:
    mg.quarantine.know(collection.store, guarded)
    care = CollectionCare(collection)
    return mg.attach(guarded, Handle(mg, collection.custody, care, guarded._run, guarded.inner))
