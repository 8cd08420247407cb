"""The seals of a Letta server's memory, in the guard's home, and what the guard let through and has not sealed yet.

Letta has no place for a seal that its own tools and its models would leave alone: a passage has no metadata on the
route that agents use, and tags are shown to the model. So seals stand beside the store, in ``home/letta.db``, each
box encrypted and authenticated under the home's key. Nobody has to believe that file: a seal that is missing, old
or another's makes the record refused.

An *allowance* says: the guard has looked at this content and let it through, and whoever finds it on the server may
seal it. It bridges the moment between the server's commit and the head (a crash, a lost answer, a turn of the agent
that may take minutes), and is worth nothing once its context has moved on without it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memguard.collection.beside import refuse_link
from memguard.errors import UnknownKeyError
from memguard.ports import KeyRing

_SCHEMA = """
CREATE TABLE IF NOT EXISTS kept (
    store TEXT NOT NULL, context TEXT NOT NULL, key TEXT NOT NULL, kid TEXT NOT NULL, box BLOB NOT NULL,
    PRIMARY KEY (store, context, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS allowed (
    n INTEGER PRIMARY KEY, store TEXT NOT NULL, context TEXT NOT NULL, kid TEXT NOT NULL, box BLOB NOT NULL)
"""
#: Seconds for which an allowance waits for the server to do what it allows.
PATIENCE = 600.0
#: Digest of an allowance for a record that is to go.
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a record: its id on the server, digests of content and place (hex), its seal and members."""

    id: str
    digest: str
    place: str
    seal: str
    own: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be found on the server and sealed. ``id`` is empty for a record that the server has yet to name."""

    context: str
    id: str
    digest: str
    own: dict[str, Any]
    generation: int
    time: float
    n: int = 0


class Book:
    """The file. Threads and processes may share it; each change is one durable transaction."""

    def __init__(self, path: Path, keys: KeyRing, store: str) -> None:
        self._path, self._keys, self.store = path, keys, store
        self._mutex = threading.Lock()
        self._made = False

    # -- records -----------------------------------------------------------------------------

    def kept(self, context: str) -> dict[str, Kept]:
        """What is kept of a context, by key."""
        found: dict[str, Kept] = {}
        with self._open() as connection:
            sql = "SELECT key, kid, box FROM kept WHERE store = ? AND context = ?"
            rows = connection.execute(sql, (self.store, context)).fetchall()
        for key, kid, box in rows:
            values = self._opened(f"{context} {key}", kid, box)
            if values is not None:
                found[key] = Kept(**values)
        return found

    def keep(self, context: str, kept: Mapping[str, Kept]) -> None:
        """Write down seals."""
        rows = [
            (self.store, context, key, self._keys.current, self._boxed(f"{context} {key}", asdict(value)))
            for key, value in kept.items()
        ]
        with self._open() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)", rows)

    def drop(self, context: str, keys: Iterable[str]) -> None:
        """Forget seals."""
        with self._open() as connection, connection:
            sql = "DELETE FROM kept WHERE store = ? AND context = ? AND key = ?"
            connection.executemany(sql, [(self.store, context, key) for key in keys])

    # -- allowances --------------------------------------------------------------------------

    def allow(self, allowance: Allowance) -> Allowance:
        """Write an allowance down; with its number."""
        box = self._boxed(allowance.context, asdict(allowance))
        with self._open() as connection, connection:
            sql = "INSERT INTO allowed (store, context, kid, box) VALUES (?, ?, ?, ?)"
            done = connection.execute(sql, (self.store, allowance.context, self._keys.current, box))
        return replace(allowance, n=int(done.lastrowid or 0))

    def allowances(self, context: str, generation: int) -> list[Allowance]:
        """What is allowed in a context whose head stands at ``generation``; others are worth nothing any more."""
        found: list[Allowance] = []
        with self._open() as connection:
            sql = "SELECT n, kid, box FROM allowed WHERE store = ? AND context = ? ORDER BY n"
            rows = connection.execute(sql, (self.store, context)).fetchall()
        for n, kid, box in rows:
            values = self._opened(context, kid, box)
            if values is not None and values["context"] == context:
                allowance = Allowance(**{**values, "n": n})
                if allowance.generation == generation and time.time() - allowance.time < PATIENCE:
                    found.append(allowance)
        return found

    def close(self, context: str, done: Iterable[int], moved: Iterable[Allowance], generation: int) -> None:
        """End allowances; those that others of this context are still waiting for move on with it."""
        rows = [
            (self._boxed(context, asdict(replace(a, generation=generation))), self._keys.current, a.n)
            for a in moved
        ]
        with self._open() as connection, connection:
            connection.executemany("DELETE FROM allowed WHERE n = ?", [(n,) for n in done])
            connection.executemany("UPDATE allowed SET box = ?, kid = ? WHERE n = ?", rows)

    # -- boxes -------------------------------------------------------------------------------

    def _boxed(self, what: str, values: Mapping[str, Any]) -> bytes:
        from nacl.secret import SecretBox

        raw = json.dumps([self.store, what, values], separators=(",", ":")).encode()
        return bytes(SecretBox(self._keys.subkey("letta-book")).encrypt(raw))

    def _opened(self, what: str, kid: str, box: bytes) -> dict[str, Any] | None:
        """What is in a box; None where it is not one of this key for this place."""
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox

        try:
            raw = SecretBox(self._keys.subkey("letta-book", kid)).decrypt(bytes(box))
        except (CryptoError, UnknownKeyError, TypeError, ValueError):
            return None
        store, place, values = json.loads(raw)
        return values if (store, place) == (self.store, what) else None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            refuse_link(self._path)
            connection = sqlite3.connect(self._path, timeout=30)
            try:
                if not self._made:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(_SCHEMA)
                    self._path.chmod(0o600)
                    self._made = True
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
            finally:
                connection.close()
