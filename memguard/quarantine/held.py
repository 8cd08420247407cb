"""Writes that a guard quarantined: kept in ``home/state.db`` so that a suspicion never loses a memory.

Small on purpose: a sealed vault with review, release and expiry takes its place. Until then the content lies
**unencrypted** in the home, readable by whoever reads the home, and each row is tagged under the key,
so that an edited one is told from what a guard withheld. Rows can be deleted by whoever may write
the home: nothing counts them yet.
"""

from __future__ import annotations

import hmac
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from memguard.decision import Decision
from memguard.errors import TamperedError
from memguard.integrity.canonical import canonical_json, frame
from memguard.ports import KeyRing

_SCHEMA = """CREATE TABLE IF NOT EXISTS held (
  id INTEGER PRIMARY KEY,
  store TEXT NOT NULL,
  context TEXT NOT NULL,
  record TEXT NOT NULL,
  value TEXT NOT NULL,
  decision TEXT NOT NULL,
  time REAL NOT NULL,
  kid TEXT NOT NULL,
  tag BLOB NOT NULL
)"""
_COLUMNS = "store, context, record, value, decision, time, kid, tag"
_BUSY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Withheld:
    """One write that was not stored. ``decision`` says why, in plain values."""

    id: int
    store: str
    context: str
    record: str
    value: str = field(repr=False)
    decision: dict[str, Any]
    time: float


class Held:
    """The table of withheld writes.

    Args:
        database: path of state.db.
        keys: tag its rows.
    """

    def __init__(self, database: str | os.PathLike[str], keys: KeyRing) -> None:
        self._path, self._keys = os.fspath(database), keys

    def keep(self, store: str, context: str, record: str, value: Any, decision: Decision) -> None:
        """Keep a value. What JSON cannot hold is kept as its ``repr``."""
        text = json.dumps(value, ensure_ascii=False, default=repr)
        why = canonical_json(decision.as_dict()).decode("utf-8", "surrogatepass")
        kid, now = self._keys.current, time.time()
        tag = self._tag(kid, store, context, record, text, why, now)
        with closing(self._connect()) as conn, conn:
            conn.execute(_SCHEMA)
            conn.execute(
                f"INSERT INTO held ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constant text
                (store, context, record, _plain(text), why, now, kid, tag),
            )

    def entries(self) -> Iterator[Withheld]:
        """Everything withheld, oldest first.

        Raises:
            TamperedError: a row is not as it was kept.
        """
        with closing(self._connect()) as conn:
            conn.execute(_SCHEMA)
            found = conn.execute(f"SELECT id, {_COLUMNS} FROM held ORDER BY id").fetchall()  # noqa: S608
        for ident, store, context, record, text, why, moment, kid, tag in found:
            if not hmac.compare_digest(self._tag(kid, store, context, record, text, why, moment), tag):
                raise TamperedError(
                    "a withheld write was changed in the guard's home.",
                    case="state",
                    record=f"held {ident}",
                    why="It does not match its tag.",
                )
            yield Withheld(ident, store, context, record, text, json.loads(why), moment)

    def _tag(
        self, kid: str, store: str, context: str, record: str, text: str, why: str, moment: float
    ) -> bytes:
        parts = [
            part.encode("utf-8", "surrogatepass") for part in (store, context, record, _plain(text), why)
        ]
        body = frame(b"memguard/held/1", *parts, repr(moment).encode())
        return hmac.digest(self._keys.subkey("held", kid), body, "sha256")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_SECONDS)


def _plain(text: str) -> str:
    """Text that a database can hold: lone surrogates spelled out, as JSON spells them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
