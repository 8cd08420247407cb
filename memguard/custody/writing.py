"""Operations: announced, committed by the store, counted by the head, in that order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    adds: list[Pair] = field(default_factory=list)
    removes: list[Pair] = field(default_factory=list)
    latest: bytes = b""
    horizon: bytes = b""
    candidates: list[Pair] = field(default_factory=list)

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
            for name in names if isinstance(names, Sequence) else (yield from names()):
                contexts.append(self._ready(name) or (yield from self._enter(name)))
            changes = prepare(contexts)
            live = [pair for pair in zip(contexts, changes, strict=True) if not pair[1].empty]
            try:
                # Ended half-way, it may have announced: then the next touch settles.
                yield from self._announce(live)
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
            yield from self._commit(live)
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

    def _announce(self, live: Sequence[tuple[Context, Change]]) -> Operation[None]:
        if not self.anchored or not live:
            return
        items: list[Intent] = []
        expect, durable = [], False
        for context, change in live:
            operation, generation = change.operation, context.head.generation
            removes: tuple[Pair, ...] = ()
            if operation in ("remove", "prune"):
                removes = tuple(change.candidates or change.removes)
            items.append(Intent(self.store, context.id, operation, generation + 1, removes))
            expect.append(((self.store, context.id), generation))
            durable = durable or not generation or operation in DESTRUCTIVE
        if durable:
            yield Block(self.log.write, items, sync=True, expect=expect)
        else:
            self._note(items)

    def _note(self, items: Sequence[Intent]) -> None:
        note = encode(items, self._note_key)
        self._noted = b""  # until the operation is done, the note is news to whoever reads it
        self._slot.write(note)

    def _commit(self, live: Sequence[tuple[Context, Change]]) -> Operation[None]:
        records: list[HeadRecord] = []
        expect, decisive = [], False
        for context, change in live:
            context.ready = False  # until the head is written, the index is nobody's truth
            generation = context.head.generation
            # A first head is durable in lag mode too: without it a power loss would leave a tail that follows nothing.
            decisive = decisive or not generation or change.operation in DESTRUCTIVE
            expect.append(((self.store, context.id), generation))
            records.append(self._advance(context, change))
        if self.anchored and records:
            if self._due(decisive):
                yield Block(self.log.write, records, sync=True, expect=expect)
                self._unsynced = 0
            else:
                self.log.write(records, sync=False, expect=expect)
                self._unsynced += 1
                self._flusher.poke()
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
            context.index, latest, adds = Index(), b"", []
        else:
            gone = _apply(context, adds, removes)
            if latest and any(group == latest for group, _ in removes):
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
        cells = context.index.cells
        after = Head(
            head.context,
            head.generation + 1,
            head.fence,
            self.boot,
            cells,
            total,
            latest,
            horizon,
            head.chain,
        )
        return self.record(context, after, change.operation, delta, context.kid)

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
