"""From a LangGraph store to its guarded twin: which table to read, which name, which guards are asked."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore

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


class Shipped(NamedTuple):
    """A store of LangGraph's whose tables memguard knows.

    Attributes:
        module: where it is defined (a prefix of its name).
        table, care: how its rows are read and looked after; module and attribute where drivers are needed for that.
        native: whether it has an asynchronous side of its own.
        sweeps: whether it has a sweeper.
        kind: its kind in ``[stores.NAME]``.
    """

    module: str
    table: Callable[[Any], Any] | str
    care: Callable[..., Any] | str
    native: bool
    sweeps: bool
    kind: str


_HERE = "memguard.integrations.langgraph."
_POSTGRES_CARE = f"{_HERE}store_care_postgres:PostgresStoreCare"
_SHIPPED = {
    "InMemoryStore": Shipped(
        "langgraph.store.memory", MemoryTable, GeneralStoreCare, True, False, "langgraph-sqlite-store"
    ),
    "SqliteStore": Shipped(
        "langgraph.store.sqlite", SqliteTable, SqliteStoreCare, False, True, "langgraph-sqlite-store"
    ),
    "AsyncSqliteStore": Shipped(
        "langgraph.store.sqlite",
        AsyncSqliteTable,
        SqliteStoreCare,
        True,
        True,
        "langgraph-async-sqlite-store",
    ),
    "PostgresStore": Shipped(
        "langgraph.store.postgres",
        f"{_HERE}store_postgres:PostgresTable",
        _POSTGRES_CARE,
        False,
        True,
        "langgraph-postgres-store",
    ),
    "AsyncPostgresStore": Shipped(
        "langgraph.store.postgres",
        f"{_HERE}store_postgres:AsyncPostgresTable",
        _POSTGRES_CARE,
        True,
        True,
        "langgraph-postgres-store",
    ),
}


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
    if shipped is not None:
        table = _found(shipped.table)(store)
    else:
        _explicit_fields(store)
        table = GeneralTable(store, is_async=is_async)
    place = place_of(store)
    native = shipped is None or shipped.native
    operations = StoreOperations(store, table, is_async=is_async, native=native)
    kind = f"langgraph-{'async-' if is_async else ''}sqlite-store" if shipped is None else shipped.kind
    custody = mg.custody(store, store_name, operations, kind=kind, place=place, overrides=overrides)
    operations.custody = custody
    table.custody = custody  # type: ignore[attr-defined] # for those that ask
    bound = binding(mg, custody.store, places, "namespace")
    if mg.screening.writes:
        visible = operations if bound is None else ScopedStore(operations, bound)
        operations.screen = StoreScreen(mg, custody.store, bound, visible.batch)
    sweeps = shipped is not None and shipped.sweeps
    face: Any = ReadStore(operations, mg.reading, custody.store, max_nodes=mg.config.guards.limits.max_nodes)
    if bound is not None:
        face = ScopedStore(face, bound)
    guarded = guarded_type(type(store), sweeps=sweeps, is_async=is_async)(store, face)
    look_after = GeneralStoreCare if shipped is None else _found(shipped.care)
    care = look_after(operations, *(() if look_after is GeneralStoreCare else (table,)))
    mg.attach(guarded, Handle(mg, custody, care, guarded._run, store))
    mg.quarantine.know(custody.store, guarded)
    if sweeps:
        table.store.sweep_ttl = guarded.sweep_ttl  # what its sweeper calls
    return guarded


def _shipped(store: Any) -> Shipped | None:
    """The LangGraph store that this is, if what reads and writes its rows is LangGraph's own."""
    for cls in type(store).__mro__:
        found = _SHIPPED.get(cls.__name__)
        if found is not None and cls.__module__.startswith(found.module):
            return found if _unchanged(type(store), cls) else None
    return None


def _found(thing: Any) -> Any:
    """A thing, or what is imported by ``module:attribute``."""
    if not isinstance(thing, str):
        return thing
    module, _, attribute = thing.partition(":")
    return getattr(importlib.import_module(module), attribute)


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
                why="memguard knows only LangGraph's own stores well enough to keep it out.",
                do='Name the fields to embed: index={..., "fields": ["text"]}.',
            )
