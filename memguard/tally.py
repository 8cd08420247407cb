"""How often the guards decided what: counts by day, for ``memguard status``, the daily note and promotion.

Counts only; no content and no record ids. They inform people and decide nothing, so they are not under the
guard's tags: whoever writes the home can change them, and the documentation says so.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from memguard.decision import Decision, Disposition
from memguard.errors import AnchorError, IntegrityError
from memguard.ledger import columns
from memguard.statedb import State, state_at

_SCHEMA = """CREATE TABLE IF NOT EXISTS decided (
    day TEXT NOT NULL, store TEXT NOT NULL, stage TEXT NOT NULL, guard TEXT NOT NULL, code TEXT NOT NULL,
    disposition TEXT NOT NULL, would TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (day, store, stage, guard, code, disposition, would)) WITHOUT ROWID"""
_ADD = """INSERT INTO decided VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (day, store, stage, guard, code, disposition, would) DO UPDATE SET n = decided.n + excluded.n"""
_COUNTS = """SELECT day, store, stage, guard, code, disposition, would, n FROM decided WHERE day >= ?
    ORDER BY day, store, stage, guard, code"""
#: Decisions counted in memory before they are written down, and the seconds after which the next one writes them;
#: :meth:`Tally.close`, or the end of the program, writes the rest.
PENDING, SECONDS = 1000, 60.0
#: Days that are kept.
KEPT_DAYS = 90

Key = tuple[str, str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the table. ``would`` is what enforcing had done, empty where it was enforced."""

    day: str
    store: str
    stage: str
    guard: str
    code: str
    disposition: str
    would: str
    n: int


class Tally:
    """The table in ``home/state.db``. Threads and processes may share it; a crash loses what was not written.

    Args:
        path: the database, or where else the home's tables are.
        clock: seconds that never go back.
    """

    def __init__(self, path: Path | State, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._mutex, self._clock = state_at(path), threading.Lock(), clock
        self._pending: Counter[Key] = Counter()
        self._count, self._first = 0, 0.0
        _OPEN.add(self)

    def add(self, store: str, stage: str, decision: Decision) -> None:
        """Count one decision."""
        allowed = not decision.flagged
        who = ("", "") if allowed else (decision.guard, decision.code)
        self._add((store, stage, *who, str(decision.disposition), str(decision.would or "")))

    def note(self, store: str, what: str) -> None:
        """Count a record that is no decision: ``recalled`` (it came out of another one) or ``repeated``."""
        self._add((store, what, "", "", "", ""))

    def _add(self, line: tuple[str, str, str, str, str, str]) -> None:
        key = (today().isoformat(), *line)
        with self._mutex:
            now = self._clock()
            if not self._count:
                self._first = now
            self._pending[key] += 1
            self._count += 1
            due = self._count >= PENDING or now - self._first >= SECONDS
        if due:
            self.flush()

    def flush(self) -> None:
        """Write down what was counted. A home that cannot be written keeps it in memory."""
        with self._mutex:
            pending, self._pending, self._count = self._pending, Counter(), 0
        if not pending:
            return
        try:
            with closing(self._state.connect(_SCHEMA, full=False, busy=10)) as conn, conn.transaction():
                conn.executemany(_ADD, [(*key, n) for key, n in pending.items()])
                oldest = date.fromordinal(today().toordinal() - KEPT_DAYS).isoformat()
                conn.execute("DELETE FROM decided WHERE day < ?", (oldest,))
        except (sqlite3.Error, AnchorError):
            with self._mutex:
                self._pending.update(pending)

    close = flush

    def counts(self, since: date | None = None) -> Iterator[Count]:
        """Every line since a day, those of this process that are not written yet included."""
        self.flush()
        with (
            columns.readable(_unreadable),
            closing(self._state.connect(_SCHEMA, full=False, busy=10)) as conn,
        ):
            found = conn.execute(_COUNTS, (since.isoformat() if since else "",)).fetchall()
        for row in found:
            if all(map(isinstance, row, (*[str] * 7, int))):
                yield Count(*row)

    def withheld_if_enforced(self) -> tuple[int, str]:
        """Records that an observing guard would have withheld, and the first day of them (ISO, or empty)."""
        severe = (str(Disposition.QUARANTINE), str(Disposition.REJECT))
        found = [line for line in self.counts() if line.would in severe and line.disposition not in severe]
        return sum(line.n for line in found), min((line.day for line in found), default="")


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


#: Every tally of this process. A program that ends without ``close()``, as one does that calls only ``guard(...)``,
#: would take its counts along, and ``config promote`` would say that nothing had been withheld.
_OPEN: weakref.WeakSet[Tally] = weakref.WeakSet()


def _write_the_rest() -> None:
    for tally in list(_OPEN):
        tally.flush()


def _begin_anew() -> None:
    """In a forked child: what is pending is the parent's to write, and the lock may be held by a thread of it."""
    for tally in list(_OPEN):
        tally._mutex, tally._pending, tally._count = threading.Lock(), Counter(), 0


atexit.register(_write_the_rest)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _unreadable(name: str) -> IntegrityError:
    return IntegrityError(
        "what the guards decided cannot be read.",
        case="state",
        record="decided in state.db",
        why=f"The cause given is {name}.",
        do="Check home/state.db; the counts inform and decide nothing, so that table may be removed.",
    )
