"""The ledger as a table of ``home/state.db``, in columns that a person can read."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from memguard.errors import IntegrityError
from memguard.ports import LedgerEntry

#: How long a statement waits for another program that has the database open (milliseconds).
BUSY_MS = 10_000
TABLE = """CREATE TABLE IF NOT EXISTS ledger (
  id INTEGER PRIMARY KEY,
  context TEXT NOT NULL,
  generation INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  operation TEXT NOT NULL,
  records TEXT NOT NULL,
  kid TEXT NOT NULL,
  time REAL NOT NULL,
  chain TEXT NOT NULL,
  UNIQUE (context, generation, fence)
)"""
_SCHEMA = (
    TABLE,
    """CREATE VIEW IF NOT EXISTS ledger_readable AS
  SELECT id, datetime(time, 'unixepoch') AS utc, context, operation, json_array_length(records) AS touched,
         generation, fence, kid FROM ledger""",
)
COLUMNS = "context, generation, fence, operation, records, kid, time, chain"
_INSERT = (
    f"INSERT INTO ledger ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - constant text
    "ON CONFLICT (context, generation, fence) DO NOTHING"
)
_PAGE = 1000


class SqliteLedger:
    """A ledger on SQLite.

    Args:
        database: path of the database (made if absent, 0600), or an open connection. A connection
            given stays the caller's: its transaction is joined if one is open, and :meth:`close`
            leaves it open.

    Commits are not synced one by one (WAL, ``synchronous=NORMAL``): until :meth:`sync` the anchor's log
    holds what a power cut may take from here. Threads may share one object.

    Raises:
        IntegrityError: from every method, with ``case="state"``, when the database cannot be
            read or written or does not hold what a ledger holds.
    """

    def __init__(self, database: str | os.PathLike[str] | sqlite3.Connection) -> None:
        self._guard = threading.RLock()
        self._owned = not isinstance(database, sqlite3.Connection)
        self._pid = os.getpid()
        self.where = "ledger"
        if isinstance(database, sqlite3.Connection):
            self._conn: sqlite3.Connection | None = database
        else:
            self.where = os.path.abspath(os.fspath(database))
            self._conn = self._connect()
        with self._working("BEGIN IMMEDIATE") as conn:
            for statement in _SCHEMA:
                conn.execute(statement)

    def append(self, entries: Sequence[LedgerEntry]) -> None:
        """Add entries in order; the same (context, generation, fence) twice is ignored."""
        rows = [
            (
                entry.context,
                entry.generation,
                entry.fence,
                entry.operation,
                json.dumps(entry.records, ensure_ascii=False),
                entry.kid,
                entry.time,
                entry.chain.hex(),
            )
            for entry in entries
        ]
        with self._working("BEGIN IMMEDIATE") as conn:
            conn.executemany(_INSERT, rows)

    def sync(self) -> None:
        """Make everything appended so far durable: a commit under FULL syncs the whole write-ahead log."""
        with self._guard:
            with self._working() as conn:
                if not self._owned:
                    return  # the caller's transaction is the caller's to make durable
            try:
                conn.execute("PRAGMA synchronous=FULL")
                with self._working("BEGIN IMMEDIATE"):
                    count = conn.execute("PRAGMA user_version").fetchone()[0]
                    conn.execute(f"PRAGMA user_version={(count + 1) % (1 << 31)}")  # a commit needs a change
                conn.execute("PRAGMA synchronous=NORMAL")
            except sqlite3.Error as exc:
                raise self._foreign(exc) from exc

    def entries(self, context: str | None = None) -> Iterator[LedgerEntry]:
        """Entries oldest first, of one context or of all; read a page at a time."""
        last = 0
        clause = "" if context is None else "context = ? AND "
        query = f"SELECT id, {COLUMNS} FROM ledger WHERE {clause}id > ? ORDER BY id LIMIT {_PAGE}"  # noqa: S608
        while True:
            with self._working() as conn:
                values = (last,) if context is None else (context, last)
                rows = conn.execute(query, values).fetchall()
            for row in rows:
                yield entry_of(row[1:], self.where)
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def last(self, context: str) -> LedgerEntry | None:
        """The newest entry of a context."""
        query = f"SELECT {COLUMNS} FROM ledger WHERE context = ? ORDER BY id DESC LIMIT 1"  # noqa: S608
        with self._working() as conn:
            row = conn.execute(query, (context,)).fetchone()
        return None if row is None else entry_of(row, self.where)

    def close(self) -> None:
        """Release handles. Idempotent."""
        with self._guard:
            conn, self._conn = self._conn, None
            if conn is not None and self._owned and self._pid == os.getpid():
                with suppress(sqlite3.Error):
                    conn.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            conn = sqlite3.connect(self.where, isolation_level=None, check_same_thread=False)
            conn.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=NORMAL")
            return conn
        except (OSError, sqlite3.Error) as exc:
            raise self._foreign(exc) from exc

    @contextmanager
    def _working(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """The connection in a transaction of its own, or in the caller's; errors are mapped."""
        with self._guard:
            if self._conn is not None and self._owned and self._pid != os.getpid():
                self._conn, self._pid = self._connect(), os.getpid()
            conn = self._conn
            if conn is None:
                raise IntegrityError(
                    "The ledger is closed.", case="state", record=self.where, do="Open it again."
                )
            joined = conn.in_transaction
            try:
                if not joined:
                    conn.execute(begin)
                yield conn
                if not joined:
                    conn.execute("COMMIT")
            except sqlite3.Error as exc:
                if not joined:
                    with suppress(sqlite3.Error):
                        conn.execute("ROLLBACK")
                raise self._foreign(exc) from exc
            except BaseException:
                if not joined:
                    with suppress(sqlite3.Error):
                        conn.execute("ROLLBACK")
                raise

    def _foreign(self, exc: OSError | sqlite3.Error) -> IntegrityError:
        """Map an error of SQLite or the system; its name is kept, its text may quote rows."""
        name = getattr(exc, "sqlite_errorname", None) or getattr(exc, "strerror", None) or type(exc).__name__
        return IntegrityError(
            "The ledger could not be read or written.",
            case="state",
            record=self.where,
            why=f"The cause given is {name}.",
            do="Check the file home/state.db, its permissions and the space on its volume.",
        )


def entry_of(row: tuple[Any, ...], where: str) -> LedgerEntry:
    """The entry of a row, whose columns may hold anything.

    Raises:
        IntegrityError: it is not one that memguard wrote.
    """
    context, generation, fence, operation, records, kid, time, chain = row
    try:
        names = json.loads(records) if isinstance(records, str) else None
        link = bytes.fromhex(chain) if isinstance(chain, str) else None
    except (ValueError, RecursionError):
        names, link = None, None
    texts = isinstance(context, str) and isinstance(operation, str) and isinstance(kid, str)
    numbers = type(generation) is int and type(fence) is int and isinstance(time, int | float)
    if link is None or not (
        texts and numbers and isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise IntegrityError(
            "A row of the ledger is not one that memguard wrote.",
            case="state",
            record=where,
            why="A column has another type than it was written with.",
            do="Run memguard audit; a ledger can be started anew, heads do not depend on it.",
        )
    return LedgerEntry(context, generation, fence, operation, tuple(names), kid, float(time), link)
