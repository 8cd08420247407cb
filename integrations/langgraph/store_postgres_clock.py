"""The clock of a PostgreSQL server, by which its rows are stamped and expire. Every client shares it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any

from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.store_postgres_sql import CLOCK
from memguard.integrations.langgraph.store_rows import Stored
from memguard.integrations.langgraph.store_table import Here

#: How far the server's clock may be off this machine's, seconds; beyond it nothing can be said of its stamps.
MOST_SKEW = 120.0
#: How long ago the clocks may have been compared when an expiry is reckoned, seconds.
_RECENT = 5.0
#: How far a stamp may lie outside the time of its write, seconds: what reading two clocks costs.
_SLACK = 1.0


class ServerClock(Here):
    """What a table of a server does about time."""

    keeps = True
    #: Runs a statement: its rows, and when (by this machine's clock) it began and ended.
    _all: Callable[..., Any]

    def __init__(self) -> None:
        self._offset, self._error, self._offset_at = 0.0, float("inf"), float("-inf")
        #: The server's clock as last told, when that was, and when the write under way began.
        self._told, self._told_at, self._began = 0.0, 0.0, 0.0
        self._zone: tzinfo = UTC

    def now(self) -> float:
        return time.time() + self._offset

    def clock(self) -> Operation[float]:
        if time.monotonic() - self._offset_at > _RECENT:
            found, began, ended = yield Call(self._all, CLOCK)
            self._time(found[0][0], began, ended)
        return self.now()

    def _time(self, told_: datetime, began: float, ended: float) -> None:
        """Compare the server's clock with this machine's; keep the most exact comparison of the last minute.

        One that contradicts it says that one of the clocks was set since.
        """
        self._told, self._told_at = told_.timestamp(), time.monotonic()
        error, offset = (ended - began) / 2, self._told - (began + ended) / 2
        moved = abs(offset - self._offset) > error + self._error
        if error <= self._error or moved or self._told_at - self._offset_at > 60:
            self._offset, self._error, self._offset_at = offset, error, self._told_at

    def moment(self, text: str) -> str | datetime:
        return text if text == "NULL" else datetime.fromisoformat(text).astimezone(self._zone)

    def fresh(self, stored: Stored, since: float, until: float, created: str | None) -> bool:
        if stored.updated == "NULL" or stored.created == "NULL":
            return False
        # By the server's clock as the reading back told it, and by how long that is after the write began.
        last = self._told + _SLACK
        first = self._told - (self._told_at - self._began) - _SLACK
        if not first <= datetime.fromisoformat(stored.updated).timestamp() <= last:
            return False
        return stored.created == (stored.updated if created is None else created or stored.created)

    def _writing(self) -> None:
        """A write begins.

        Raises:
            UnsupportedError: MG511, the clocks are too far apart.
        """
        self._began = time.monotonic()
        if abs(self._offset) > MOST_SKEW:
            raise UnsupportedError(
                "the database server's clock is not that of this machine.",
                code="MG511",
                where=f"{self._offset:+.0f} s",
                why="Stamps and expiries of what is written could not be told from invented ones.",
                do="Set both clocks by NTP.",
            )
