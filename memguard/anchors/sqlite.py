"""The SQLite anchor: the log as a table, for those who want to browse it with SQL.

Slower than the file anchor (a durable commit writes and syncs a WAL frame per page) and
not readable from read-only media; otherwise the same promises. One connection in WAL mode:
``synchronous=FULL`` for synced appends, ``NORMAL`` for the rest, which skips the sync at
commit and, unlike ``OFF``, still syncs before a checkpoint. A later FULL commit syncs the
whole WAL, so it makes earlier unsynced appends durable too.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TypeVar
from urllib.parse import quote

from memguard.anchors.failures import damaged, failed, misuse, rolled_back, within_limit
from memguard.anchors.locks import PathLock, lock_of
from memguard.errors import AnchorError
from memguard.ports import Cursor

APPLICATION_ID = 0x4D47414E  # "MGAN"
FORMAT = 1
#: How long a statement waits for another program that has the database open (milliseconds).
BUSY_MS = 10_000
_SCHEMA = """
CREATE TABLE anchor (id INTEGER PRIMARY KEY CHECK (id = 1), log_id TEXT NOT NULL, epoch INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL, syncs INTEGER NOT NULL);
CREATE TABLE record (id INTEGER PRIMARY KEY, payload BLOB NOT NULL);
"""
_T = TypeVar("_T")


class SqliteAnchor:
    """An anchor in one SQLite file. Make one with :meth:`create` or :meth:`open`.

    Cursor offsets are row ids, which a compaction continues and never restarts. Threads may
    share one object; after a fork the child opens a connection of its own.
    """

    def __init__(self, path: str, lock: PathLock) -> None:
        self.path = path
        self.uri = f"sqlite:{path}"
        self.syncs = 0
        self._lock = lock
        self._guard = threading.RLock()
        self._refusal: AnchorError | None = None
        self._connect()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SqliteAnchor:
        """Make a new, empty log in a file that does not exist yet (0600).

        Raises:
            AnchorError: the file exists or cannot be made.
        """
        target = os.path.abspath(os.path.expanduser(os.fspath(path)))
        fresh = f"{target}.{token_hex(6)}.tmp"
        try:
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                conn = sqlite3.connect(fresh, isolation_level=None)
                try:
                    conn.execute("PRAGMA journal_mode=WAL")
                    conn.execute("PRAGMA synchronous=FULL")
                    conn.execute(f"PRAGMA application_id={APPLICATION_ID}")
                    conn.execute(f"PRAGMA user_version={FORMAT}")
                    conn.executescript(_SCHEMA)
                    conn.execute("INSERT INTO anchor VALUES (1, ?, 1, 1, 0, 0)", (token_hex(16),))
                finally:
                    conn.close()
                os.link(fresh, target)  # refuses to replace a file, unlike a rename
            except FileExistsError:
                raise misuse(
                    "There is an anchor already.", target, "Open it, or name another file."
                ) from None
            finally:
                for name in (fresh, fresh + "-wal", fresh + "-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(name)
            folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            raise failed("create", target, exc) from exc
        except sqlite3.Error as exc:
            raise _foreign("create", f"sqlite:{target}", exc) from exc
        return cls.open(target)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SqliteAnchor:
        """Open an existing log.

        Raises:
            AnchorError: missing, or not an anchor.
        """
        target = os.path.abspath(os.path.expanduser(os.fspath(path)))
        try:
            os.stat(target)
            return cls(target, lock_of(target + ".lock", create=True))
        except OSError as exc:
            raise failed("open", target, exc) from exc

    def _connect(self) -> None:
        """Open a connection of this process and see that the file is an anchor."""
        self._pid = os.getpid()
        self._level = ""
        self._known: tuple[Cursor, int] | None = None
        status = os.stat(self.path)
        self._key = (status.st_dev, status.st_ino)
        try:
            conn = sqlite3.connect(
                f"file:{quote(self.path)}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
            )
            conn.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            found = conn.execute("PRAGMA application_id").fetchone()[0]
            version = conn.execute("PRAGMA user_version").fetchone()[0]
            if (found, version) != (APPLICATION_ID, FORMAT):
                conn.close()
                raise damaged(self.uri, "The database is not an anchor of a format that this program reads.")
            conn.execute("PRAGMA journal_mode=WAL")
            self._conn: sqlite3.Connection | None = conn
            self._id = conn.execute("SELECT log_id FROM anchor").fetchone()[0]
        except sqlite3.Error as exc:
            raise _foreign("open", self.uri, exc) from exc

    def __repr__(self) -> str:
        return f"SqliteAnchor({self.path!r})"

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the exclusive lock (a ``flock`` on PATH.lock).

        Raises:
            AnchorError: the file is gone or was replaced, or locking failed.
        """
        self._usable()
        try:
            if not self._lock.acquire(self, blocking):
                return False
        except OSError as exc:
            raise failed("lock", self.uri, exc) from exc
        try:
            self._same_file()
        except BaseException:
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._must_hold("release")
        self._lock.release()

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """Records after ``since``; the port's contract."""

        def work(conn: sqlite3.Connection) -> tuple[list[bytes], Cursor, bool]:
            self._same_file()
            conn.execute("BEGIN")
            try:
                now = self._now(conn)
                version = conn.execute("PRAGMA data_version").fetchone()[0]
                whole = since is None or since.epoch < now.epoch
                if since is not None and not whole and since != min(since, now, key=_place):
                    raise rolled_back(
                        self.uri, f"It is at {now.epoch}/{now.offset}; {since.epoch}/{since.offset} was seen."
                    )
                first = conn.execute("SELECT first FROM anchor").fetchone()[0]
                start = first - 1 if since is None or whole else since.offset
                query = "SELECT payload, id FROM record WHERE id > ? ORDER BY id"
                rows = conn.execute(query, (0 if whole else start,)).fetchall()
                if [row[1] for row in rows] != list(range(start + 1, now.offset + 1)):
                    raise damaged(self.uri, "Records are missing from the table, or there are too many.")
            finally:
                conn.execute("ROLLBACK")
            self._known = (now, version)
            return [bytes(row[0]) for row in rows], now, whole and since is not None

        return self._run("read", work, poison=False)

    def changed(self, since: Cursor) -> bool:
        """Whether :meth:`read` would answer anything new: ``PRAGMA data_version``, then one row."""

        def work(conn: sqlite3.Connection) -> bool:
            known = self._known
            if known is not None and known[0] == since:
                if conn.execute("PRAGMA data_version").fetchone()[0] == known[1]:
                    return False
            return self._now(conn) != since

        return self._run("read", work, poison=False)

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """Append under the lock in one transaction; the port's contract."""

        def work(conn: sqlite3.Connection) -> Cursor:
            self._synchronous("FULL" if sync else "NORMAL")
            conn.execute("BEGIN IMMEDIATE")
            now = self._now(conn)
            rows = [(now.offset + 1 + place, record) for place, record in enumerate(records)]
            conn.executemany("INSERT INTO record VALUES (?, ?)", rows)
            after = Cursor(now.epoch, now.offset + len(rows))
            conn.execute("UPDATE anchor SET last = ?, syncs = syncs + ?", (after.offset, int(sync)))
            conn.execute("COMMIT")
            self._know(after)
            return after

        self._usable()
        self._must_hold("append")
        within_limit(records, self.uri)
        cursor = self._run("append to", work, poison=True)
        self.syncs += sync
        return cursor

    def sync(self) -> None:
        """Make everything appended so far durable: a FULL commit syncs the whole WAL."""

        def work(conn: sqlite3.Connection) -> None:
            self._synchronous("FULL")
            conn.execute("UPDATE anchor SET syncs = syncs + 1")

        self._run("sync", work, poison=True)
        self.syncs += 1

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """Replace the log in one durable transaction, under the lock."""

        def work(conn: sqlite3.Connection) -> Cursor:
            self._synchronous("FULL")
            conn.execute("BEGIN IMMEDIATE")
            now = self._now(conn)
            if self._known is None or self._known[0] != now:
                conn.execute("ROLLBACK")
                raise misuse("The log holds records that were not read.", self.uri, "Read to its end first.")
            conn.execute("DELETE FROM record")
            rows = [(now.offset + 1 + place, record) for place, record in enumerate(kept)]
            conn.executemany("INSERT INTO record VALUES (?, ?)", rows)
            after = Cursor(now.epoch + 1, now.offset + len(rows))
            conn.execute(
                "UPDATE anchor SET epoch = ?, first = ?, last = ?, syncs = syncs + 1",
                (after.epoch, now.offset + 1, after.offset),
            )
            conn.execute("COMMIT")
            self._know(after)
            return after

        self._usable()
        self._must_hold("compact")
        kept = tuple(records)
        within_limit(kept, self.uri)
        cursor = self._run("compact", work, poison=True)
        self.syncs += 1
        return cursor

    def close(self) -> None:
        """Release handles. Idempotent; gives back a lock that this object holds."""
        if self._lock.owner is self:
            self._lock.release()
        self._refusal = self._refusal or misuse("The anchor is closed.", self.uri, "Open it again.")
        self._drop()

    def _run(self, doing: str, work: Callable[[sqlite3.Connection], _T], *, poison: bool) -> _T:
        """Do ``work`` on the connection, one thread at a time, and map what SQLite says."""
        with self._guard:
            self._usable()
            if self._pid != os.getpid():
                # The parent's connection: using or even closing it here would break the parent's locks.
                _abandoned.append(self._conn)
                self._connect()
            conn = self._conn
            assert conn is not None
            try:
                return work(conn)
            except sqlite3.Error as exc:
                with suppress(sqlite3.Error):
                    conn.execute("ROLLBACK")
                error = _foreign(doing, self.uri, exc)
                if poison and not _harmless(exc):
                    self._refusal = error
                    self._drop()
                raise error from exc
            except BaseException:
                with suppress(sqlite3.Error):
                    conn.execute("ROLLBACK")
                raise

    def _now(self, conn: sqlite3.Connection) -> Cursor:
        row = conn.execute("SELECT epoch, last, log_id FROM anchor").fetchone()
        if row is None or row[2] != self._id:
            raise rolled_back(self.uri, "Another log stands in its place.")
        return Cursor(row[0], row[1])

    def _know(self, cursor: Cursor) -> None:
        """Remember this place. ``data_version`` moves with other connections' commits only."""
        assert self._conn is not None
        self._known = (cursor, self._conn.execute("PRAGMA data_version").fetchone()[0])

    def _synchronous(self, level: str) -> None:
        if self._level != level:
            assert self._conn is not None
            self._conn.execute(f"PRAGMA synchronous={level}")
            self._level = level

    def _same_file(self) -> None:
        try:
            status = os.stat(self.path)
        except OSError as exc:
            raise failed("find", self.uri, exc) from exc
        if (status.st_dev, status.st_ino) != self._key:
            raise rolled_back(self.uri, "Another file stands in its place.")

    def _usable(self) -> None:
        known = self._refusal
        if known is not None:
            raise AnchorError(known.what, case=known.case, record=known.record, why=known.why, do=known.do)

    def _must_hold(self, doing: str) -> None:
        if self._lock.owner is not self:
            raise misuse(f"Refused to {doing} without the anchor's lock.", self.uri, "Call acquire() first.")

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None and self._pid == os.getpid():
            with suppress(sqlite3.Error):
                conn.close()


