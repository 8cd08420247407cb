"""The custody of one guarded store: operations in, verified rows out, heads to the anchor.

Every write goes lock -> tail of the log -> first touch of its contexts -> intent -> the
store's own commit -> head (durable) -> index -> unlock. Every read goes the store's own read
-> tail -> comparison with the index; what does not match is looked at again under the lock
before it alarms, because a writer may be half-way. Operations are generators
(:mod:`memguard.effects`); what rows look like is the adapter's business (:class:`Rows`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from memguard.anchorlog import AnchorLog
from memguard.background import Flusher
from memguard.effects import Acquire, Block, Lock, Operation
from memguard.errors import ForkError, IntegrityError, RollbackError
from memguard.events import Bus, ForkRecorded, ReadRefused, RecoveryRun
from memguard.integrity.head import MODULUS, Head
from memguard.integrity.index import MAIN, MEMBER, Index, newest, not_after, unpack_key
from memguard.integrity.logview import MAX_DELTA, HeadRecord, Intent
from memguard.integrity.recovery import decide
from memguard.integrity.verifier import Claim, Context, Observation
from memguard.ledger.chain import link
from memguard.ports import KeyRing, LedgerEntry
from memguard.settings import Integrity
from memguard.slot import NOTHING_NOTED, decode, encode

T = TypeVar("T")
Pair = tuple[bytes, bytes]


class Slot(Protocol):
    """Where the note of the operation under way is kept (:mod:`memguard.slot`)."""

    def write(self, raw: bytes) -> None:
        """Overwrite it."""
        ...

    def same(self, raw: bytes) -> bool:
        """Whether it is still this one."""
        ...

    def read(self) -> bytes:
        """What it says."""
        ...


class Rows(Protocol):
    """What custody needs of an adapter, as operations."""

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """Every row the store holds for the context (tags and metadata; blobs need not be read)."""
        ...

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """Delete these groups' rows, or all rows of the context, through the wrapped object."""
        ...


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


DESTRUCTIVE = ("delete", "remove", "prune")


