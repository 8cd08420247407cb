"""What a guarded store does on writes: puts, deletes and sweeps, each one operation of custody."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.store.base import PutOp

from memguard.custody import Change, Custody, Pair
from memguard.effects import Operation
from memguard.errors import IntegrityError
from memguard.integrations.langgraph.rows import spelled
from memguard.integrations.langgraph.store_forms import FIELD
from memguard.integrations.langgraph.store_rows import (
    ITEM,
    Namespace,
    claim_of,
    context_of,
    lasts,
    name,
    namespace_of,
    place_of,
)
from memguard.integrations.langgraph.store_seals import position, spell
from memguard.integrations.langgraph.store_table import Table, altered, reading, stamp
from memguard.integrity.index import MAIN, MEMBER, pack_key, split, unpack_key
from memguard.integrity.tag import NOTHING, Seal
from memguard.integrity.verifier import Context

#: Rows whose time of creation is remembered, for stores that keep it over a put.
_REMEMBERED = 65536
#: Asked about every value before it is stored: the members to bind beside the seal, or None to withhold it.
Screen = Callable[
    [Namespace, str, dict[str, Any], Any, PutOp], Operation[tuple[dict[str, Any], dict[str, Any]] | None]
]


@dataclass(slots=True)
class Entry:
    """One put on its way: the caller's value, what the guard adds, and the row that comes of it."""

    op: PutOp
    value: dict[str, Any]
    own: dict[str, Any]
    bound: bytes
    handed: Any = None
    seal: Seal | None = None
    #: What the store must show afterwards.
    expected: Any = None


@dataclass(slots=True)
class Part:
    """What a batch does to one namespace: its last put per key, and its deletes."""

    namespace: Namespace
    entries: dict[str, Entry] = field(default_factory=dict)
    deletes: dict[str, PutOp] = field(default_factory=dict)
    #: Deletes of items that are there.
    gone: list[str] = field(default_factory=list)
    #: Keys of entries that are there already.
    there: set[str] = field(default_factory=set)


