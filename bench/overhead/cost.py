"""The prices of the machine that every ratio depends on: one sync of the anchor's volume, one bare commit, one HMAC.

Where a sync costs s and the bare commit b, a strict put cannot be cheaper than about 1 + s/b of a bare one, so
both are printed beside the ratios: without them a ratio says nothing about another machine.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from memguard.bench.overhead.timing import median_us

#: Microseconds of one HMAC on a quiet machine of 2026, and how many times that means that something else runs.
QUIET_HMAC_US = 1.7
BUSY = 1.5
#: Bytes appended per sync: about the size of one head record.
RECORD = 400


def sync_us(folder: Path, n: int = 50) -> float:
    """Median microseconds to append 400 bytes to a file in ``folder`` and fdatasync it."""
    flush = getattr(os, "fdatasync", os.fsync)
    path = folder / "sync-probe"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:

        def operation(_: int) -> None:
            os.write(handle, b"\0" * RECORD)
            flush(handle)

        return median_us(operation, n)
    finally:
        os.close(handle)
        path.unlink()


def hmac_us(n: int = 2000) -> float:
    """Median microseconds of one HMAC-SHA256 over 200 bytes: how fast this machine is at this moment.

    About 1.7 on a quiet machine of 2026; several times that means that something else runs here.
    """
    import hmac

    key, message = b"k" * 32, b"m" * 200
    return median_us(lambda _: hmac.digest(key, message, "sha256"), n)


def commit_us(folder: Path, n: int = 50) -> float:
    """Median microseconds of one insert of 600 bytes and its commit, SQLite in WAL mode with synchronous=FULL."""
    path = folder / "commit-probe.db"
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE probe (id INTEGER PRIMARY KEY, body BLOB)")

        def operation(_: int) -> None:
            connection.execute("INSERT INTO probe (body) VALUES (?)", (b"\0" * 600,))

        return median_us(operation, n)
    finally:
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
