"""The contexts of one guarded store: entered once a process, compared with their heads, recovered after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from memguard.anchorlog import AnchorLog
from memguard.custody.fenced import Mending, bury
from memguard.effects import Block, Lock, Operation
from memguard.errors import ForkError, IntegrityError, RollbackError
from memguard.events import Bus, ForkRecorded, ReadRefused, RecoveryRun
from memguard.integrity.head import MODULUS, Head
from memguard.integrity.index import MAIN, MEMBER, Index, newest, unpack_key
from memguard.integrity.logview import Delta, HeadRecord, Intent
from memguard.integrity.mac import Mac
from memguard.integrity.recovery import decide
from memguard.integrity.verifier import Claim, Context, Observation
from memguard.ledger.chain import encoded
from memguard.ports import KeyRing, LedgerEntry
from memguard.settings import Integrity
from memguard.slot import decode

T = TypeVar("T")
Pair = tuple[bytes, bytes]


#: Operations that are announced durably: what they take cannot be made again.
DESTRUCTIVE = ("delete", "remove", "prune")


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

    # quiet(context) -> Operation[None], where the store is a server: wait until no transaction that a writer left
    # behind can still be committed. Called before a scan that recovers: a server goes on with what a killed
    # client had sent, and a row that appears after its operation was given up would be one that nobody announced.


class Contexts:
    """Integrity of one store under one name.

    Args:
        store: the name bound into every tag.
        log: the anchor's log, or None where there is no head (levels ``tag`` and ``chain``).
        lock: exclusive among all writers of this store on this machine.
        rows: the adapter.
        boot: 16 bytes naming this boot of the machine; or what says such bytes anew, where they can change while
            this process runs (the life of a server that holds the note).
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
        boot: bytes | Callable[[], bytes],
        slot: Slot,
    ) -> None:
        self.store, self.rows, self.settings = store, rows, settings
        self._life = None if isinstance(boot, bytes) else boot
        self.lock, self.boot = lock, boot if isinstance(boot, bytes) else boot()
        self.log = log
        self._keys, self._bus = keys, bus
        self._contexts: dict[str, Context] = {}
        self._chains: dict[str, Mac] = {}
        self.anchored = settings.level == "head"
        self._finishing = False
        #: How single rows are dropped; set once the adapter has made it.
        self.mending: Mending | None = None
        self._slot, self._noted, self._note_key = slot, b"", keys.subkey("intent")
        if self.anchored:
            log.listen(store, self._heard)

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
        known = self.log.state((self.store, name)) if self.anchored else None
        return Context(self._keys, self.store, name, *(known or (self._keys.current, None)))

    def has_horizon(self, name: str) -> bool:
        """Whether anything of the context was ever deleted."""
        known = self.log.newest((self.store, name)) if self.anchored else None
        return known is not None and bool(known.horizon)

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
        if not latest or parent == latest or context.index.member(group, MAIN) is not None:
            return  # the first one, the next one, or one that is put again
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
            context.ready = record.carried and record.head._replace(total=0) == context.head._replace(total=0)
            return
        adds, removes = record.delta
        for group, cell in removes:
            context.index.remove(group, cell)
        for group, cell in adds:
            context.index.add(group, cell)
        context.adopt(record.head, context.index)

    def _ready(self, name: str) -> Context | None:
        """The context if nothing stands between it and an operation. The store's lock is held.

        The ordinary case of :meth:`_enter`, which asks the same and then does what is to be done.
        """
        if self.anchored:
            self.log.refresh()
            self._collect()
            if self.log.busy:
                return None
            if self._life is not None:
                self._renew(self._life())
        return self.peek(name)

    def _renew(self, life: bytes) -> None:
        """After the server that holds the note began a new life, every context is looked at again."""
        if life != self.boot:
            self.boot = life
            for context in self._contexts.values():
                context.ready = False

    def _enter(self, name: str, *, failed: bool = False) -> Operation[Context]:
        """The context, compared with its head. The store's lock is held.

        Args:
            failed: the store has just refused the open operation, and its caller is told so.
        """
        if self.anchored:
            self.log.refresh()
            self._collect()
            if self._life is not None:
                self._renew(self._life())
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
            known = self.log.newest(place)
            behind = intent.generation == (known.generation if known else 0) + 1
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
            new_boot = not fresh and context.head.boot != self.boot
            if self.anchored and (intent is not None or new_boot):
                quiet = getattr(self.rows, "quiet", None)
                if quiet is not None:
                    yield from quiet(context)
            seen = context.observe((yield from self.rows.scan(context)), self.settings.max_rows)
            if not self.anchored:
                self._take_as_seen(context, seen)
                return
            window = self.settings.lag_ops if self.settings.sync == "lag" else 1
            verdict = decide(context, seen, intent, new_boot=new_boot, window=window, failed=failed)
            if verdict.action == "delete":
                assert intent is not None
                yield from self.rows.erase(context, None if intent.operation == "delete" else intent.removes)
                seen = context.observe((yield from self.rows.scan(context)), self.settings.max_rows)
                verdict = decide(context, seen, intent, new_boot=new_boot, window=window)
        except IntegrityError as error:
            if self._life is not None and self.mending is not None:
                if (yield from bury(self.mending, self.log, context)):
                    self._bus.emit(RecoveryRun(self.store, context.id, "undone"))
                    yield from self._examine(context, intent, fresh, failed)
                    return
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

    def report(self, name: str, record: str, error: IntegrityError) -> None:
        """Tell the bus about a failed check."""
        self._bus.emit(
            ReadRefused(self.store, name, error.record or record, error.case, error.code, not self.enforcing)
        )

    def record(
        self,
        context: Context,
        head: Head,
        operation: str,
        delta: Delta | None,
        kid: str,
    ) -> HeadRecord:
        """What the log is to say of a head: with the ledger's chain one operation further."""
        now = time.time()
        chain = self._history(context, operation, head.generation, head.fence, delta, kid, now)
        return HeadRecord(self.store, operation, now, kid, head._replace(chain=chain), delta)

    def _history(
        self,
        context: Context,
        operation: str,
        generation: int,
        fence: int,
        delta: Delta | None,
        kid: str,
        now: float,
    ) -> bytes:
        """The ledger's chain of a context, one operation further."""
        place, records = f"{self.store} {context.id}", records_of(delta)
        said = encoded(place, operation, kid, generation, fence, now, records)
        mac = self._chains.get(kid)
        if mac is None:
            mac = self._chains[kid] = Mac(self._keys.subkey("chain", kid))
        return mac.digest(context.head.chain + said)


def records_of(delta: Delta | None) -> tuple[str, ...]:
    """Ids of the records that an operation touched, as the ledger lists them."""
    if delta is None:
        return ()
    return tuple(dict.fromkeys([unpack_key(group) for pairs in delta for group, _ in pairs]))


def entry_of(
    store: str, head: Head, operation: str, delta: Delta | None, kid: str, now: float
) -> LedgerEntry:
    """The ledger's entry for an operation that the log holds."""
    place, records = f"{store} {head.context}", records_of(delta)
    return LedgerEntry(place, head.generation, head.fence, operation, records, kid, now, head.chain)


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
