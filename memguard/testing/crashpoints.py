"""Named points of an operation, and what happens when one is reached for the n-th time.

For crash tests: a process that called :meth:`Points.install` kills itself, raises, or writes a
trace at such a point. Nothing of memguard calls this module, so a production process pays nothing:
``install`` puts a tap in the place of ``os`` in the three modules that write files, and wraps a
few methods, in this process only.

Points (each with ``.before`` and ``.after``; ``.torn`` where half of the bytes are written first)::

    intent head note        AnchorLog.write, by what it writes       (memguard.anchorlog)
    log.write log.sync      one append to the anchor's log           (memguard.anchors.logfile)
    log.reserve log.cut     space for the log, and its torn tail
    new.write new.sync      the new log of a compaction
    compact.rename compact.folder compact.supersede                  (memguard.anchors.file)
    slot.write              the note of an ordinary operation        (memguard.slot)
    ledger ledger.sync ledger.mid   SqliteLedger.append and .sync, and before their COMMIT
    store.statement         a row or more written in an open transaction  (TappedConnection)
    store.row               a row committed alone (only with ``row_by_row``)
    store.commit            the wrapped store's own COMMIT
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import memguard.anchors.file as file_module
import memguard.anchors.logfile as logfile_module
import memguard.slot as slot_module
from memguard.anchorlog import AnchorLog
from memguard.anchors.framing import SUPERSEDED
from memguard.integrity.logview import HeadRecord, Intent
from memguard.ledger.sqlite import SqliteLedger

Action = Callable[[str], None]
#: Told of every file operation, before and after: ("before" or "after", operation, arguments, result).
Trace = Callable[[str, str, tuple[Any, ...], Any], None]


class Points:
    """The points of this process.

    Attributes:
        scope: what the program is doing; :meth:`arm` can ask for it. Set it around each operation.
        hits: how often each (scope, point) was reached.
        trace: told of every call that reaches a file, if set.
    """

    def __init__(self) -> None:
        self.scope = ""
        self.hits: Counter[tuple[str, str]] = Counter()
        self.trace: Trace | None = None
        self._armed: tuple[str, str | None, int, Action] | None = None
        self._undo: list[tuple[Any, str, Any]] = []

    def arm(self, point: str, action: Action, *, scope: str | None = None, nth: int = 1) -> None:
        """Have ``action`` called when ``point`` is reached for the ``nth`` time from now, then no more."""
        self._armed = (point, scope, nth, action)

    def disarm(self) -> None:
        """Nothing happens at any point."""
        self._armed = None

    def due(self, point: str) -> bool:
        """Whether reaching ``point`` now is what the armed action waits for."""
        armed = self._armed
        return armed is not None and armed[0] == point and armed[1] in (None, self.scope) and armed[2] <= 1

    def reached(self, point: str) -> None:
        """The program is at ``point``."""
        self.hits[self.scope, point] += 1
        armed = self._armed
        if armed is None or armed[0] != point or armed[1] not in (None, self.scope):
            return
        wanted, scope, nth, action = armed
        if nth > 1:
            self._armed = (wanted, scope, nth - 1, action)
            return
        self._armed = None
        action(point)

    def around(self, point: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The call, with its two points and its trace."""
        self.reached(point + ".before")
        if self.trace is not None:
            self.trace("before", point, args, None)
        result = call(*args, **kwargs)
        if self.trace is not None:
            self.trace("after", point, args, result)
        self.reached(point + ".after")
        return result

    # -- putting the taps in -----------------------------------------------------------------

    def install(self) -> None:
        """Tap this process. :meth:`remove` takes the taps out again."""
        self._set(logfile_module, "os", _LogTap(self))
        self._set(file_module, "os", _FolderTap(self))
        self._set(slot_module, "os", _SlotTap(self))
        self._set(AnchorLog, "write", _write(self, AnchorLog.write))
        self._set(SqliteLedger, "append", _ledger_append(self, SqliteLedger.append))
        self._set(SqliteLedger, "sync", _ledger_sync(self, SqliteLedger.sync))
        self._set(SqliteLedger, "_working", _working(self, SqliteLedger._working))

    def remove(self) -> None:
        """Put back what was there."""
        self.disarm()
        while self._undo:
            owner, name, was = self._undo.pop()
            setattr(owner, name, was)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def connect(self, path: str, *, row_by_row: bool = False) -> TappedConnection:
        """A connection to the wrapped store's database whose writes pass by the ``store.`` points."""
        conn = sqlite3.connect(path, factory=TappedConnection, check_same_thread=False)
        conn.points, conn.row_by_row = self, row_by_row
        return conn


