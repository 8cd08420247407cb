"""Seals that stand beside a store and not in it: for stores that have no place for a tag.

A Markdown file and the file of an MCP server hold what the agent reads and nothing else. Their seals are kept in the
guard's home, one table for all stores of it, by store, context and key. Nobody has to believe that table: every seal
in it is checked as if it had stood in the record, so who edits, drops or rolls it back changes nothing but what is
refused.

Record and seal are two files, and a crash may fall between them. So the seals of an operation are written down as
*planned* before the store's own commit and become the current ones after it. What counts in between follows from the
store alone: the plan, if the store holds exactly what it says, else what was there before.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from memguard.collection.rows import Entry, Put, Stored
from memguard.effects import Block, Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrity.canonical import canonical_json
from memguard.integrity.index import MAIN
from memguard.integrity.tag import EXTRA, FIXED, unpack

#: The file in the guard's home.
FILE = "beside.db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS seals (
    store BLOB NOT NULL, context BLOB NOT NULL, key BLOB NOT NULL, planned INTEGER NOT NULL,
    digest BLOB, seal TEXT, own BLOB, PRIMARY KEY (store, context, key, planned)
) WITHOUT ROWID
"""
_PLACE = "store = ? AND context = ?"


class Kept(NamedTuple):
    """A seal beside its record: SHA-256 of the content that it was made for, its text, memguard's members."""

    digest: bytes
    seal: str
    own: bytes


class Seals:
    """The table in the home. Threads and processes may share it; each change is one durable transaction.

    Methods raise TamperedError (MG600) where the file is no such table any more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = (0,)

    def of(self, store: str, context: str) -> tuple[dict[str, Kept], dict[str, Kept | None]]:
        """The current seals of a context by key, and the planned ones (None for a record that is to go)."""
        sql = f"SELECT key, planned, digest, seal, own FROM seals WHERE {_PLACE}"  # noqa: S608 - constant text
        current: dict[str, Kept] = {}
        planned: dict[str, Kept | None] = {}
        with self._open() as connection:
            for key, plan, digest, seal, own in connection.execute(sql, (_raw(store), _raw(context))):
                kept = None if digest is None else Kept(_bytes(digest), str(seal), _bytes(own))
                if plan:
                    planned[_text(key)] = kept
                elif kept is not None:
                    current[_text(key)] = kept
        return current, planned

    def plan(self, store: str, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        """Write down the seals of an operation that is about to be committed."""
        rows: list[tuple[Any, ...]] = []
        for context, keys in deletes.items():
            rows += [(_raw(store), _raw(context), _raw(key), None, None, None) for key in keys]
        for put in puts:
            own = canonical_json(put.own)
            digest = hashlib.sha256(put.content).digest()
            rows.append((_raw(store), _raw(put.context), _raw(put.name), digest, put.seal, own))
        with self._change() as connection:
            connection.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?, ?, 1, ?, ?, ?)", rows)

    def settle(self, store: str, contexts: Iterable[str], *, landed: bool) -> None:
        """The plans of these contexts become current, or are dropped."""
        with self._change() as connection:
            for context in contexts:
                place = (_raw(store), _raw(context))
                if landed:
                    connection.execute(
                        f"INSERT OR REPLACE INTO seals SELECT store, context, key, 0, digest, seal, own"  # noqa: S608
                        f" FROM seals WHERE {_PLACE} AND planned = 1",
                        place,
                    )
                connection.execute(
                    f"DELETE FROM seals WHERE {_PLACE} AND (planned = 1 OR digest IS NULL)",  # noqa: S608
                    place,
                )

    def put(self, store: str, context: str, kept: Mapping[str, Kept]) -> None:
        """Current seals for records that stand already."""
        rows = [(_raw(store), _raw(context), _raw(key), *item) for key, item in kept.items()]
        with self._change() as connection:
            connection.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?, ?, 0, ?, ?, ?)", rows)

    def forget(self, store: str, context: str, keys: Iterable[str]) -> None:
        """Drop the seals of records that are gone."""
        rows = [(_raw(store), _raw(context), _raw(key)) for key in keys]
        with self._change() as connection:
            connection.executemany(f"DELETE FROM seals WHERE {_PLACE} AND key = ?", rows)  # noqa: S608

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection is not None and self._file[0] == os.getpid():
                connection.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                if self._connection is None or self._file != self._there():
                    self._connection = self._connected()  # a forked child's inherited one is left alone
                    self._file = self._there()
                yield self._connection
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    raise
                raise self._unreadable(error) from None
            except sqlite3.DatabaseError as error:
                raise self._unreadable(error) from None

    def _there(self) -> tuple[int, ...]:
        """This process and the file at the path: a connection to any other is not used."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return (os.getpid(),)
        return os.getpid(), status.st_dev, status.st_ino

    def _connected(self) -> sqlite3.Connection:
        refuse_link(self._path)
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None, check_same_thread=False)
        try:
            os.chmod(self._path, 0o600)
            # A seal must outlast a power cut as long as its record does.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _unreadable(self, error: sqlite3.Error) -> TamperedError:
        return TamperedError(
            "the seals beside a store cannot be read.",
            case="state",
            record=str(self._path),
            code="MG600",
            why=f"The file is no table of seals any more ({type(error).__name__}).",
            do="Restore it from a copy of the home; memguard audit STORE lists the records without a seal.",
        )