class Writes:
    """The writing half of :class:`~memguard.integrations.langgraph.store_operations.StoreOperations`."""

    inner: Any
    table: Table
    custody: Custody
    screen: Screen | None = None

    def __init__(self) -> None:
        #: By context and key: the time of creation of a row, and the cell that counts it.
        self._made: dict[tuple[str, str], tuple[bytes, str]] = {}

    def put(self, ops: Sequence[PutOp]) -> Operation[None]:
        """Puts and deletes as one commit of the store and one sync of the anchor; the last write of a key wins.

        Raises:
            RejectedError, QuarantinedError: a guard refused; nothing of the batch was stored.
        """
        parts = yield from self._parts(ops)
        names = list(parts)
        if not names:
            return
        started = time.time()

        def prepare(contexts: list[Context]) -> list[Change]:
            return [self._sealed(context, parts[context.id]) for context in contexts]

        def perform() -> Operation[None]:
            for part in parts.values():
                yield from self._before(part)
            handed: list[PutOp] = []
            for part in parts.values():
                handed += [part.deletes[key]._replace(value=None) for key in part.gone]
                handed += [entry.op._replace(value=entry.handed) for entry in part.entries.values()]
            if handed:
                yield from self.table.batch(handed)
            for part in parts.values():
                if part.gone:
                    yield from self.table.drop_vectors(part.namespace, part.gone)

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            for context, change in zip(contexts, changes, strict=True):
                part = parts[context.id]
                if part.entries:
                    change.adds = yield from self._read_back(context, part, started)
            return changes

        yield from self.custody.operate(names, prepare, perform, settle)

    def _parts(self, ops: Sequence[PutOp]) -> Operation[dict[str, Part]]:
        """The batch by context, screened. Keys keep the place of their first mention, as in the stores' own batch."""
        last: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            if op.value is not None:
                for segment in op.namespace:
                    spelled(segment, "a namespace")
            last[op.namespace, self.table.key(op.key)] = op
        parts: dict[str, Part] = {}
        for (namespace, key), op in last.items():
            entry: Entry | None = None
            if op.value is not None:
                entry = yield from self._entry(namespace, key, op)
                if entry is None:  # withheld
                    continue
            part = parts.setdefault(context_of(namespace), Part(namespace))
            if entry is None:
                part.deletes[key] = op
            else:
                part.entries[key] = entry
        return parts

    def _entry(self, namespace: Namespace, key: str, op: PutOp) -> Operation[Entry | None]:
        value = dict(op.value or {})
        claims = value.pop(FIELD, None)  # only the guard writes this member
        own: dict[str, Any] = {}
        if self.screen is not None:
            screened = yield from self.screen(namespace, key, value, claims, op)
            if screened is None:
                return None
            value, own = screened
        if op.ttl is not None and (self.table.expiring or self.inner.supports_ttl):
            own = {**own, "exp": int((yield from self.table.clock()) + op.ttl * 60), "ttl": op.ttl}
        form = self.table.form
        return Entry(op, form.kept(value), own, form.own(own))

    def _sealed(self, context: Context, part: Part) -> Change:
        """Seal the part's values for the context as it stands, and say what changes."""
        form, index = self.table.form, context.index
        adds: list[Pair] = []
        removes: list[Pair] = []
        part.gone.clear()
        part.there.clear()
        for at, (key, entry) in enumerate(part.entries.items()):
            group = pack_key(key)
            old = index.member(group, MAIN)
            if old is not None:
                part.there.add(key)
            body: Any = form.body(entry.value)
            entry.seal = seal = context.sealer(ITEM).seal(
                key.encode("utf-8", "surrogatepass"),
                generation=context.head.generation + 1,
                fence=context.head.fence,
                size=len(part.entries),
                prev=context.commitment,
                replaced=old[MEMBER:] if old else NOTHING,
                content=form.content(body),
                bound=(entry.bound,),
                extra=position(at),
            )
            text = spell(seal)
            entry.handed = form.handed(entry.value, {"seal": text, **entry.own})
            entry.expected = form.expected(body, entry.bound, seal, text)
            adds.append((group, context.cell(MAIN, seal)))  # the real cell is known after the commit
        for key in part.deletes:
            group = pack_key(key)
            held = index.groups.get(group)
            if held is not None:
                part.gone.append(key)
                removes += [(group, cell) for cell in split(held)]
        # A mixture goes or comes as one transaction of the store; a delete alone is finished after a crash.
        operation = "put" if not removes else "prune" if adds else "remove"
        return Change(operation, adds, removes)

    def _before(self, part: Part) -> Operation[None]:
        """What of a row a put leaves as it was must be what the head counts: else a put would make it good."""
        if self.table.vectored:
            yield from self._clear_vectors(part)
        if not self.table.keeps or not part.there:
            return
        context = self.custody.peek(context_of(part.namespace))
        if context is None:
            return
        unknown = []
        for key in part.there:
            known = self._made.get((context.id, key))
            if known is None or known[0] != context.index.member(pack_key(key), MAIN):
                unknown.append(key)
        if unknown:
            yield from self._checked(context, part.namespace, unknown)

    def _checked(self, context: Context, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        """That rows which are about to be written over are those that the head counts."""
        now = self.table.now()
        for stored in (yield from self.table.fetch(namespace, keys)).values():
            try:
                row = context.check(claim_of(namespace, stored, self.table.form, now)[0])
                context.verify_group((row,), row.group, row.record)
            except IntegrityError:
                if self.custody.enforcing:
                    raise
                continue
            if self.table.keeps:
                self._remember(context.id, stored.key, row.cell, stored.created)

    def _remember(self, context: str, key: str, cell: bytes, created: str) -> None:
        if len(self._made) >= _REMEMBERED:
            self._made.clear()
        self._made[context, key] = (cell, created)

    def _clear_vectors(self, part: Part) -> Operation[None]:
        """No vector that the head does not count may be there when a put of its key comes.

        An update leaves vectors of the old value behind where the new one has fewer; that is the store's
        way and is bound by the read-back. So what is there before must be what was bound.
        """
        if not part.entries:
            return
        there = yield from self.table.vectors(part.namespace, list(part.entries))
        if not there:
            return
        context = self.custody.peek(context_of(part.namespace))
        if context is None:
            return
        orphans = [key for key in there if pack_key(key) not in context.index.groups]
        yield from self.table.drop_vectors(part.namespace, orphans)
        held = [key for key in there if key not in orphans]
        if held and self.custody.enforcing:
            yield from self._checked(context, part.namespace, held)

    def _read_back(self, context: Context, part: Part, started: float) -> Operation[list[Pair]]:
        """The cells of what was just stored: it must be what was handed over, stamped now.

        A trigger in the database could have changed it on the way.
        """
        keys, vectored = list(part.entries), self.table.vectored
        found = yield from self.table.fetch(part.namespace, keys)
        if self.table.vectored and not vectored:  # they came since, and not by a store that embeds nothing
            yield from self.table.drop_vectors(part.namespace, keys)
            found = yield from self.table.fetch(part.namespace, keys)
        now, until = self.table.now(), time.time()
        adds: list[Pair] = []
        for key, entry in part.entries.items():
            stored, seal = found.get(key), entry.seal
            assert seal is not None
            created = self._made.get((context.id, key), (b"", ""))[1] if key in part.there else None
            held = (
                stored is not None
                and self.table.form.matches(stored.value, entry.expected)
                and self.table.fresh(stored, started, until, created)
                and lasts(stored, entry.own, now)
            )
            if stored is None or not held:
                error = altered(name(part.namespace, key))
                if stored is None or self.custody.enforcing:
                    raise error
                self.custody.report(context.id, error.record or "", error)
            cell = context.cell(MAIN, seal, place_of(stored, entry.bound, now))
            if self.table.keeps:
                self._remember(context.id, key, cell, stored.created)
            adds.append((pack_key(key), cell))
        return adds

    # -- sweeping ----------------------------------------------------------------------------

    def sweep(self) -> Operation[int]:
        """Delete what has expired by its authenticated expiry; how many items went.

        Raises:
            IntegrityError: a namespace is not as it was left; the others were swept all the same.
        """
        found: dict[Namespace, list[str]] = {}
        for namespace, key in (yield from self.table.expired(stamp(self.table.now()))):
            found.setdefault(namespace, []).append(key)
        swept, wrong = 0, None
        for namespace, keys in found.items():
            try:
                swept += yield from self._sweep(namespace, keys)
            except IntegrityError as error:
                self.custody.report(context_of(namespace), context_of(namespace), error)
                wrong = error
        if wrong is not None and self.custody.enforcing:
            raise wrong
        return swept

    def _sweep(self, namespace: Namespace, keys: Sequence[str]) -> Operation[int]:
        counted: list[int] = []
        # What an index names and a look by key does not find is nobody's to count as swept.
        yield from self.table.sound((yield from self.table.hint([context_of(namespace)])))
        keys = list((yield from self.table.fetch(namespace, keys)))

        def prepare(contexts: list[Context]) -> list[Change]:
            (context,) = contexts
            groups = [pack_key(key) for key in keys]
            pairs = [(g, c) for g in groups for c in split(context.index.groups.get(g, b""))]
            return [Change("prune", candidates=pairs)]

        def perform() -> Operation[None]:
            context = self.custody.peek(context_of(namespace))
            now = self.table.now()
            stored = yield from self.table.fetch(namespace, keys)
            if context is not None:
                for row in stored.values():  # an expiry that nobody set deletes nothing
                    checked = context.check(claim_of(namespace, row, self.table.form, now)[0])
                    context.verify_group((checked,), checked.group, checked.record)
            yield from self.table.delete_expired(namespace, keys, stamp(now))

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            left = yield from self.table.fetch(namespace, keys)  # a read may have prolonged some
            kept = {pack_key(key) for key in left}
            gone = [pair for pair in changes[0].candidates if pair[0] not in kept]
            yield from self.table.drop_vectors(namespace, [unpack_key(group) for group, _ in gone])
            counted.append(len(gone))
            return [replace(changes[0], removes=gone)]

        yield from self.custody.operate([context_of(namespace)], prepare, perform, settle)
        return counted[0]

    # -- for custody -------------------------------------------------------------------------

    def quiet(self, context: Context) -> Operation[None]:
        """Before what a killed writer left is judged. See :class:`~memguard.custody.Rows`."""
        yield from self.table.quiet()

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """Complete an announced delete after a crash. See :class:`~memguard.custody.Rows`."""
        namespace = namespace_of(context.id)
        if removes is None:
            keys = [stored.key for stored in (yield from self.table.rows(namespace))]
        else:
            keys = list(dict.fromkeys(unpack_key(group) for group, _ in removes))
        with reading(f"namespace {'/'.join(namespace)!r}"):
            yield from self.table.batch([PutOp(namespace, key, None) for key in keys])
            yield from self.table.drop_vectors(namespace, keys)
