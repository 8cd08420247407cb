"""What a guarded PostgreSQL store or saver asks of the connection it is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from psycopg.adapt import PyFormat
from psycopg.pq import Format, TransactionStatus
from psycopg.types.json import Jsonb

from memguard.errors import UnsupportedError

_JSONB = 3802


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
