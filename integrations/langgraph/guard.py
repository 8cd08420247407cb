"""From a LangGraph object to its guarded twin: which way to read it, which layout, which name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from memguard.binding import binding, taken
from memguard.care import Handle
from memguard.engine import MemGuard
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.care import GeneralCare, SqliteCare
from memguard.integrations.langgraph.guard_store import guard_store as guard_store
from memguard.integrations.langgraph.messages import MessageScreen
from memguard.integrations.langgraph.operations import Operations
from memguard.integrations.langgraph.place import place_of
from memguard.integrations.langgraph.saver import GuardedSaver, guarded_type
from memguard.integrations.langgraph.saver_revert import SaverReverting
from memguard.integrations.langgraph.saver_scoping import ScopedSaver
from memguard.integrations.langgraph.scan import AsyncSqliteScan, GeneralScan, SqliteScan

_SQLITE = {"SqliteSaver": SqliteScan, "AsyncSqliteSaver": AsyncSqliteScan}


def guard_saver(mg: MemGuard, saver: Any, name: str | None, overrides: Mapping[str, Any]) -> GuardedSaver:
    """Guard a checkpointer. The saver itself is unchanged.

    Raises:
        UnsupportedError: the saver cannot be copied, or has no serializer.
        ConfigError: its scope map cannot be used (MG225).
    """
    postgres = _shipped(saver, "langgraph.checkpoint.postgres")
    if postgres and postgres != "BasePostgresSaver":  # whoever wrote a saver on that goes the general way
        return _guard_postgres(mg, saver, name, overrides, postgres)
    places, overrides = taken(overrides)
    kind = _shipped(saver, "langgraph.checkpoint.sqlite")
    kind = kind if kind in _SQLITE else None
    is_async = _is_async(saver)
    scan: SqliteScan | GeneralScan = _SQLITE[kind]() if kind else GeneralScan(is_async)
    place = place_of(saver)
    try:
        operations = Operations(
            saver,
            scan,
            layout="whole" if kind else "split",
            is_async=is_async,
            inline=place is None and not is_async,
            special="all" if kind else "each",
            strict=mg.config.preset == "strict",
        )
    except (TypeError, AttributeError) as error:
        raise UnsupportedError(
            f"{type(saver).__name__} cannot be copied with another serializer.",
            code="MG147",
            why=f"{type(error).__name__} while copying it.",
            do="Report the saver's type; guarding needs copy.copy(saver) and a serde attribute.",
        ) from None
    store_kind = "langgraph-async-sqlite-saver" if is_async else "langgraph-sqlite-saver"
    custody = mg.custody(saver, name, operations, kind=store_kind, place=place, overrides=overrides)
    operations.custody = custody
    bound = binding(mg, custody.store, places, "thread", "metadata")
    if mg.screening.writes:
        operations.screen = MessageScreen(mg, custody.store, bound)
    face: Any = operations if bound is None else ScopedSaver(operations, bound)
    guarded = guarded_type(type(saver))(saver, face)
    care: SqliteCare | GeneralCare = GeneralCare(operations, scan)  # type: ignore[arg-type]
    if isinstance(scan, SqliteScan):
        care = SqliteCare(operations, scan)
        care.reverting = SaverReverting(mg, operations, scan, care)
    return mg.attach(guarded, Handle(mg, custody, care, guarded._run, saver))


def _guard_postgres(
    mg: MemGuard, saver: Any, name: str | None, overrides: Mapping[str, Any], kind: str
) -> GuardedSaver:
    """A saver of langgraph-checkpoint-postgres, which is imported only then."""
    from memguard.integrations.langgraph.guard_postgres import guard_postgres_saver

    return guard_postgres_saver(mg, saver, name, overrides, kind)


def _shipped(saver: Any, module: str) -> str | None:
    """The saver that a distribution ships and that this is, by the module that defines it, subclasses included."""
    for cls in type(saver).__mro__:
        if cls.__module__.startswith(module) and cls.__name__.endswith("Saver"):
            return cls.__name__
    return None


def _is_async(saver: Any) -> bool:
    """Whether a saver's own side is the async one: it is bound to an event loop, or has no other side."""
    own, base = type(saver), BaseCheckpointSaver
    return getattr(saver, "loop", None) is not None or (own.put is base.put and own.aput is not base.aput)
