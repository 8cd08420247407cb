"""An in-memory anchor, and one that fails on demand.

:class:`MemoryAnchor` is a product: the head of a store that lives in memory lives here.
:class:`FaultyAnchor` injects named failures around any anchor, for tests of what comes after.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memguard.anchors.failures import misuse, rolled_back
from memguard.errors import AnchorError
from memguard.ports import Anchor, Cursor


@dataclass
class _Log:
    """What all anchors of one name share: the records of one epoch, and the lock."""

    records: list[bytes] = field(default_factory=list)
    epoch: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock)
    guard: threading.Lock = field(default_factory=threading.Lock)
    owner: object | None = None


_named: dict[str, _Log] = {}
_guard = threading.Lock()


class MemoryAnchor:
    """A log in this process's memory. Offsets count records. Safe between threads.

    By URI, ``memory:NAME`` is one log per name in a process; ``memory:`` is a new one each time.
    """

    def __init__(self, log: _Log | None = None, uri: str = "memory:") -> None:
        self.uri = uri
        self.syncs = 0
        self._log = log or _Log()
        self._closed = False

    @classmethod
    def create(cls, name: str = "") -> MemoryAnchor:
        """A new, empty log.

        Raises:
            AnchorError: this process holds one of that name.
        """
        if not name:
            return cls()
        with _guard:
            if name in _named:
                raise misuse(
                    "There is an anchor already.", f"memory:{name}", "Open it, or choose another name."
                )
            _named[name] = _Log()
        return cls.open(name)

    @classmethod
    def open(cls, name: str) -> MemoryAnchor:
        """The log of that name.

        Raises:
            AnchorError: this process holds none.
        """
        with _guard:
            log = _named.get(name)
        if log is None:
            raise AnchorError(
                "Could not open the anchor.",
                case="anchor",
                record=f"memory:{name}",
                why="This process holds no anchor of that name; what was in memory died with its process.",
                do="Use file: or sqlite: for anything that must outlive a process.",
            )
        return cls(log, f"memory:{name}")

    def second(self) -> MemoryAnchor:
        """Another anchor object on the same log, as another process would have."""
        return MemoryAnchor(self._log, self.uri)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the exclusive lock between all anchors of this log."""
        self._open()
        if not self._log.lock.acquire(blocking):
            return False
        self._log.owner = self
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._must_hold("release")
        self._log.owner = None
        self._log.lock.release()

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """Records after ``since``; the port's contract."""
        self._open()
        log = self._log
        with log.guard:
            now = Cursor(log.epoch, len(log.records))
            if since is None:
                return list(log.records), now, False
            if since.epoch == log.epoch and since.offset <= now.offset:
                return log.records[since.offset :], now, False
            if since.epoch < log.epoch:
                return list(log.records), now, True
        raise rolled_back(
            self.uri, f"It is at {now.epoch}/{now.offset}; {since.epoch}/{since.offset} was seen."
        )

    def changed(self, since: Cursor) -> bool:
        """Whether :meth:`read` would answer anything new."""
        if self._closed:
            self._open()
        log = self._log
        return since.epoch != log.epoch or since.offset != len(log.records)

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """Append under the lock. ``sync`` is counted; memory has nothing to sync."""
        self._open()
        self._must_hold("append")
        log = self._log
        with log.guard:
            log.records.extend(bytes(record) for record in records)
            self.syncs += sync
            return Cursor(log.epoch, len(log.records))

    def sync(self) -> None:
        """Count a sync."""
        self._open()
        self.syncs += 1

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """Replace the log under the lock."""
        self._open()
        self._must_hold("compact")
        fresh = [bytes(record) for record in records]
        log = self._log
        with log.guard:
            log.records = fresh
            log.epoch += 1
            self.syncs += 1
            return Cursor(log.epoch, len(fresh))

    def close(self) -> None:
        """Refuse further calls. Idempotent; gives back a lock that this object holds. The log stays."""
        if self._log.owner is self:
            self.release()
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise misuse("The anchor is closed.", self.uri, "Open it again.")

    def _must_hold(self, doing: str) -> None:
        if self._log.owner is not self:
            raise misuse(f"Refused to {doing} without the anchor's lock.", self.uri, "Call acquire() first.")


class FaultyAnchor:
    """An anchor that fails where a test says, around any other one.

    Args:
        anchor: the anchor that does the work; same class of behaviour otherwise.
        fail_on: failure name to the number of calls that succeed before it strikes, once.
            ``append`` fails before anything is written; ``append-after`` after the records
            were written (an exception in doubt); ``sync`` fails the sync of ``append(sync=True)``
            or ``sync()`` with the records written; ``acquire``, ``read``, ``changed`` and
            ``compact`` fail instead of doing their work.

    After a failed ``append-after`` or ``sync`` every call raises until :meth:`reopen`, as the
    port demands. :attr:`struck` lists the failures that happened: a test asserts it, so that a
    fault which was never reached cannot pass.
    """

    NAMES = ("acquire", "read", "changed", "append", "append-after", "sync", "compact")

    def __init__(self, anchor: Anchor, fail_on: dict[str, int]) -> None:
        unknown = set(fail_on) - set(self.NAMES)
        if unknown:
            raise ValueError(
                f"no such failure: {', '.join(sorted(unknown))}; there are {', '.join(self.NAMES)}"
            )
        self.inner = anchor
        self.struck: list[str] = []
        self._left = dict(fail_on)
        self._poisoned = False

    @property
    def uri(self) -> str:
        """URI of the inner anchor."""
        return self.inner.uri

    @property
    def syncs(self) -> int:
        """Durable writes of the inner anchor."""
        return self.inner.syncs

    def reopen(self) -> None:
        """Clear the poison, as opening the anchor again would."""
        self._poisoned = False

    def acquire(self, *, blocking: bool = True) -> bool:
        """As the inner one, or fail."""
        self._strike("acquire")
        return self.inner.acquire(blocking=blocking)

    def release(self) -> None:
        """As the inner one."""
        self.inner.release()

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """As the inner one, or fail."""
        self._strike("read")
        return self.inner.read(since)

    def changed(self, since: Cursor) -> bool:
        """As the inner one, or fail."""
        self._strike("changed")
        return self.inner.changed(since)

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """As the inner one, or fail before, after, or in the sync."""
        self._strike("append")
        in_sync = sync and self._due("sync")
        cursor = self.inner.append(records, sync=sync and not in_sync)
        if in_sync:
            self._fail("sync", poison=True)
        if self._due("append-after"):
            self._fail("append-after", poison=True)
        return cursor

    def sync(self) -> None:
        """As the inner one, or fail."""
        self._strike("sync", poison=True)
        self.inner.sync()

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """As the inner one, or fail."""
        self._strike("compact")
        return self.inner.compact(records)

    def close(self) -> None:
        """As the inner one."""
        self.inner.close()

    def _strike(self, name: str, *, poison: bool = False) -> None:
        if self._poisoned:
            raise AnchorError(
                "The anchor failed before.", case="anchor", record=self.uri, do="Open it again."
            )
        if self._due(name):
            self._fail(name, poison=poison)

    def _due(self, name: str) -> bool:
        left = self._left.get(name)
        if left is None:
            return False
        if left:
            self._left[name] = left - 1
            return False
        del self._left[name]
        return True

    def _fail(self, name: str, *, poison: bool) -> None:
        self.struck.append(name)
        self._poisoned = poison
        raise AnchorError(
            f"Injected failure: {name}.",
            case="anchor",
            record=self.uri,
            why="A test asked for it.",
            do="Reopen it.",
        )
