"""From a Mem0 Memory to its guarded twin: which stores it has, which name, whose memories they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from memguard.binding import binding, taken
from memguard.care import Handle
from memguard.collection import CollectionCare
from memguard.effects import Operation, drive
from memguard.engine import MemGuard
from memguard.errors import ConfigError, UnsupportedError
from memguard.integrations.mem0.calls import Calls
from memguard.integrations.mem0.keeping import Keeping
from memguard.integrations.mem0.memory import GuardedAsyncMemory, GuardedMemory, GuardedSyncMemory
from memguard.integrations.mem0.owners import IDENTITIES, MEMORY
from memguard.integrations.mem0.table import Mem0Table

#: The kind of ``[stores.NAME]``.
KIND = "mem0"
#: The first version whose methods the stand-ins know, and the first that they do not.
LEAST, BEYOND = (2, 2), (3,)


def guard_memory(mg: MemGuard, memory: Any, name: str | None, overrides: Mapping[str, Any]) -> GuardedMemory:
    """Guard a Memory or an AsyncMemory. The object itself is unchanged.

    Raises:
        UnsupportedError: MG544, its vector store is none that memguard knows; MG547, its version is none.
        ConfigError: it has no name, or its scope map cannot be used (MG225).
    """
    _known_version()
    places, overrides = taken(overrides)
    table = Mem0Table(memory)
    backend = table.backend(MEMORY)
    assert backend is not None
    if not hasattr(getattr(memory, "db", None), "connection"):
        raise UnsupportedError(
            f"the history of this {type(memory).__name__} is kept by {type(memory.db).__name__}.",
            code="MG544",
            do="Use Mem0's own SQLite history (history_db_path), and guard before close().",
        )
    keeping = Keeping(mg, table, text=_text)
    place = backend.place()
    history = str(memory.db.db_path)
    if place is not None and history == ":memory:":
        raise ConfigError(
            "the history of this Memory is in this process only, and its memories are not.",
            code="MG548",
            why="After a restart the history would be missing, which is what an adversary does.",
            do="Give history_db_path a file.",
        )
    if place is None and history != ":memory:":
        place = f"{os.path.realpath(history)}"
    keeping.open(memory, name, kind=KIND, place=place, overrides=overrides)
    table.known = keeping.custody.known
    soft = places is None and not _configured(mg, keeping.store)
    bound = binding(mg, keeping.store, _spelled(places, soft), "metadata")
    if bound is not None and not set(bound.map.metadata.values()) <= set(IDENTITIES):
        raise ConfigError(
            f"the scope map of {keeping.store!r} names no identity of Mem0.",
            code="MG225",
            why="Nothing was guarded.",
            do='Places are "user_id", "agent_id" and "run_id".',
        )
    calls = Calls(mg, keeping, memory, bound, soft=soft)
    asynchronous = any(cls.__name__ == "AsyncMemory" for cls in type(memory).__mro__)
    guarded = (GuardedAsyncMemory if asynchronous else GuardedSyncMemory)(memory, calls)

    def run(operation: Operation[Any]) -> Any:
        return drive(operation)

    mg.attach(guarded, Handle(mg, keeping.custody, CollectionCare(keeping), run, memory))
    mg.quarantine.know(keeping.store, guarded)
    return guarded


def _text(value: Any) -> str:
    """The text of a stored value: a memory's, or what a row of the history says."""
    if "columns" in value and "id" in value:
        columns = value["columns"]
        said = (columns.get(name) for name in ("old_memory", "new_memory", "content"))
        return "\n".join(str(part) for part in said if part)
    return str(value.get("data") or "")


def _configured(mg: MemGuard, store: str) -> bool:
    found = mg.config.stores.get(store)
    return found is not None and bool(found.scope)


def _spelled(places: Mapping[str, str] | None, soft: bool) -> Mapping[str, str] | None:
    """A scope map in the words that maps are written in; by default, Mem0's user is the principal's."""
    if soft:
        return {"user": "metadata.user_id"}
    if places is None:
        return None
    return {part: f"metadata.{place}" if place in IDENTITIES else place for part, place in places.items()}


def _known_version() -> None:
    try:
        found = version("mem0ai")
    except PackageNotFoundError:
        return  # a checkout without metadata: its methods are looked at when they are used
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if not LEAST <= parts < BEYOND:
        raise UnsupportedError(
            f"mem0ai {found} is not a version that memguard guards.",
            code="MG547",
            why="Its methods may reach the stores in ways that are not covered.",
            do="Install mem0ai>=2.2,<3.",
        )
