"""From a LangGraph store to its guarded twin: which table to read, which name, which guards are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memguard.binding import binding, taken
from memguard.care import Handle
from memguard.engine import MemGuard
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.place import place_of
from memguard.integrations.langgraph.scoping import ScopedStore
from memguard.integrations.langgraph.store import GuardedStore, guarded_type
from memguard.integrations.langgraph.store_care import GeneralStoreCare, SqliteStoreCare
from memguard.integrations.langgraph.store_objects import GeneralTable, MemoryTable
from memguard.integrations.langgraph.store_operations import StoreOperations
from memguard.integrations.langgraph.store_reading import ReadStore
from memguard.integrations.langgraph.store_screen import StoreScreen
from memguard.integrations.langgraph.store_sqlite import AsyncSqliteTable, SqliteTable
from memguard.integrations.langgraph.store_table import Table

_SQLITE: dict[str, type[SqliteTable]] = {"SqliteStore": SqliteTable, "AsyncSqliteStore": AsyncSqliteTable}


def guard_store(
    mg: MemGuard, store: Any, store_name: str | None, overrides: Mapping[str, Any]
) -> GuardedStore:
    """Guard a store. The store itself is unchanged.

    Raises:
        UnsupportedError: its own sweeper is running (MG156), or it embeds whole values in a way that
            would embed the seal (MG157).
        ConfigError: its scope map cannot be used (MG225).
    """
    places, overrides = taken(overrides)
    shipped = _shipped(store)
    is_async = getattr(store, "_loop", None) is not None
    _no_sweeper(store)
    table: Table
    if shipped in _SQLITE:
        table = _SQLITE[shipped](store)
    elif shipped == "InMemoryStore":
        table = MemoryTable(store)
    else:
        _explicit_fields(store)
        table = GeneralTable(store, is_async=is_async)
    place = place_of(store)
    operations = StoreOperations(store, table, is_async=is_async, native=shipped != "SqliteStore")
    kind = "langgraph-async-sqlite-store" if is_async else "langgraph-sqlite-store"
    custody = mg.custody(store, store_name, operations, kind=kind, place=place, overrides=overrides)
    operations.custody = custody
    if isinstance(table, MemoryTable):
        table.custody = custody
    bound = binding(mg, custody.store, places, "namespace")
    if mg.screening.writes:
        visible = operations if bound is None else ScopedStore(operations, bound)
        operations.screen = StoreScreen(mg, custody.store, bound, visible.batch)
    sweeps = shipped in _SQLITE
    face: Any = ReadStore(operations, mg.reading, custody.store, max_nodes=mg.config.guards.limits.max_nodes)
    if bound is not None:
        face = ScopedStore(face, bound)
    guarded = guarded_type(type(store), sweeps=sweeps, is_async=is_async)(store, face)
    care = (
        SqliteStoreCare(operations, table) if isinstance(table, SqliteTable) else GeneralStoreCare(operations)
    )
    guarded.__dict__["_memguard"] = Handle(mg, custody, care, guarded._run, store)
    mg.quarantine.know(custody.store, guarded)
    if sweeps:
        table.store.sweep_ttl = guarded.sweep_ttl  # what its sweeper calls
    return guarded


def _shipped(store: Any) -> str:
    """The LangGraph store that this is, if what reads and writes its rows is LangGraph's own; else ``""``."""
    for cls in type(store).__mro__:
        if cls.__module__.startswith("langgraph.store.sqlite") and cls.__name__ in _SQLITE:
            return cls.__name__ if _unchanged(type(store), cls) else ""
        if cls is InMemoryStore:
            return cls.__name__ if _unchanged(type(store), cls) else ""
    return ""


def _unchanged(actual: type, shipped: type) -> bool:
    return all(getattr(actual, side) is getattr(shipped, side) for side in ("batch", "abatch"))


def _no_sweeper(store: Any) -> None:
    """A sweeper of the bare store deletes items that the head goes on counting."""
    thread, task = getattr(store, "_ttl_sweeper_thread", None), getattr(store, "_ttl_sweeper_task", None)
    if (thread is not None and thread.is_alive()) or (task is not None and not task.done()):
        raise UnsupportedError(
            "the store's own sweeper is running.",
            code="MG156",
            why="What it deletes behind the guard would be missed as deleted by somebody else.",
            do="Call stop_ttl_sweeper() first, guard the store, then start_ttl_sweeper() on the guarded one.",
        )


def _explicit_fields(store: BaseStore) -> None:
    config: Any = getattr(store, "index_config", None)
    if not config:
        return
    fields = config.get("fields") or config.get("text_fields") or ["$"]
    for path in [fields] if isinstance(fields, str) else fields:
        if path in ("$", "") or path.lstrip(".").startswith("*"):
            raise UnsupportedError(
                f"{type(store).__name__} embeds whole values, and the seal would be embedded with them.",
                code="MG157",
                why="memguard knows only LangGraph's own SQLite and in-memory stores well enough to keep it out.",
                do='Name the fields to embed: index={..., "fields": ["text"]}.',
            )
