"""Labels of messages that are not what their kind says: declared to come from elsewhere, or flagged.

A checkpoint's messages get their kind from their type. What differs from that is bound in the
checkpoint that brought the message first, and noted here so that it is found for a message served much
later. The table is in the guard's home, which a store's adversary may hold: every row is tagged, a row
without a good tag is an error and never a label, and rows are only ever added.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memguard.errors import TamperedError
from memguard.integrity.canonical import canonical_json, frame
from memguard.labels import Label
from memguard.ports import KeyRing

_SCHEMA = """CREATE TABLE IF NOT EXISTS message_labels (
    store TEXT NOT NULL, thread TEXT NOT NULL, message TEXT NOT NULL, digest TEXT NOT NULL,
    label TEXT NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL,
    PRIMARY KEY (store, thread, message, digest))"""
_FIND = "SELECT store, thread, message, digest, label, kid, tag FROM message_labels WHERE message = ? AND digest = ?"


def digest_of(text: str) -> str:
    """What a message says, as 32 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class LabelBook:
    """The table in ``home/state.db``. Threads may share it."""

    def __init__(self, path: Path, keys: KeyRing) -> None:
        self._keys, self._mutex = keys, threading.Lock()
        self._conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        self._conn.execute("PRAGMA journal_mode=WAL")
        # Only labels that lower trust stand here: losing one to a power cut would raise it.
        self._conn.execute("PRAGMA synchronous=FULL")
        self._conn.execute(_SCHEMA)

    def add(self, store: str, thread: str, labels: Iterable[tuple[str, str, Label]]) -> None:
        """Note (message id, digest, label); what is noted already stays: the first write counts."""
        rows = []
        for message, digest, label in labels:
            text = canonical_json(label.as_dict()).decode()
            place = (store, thread, message, digest, text)
            rows.append((*place, self._keys.current, self._tag(place, self._keys.current)))
        with self._mutex:
            self._conn.execute("BEGIN IMMEDIATE")
            try:
                self._conn.executemany(
                    "INSERT OR IGNORE INTO message_labels VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                )
            finally:
                self._conn.execute("COMMIT")

    def find(self, message: str, digest: str) -> Label | None:
        """The label of a message; the least trusted where several threads noted one.

        Raises:
            TamperedError: a row was written without the key (case ``state``).
        """
        with self._mutex:
            rows = self._conn.execute(_FIND, (message, digest)).fetchall()
        found: list[Label] = []
        for *place, kid, tag in rows:
            if not hmac.compare_digest(self._tag(tuple(place), kid), str(tag)):
                raise TamperedError(
                    "a label in the guard's own database was changed.",
                    case="state",
                    record=f"message {message!r}",
                    code="MG432",
                    why="Its tag does not match.",
                    do="Remove the row from message_labels in state.db; the message then counts as of unknown origin.",
                )
            found.append(Label.from_dict(json.loads(place[4])))
        return min(found, key=lambda label: label.trust) if found else None

    def _tag(self, place: tuple[Any, ...], kid: str) -> str:
        message = frame(b"memguard/label/1", *(str(part).encode("utf-8", "surrogatepass") for part in place))
        return hmac.digest(self._keys.subkey("label", kid), message, "sha256")[:16].hex()

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            self._conn.close()