class Plain(Protocol):
    """A table of records without seals: :class:`~memguard.collection.rows.Table`, where :attr:`Stored.seal` is left
    out and :meth:`commit` stores no field."""

    ordered: bool
    atomic: bool

    def contexts(self) -> Operation[Sequence[str]]:
        """Contexts that have records."""
        ...

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        """Every record of a context, in the store's own order."""
        ...

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        """Those of these keys that are there."""
        ...

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        """See :meth:`~memguard.collection.rows.Table.hint`."""
        ...

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        """Store and delete, durably."""
        ...

    def remade(self, put: Put, value: Any) -> Put:
        """The same put with another value."""
        ...


class Beside:
    """A :class:`~memguard.collection.rows.Table` over a plain one, with the seals of the home.

    Args:
        store: the name of the store under its home. It may be set later, before the first operation.
    """

    def __init__(self, plain: Plain, seals: Seals, store: str = "") -> None:
        self.plain, self.seals, self.store = plain, seals, store
        self.ordered, self.atomic = plain.ordered, plain.atomic

    def contexts(self) -> Operation[Sequence[str]]:
        return (yield from self.plain.contexts())

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        found = yield from self.plain.rows(context)
        kept = yield from self._kept(context, {stored.key: stored for stored in found})
        return [_sealed(stored, kept.get(stored.key)) for stored in found]

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        found = yield from self.plain.fetch(context, keys)
        kept = yield from self._kept(context, None)
        return {key: _sealed(stored, kept.get(key)) for key, stored in found.items()}

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return (yield from self.plain.hint(contexts))

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        contexts = list(dict.fromkeys([*deletes, *(put.context for put in puts)]))
        for context in contexts:  # what an operation that was cut short has left
            _, planned = yield Block(self.seals.of, self.store, context)
            if planned:
                there = yield from self.plain.fetch(context, list(planned))
                yield Block(self.seals.settle, self.store, [context], landed=_landed(planned, there))
        yield Block(self.seals.plan, self.store, puts, deletes)
        yield from self.plain.commit(puts, deletes)
        yield Block(self.seals.settle, self.store, contexts, landed=True)

    def remade(self, put: Put, value: Any) -> Put:
        return self.plain.remade(put, value)

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        kept = {}
        for stored, field in sealed:
            own = canonical_json({name: value for name, value in field.items() if name != "seal"})
            kept[stored.key] = Kept(hashlib.sha256(stored.content).digest(), field["seal"], own)
        yield Block(self.seals.settle, self.store, [context], landed=False)
        yield Block(self.seals.put, self.store, context, kept)

    def _kept(self, context: str, there: Mapping[str, Stored] | None) -> Operation[dict[str, Kept]]:
        """The seals that count, by key."""
        found: tuple[dict[str, Kept], dict[str, Kept | None]]
        found = yield Block(self.seals.of, self.store, context)
        current, planned = found
        if not planned:
            return current
        if there is None:
            there = yield from self.plain.fetch(context, list(planned))
        landed = _landed(planned, there)
        for key, plan in planned.items():
            if landed and plan is None:
                current.pop(key, None)
            elif plan is not None and (landed or _only(plan, current.get(key), there.get(key))):
                current[key] = plan
        return current


def refuse_link(path: Path) -> None:
    """That a database of the home may be opened here: SQLite would follow a link, and make, change and chmod what it
    leads to.

    Raises:
        TamperedError: MG600, something else than a plain file stands there.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise TamperedError(
            "the seals beside a store are not opened.",
            case="state",
            record=str(path),
            code="MG600",
            why=f"{'A link' if stat.S_ISLNK(mode) else 'No plain file'} stands where the file should be.",
            do="Look at it, remove it, and restore the file from a copy of the home.",
        )


#: One table of seals for each home.
_of_homes: WeakKeyDictionary[object, Seals] = WeakKeyDictionary()


def seals_of(mg: Any) -> Seals:
    """The table of seals of a home."""
    found = _of_homes.get(mg)
    if found is None:
        found = _of_homes[mg] = Seals(mg.home / FILE)
    return found


def assigns_trust(mg: Any) -> bool:
    """Whether a home says what records are worth. With its provenance guard off every label is of unknown trust, and
    to quote a record for that would say nothing about it."""
    return bool(mg.config.write.modes().get("provenance", "off") != "off")


def cell_of(entry: Entry) -> bytes | None:
    """What an index counts for a record that was read and has no place; None where nobody vouches for it."""
    try:
        packed = unpack(entry.stored.seal, entry.key)[1]
    except IntegrityError:
        return None
    return MAIN + packed[FIXED:EXTRA]


def _landed(planned: Mapping[str, Kept | None], there: Mapping[str, Stored]) -> bool:
    """Whether the store holds exactly what was planned."""
    return all(
        (key not in there) if plan is None else (key in there and _digest(there[key]) == plan.digest)
        for key, plan in planned.items()
    )


def _only(plan: Kept, current: Kept | None, stored: Stored | None) -> bool:
    """Whether only the planned seal is one of what stands there: then it is the one to be judged by."""
    if stored is None or _digest(stored) != plan.digest:
        return False
    return current is None or current.digest != plan.digest


def _sealed(stored: Stored, kept: Kept | None) -> Stored:
    return stored if kept is None else stored._replace(seal=kept.seal, own=kept.own)


def _digest(stored: Stored) -> bytes:
    return hashlib.sha256(stored.content).digest()


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _bytes(found: object) -> bytes:
    """What stands in a column; anybody may have put anything there."""
    return found if isinstance(found, bytes) else str(found).encode("utf-8", "surrogatepass")


def _text(raw: object) -> str:
    try:
        return _bytes(raw).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return repr(raw)
