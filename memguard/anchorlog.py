"""One anchor's log, shared by every guarded store of a MemGuard: read it, add to it, keep it short.

The anchor stores opaque records; :class:`~memguard.integrity.logview.LogView` knows what they
say. This module stands between: it takes the anchor's lock, reads what others appended before
it appends, tells each store of heads that others wrote, and carries finished operations over
to the ledger.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress

from memguard.errors import AnchorError
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord, Intent, LogView, Note, Place, signatures
from memguard.integrity.records import Owed
from memguard.ports import Anchor, Cursor, KeyRing, SharedAnchor

#: Finished operations kept in memory before they are carried to the ledger.
HARVEST = 512
#: A signature costs as much as all the rest of a record: one covers this many.
SIGN_EVERY = 64
Item = Intent | HeadRecord | Note


class AnchorLog:
    """The log of one anchor, as this process knows it.

    Args:
        anchor: where the log is.
        keys: verify and make its records.
        compact_bytes: rewrite the log when it has grown past this and past four times its last
            compacted size; 0 never.
        harvest: is given finished operations in batches, oldest first; repeats are possible.
        settle: makes what was harvested durable; called before a compaction drops it from the log.
    """

    def __init__(
        self,
        anchor: Anchor,
        keys: KeyRing,
        *,
        compact_bytes: int = 0,
        harvest: Callable[[Sequence[HeadRecord]], None] | None = None,
        settle: Callable[[], None] | None = None,
        compacted: Callable[[int, int], None] | None = None,
    ) -> None:
        self.anchor, self.keys = anchor, keys
        self._view = LogView(keys)
        self._cursor: Cursor | None = None
        self._mutex = threading.RLock()
        self._listeners: dict[str, list[weakref.WeakMethod[Callable[[HeadRecord], None]]]] = {}
        self._wrote = False
        self._tail = False  # whether heads were appended that no sync has followed
        self._pending: list[HeadRecord] = []
        self._harvest, self._settle, self._compacted = harvest, settle, compacted
        self._compact_bytes, self._floor = compact_bytes, 0
        self.refresh()

    @classmethod
    def begin(cls, anchor: Anchor, keys: KeyRing) -> None:
        """Write the base record of a new log. The anchor must be empty."""
        anchor.acquire()
        try:
            records, _, _ = anchor.read(None)
            if not records:
                anchor.append([LogView(keys).start(1, "created")], sync=True)
        finally:
            anchor.release()

    def listen(self, store: str, listener: Callable[[HeadRecord], None]) -> None:
        """Have heads of ``store`` that are appended handed to ``listener``, a bound method.

        Several objects may guard one store in a process (a saver for each request): each hears of
        every head, its own included. Listeners are held weakly.
        """
        with self._mutex:
            alive = [known for known in self._listeners.get(store, ()) if known() is not None]
            self._listeners[store] = [*alive, weakref.WeakMethod(listener)]

    def _tell(self, record: HeadRecord) -> None:
        for known in self._listeners.get(record.store, ()):
            listener = known()
            if listener is not None:
                listener(record)

    def refresh(self) -> None:
        """Take in what others appended.

        Raises:
            AnchorError, UnknownKeyError: the log is not to be trusted.
        """
        if self._cursor is not None and not self.anchor.changed(self._cursor):
            return
        with self._mutex:
            records, cursor, reset = self.anchor.read(self._cursor)
            if self._cursor is None and not records:
                raise AnchorError(
                    "the anchor's log is empty.",
                    case="anchor",
                    code="MG413",
                    record=self.anchor.uri,
                    why="A log begins with its base record; this one was cut to nothing.",
                    do="Restore it from its own backup, or memguard anchor recover after an audit.",
                )
            for record in self._view.feed(records, reset=reset and self._cursor is not None):
                if not record.carried:
                    self._pending.append(record)
                self._tell(record)
            self._cursor = cursor

    def head(self, place: Place) -> tuple[str, Head] | None:
        """Key id and head of a context, if it ever had one."""
        with self._mutex:
            return self._view.known(place)

    def state(self, place: Place) -> tuple[str, Head, Owed | None] | None:
        """Key id and head of a context, and what its sum follows from where nobody has added it up."""
        with self._mutex:
            known, owed = self._view.heads.get(place), self._view.owed(place)
        return None if known is None else (*known, owed)

    def newest(self, place: Place) -> Head | None:
        """The head of a context, its sum perhaps not added up."""
        known = self._view.heads.get(place)
        return known[1] if known else None

    def intent(self, place: Place) -> Intent | None:
        """The open intent of a context, if any."""
        return self._view.intents.get(place)

    def fenced(self, place: Place, generation: int, fence: int) -> bool:
        """Whether the fence of a context was raised past ``fence`` before it reached this generation.

        Told from what this process has read of the log and from its newest head.
        """
        with self._mutex:
            known = self._view.heads.get(place)
            raised = [*self._view.raised.get(place, ()), *([known[1][1:3]] if known else ())]
        return any(before < generation and higher > fence for before, higher in raised)

    @property
    def busy(self) -> bool:
        """Whether an operation was announced that has no head yet."""
        return bool(self._view.intents)

    @property
    def extent(self) -> tuple[int, int]:
        """Numbers of heads and of open intents; the first changes whenever :meth:`places` may answer more."""
        return len(self._view.heads), len(self._view.intents)

    def deletes(self, store: str) -> list[str]:
        """Context ids of a store on which a delete is announced and not finished."""
        with self._mutex:
            return [c for (s, c), i in self._view.intents.items() if s == store and i.operation == "delete"]

    def places(self, store: str) -> list[str]:
        """Context ids of a store that have a head or an open intent."""
        with self._mutex:
            found = dict.fromkeys(c for s, c in self._view.heads if s == store)
            found.update(dict.fromkeys(c for s, c in self._view.intents if s == store))
        return list(found)

    def notes(self) -> list[Note]:
        """What operators did, oldest first."""
        return list(self._view.notes)

    def write(self, items: Sequence[Item], *, sync: bool, expect: Sequence[tuple[Place, int]] = ()) -> None:
        """Append intents, heads or notes as one write, with at most one sync.

        Args:
            expect: compare-and-set: each place's generation must still be this; and no head may carry a lower
                fence than the one before it.

        Raises:
            AnchorError: the anchor failed (then its state is unknown), or another writer was
                faster although the store's lock should have kept it out (code MG416).
        """
        view = self._view
        self.anchor.acquire()
        try:
            with self._mutex:
                self.refresh()
                for place, generation in expect:
                    known = view.heads.get(place)
                    if (known[1].generation if known else 0) != generation:
                        raise _raced(place)
                for item in items:
                    # A lock of several hosts can be lost while it is held: what was settled meanwhile stands.
                    if item.__class__ is HeadRecord and self._fenced(item):
                        raise _raced((item.store, item.head.context))
                before = view.end
                try:
                    cursor = self.anchor.append(self._records(items), sync=False)
                except BaseException:
                    view.end = before  # nothing of it is in the log, or a reader will find it there
                    raise
                self._cursor, self._tail, self._wrote = cursor, True, True
                for item in items:
                    view.take(item)
                    if item.__class__ is HeadRecord:
                        self._pending.append(item)
                        self._tell(item)
            if sync:
                self.sync()
                if len(self._pending) >= HARVEST:
                    self.harvest()
                if self._compact_bytes and cursor.offset > max(self._compact_bytes, 4 * self._floor):
                    self._compact(cursor.offset)
        finally:
            self.anchor.release()

    def _fenced(self, record: HeadRecord) -> bool:
        """Whether the context's fence was raised since the operation began."""
        known = self._view.heads.get((record.store, record.head.context))
        return known is not None and known[1].fence > record.head.fence

    def _records(self, items: Sequence[Item]) -> list[bytes]:
        view = self._view
        kinds = [item.__class__ for item in items]
        records: list[bytes] = []
        if Intent in kinds:
            records.append(view.intent(*[item for item in items if isinstance(item, Intent)]))
        act = Note in kinds  # an operator's, signed at once
        for item in items:
            if item.__class__ is HeadRecord:
                records.append(view.head(item, sign=act or view.end[1] >= SIGN_EVERY - 1))
            elif item.__class__ is Note:
                records.append(view.note(item))
        return records

    @property
    def recorded(self) -> bool:
        """Whether finished operations go to a ledger."""
        return self._harvest is not None

    def sync(self) -> None:
        """Make durable what was appended without."""
        self._tail = False  # a sync that fails has told its caller: close does not say it again
        self.anchor.sync()

    def harvest(self) -> None:
        """Carry finished operations over to the ledger."""
        with self._mutex:
            self._view.settle()  # else what is owed to sums nobody asks for would grow
            batch, self._pending = self._pending, []
            try:
                if batch and self._harvest is not None:
                    self._harvest(batch)
            except BaseException:
                self._pending[:0] = batch  # the next compaction must not drop what no ledger holds
                raise

    def compact(self) -> None:
        """Rewrite the log to heads, open intents and notes."""
        self.anchor.acquire()
        try:
            self.refresh()
            self._compact(self._cursor.offset if self._cursor else 0)
        finally:
            self.anchor.release()

    def _compact(self, size: int) -> None:
        with self._mutex:
            self.harvest()
            if self._settle is not None:
                self._settle()
            records = self._view.compacted(time.time())
            cursor = self.anchor.compact(records)
            self._view.feed(records, reset=True)
            self._cursor, self._floor = cursor, cursor.offset
        if self._compacted is not None:
            self._compacted(size, self._floor)

    def signatures(self) -> tuple[int, int, int]:
        """Records of the log as it stands that a good signature covers, bad signatures, records not yet covered."""
        records, _, _ = self.anchor.read(None)
        return signatures(records, self.keys)

    def _attest(self) -> None:
        """Sign what this process wrote and nobody has signed. If that fails, whoever writes next does."""
        with suppress(AnchorError):
            self.anchor.acquire()
            try:
                with self._mutex:
                    self.refresh()
                    if self._view.end[1]:
                        self._cursor = self.anchor.append([self._view.attest()], sync=False)
            finally:
                self.anchor.release()

    def close(self) -> None:
        """Sign the tail, carry the rest to the ledger and release the anchor. Idempotent."""
        try:
            if self._wrote:
                self._wrote = False
                self._attest()
            if self._tail:
                self.sync()
            if self._pending and isinstance(self.anchor, SharedAnchor):
                self.refresh()  # what a failover took from the log is nobody's history any more
            self.harvest()
        finally:
            self._tail = False
            self.anchor.close()


def _raced(place: Place) -> AnchorError:
    return AnchorError(
        "another writer moved this context on in the middle of an operation.",
        case="anchor",
        code="MG416",
        record=f"{place[0]} {place[1]}",
        why="Writers of one store share a lock in the guard's home; this one came from outside it.",
        do="memguard audit STORE, then memguard repair STORE to drop the stray row.",
    )
