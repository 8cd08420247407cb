"""The connection on which a process holds locks, and on which everything runs that needs them."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from memguard.errors import AnchorError
from memguard.postgres.address import Address
from memguard.postgres.link import Link, Rows

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

T = TypeVar("T")


class Session(Link):
    """The connection on which a process holds locks, and on which everything runs that needs them.

    A lock of PostgreSQL belongs to its connection. What is executed on that connection is executed while the lock
    is held or not at all: the server itself keeps a writer out whose lock went to somebody else. So after a lost
    connection nothing may go on as if on the old one: there is no new connection before every lock of the
    old one was given back by its holder, who learns of the loss by what fails.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.io = threading.RLock()
        #: Whether a transaction of several statements is open; the thread that has it holds ``io``.
        self.transaction = False
        self._names: dict[str, threading.Lock] = {}
        #: What this process holds, and on which connection.
        self._held: dict[str, int] = {}

    def run(self, sql: str, doing: str = "use", *, repeatable: bool = False) -> list[Rows]:
        """As :meth:`Link.run`, for one thread at a time.

        Args:
            repeatable: doing it twice is doing it once; so it is done again where the connection was found lost
                and nothing had been locked on it.

        Raises:
            AnchorError: MG527, the connection on which a lock was taken is lost.
        """
        return self._with(lambda: Link.run(self, sql, doing), repeatable)

    def ask(
        self, sql: str, values: Sequence[bytes | None], doing: str = "use", *, repeatable: bool = False
    ) -> PGresult:
        """As :meth:`Link.ask`, for one thread at a time; see :meth:`run`."""
        return self._with(lambda: Link.ask(self, sql, values, doing), repeatable)

    def _with(self, work: Callable[[], T], repeatable: bool) -> T:
        with self.io:
            self._own()
            if self._orphaned():
                raise self.fenced()
            again = repeatable and self.open and not self._held and not self.transaction
            try:
                return work()
            except AnchorError as error:
                if error.code != "MG521" or not again:
                    raise
                return work()

    def holds(self, name: str) -> bool:
        """Whether a lock is held on the connection as it is, so far as this side knows."""
        return self.open and self._held.get(name) == self.serial

    def take(self, name: str, *, also: str = "", first: bool = False) -> list[Rows] | None:
        """Try for a lock; the answers of ``also``, executed once it is held, or None if another has it.

        Args:
            first: whoever asks holds no other lock, so it may wait until those who lost theirs have noticed.

        Raises:
            AnchorError: the server is not there, or will not; MG527, who asks may be one who lost a lock.
        """
        with self.io:
            self._own()
            if not self._names.setdefault(name, threading.Lock()).acquire(False):
                return None
            got = False
            try:
                if self._orphaned():
                    if first:
                        return None
                    raise self.fenced()
                sql = f"SELECT pg_try_advisory_lock({self._key(name)}); {also}"
                again = self.open and not self._held
                try:
                    answers = super().run(sql, "lock")
                except AnchorError as error:
                    if error.code != "MG521" or not again:
                        raise
                    answers = super().run(sql, "lock")  # it had been idle, and its server was started again
                got = answers[0][0][0] == b"t"
                if got:
                    self._held[name] = self.serial
                return answers[1:] if got else None
            finally:
                if not got:
                    self._names[name].release()

    def give(self, name: str, *, first: str = "") -> None:
        """Give a lock back, after ``first`` in the same round trip.

        Never fails: with the connection lost the lock is gone, and what was to be done is done or is looked up later.
        """
        with self.io:
            self._own()
            if self.holds(name):
                try:
                    super().run(f"{first}; SELECT pg_advisory_unlock({self._key(name)})", "unlock")
                except AnchorError:
                    self.drop()  # whatever of it was carried out: the lock must not stay
            if self._held.pop(name, None) is not None:
                self._names[name].release()

    def fenced(self) -> AnchorError:
        """The error for a writer whose lock may be another's by now."""
        return AnchorError(
            "a lock in PostgreSQL was lost while it was held.",
            case="anchor",
            code="MG527",
            record=self.address.uri,
            why="Its connection ended, and another writer may hold it now: this one may not go on.",
            do="Call again: what it had begun is finished or undone first. If it goes on, check the server.",
        )

    def _own(self) -> None:
        """In a forked child: locks and connection are the parent's."""
        if self._pid != os.getpid():
            self.drop()
            self._names, self._held, self._pid = {}, {}, os.getpid()

    def _orphaned(self) -> bool:
        return any(serial != self.serial or not self.open for serial in self._held.values())

    def _key(self, name: str) -> int:
        return lock_key(self.address.schema, name)


def lock_key(schema: str, name: str) -> int:
    """The 64-bit number of a lock: PostgreSQL's advisory locks have no names."""
    said = b"memguard/lock/1\0" + schema.encode() + b"\0" + name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(said).digest()[:8], "big", signed=True)
