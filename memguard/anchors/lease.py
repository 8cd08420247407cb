"""The lock of a store among the writers of several hosts, and the note that the next of them finds.

Both are of one session of PostgreSQL, and so is every append to the log. A writer that was cut off cannot advance a
head: its append would have to run on the session that is gone. What it had noted is there for whoever takes the
lock next: the note is written before the store's commit and taken back with the lock, in one round trip.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memguard.errors import AnchorError
from memguard.postgres import literal, unhex
from memguard.slot import NOTHING_NOTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from memguard.postgres import Address, Session
    from memguard.postgres.link import Rows

#: Seconds between two looks at a lock that is taken: from the first to at most the second.
_SHORTEST, _LONGEST = 0.0003, 0.006
# A note need survive its writer, not the server: what a server forgets when it crashes its next life makes up for.
_LAZY = "SET LOCAL synchronous_commit = off"


def pauses(address: Address, blocking: bool = True) -> Iterator[None]:
    """Attempts at a lock, with a pause between two of them. The server is not left waiting: its session has more to do.

    Raises:
        AnchorError: MG522, the address' patience is at an end.
    """
    yield
    until, pause = time.monotonic() + address.patience, _SHORTEST
    while blocking:
        if time.monotonic() > until:
            raise busy(address)
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that waiting hosts do not march in step
        pause = min(pause * 1.5, _LONGEST)
        yield


def busy(address: Address) -> AnchorError:
    """The error for a wait that came to its end."""
    return AnchorError(
        f"a lock in PostgreSQL was not free within {address.patience:g} seconds.",
        case="anchor",
        code="MG522",
        record=address.uri,
        why="Another writer, on this host or another, holds it that long; nothing was changed here.",
        do="Look for a program that hangs: pg_locks shows the session. ?patience=SECONDS in the address waits longer.",
    )


class Held:
    """A lock by name. A :class:`memguard.effects.Lock`."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take it.

        Raises:
            AnchorError: MG522, another writer held it for longer than the address' patience; MG520 and on.
        """
        return any(
            self._session.take(self._name) is not None for _ in pauses(self._session.address, blocking)
        )

    def release(self) -> None:
        """Give it back."""
        self._session.give(self._name)

    def tired(self, since: float) -> AnchorError | None:
        """For those who wait by trying again and again since a moment (monotonic seconds): whether that is too long."""
        address = self._session.address
        return busy(address) if time.monotonic() - since > address.patience else None


class Lease(Held):
    """Lock and note of one store. A :class:`memguard.effects.Lock` and a :class:`memguard.custody.Slot`."""

    def __init__(self, session: Session, store: str, where: str, told: Callable[[Rows | None], None]) -> None:
        super().__init__(session, f"store:{store}")
        #: Where the log ends is asked with the lock, which saves who takes it from asking next.
        self._where, self._told = where, told
        # A name of a store may hold what a text column of PostgreSQL cannot.
        self._key = literal(store.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0"))
        self._body, self._over = b"", False

    @property
    def _table(self) -> str:
        return f"{self._session.address.quoted}.note"

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take the lock, and see what was noted.

        Raises:
            AnchorError: MG522, another writer held it for longer than the address' patience; MG520 and on.
        """
        for _ in pauses(self._session.address, blocking):
            note = f"SELECT body FROM {self._table} WHERE store = {self._key}"  # noqa: S608
            answers = self._session.take(self._name, also=f"{note}; {self._where}", first=True)
            if answers is not None:
                try:
                    self._told(answers[1])
                except BaseException:
                    self._session.give(self._name)
                    raise
                self._body = unhex(answers[0][0][0]) if answers[0] else b""
                self._over = False
                return True
        return False

    def release(self) -> None:
        """Take the note back if the operation is over, then give the lock back."""
        over = f"BEGIN; {_LAZY}; {self._update(NOTHING_NOTED)}; COMMIT" if self._over else ""
        self._over = False
        self._told(None)
        self._session.give(self._name, first=over)

    def write(self, raw: bytes) -> None:
        """Overwrite the note; that nothing is going on any more is said when the lock is given back.

        Raises:
            AnchorError: MG527, the lock is lost: nothing may be begun.
        """
        self._over = raw == NOTHING_NOTED
        if not self._over:
            self._session.run(
                f"BEGIN; {_LAZY}; INSERT INTO {self._table} VALUES ({self._key}, {literal(raw)}) "  # noqa: S608
                "ON CONFLICT (store) DO UPDATE SET body = EXCLUDED.body; COMMIT",
                "note in",
            )
        self._body = raw

    def same(self, raw: bytes) -> bool:
        """Whether the note is still this one. Only while the lock is held, as for :meth:`read`."""
        return self._body == raw

    def read(self) -> bytes:
        """What it says."""
        return self._body

    def _update(self, raw: bytes) -> str:
        return f"UPDATE {self._table} SET body = {literal(raw)} WHERE store = {self._key}"  # noqa: S608