class _Tap:
    """``os`` as a module sees it, with some calls on the way."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _torn(self, point: str, fd: int, data: bytes, offset: int) -> None:
        """Half of a write, if that is asked for; the rest never comes."""
        if self._points.due(point + ".torn"):
            os.pwrite(fd, data[: max(1, len(data) // 2)], offset)
        self._points.reached(point + ".torn")


class _LogTap(_Tap):
    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if data == SUPERSEDED:
            return int(self._points.around("compact.supersede", os.pwrite, fd, data, offset))
        self._torn("log.write", fd, data, offset)
        return int(self._points.around("log.write", os.pwrite, fd, data, offset))

    def fdatasync(self, fd: int) -> None:
        self._points.around("log.sync", os.fdatasync, fd)

    def ftruncate(self, fd: int, size: int) -> None:
        self._points.around("log.cut", os.ftruncate, fd, size)

    def posix_fallocate(self, fd: int, offset: int, size: int) -> None:
        self._points.around("log.reserve", os.posix_fallocate, fd, offset, size)

    def write(self, fd: int, data: Any) -> int:
        return int(self._points.around("new.write", os.write, fd, data))

    def fsync(self, fd: int) -> None:
        self._points.around("new.sync", os.fsync, fd)


class _FolderTap(_Tap):
    def rename(self, source: str, target: str) -> None:
        self._points.around("compact.rename", os.rename, source, target)

    def fsync(self, fd: int) -> None:
        self._points.around("compact.folder", os.fsync, fd)


class _SlotTap(_Tap):
    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self._torn("slot.write", fd, data, offset)
        return int(self._points.around("slot.write", os.pwrite, fd, data, offset))


def _write(points: Points, inner: Callable[..., None]) -> Callable[..., None]:
    def write(self: AnchorLog, items: Sequence[Any], **options: Any) -> None:
        kinds = {type(item) for item in items}
        point = "intent" if Intent in kinds else "head" if kinds == {HeadRecord} else "note"
        points.around(point, inner, self, items, **options)

    return write


def _ledger_append(points: Points, inner: Callable[..., None]) -> Callable[..., None]:
    def append(self: SqliteLedger, entries: Sequence[Any]) -> None:
        points.around("ledger", inner, self, entries)

    return append


def _ledger_sync(points: Points, inner: Callable[..., None]) -> Callable[..., None]:
    def sync(self: SqliteLedger) -> None:
        points.around("ledger.sync", inner, self)

    return sync


def _working(points: Points, inner: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def working(self: SqliteLedger, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        with inner(self, begin) as conn:
            yield conn
            if begin != "BEGIN":
                points.reached("ledger.mid")

    return working


_WRITING = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class TappedCursor(sqlite3.Cursor):
    """Passes by ``store.statement`` after each statement that writes."""

    @property
    def _points(self) -> Points | None:
        conn = self.connection
        return conn.points if isinstance(conn, TappedConnection) else None

    def execute(self, sql: str, values: Any = ()) -> TappedCursor:
        super().execute(sql, values)
        if self._points is not None and sql.lstrip()[:6].upper().startswith(_WRITING):
            self._points.reached("store.statement")
        return self

    def executemany(self, sql: str, rows: Any) -> TappedCursor:
        conn = self.connection
        if self._points is not None and isinstance(conn, TappedConnection) and conn.row_by_row:
            for row in rows:
                super().execute(sql, row)
                sqlite3.Connection.commit(conn)
                self._points.reached("store.row")
            return self
        super().executemany(sql, rows)
        if self._points is not None:
            self._points.reached("store.statement")
        return self


class TappedConnection(sqlite3.Connection):
    """A SQLite connection that passes by the ``store.`` points.

    Attributes:
        row_by_row: commit every row of a batch alone, as a store without transactions does.
    """

    points: Points | None = None
    row_by_row: bool = False

    def cursor(self, factory: Any = TappedCursor) -> Any:
        return super().cursor(factory)

    def commit(self) -> None:
        if self.points is None or not self.in_transaction:
            super().commit()
        else:
            self.points.around("store.commit", super().commit)
