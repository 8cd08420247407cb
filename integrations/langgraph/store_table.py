"""What is asked of a store's rows, undecoded, whatever keeps them.

A *table* answers what operations ask: every row of a namespace in the store's own order, some of them
by key, the namespaces that have rows, and a hint that differs after somebody else changed the store.
Writes and lists of namespaces go through the wrapped store's own ``batch``.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from langgraph.store.base import SearchOp

from memguard.effects import Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.langgraph.store_forms import Form
from memguard.integrations.langgraph.store_rows import Namespace, Stored, text_key, unquoted


class Hit(NamedTuple):
    """One result of a search: its row as stored, or (``None``) one to be looked up by its key."""

    namespace: Namespace
    key: str
    score: float | None
    stored: Stored | None = None


def stamp(moment: float) -> str:
    """A moment as SQLite's CURRENT_TIMESTAMP writes it."""
    return _stamp(int(moment))


@lru_cache(maxsize=16)
def _stamp(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(second))


class Here:
    """The clock of a table whose store stamps rows by the clock of this machine."""

    #: Whether a put of a key that is there keeps the row's time of creation.
    keeps = False
    #: Whether it is known, since the last hint, that no item has an expiry.
    lasting = False

    def key(self, key: object) -> str:
        """The key of an item, if the store can hold it.

        Raises:
            UnsupportedError: it cannot.
        """
        return text_key(key)

    def now(self) -> float:
        """The time by which rows are stamped and expire, seconds since the epoch."""
        return time.time()

    def clock(self) -> Operation[float]:
        """The same, asked for where it is not known yet."""
        return time.time()
        yield

    def moment(self, text: str) -> str | datetime:
        """A stamp of a row, as an item has it."""
        return unquoted(text)

    def quiet(self) -> Operation[None]:
        """Wait until no transaction that a killed writer left behind can still be committed."""
        return
        yield

    def fresh(self, stored: Stored, since: float, until: float, created: str | None) -> bool:
        """Whether the stamps of a row that was just written are of the time of the write.

        Args:
            since, until: by the clock of this machine.
            created: the time of creation of the row that was there, ``""`` if it is not known, None if none was.
        """
        if stored.created[:1] != "'":
            return True  # not SQLite's clock: nothing is known of it
        first, last = stamp(since), stamp(until)  # to the second
        return first <= stored.created[1:20] <= last and first <= stored.updated[1:20] <= last


class Table(Protocol):
    """How a kind of store is read undecoded."""

    #: What the table's own methods and the store's sweeper are called on.
    store: Any

    @property
    def form(self) -> Form:
        """How its values are sealed."""
        ...

    #: Whether a filter becomes part of an SQL statement.
    sql: bool
    #: Whether :meth:`rows` gives rows in an order that the store keeps (and that seals number).
    ordered: bool
    #: Whether the store's expiry column can be seen.
    expiring: bool
    #: Whether items may have vectors, as far as is known: a store without an index may stand on tables with some.
    vectored: bool
    #: Whether :meth:`hint` also tells when others made or emptied a namespace.
    cached: bool
    #: Whether a put of a key that is there keeps the row's time of creation.
    keeps: bool

    @property
    def lasting(self) -> bool:
        """See :class:`Here`."""
        ...

    def key(self, key: object) -> str:
        """See :class:`Here`."""
        ...

    def now(self) -> float:
        """See :class:`Here`."""
        ...

    def clock(self) -> Operation[float]:
        """See :class:`Here`."""
        ...

    def moment(self, text: str) -> str | datetime:
        """See :class:`Here`."""
        ...

    def quiet(self) -> Operation[None]:
        """See :class:`Here`."""
        ...

    def fresh(self, stored: Stored, since: float, until: float, created: str | None) -> bool:
        """See :class:`Here`."""
        ...

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """A value that differs after somebody else changed the store, or one for each of ``names``; None where
        nothing tells."""
        ...

    def sound(self, hint: object) -> Operation[None]:
        """That what answers is the store's own tables, unless ``hint`` says that nothing changed.

        A view in a table's place may answer differently from one moment to the next, so that no check of
        its rows says anything about the next question.

        Raises:
            TamperedError: it is not.
        """
        ...

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        """Namespaces that have rows."""
        ...

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        """Every row of a namespace."""
        ...

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        """Rows by key, those that are there."""
        ...

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        """The wrapped store's own ``batch``. Items in its answer are not to be believed."""
        ...

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        """What the wrapped store finds."""
        ...

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        """Digest of the vectors stored under each key that has any, with or without an item."""
        ...

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        """Delete the vectors under these keys."""
        ...

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        """Items whose expiry column lies before ``now`` (``YYYY-MM-DD HH:MM:SS``, UTC)."""
        ...

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        """Delete those of these items whose expiry column still lies before ``now``."""
        ...


class reading:
    """Errors of a store that cannot be read become integrity errors of this record alone.

    A busy or closed database is not damage: those errors pass as they are.
    """

    __slots__ = ("_record",)

    def __init__(self, record: str) -> None:
        self._record = record

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, IntegrityError) or not isinstance(error, _DAMAGE):
            return
        if isinstance(error, _PASSING):
            # Its message quotes the column: it must not reach a log.
            if "UTF-8" not in str(error) and "malformed JSON" not in str(error):
                return
        raise _unreadable(self._record, error) from None


_PASSING = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
_DAMAGE = (sqlite3.DatabaseError, sqlite3.InterfaceError, ValueError, TypeError, KeyError, AttributeError,
           RecursionError)  # fmt: skip


def _unreadable(record: str, error: Exception) -> TamperedError:
    return TamperedError(
        "stored rows cannot be read.",
        case="undecodable",
        record=record,
        code="MG405",
        why=f"The store answered with {type(error).__name__}; memguard never stores what it cannot read back.",
        do="memguard audit STORE lists what is damaged.",
    )


def searched(table: Table, op: SearchOp) -> Operation[list[Hit]]:
    """What the store's own ``batch`` finds."""
    (found,) = yield from table.batch([op])
    return [Hit(tuple(item.namespace), item.key, item.score) for item in found]


def altered(record: str) -> TamperedError:
    """The error for a write that did not arrive as it was handed over."""
    return TamperedError(
        "the store does not hold what was just written to it.",
        case="T1",
        record=record,
        why="It was changed between the store's commit and the reading back: by a trigger, or by another writer.",
        do="Look for triggers in the database; memguard audit STORE lists what is damaged.",
    )