class Custody:
    """Integrity of one store under one name.

    Args:
        store: the name bound into every tag.
        log: the anchor's log, or None where there is no head (levels ``tag`` and ``chain``).
        lock: exclusive among all writers of this store on this machine.
        rows: the adapter.
        boot: 16 bytes naming this boot of the machine.
    """

    def __init__(
        self,
        store: str,
        *,
        keys: KeyRing,
        log: AnchorLog,
        lock: Lock,
        rows: Rows,
        settings: Integrity,
        bus: Bus,
        boot: bytes,
        slot: Slot,
    ) -> None:
        self.store, self.rows, self.settings = store, rows, settings
        self.lock, self.boot = lock, boot
        self.log = log
        self._keys, self._bus = keys, bus
        self._contexts: dict[str, Context] = {}
        self.anchored = settings.level == "head"
        self._finishing = False
        self._slot, self._noted, self._note_key = slot, b"", keys.subkey("intent")
        self._unsynced = 0
        self._flusher = Flusher(self.flush, settings.lag_ms / 1000)
        if self.anchored:
            log.listen(store, self._heard)

    # -- contexts ----------------------------------------------------------------------------

    @property
    def enforcing(self) -> bool:
        """Whether a failed check refuses (else it is reported, or not even looked for)."""
        return self.settings.mode == "enforce"

    def known(self) -> list[str]:
        """Ids of the contexts that ought to exist: those with a head, and those seen in this process."""
        places = self.log.places(self.store) if self.anchored else []
        return list(dict.fromkeys([*places, *self._contexts]))

    @property
    def extent(self) -> tuple[int, int, int]:
        """Changes whenever :meth:`known` may answer more."""
        return (*self.log.extent, len(self._contexts))

    def peek(self, context: str) -> Context | None:
        """The context if this process has it ready."""
        found = self._contexts.get(context)
        return found if found is not None and found.ready and not found.doubt else None

    def drop(self, name: str) -> None:
        """Forget what is known of a context: the next touch scans it again."""
        self._contexts.pop(name, None)

    def fresh(self, name: str) -> Context:
        """The context with its head and an empty index, for those who look at every row themselves."""
        known = self.log.head((self.store, name)) if self.anchored else None
        return Context(self._keys, self.store, name, *(known or (self._keys.current, None)))

    def has_horizon(self, name: str) -> bool:
        """Whether anything of the context was ever deleted."""
        known = self.log.head((self.store, name)) if self.anchored else None
        return known is not None and bool(known[1].horizon)

    def recounted(self, context: Context, index: Index) -> int:
        """The sum of an index under the current key."""
        current = Context(self._keys, self.store, context.id, self._keys.current, None)
        return sum(current.term(group, cell) for group, cell in index.items()) % MODULUS

    def fork(self, context: Context, parent: bytes, group: bytes, record: str) -> None:
        """A record whose parent is not the newest one starts a branch: recorded, or refused.

        Raises:
            ForkError: where ``integrity.forks`` is ``refuse``.
        """
        latest = context.head.latest
        if not latest or group == latest:  # the newest one is put again
            return
        if not parent or parent == latest or parent not in context.index.groups:
            return
        if self.settings.forks == "refuse":
            raise ForkError(
                "a second history was started from a record that is not the newest.",
                case="fork",
                record=record,
                why='integrity.forks = "refuse": another writer went on from the same record first.',
                do="Read the newest state again and write from there.",
            )
        self._bus.emit(ForkRecorded(self.store, context.id, record, context.head.generation + 1))

    def _heard(self, record: HeadRecord) -> None:
        """Another writer moved a context on."""
        context = self._contexts.get(record.head.context)
        if context is None or not context.ready:
            return
        follows = record.head.generation == context.head.generation + 1 and record.kid == context.kid
        if record.delta is None or not follows or record.carried:
            context.ready = record.carried and record.head == context.head
            return
        adds, removes = record.delta
        for group, cell in removes:
            context.index.remove(group, cell)
        for group, cell in adds:
            context.index.add(group, cell)
        context.adopt(record.head, context.index)

    def _enter(self, name: str, *, failed: bool = False) -> Operation[Context]:
        """The context, compared with its head. The store's lock is held.

        Args:
            failed: the store has just refused the open operation, and its caller is told so.
        """
        if self.anchored:
            self.log.refresh()
            self._collect()
            if self.log.extent[1] and not failed:
                yield from self._finish_deletes(name)
        context = self._contexts.get(name)
        intent = self.log.intent((self.store, name)) if self.anchored else None
        if context is not None and context.ready and not context.doubt and intent is None:
            return context
        context = self.fresh(name)
        yield from self._examine(context, intent, context.head.generation == 0, failed)
        self._contexts[name] = context
        return context

    def _finish_deletes(self, name: str) -> Operation[None]:
        """Complete deletes that were announced on other contexts and cut short, before anything else goes on.

        A saver deletes whole threads: finished later, a delete would take what was written meanwhile in another
        namespace. One that cannot be finished is the business of who touches that context.
        """
        if self._finishing:
            return
        self._finishing = True
        try:
            for other in self.log.deletes(self.store):
                if other != name:
                    with suppress(IntegrityError):
                        yield from self._enter(other)
        finally:
            self._finishing = False

    def _collect(self) -> None:
        """Find operations that another process, or this one, announced and never finished.

        They go to the log, where they wait for the next touch of their context while the note is
        overwritten by operations on others.
        """
        if self._noted and self._slot.same(self._noted):
            return
        raw = self._slot.read()
        for intent in self._noted_by_any_key(raw):
            place = (intent.store, intent.context)
            known = self.log.head(place)
            behind = intent.generation == (known[1].generation if known else 0) + 1
            if intent.store == self.store and behind and self.log.intent(place) is None:
                self.log.write([intent], sync=False)
        self._noted = raw

    def _noted_by_any_key(self, raw: bytes) -> list[Intent]:
        """The intents of a note, which may be from before a rotation."""
        for kid in reversed(self._keys.ids):
            found = decode(raw, self._keys.subkey("intent", kid))
            if found:
                return found
        return []

    def _examine(self, context: Context, intent: Intent | None, fresh: bool, failed: bool) -> Operation[None]:
        """Scan the store and make the context ready, recover it, or refuse it."""
        try:
            seen = context.observe((yield from self.rows.scan(context)), self.settings.max_rows)
            if not self.anchored:
                self._take_as_seen(context, seen)
                return
            new_boot = not fresh and context.head.boot != self.boot
            window = self.settings.lag_ops if self.settings.sync == "lag" else 1
            verdict = decide(context, seen, intent, new_boot=new_boot, window=window, failed=failed)
            if verdict.action == "delete":
                assert intent is not None
                yield from self.rows.erase(context, None if intent.operation == "delete" else intent.removes)
                seen = context.observe((yield from self.rows.scan(context)), self.settings.max_rows)
                verdict = decide(context, seen, intent, new_boot=new_boot, window=window)
        except IntegrityError as error:
            if self.enforcing:
                raise
            yield from self._take_flawed(context, error)
            return
        if verdict.action == "clean":
            context.adopt(context.head, seen.index)
            if context.kid != self._keys.current:
                yield from self._settle(context, seen, "rekey", context.head.generation)
            return
        yield from self._settle(context, seen, "recover", verdict.generation, gone(context, seen, intent))
        self._bus.emit(
            RecoveryRun(self.store, context.id, "finished" if verdict.action == "adopt" else "undone")
        )

    def _settle(
        self,
        context: Context,
        seen: Observation,
        operation: str,
        generation: int,
        deleted: Sequence[bytes] = (),
    ) -> Operation[None]:
        """Write down what was found, under the current key and a fence that ends every write before it."""
        head = context.head._replace(
            generation=generation,
            fence=context.head.fence + 1,
            boot=self.boot,
            cells=seen.index.cells,
            total=self.recounted(context, seen.index),
            latest=latest_of(seen.index),
            horizon=newest(k for k in (context.head.horizon, *deleted) if k),
        )
        record = self.record(context, head, operation, None, self._keys.current)
        expect = [((self.store, context.id), context.head.generation)]
        yield Block(self.log.write, [record], sync=True, expect=expect)
        context.adopt(record.head, seen.index, self._keys.current)

    def _take_as_seen(self, context: Context, seen: Observation) -> None:
        """Levels below ``head``: the store's own word, as far as tags (and numbers) carry it."""
        if self.settings.level == "chain":
            _unbroken(context, seen)
        top, count, total = seen.top, seen.index.cells, seen.total
        latest = latest_of(seen.index)
        context.adopt(
            context.head._replace(generation=top, cells=count, total=total, latest=latest), seen.index
        )

    def _take_flawed(self, context: Context, error: IntegrityError) -> Operation[None]:
        """Report mode: go on with the rows that check out, and say on every read that it is wrong."""
        index = Index()
        for claim in (yield from self.rows.scan(context)):
            try:
                row = context.check(claim)
            except IntegrityError:
                continue
            index.add(row.group, row.cell)
        context.adopt(context.head, index)
        context.flawed = error

    # -- writing -----------------------------------------------------------------------------

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
        yield Acquire(self.lock, self)
        try:
            contexts = []
            for name in names if isinstance(names, Sequence) else (yield from names()):
                contexts.append((yield from self._enter(name)))
            changes = prepare(contexts)
            live = [(c, ch) for c, ch in zip(contexts, changes, strict=True) if not ch.empty]
            try:
                yield from self._announce(
                    live
                )  # ended half-way, it may have announced: then the next touch settles
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
        items = [
            Intent(
                self.store,
                context.id,
                change.operation,
                context.head.generation + 1,
                tuple(change.candidates or change.removes) if change.operation in ("remove", "prune") else (),
            )
            for context, change in live
        ]
        durable = any(ch.operation in DESTRUCTIVE or c.head.generation == 0 for c, ch in live)
        if durable:
            expect = [((self.store, context.id), context.head.generation) for context, _ in live]
            yield Block(self.log.write, items, sync=True, expect=expect)
        else:
            self._note(items)

    def _note(self, items: Sequence[Intent]) -> None:
        note = encode(items, self._note_key)
        self._noted = b""  # until the operation is done, the note is news to whoever reads it
        self._slot.write(note)

    def _commit(self, live: Sequence[tuple[Context, Change]]) -> Operation[None]:
        records: list[HeadRecord] = []
        for context, change in live:
            before = context.head
            context.ready = False  # until the head is written, the index is nobody's truth
            head = _advance(context, change, self.boot)
            delta = None
            if len(change.adds) + len(change.removes) <= MAX_DELTA:
                delta = (tuple(change.adds), tuple(change.removes))
            record = self.record(context, head, change.operation, delta, context.kid)
            records.append(record)
            expected = before.generation
            assert record.head.generation == expected + 1
        if self.anchored and records:
            expect = [((self.store, r.head.context), r.head.generation - 1) for r in records]
            # A first head is durable in lag mode too: without it a power loss would leave a tail that follows nothing.
            if self._due(any(ch.operation in DESTRUCTIVE or not c.head.generation for c, ch in live)):
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

    def record(
        self,
        context: Context,
        head: Head,
        operation: str,
        delta: tuple[tuple[Pair, ...], tuple[Pair, ...]] | None,
        kid: str,
    ) -> HeadRecord:
        now = time.time()
        entry = entry_of(self.store, head, operation, delta, kid, now)
        chain = link(self._keys.subkey("chain", kid), context.head.chain, entry)
        return HeadRecord(self.store, operation, now, kid, head._replace(chain=chain), delta)

    # -- reading -----------------------------------------------------------------------------

    def read(
        self,
        name: str,
        fetch: Callable[[], Operation[T]],
        judge: Callable[[Context, T], Any],
        lenient: Callable[[T], Any],
        record: str,
    ) -> Operation[Any]:
        """Serve what ``fetch`` reads if ``judge`` finds it true.

        Args:
            judge: checks and decodes, raising IntegrityError; pure, may run twice.
            lenient: decodes without checking, for report and off modes only.
            record: how errors name what is read.
        """
        if self.settings.mode == "off":
            return lenient((yield from fetch()))
        context = self.peek(name)
        if context is not None:
            raw = yield from fetch()
            if self.anchored:
                self.log.refresh()
            if context.ready and context.flawed is None:
                try:
                    return judge(context, raw)
                except IntegrityError:
                    pass  # a writer may be half-way: look again with writers kept out
        yield Acquire(self.lock, self)
        try:
            context = yield from self._enter(name)
            raw = yield from fetch()
            try:
                if context.flawed is not None:
                    raise context.flawed
                return judge(context, raw)
            except IntegrityError as error:
                self.report(name, record, error)
                if self.enforcing:
                    raise
                return lenient(raw)
        except IntegrityError as error:
            if context is None or not context.ready:
                self.report(name, record, error)
            raise
        finally:
            self.lock.release()

    def report(self, name: str, record: str, error: IntegrityError) -> None:
        """Tell the bus about a failed check."""
        self._bus.emit(
            ReadRefused(self.store, name, error.record or record, error.case, error.code, not self.enforcing)
        )

    def complete(self, names: Iterable[str], hint: object) -> Operation[None]:
        """That no context of ``names`` misses or has gained a row, unless ``hint`` says nothing changed.

        Raises:
            IntegrityError: in enforce mode; in report mode it is told to the bus.
        """
        for name in names:
            context = self.peek(name)
            if context is not None and hint is not None and context.reads == hint and context.flawed is None:
                continue
            yield Acquire(self.lock, self)
            try:
                held = self._contexts.get(name)
                if held is not None:
                    held.ready = False  # have it scanned again, whatever this process believed
                context = yield from self._enter(name)
                context.reads = hint
                if context.flawed is not None:
                    self.report(name, name, context.flawed)
            except IntegrityError as error:
                self.report(name, name, error)
                raise
            finally:
                self.lock.release()

    def alone(self, names: Iterable[str], fetch: Callable[[], Operation[T]]) -> Operation[T]:
        """:meth:`complete` and ``fetch`` with writers kept out, where they interfere too often.

        Raises:
            IntegrityError: in enforce mode; in report mode it is told to the bus.
        """
        yield Acquire(self.lock, self)
        try:
            for name in names:
                held = self._contexts.get(name)
                if held is not None:
                    held.ready = False
                try:
                    context = yield from self._enter(name)
                except IntegrityError as error:
                    self.report(name, name, error)
                    raise
                if context.flawed is not None:
                    self.report(name, name, context.flawed)
            return (yield from fetch())
        finally:
            self.lock.release()


