"""Digests of text that a home holds below user trust, kept in ``home/state.db`` for other processes.

A digest is keyed and a row is tagged, so that nobody without the key can look a text up, add one or change what a
row says. Rows that are gone, changed or unreadable are forgotten text: that can happen to whoever lets others write
the home, and raises no trust that a record was not given by its own source.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from typing import Final, cast

from memguard.errors import AnchorError
from memguard.integrity.canonical import frame
from memguard.integrity.mac import same
from memguard.record import Parent, Trust
from memguard.statedb import State, Tables, state_at

_SCHEMA: Final = """CREATE TABLE IF NOT EXISTS recalled (digest BLOB PRIMARY KEY, record TEXT NOT NULL,
    trust TEXT NOT NULL, source BLOB NOT NULL, tag BLOB NOT NULL) WITHOUT ROWID"""
_FIND: Final = "SELECT record, trust, source, tag FROM recalled WHERE digest = ?"
_KEEP: Final = """INSERT INTO recalled VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET
    record = excluded.record, trust = excluded.trust, source = excluded.source, tag = excluded.tag"""
_DROP: Final = "DELETE FROM recalled WHERE digest IN (SELECT digest FROM recalled ORDER BY digest LIMIT ?)"
_BATCH: Final = 256


class Digests:
    """The table. Not locked: its owner is.

    Args:
        path: ``state.db``, or where else the home's tables are; None keeps nothing.
        key: 32 bytes.
        limit: rows kept.
    """

    def __init__(self, path: str | os.PathLike[str] | State | None, key: bytes, limit: int) -> None:
        self._state = None if path is None or not limit else state_at(path)
        self._key, self._limit = key, limit
        self._conn: Tables | None = None
        self._count, self._version, self._empty = -1, cast(object, -1), True

    def empty(self) -> bool:
        """Whether no process kept anything. Cheap while nobody writes the database."""
        try:
            conn = self._open()
            if conn is None:
                return True
            version = conn.version()
            if version != self._version:
                self._empty = conn.execute("SELECT 1 FROM recalled LIMIT 1").fetchone() is None
                self._version = version
        except (sqlite3.Error, AnchorError) as error:
            self._lost(error)
        return self._empty

    def find(self, digest: bytes, source: str) -> Parent | None:
        """The record of that text, unless the same source wrote it."""
        try:
            conn = self._open()
            row = conn and conn.execute(_FIND, (digest,)).fetchone()
        except (sqlite3.Error, AnchorError) as error:
            self._lost(error)
            return None
        if not row:
            return None
        record, trust, by, tag = row
        said = (digest, record, trust, by)
        if not all(map(isinstance, (*said, tag), (bytes, str, str, bytes, bytes))):
            return None
        if not same(self._tag(*said), tag):
            return None
        return None if by == self._mark(source) else Parent(record, Trust(trust))

    def keep(self, digest: bytes, parent: Parent, source: str) -> None:
        """Keep the digest of a record's text."""
        record, trust, by = parent.id, str(parent.trust), self._mark(source)
        try:
            conn = self._open()
            if conn is None:
                return
            record = record.encode("utf-8", "backslashreplace").decode()
            conn.execute(_KEEP, (digest, record, trust, by, self._tag(digest, record, trust, by)))
            self._empty = False
            if self._count < 0:
                (self._count,) = conn.execute("SELECT count(*) FROM recalled").fetchone()
            self._count += 1
            if self._count > self._limit:  # digests have no order: the lowest are as good as any to forget
                conn.execute(_DROP, (_BATCH,))
                self._count -= _BATCH
        except (sqlite3.Error, AnchorError) as error:
            self._lost(error)

    def close(self) -> None:
        """Release the database; nothing is kept or found any more. Idempotent."""
        self._state = None
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _open(self) -> Tables | None:
        if self._conn is None and self._state is not None:
            self._conn = self._state.connect(_SCHEMA, full=False)
        return self._conn

    def _lost(self, error: Exception) -> None:
        logging.getLogger("memguard").warning(
            "digests of recalled text cannot be used (%s); other processes will not know what this one saw",
            type(error).__name__,
        )

    def _mark(self, source: str) -> bytes:
        said = source.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"source").digest()

    def _tag(self, digest: bytes, record: str, trust: str, by: bytes) -> bytes:
        said = frame(
            digest, record.encode("utf-8", "surrogatepass"), trust.encode("utf-8", "surrogatepass"), by
        )
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"row").digest()
