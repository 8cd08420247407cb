"""Operations: announced, committed by the store, counted by the head, in that order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memguard.background import Flusher
from memguard.custody.contexts import DESTRUCTIVE, Contexts, latest_of
from memguard.effects import Acquire, Block, Operation
from memguard.errors import RollbackError
from memguard.integrity.head import MODULUS, UNCOUNTED, Head
from memguard.integrity.index import Index, newest, not_after
from memguard.integrity.logview import MAX_DELTA, HeadRecord, Intent
from memguard.integrity.verifier import Context
from memguard.slot import NOTHING_NOTED, encode

T = TypeVar("T")
Pair = tuple[bytes, bytes]


@dataclass(slots=True)
class Change:
    """What one operation does to one context, decided before the store sees it.

    Attributes:
        operation: its name in the ledger; ``delete``, ``remove`` and ``prune`` are announced durably.
        adds: cells that come, replacing the cell of the same member.
        removes: cells that go.
        latest: packed key of a record that may be the newest now.
        horizon: packed key of the newest record that this operation deletes.
        candidates: for ``prune``: cells of which some may go.
    """

    operation: str
    adds: Sequence[Pair] = ()
    removes: Sequence[Pair] = ()
    latest: bytes = b""
    horizon: bytes = b""
    candidates: Sequence[Pair] = ()

    @property
    def empty(self) -> bool:
        """Nothing changes, so nothing is announced or counted."""
        return not (self.adds or self.removes or self.candidates) and self.operation != "delete"


class Writing(Contexts):
    """The writing side of a custody."""

    def __init__(self, store: str, **parts: Any) -> None:
        super().__init__(store, **parts)
        #: Heads that were appended without a sync, in lag mode.
        self._unsynced = 0
        self._flusher = Flusher(self.flush, self.settings.lag_ms / 1000)
        #: What an adapter wants called when its home is closed.
        self.closing: list[Callable[[], None]] = []

    def operate(
        self,
        names: Sequence[str] | Callable[[], Operation[Sequence[str]]],
        prepare: Callable[[list[Context]], Sequence[Change]],
        perform: Callable[[], Operation[T]],
        settle: Callable[[list[Context], Sequence[Change]], Operation[Sequence[Change]]] | None = None,
    ) -> Operation[T]:
        """One operation on one or more contexts, all or nothing for each.

        Args:
            names: context ids, or what finds them with other writers kept out.
            prepare: seals the rows and says what changes; pure, may raise to refuse.
            perform: the store's own commit.
            settle: after the commit, completes the changes with what only the store knows
                (timestamps it set, rows its prune kept).
        """
        if not self.lock.acquire(self, False):
            yield Acquire(self.lock, self)
        try:
            contexts = []
            for name in (yield from names()) if callable(names) else names:
                contexts.append(self._ready(name) or (yield from self._enter(name)))
            changes = prepare(contexts)
            live = [pair for pair in zip(contexts, changes, strict=True) if not pair[1].empty]
            try:
                # Ended half-way, it may have announced: then the next touch settles.
                durable = self._announce(live)
                if durable is not None:
                    yield durable
                result = yield from perform()
                if settle is not None:
                    changes = yield from settle(contexts, changes)
                    live = [
                        (c, ch)
                        for c, ch in zip(contexts, changes, strict=True)
                        if not ch.empty or (c, ch) in live
                    ]
            except BaseException as error:
                for context, _ in live:
                    context.doubt = True
                if isinstance(error, Exception) and self.anchored:
                    yield from self._resolve(live)
                raise
            if live:
                records, durable = self._advance_all(live)
                if durable is not None:
                    yield durable
                    self._unsynced = 0
                self._counted(live, records)
            return result
        finally:
            self.lock.release()

    def _resolve(self, live: Sequence[tuple[Context, Change]]) -> Operation[None]:
        """Did a failed commit reach the store or not? Settle it now; if that fails too, the next touch does."""
        for context, _ in live:
            try:
                yield from self._enter(context.id, failed=True)
            except Exception as error:  # noqa: BLE001 - the caller is about to see the one that came first
                logging.getLogger("memguard.integrity").warning(
                    "%s %s is in doubt: %s", self.store, context.id, type(error).__name__
                )

    def _announce(self, live: Sequence[tuple[Context, Change]]) -> Block | None:
        """Say what is about to happen: in the note, or by what is returned, durably in the log."""
        if not self.anchored or not live:
            return None
        places, durable = [], False
        for context, change in live:
            operation, generation = change.operation, context.head.generation
            places.append((self.store, context.id, operation, generation + 1))
            durable = durable or not generation or operation in DESTRUCTIVE
        if not durable:
            self._note(places)
            return None
        items, expect = [], []
        for (context, change), place in zip(live, places, strict=True):
            goes = (change.candidates or change.removes) if change.operation in ("remove", "prune") else ()
            items.append(Intent(*place, tuple(goes)))
            expect.append(((self.store, context.id), context.head.generation))
        return Block(self.log.write, items, sync=True, expect=expect)

    def _note(self, places: Sequence[tuple[str, str, str, int]]) -> None:
        note = encode(places, self._note_key)
        self._noted = b""  # until the operation is done, the note is news to whoever reads it
        self._slot.write(note)

    def _advance_all(self, live: Sequence[tuple[Context, Change]]) -> tuple[list[HeadRecord], Block | None]:
        """The heads that the changes lead to: appended, or by what is returned, appended durably."""
        records: list[HeadRecord] = []
        expect, decisive = [], False
        for context, change in live:
            context.ready = False  # until the head is written, the index is nobody's truth
            generation = context.head.generation
            # A first head is durable in lag mode too: without it a power loss would leave a tail that follows nothing.
            decisive = decisive or not generation or change.operation in DESTRUCTIVE
            expect.append(((self.store, context.id), generation))
            records.append(self._advance(context, change))
        if self.anchored:
            if self._due(decisive):
                return records, Block(self.log.write, records, sync=True, expect=expect)
            self.log.write(records, sync=False, expect=expect)
            self._unsynced += 1
            self._flusher.poke()
        return records, None

    def _counted(self, live: Sequence[tuple[Context, Change]], records: Sequence[HeadRecord]) -> None:
        """The operation is over: its heads are written."""
        if self.anchored:
            # Taken back, so that after a clean end an anchor that is one operation older explains nothing. Only
            # by who wrote: an operation that changed nothing may not have looked at the note that it finds.
            self._slot.write(NOTHING_NOTED)
            self._noted = NOTHING_NOTED
        for (context, _), record in zip(live, records, strict=True):
            context.adopt(record.head, context.index)

    def _advance(self, context: Context, change: Change) -> HeadRecord:
        """Apply a change to the index; the head it leads to.

        The head's sum is not counted here: it follows from the cells that the record spells out.
        """
        head, adds, removes = context.head, change.adds, change.removes
        latest, horizon, total = head.latest, head.horizon, UNCOUNTED
        if change.operation == "delete":
            removes = removes or list(context.index.items())
            context.index, latest, adds = Index(), b"", ()
        else:
            gone = _apply(context, adds, removes)
            if removes and any(group == latest for group, _ in removes):
                latest = latest_of(context.index)
            if change.latest and (not latest or not_after(latest, change.latest)):
                latest = change.latest
            removes = gone
        if change.horizon:
            horizon = newest(k for k in (horizon, change.horizon) if k)
        delta = (tuple(adds), tuple(removes)) if len(adds) + len(removes) <= MAX_DELTA else None
        if delta is None:  # too many to spell out: the sum is stated
            known = self.log.head((self.store, context.id)) if self.anchored else None
            total = known[1].total if known else 0
            total += sum(context.term(*pair) for pair in adds) - sum(context.term(*pair) for pair in removes)
            total %= MODULUS
        generation, fence, now = head.generation + 1, head.fence, time.time()
        chain = self._history(context, change.operation, generation, fence, delta, context.kid, now)
        after = Head(
            head.context,
            generation,
            fence,
            self.boot,
            context.index.cells,
            total,
            latest,
            horizon,
            chain,
        )
        return HeadRecord(self.store, change.operation, now, context.kid, after, delta)

    def _due(self, decisive: bool) -> bool:
        """Whether this head must be durable before the call returns."""
        return self.settings.sync == "strict" or decisive or self._unsynced + 1 >= self.settings.lag_ops

    def flush(self) -> None:
        """Make the tail of lag mode durable."""
        tail = self._unsynced
        if tail:
            self.log.sync()
            self._unsynced = max(0, self._unsynced - tail)

    def close(self) -> None:
        """Flush and end what runs in the background."""
        self._flusher.stop()
        self.flush()
        for let_go in self.closing:
            let_go()


def _apply(context: Context, adds: Sequence[Pair], removes: Sequence[Pair]) -> list[Pair]:
    """Change an index; the cells that went, replaced ones with them.

    Raises:
        RollbackError: one that was to go is not there.
    """
    index, gone = context.index, list(removes)
    for group, cell in removes:
        if not index.remove(group, cell):
            raise RollbackError(
                "a record to be removed is not in the index.", case="state", record=context.id
            )
    for group, cell in adds:
        old = index.add(group, cell)
        if old is not None:
            gone.append((group, old))
    return gone