#: Connections inherited by a fork. Kept, because closing one drops its parent's POSIX locks.
_abandoned: list[sqlite3.Connection | None] = []


def _place(cursor: Cursor) -> tuple[int, int]:
    return cursor.epoch, cursor.offset


def _harmless(exc: sqlite3.Error) -> bool:
    """Whether the failure left the log as it was for certain."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY)


def _foreign(doing: str, where: str, exc: sqlite3.Error) -> AnchorError:
    """Map a ``sqlite3`` error; its name is kept, its text (it may quote rows) is not."""
    name = getattr(exc, "sqlite_errorname", None) or type(exc).__name__
    base = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if base in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return damaged(where, f"SQLite says {name}.")
    do = {
        sqlite3.SQLITE_FULL: "Free space on the anchor's volume, then open the anchor again.",
        sqlite3.SQLITE_READONLY: "Give this user write permission on the anchor and its folder.",
        sqlite3.SQLITE_CANTOPEN: "Check the path and its permissions.",
        sqlite3.SQLITE_BUSY: "End the other program that holds the database.",
    }.get(base, "Check the anchor's volume, then open the anchor again.")
    return AnchorError(
        f"Could not {doing} the anchor.", case="anchor", record=where, why=f"SQLite says {name}.", do=do
    )