def entry_of(
    store: str,
    head: Head,
    operation: str,
    delta: tuple[tuple[Pair, ...], tuple[Pair, ...]] | None,
    kid: str,
    now: float,
) -> LedgerEntry:
    """The ledger's entry for an operation. ``chain`` is filled by whoever links it."""
    groups = dict.fromkeys(unpack_key(g) for pairs in delta or () for g, _ in pairs)
    return LedgerEntry(
        f"{store} {head.context}", head.generation, head.fence, operation, tuple(groups), kid, now, head.chain
    )


def _advance(context: Context, change: Change, boot: bytes) -> Head:
    """Apply a change to the index; the head it leads to."""
    total, index, head = context.head.total, context.index, context.head
    if change.operation == "delete":
        change.removes = list(index.items()) if not change.removes else change.removes
        context.index = index = Index()
        total, latest = 0, b""
    else:
        latest = head.latest
        for group, cell in change.removes:
            if not index.remove(group, cell):
                raise RollbackError(
                    "a record to be removed is not in the index.", case="state", record=context.id
                )
            total -= context.term(group, cell)
        if latest and any(group == latest for group, _ in change.removes):
            latest = latest_of(index)
        for group, cell in change.adds:
            old = index.add(group, cell)
            total += context.term(group, cell) - (context.term(group, old) if old else 0)
        if change.latest:
            latest = change.latest if not latest or not_after(latest, change.latest) else latest
    horizon = newest(k for k in (head.horizon, change.horizon) if k) if change.horizon else head.horizon
    return head._replace(
        generation=head.generation + 1,
        boot=boot,
        cells=index.cells,
        total=total % MODULUS,
        latest=latest,
        horizon=horizon,
    )


def gone(context: Context, seen: Observation, intent: Intent | None) -> list[bytes]:
    """Groups that an announced deletion took, so that a late write which names them is known for one."""
    if intent is None or intent.operation not in DESTRUCTIVE:
        return []
    candidates = (
        [context.head.latest] if intent.operation == "delete" else [group for group, _ in intent.removes]
    )
    return [group for group in candidates if group and group not in seen.index.groups]


def latest_of(index: Index) -> bytes:
    """The newest key that has a main row."""
    return newest(group for group, packed in index.groups.items() if packed[:MEMBER] == MAIN)


def _unbroken(context: Context, seen: Observation) -> None:
    """Level ``chain``: operation numbers run from 1 without a gap, each operation whole."""
    operations: dict[int, list[int]] = {}
    for row in seen.newer:
        operations.setdefault(row.seal.generation, []).append(row.seal.size)
    for number in range(1, seen.top + 1):
        sizes = operations.get(number, [])
        if not sizes or set(sizes) != {len(sizes)}:
            raise RollbackError(
                "an operation is missing from the chain of a context.",
                case="T3",
                record=f"{context.store} {context.id}",
                why="Operations are numbered under the key, and one number is gone or not whole.",
            )
