"""What a guarded PostgreSQL store or saver asks of the connection it is given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.adapt import PyFormat
from psycopg.pq import Format, TransactionStatus
from psycopg.types.json import Jsonb

from memguard.effects import Block, Call, Operation
from memguard.errors import UnsupportedError

_JSONB = 3802
#: Seconds in which the server begins what it was sent, and that a transaction under way is waited for.
_GRACE, _PATIENCE = 0.05, 20


def check_session(conn: Any) -> None:
    """That what is written on this connection is committed when the call returns.

    Raises:
        UnsupportedError: MG512, it is not in autocommit mode, or the caller has a transaction open on it.
    """
    if not conn.autocommit:
        raise UnsupportedError(
            "the store's connection is not in autocommit mode.",
            code="MG512",
            why="What is put would wait for a commit by somebody else while the head counts it as stored.",
            do="Connect with autocommit=True, as LangGraph's own from_conn_string does.",
        )
    if conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        raise UnsupportedError(
            "a transaction is open on the store's connection.",
            code="MG512",
            why="What is put within it may be rolled back while the head counts it as stored.",
            do="Leave the block of conn.transaction() first, or give the store a connection of its own.",
        )


def learned(conn: Any) -> tuple[Callable[[Any], str | bytes], Callable[[str], Any]]:
    """How this connection writes and reads JSON: Python's ``json``, or what the caller registered in its place."""
    dumper = conn.adapters.get_dumper(Jsonb, PyFormat.AUTO)(Jsonb, conn)
    loader = conn.adapters.get_loader(_JSONB, Format.BINARY)(_JSONB, conn)
    dumps = getattr(dumper, "dumps", None) or (lambda value: bytes(dumper.dump(Jsonb(value))).lstrip(b"\x01"))
    loads = getattr(loader, "loads", None) or (lambda text: loader.load(b"\x01" + text.encode()))
    return (json.dumps if dumps is json.dumps else dumps), loads


def ended(change: Callable[[Sequence[tuple[str, Any]]], Any], table: str) -> Operation[None]:
    """Return once no transaction of a writer that was killed can still commit rows of a table.

    Its server process goes on with what it was sent: a row could appear after it was given up. A share lock waits
    for every insertion, change and deletion that is under way, and needs no more rights than those do.

    Args:
        change: runs statements in one transaction.

    Raises:
        UnsupportedError: MG502, such a transaction does not end.
    """
    yield Block(time.sleep, _GRACE)
    lock = [(f"SET LOCAL lock_timeout = '{_PATIENCE}s'", None), (f"LOCK TABLE {table} IN SHARE MODE", None)]
    try:
        yield Call(change, lock)
    except psycopg.errors.LockNotAvailable:
        raise UnsupportedError(
            f"a transaction of another session keeps the table {table} busy.",
            code="MG502",
            why="A writer ended in the middle of an operation, and nothing can be said of its rows while transactions "
            f"on this table are open; they were waited for {_PATIENCE} seconds.",
            do="End it (pg_stat_activity shows it; pg_terminate_backend), then try again. Nothing was changed.",
        ) from None
    except psycopg.errors.UndefinedTable:
        return  # before setup there is nothing to wait for
