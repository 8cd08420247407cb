"""A guarded collection: keyed records in contexts, sealed when they are written and checked when they are read.

The shared core of the adapters whose stores hold plain records. An adapter translates (:class:`Table`) and gives its
framework's methods; everything that is decided is decided here and below. Methods are operations
(:mod:`memguard.effects`): one body for the sync and the async face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memguard.collection.rows import (
    Entry,
    Stored,
    Table,
    claim_of,
    disordered,
    label_in,
    named,
    order_of,
)
from memguard.collection.screen import Screen
from memguard.collection.writes import Writes
from memguard.custody import Custody
from memguard.effects import Block, Operation
from memguard.errors import IntegrityError
from memguard.integrity.index import pack_key, unpack_key
from memguard.integrity.verifier import Claim, Context, incomplete, mismatch
from memguard.reading import Page
from memguard.record import text_of

if TYPE_CHECKING:
    from memguard.engine import MemGuard

T = TypeVar("T")
#: Tries of a search without a writer's interference before writers are kept out.
_TRIES = 3
#: Contexts that are looked through for a parent that its child's own context does not have.
_PLACES = 64


class Collection(Writes):
    """One guarded collection.

    Args:
        table: the adapter.
        conversation: see :class:`~memguard.collection.screen.Screen`.
        text: the text of a stored value, for what reads it; default every text in it.
    """

    def __init__(
        self,
        mg: MemGuard,
        table: Table,
        *,
        conversation: bool = False,
        text: Callable[[Any], str] | None = None,
    ) -> None:
        self.mg, self.table, self.conversation = mg, table, conversation
        self._text = text or (lambda value: text_of(value, max_items=mg.config.guards.limits.max_nodes))

    def open(
        self,
        obj: object,
        name: str | None,
        *,
        kind: str,
        place: str | None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Collection:
        """Take custody of the store under a name; see :meth:`~memguard.engine.MemGuard.custody`.

        Raises:
            ConfigError: no name, or one that is another store's.
        """
        self.custody: Custody = self.mg.custody(
            obj, name, self, kind=kind, place=place, overrides=overrides or {}
        )
        self.store = self.custody.store
        self.screen = Screen(self.mg, self.store, self.table, self._find, conversation=self.conversation)
        return self

    # -- reads -------------------------------------------------------------------------------

    def get(self, context: str, keys: Sequence[str]) -> Operation[dict[str, Entry]]:
        """Records by key; those that are not there are left out.

        Raises:
            IntegrityError: one of them is not what was written, or is missing.
        """
        keys = list(dict.fromkeys(keys))
        if not keys:
            return {}

        def fetch() -> Operation[Mapping[str, Stored]]:
            return self.table.fetch(context, keys)

        def judge(held: Context, found: Mapping[str, Stored]) -> dict[str, Entry]:
            judged = {key: self._judged(held, key, found.get(key)) for key in keys}
            return {key: entry for key, entry in judged.items() if entry is not None}

        def lenient(found: Mapping[str, Stored]) -> dict[str, Entry]:
            return {key: _lenient(context, stored) for key, stored in found.items()}

        record = named(self.store, context, keys[0])
        entries: dict[str, Entry] = yield from self.custody.read(context, fetch, judge, lenient, record)
        return entries

    def all(self, context: str) -> Operation[list[Entry]]:
        """Every record of a context, in the store's order; nothing missing, nothing extra.

        Raises:
            IntegrityError: the context is not as it was left.
        """

        def fetch() -> Operation[Sequence[Stored]]:
            return self.table.rows(context)

        def judge(held: Context, found: Sequence[Stored]) -> list[Entry]:
            seen = held.observe(self._claims(context, found, strict=True), self.custody.settings.max_rows)
            if seen.index.groups != held.index.groups:
                for group in held.index.groups.keys() | seen.index.groups.keys():
                    have, want = seen.index.groups.get(group, b""), held.index.groups.get(group, b"")
                    if have != want:
                        raise mismatch(have, want, named(self.store, context, unpack_key(group)))
                raise incomplete(held, seen)
            return [Entry(context, stored, label_in(stored.own)) for stored in found]

        def lenient(found: Sequence[Stored]) -> list[Entry]:
            return [_lenient(context, stored) for stored in found]

        entries: list[Entry] = yield from self.custody.read(context, fetch, judge, lenient, context)
        return entries

    def within(
        self,
        contexts: Iterable[str] | Callable[[Sequence[str]], Iterable[str]],
        ask: Callable[[], Operation[Sequence[tuple[str, str, T]]]],
    ) -> Operation[list[tuple[Entry, T]]]:
        """A search: the store's own answer over contexts that are complete, every hit fetched and checked.

        Args:
            contexts: those that are searched, or what picks them from all there are.
            ask: the answer as (context, key, anything).

        Raises:
            IntegrityError: a hit is not what was written, or a context misses or has gained a record.
        """
        hits: Sequence[tuple[str, str, T]]
        for _ in range(_TRIES):
            names = yield from self._names(contexts)
            hint = yield from self.table.hint(names)
            if self.custody.settings.mode != "off":
                try:
                    yield from self.custody.complete(names, hint)
                except IntegrityError:
                    if self.custody.enforcing:
                        raise
            hits = yield from ask()
            if hint == (yield from self.table.hint(names)):
                break  # nobody changed the store between the check and the read
        else:
            hits = yield from self.custody.alone(names, ask)
        wanted: dict[str, list[str]] = {}
        for context, key, _ in hits:
            wanted.setdefault(context, []).append(key)
        found: dict[tuple[str, str], Entry] = {}
        for context, keys in wanted.items():
            for key, entry in (yield from self.get(context, keys)).items():
                found[context, key] = entry
        return [(found[c, k], extra) for c, k, extra in hits if (c, k) in found]

    def served(
        self, entries: Sequence[Entry], *, limit: int | None = None, query: str | None = None
    ) -> Operation[list[Entry]]:
        """Entries through the read chain, in the order to serve them; withheld and filtered ones are left out.

        Args:
            limit: how many were asked for; default all.
            query: the question, where the entries are ordered by one.
        """
        reading = self.mg.reading
        if reading.idle or not entries:
            return list(entries[:limit])
        search = reading.search(len(entries) if limit is None else limit, query)
        labels = [entry.label for entry in entries]
        candidates = [
            reading.candidate(
                self.store,
                entry.key,
                self._text(entry.value),
                entry.label,
                entry.value if isinstance(entry.value, dict) else None,
                space=entry.context,
            )
            for entry in entries
        ]
        if reading.waits:  # guards of others may ask a model: not in an event loop's thread
            page: Page = yield Block(search.page, candidates, labels)
        else:
            page = search.page(candidates, labels)
        if page.remarkable:
            reading.tell(self.store, [named(self.store, e.context, e.key) for e in entries], page)
        return [entries[at]._replace(label=page.labels[at]) for at in page.served]

    def names(self) -> Operation[list[str]]:
        """Contexts that have records, and those that ought to."""
        there = yield from self.table.contexts()
        return list(dict.fromkeys([*there, *self.custody.known()]))

    # -- inside ------------------------------------------------------------------------------

    def _names(
        self, contexts: Iterable[str] | Callable[[Sequence[str]], Iterable[str]]
    ) -> Operation[list[str]]:
        if callable(contexts):
            return list(contexts((yield from self.names())))
        return list(contexts)

    def _judged(self, held: Context, key: str, stored: Stored | None) -> Entry | None:
        """The record, if it is there and the one that the head counts.

        Raises:
            IntegrityError: it is not.
        """
        group = pack_key(key)
        if stored is None:
            if group in held.index.groups:
                held.verify_group((), group, named(self.store, held.id, key))
            return None
        row = held.check(claim_of(self.store, held.id, stored))
        if held.index.groups.get(row.group) != row.cell or row.group != group:
            held.verify_group((row,), group, row.record)
        return Entry(held.id, stored, label_in(stored.own))

    def _find(self, context: str, keys: Sequence[str]) -> Operation[Sequence[Entry]]:
        """Records by key: in this context, else in the others."""
        found = list((yield from self.get(context, keys)).values())
        left = [key for key in keys if key not in {entry.key for entry in found}]
        if left:
            others = [name for name in (yield from self.names()) if name != context]
            if len(others) <= _PLACES:
                for name in others:
                    found += (yield from self.get(name, left)).values()
        return found

    # -- for custody -------------------------------------------------------------------------

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """Every record of the context. See :class:`~memguard.custody.Rows`."""
        found = yield from self.table.rows(context.id)
        return self._claims(context.id, found, strict=self.custody.enforcing)

    def _claims(self, context: str, found: Sequence[Stored], *, strict: bool) -> Iterator[Claim]:
        last = b""
        for stored in found:
            claim = claim_of(self.store, context, stored)
            order = order_of(claim) if self.table.ordered else None
            if order is not None:
                if order <= last:
                    if strict:
                        raise disordered(claim.record)
                    claim = claim._replace(place=claim.place + b"order")  # counts as a record of another time
                last = order
            yield claim


def _lenient(context: str, stored: Stored) -> Entry:
    """What is stored, unchecked (report and off modes)."""
    try:
        label = label_in(stored.own)
    except Exception:  # noqa: BLE001 - nobody vouches for what stands there
        label = None
    return Entry(context, stored, label)
