"""From a PostgresSaver to its guarded twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from langgraph.checkpoint.postgres.base import BasePostgresSaver

from memguard.binding import binding, taken
from memguard.care import Handle
from memguard.engine import MemGuard
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.messages import MessageScreen
from memguard.integrations.langgraph.place import place_of
from memguard.integrations.langgraph.postgres_care import PostgresCare
from memguard.integrations.langgraph.postgres_operations import PostgresOperations
from memguard.integrations.langgraph.postgres_scan import AsyncPostgresScan, PostgresScan
from memguard.integrations.langgraph.postgres_session import check_session
from memguard.integrations.langgraph.saver import GuardedSaver, guarded_type
from memguard.integrations.langgraph.saver_revert import SaverReverting
from memguard.integrations.langgraph.saver_scoping import ScopedSaver

#: Shipped saver -> how its rows are read, and its kind in ``[stores.NAME]``.
_KINDS: dict[str, tuple[type[PostgresScan], str]] = {
    "PostgresSaver": (PostgresScan, "langgraph-postgres-saver"),
    "AsyncPostgresSaver": (AsyncPostgresScan, "langgraph-async-postgres-saver"),
}
#: What this module knows of the tables is what these say; a subclass may not say otherwise.
_STATEMENTS = (
    "SELECT_SQL",
    "UPSERT_CHECKPOINT_BLOBS_SQL",
    "UPSERT_CHECKPOINTS_SQL",
    "UPSERT_CHECKPOINT_WRITES_SQL",
    "INSERT_CHECKPOINT_WRITES_SQL",
)


def guard_postgres_saver(
    mg: MemGuard, saver: Any, name: str | None, overrides: Mapping[str, Any], shipped: str
) -> GuardedSaver:
    """Guard a checkpointer over PostgreSQL, on a connection, a pool or a pipeline. It is itself unchanged.

    Raises:
        UnsupportedError: MG500, a saver that keeps no history, or whose statements were replaced; MG512, its
            connection is not in autocommit mode, or a transaction is open on it.
        ConfigError: MG225, its scope map cannot be used.
    """
    own = type(saver)
    if shipped not in _KINDS or any(getattr(own, s) != getattr(BasePostgresSaver, s) for s in _STATEMENTS):
        raise UnsupportedError(
            f"{own.__name__} cannot be guarded.",
            code="MG500",
            why="A shallow saver overwrites the only checkpoint of a thread, and a saver with statements of its own "
            "keeps its rows where memguard does not look.",
            do="Use PostgresSaver or AsyncPostgresSaver; prune(strategy='keep_latest') keeps threads short.",
        )
    if isinstance(saver.conn, psycopg.Connection | psycopg.AsyncConnection):
        check_session(saver.conn)
    places, overrides = taken(overrides)
    scan_type, kind = _KINDS[shipped]
    scan, is_async = scan_type(), scan_type is AsyncPostgresScan
    operations = PostgresOperations(
        saver,
        scan,
        layout="rows",
        is_async=is_async,
        inline=False,
        special="all",
        strict=mg.config.preset == "strict",
    )
    custody = mg.custody(saver, name, operations, kind=kind, place=place_of(saver), overrides=overrides)
    operations.custody = custody
    bound = binding(mg, custody.store, places, "thread", "metadata")
    if mg.screening.writes:
        operations.screen = MessageScreen(mg, custody.store, bound)
    face: Any = operations if bound is None else ScopedSaver(operations, bound)
    guarded = guarded_type(own)(saver, face)
    care = PostgresCare(operations, scan)
    care.reverting = SaverReverting(mg, operations, scan, care)
    return mg.attach(guarded, Handle(mg, custody, care, guarded._run, saver))
