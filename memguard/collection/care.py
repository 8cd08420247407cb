"""Audit, adoption, repair, release and revert of a collection's records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from memguard.care import Existing
from memguard.collection.collection import Collection
from memguard.collection.rows import (
    Entry,
    Put,
    Stored,
    claim_of,
    disordered,
    members,
    named,
    order_of,
    position,
)
from memguard.collection.writes import Moved, Part
from memguard.custody import Pair
from memguard.effects import Operation
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import EXTRA, NOTHING, Seal, unpack
from memguard.integrity.verifier import Claim, Context
from memguard.labels import Label
from memguard.quarantine.entry import Kept
from memguard.quarantine.place import TRIES, busy, newer, released_from
from memguard.reverting import Draft, Found, Wanted, no_checkpoints


class CollectionCare:
    """See :class:`~memguard.care.CareRows`; also how a quarantined record goes back, and how a source is taken out."""

    def __init__(self, collection: Collection) -> None:
        self._of = collection
        self.releasing, self.reverting = Releasing(collection), Reverting(collection)

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """See :class:`~memguard.custody.Rows`."""
        return (yield from self._of.scan(context))

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """See :class:`~memguard.custody.Rows`."""
        yield from self._of.erase(context, removes)

    def contexts(self) -> Operation[Sequence[str]]:
        """See :class:`~memguard.care.CareRows`."""
        return (yield from self._of.table.contexts())

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """See :class:`~memguard.care.CareRows`."""
        return self._existing(context.id, (yield from self._of.table.rows(context.id)))

    def _existing(self, context: str, found: Sequence[Stored]) -> Iterator[Existing]:
        last = b""
        for at, stored in enumerate(found):
            claim, extra = claim_of(self._of.store, context, stored), position(at)
            order = order_of(claim)
            if order is not None:
                extra = order[8:]
                if self._of.table.ordered:
                    if order <= last:
                        # An audit goes on with the next record; this one counts as one of another time.
                        what = f"{claim.record} ({disordered('').what})"
                        claim = claim._replace(place=claim.place + b"order", record=what)
                    last = order
            digest = hashlib.sha256(stored.content).digest()
            yield Existing(claim, digest, extra, stored)

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        fields = [(item.row, {"seal": seal.encode(), **members(item.row.own)}) for item, seal in sealed]
        yield from self._of.table.write_seals(context.id, fields)

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        keys = [item.row.key for item in found]
        if keys:
            yield from self._of.table.commit([], {context.id: keys})


class Releasing:
    """See :class:`~memguard.quarantine.desk.Releasing`."""

    def __init__(self, collection: Collection) -> None:
        self._of = collection

    def absent(self, kept: Kept) -> Operation[bool]:
        """Whether nothing stands in the record's place."""
        return not kept.key or (yield from self._there(kept)) is None

    def put_back(
        self, kept: Kept, label: Label, since: float, entry: str, *, replace: bool
    ) -> Operation[bool]:
        """Store the record with this label; False if it stands there already (a release that was cut short)."""
        of = self._of
        for _ in range(TRIES):
            there = yield from self._there(kept, entry)
            if there is not None and released_from(there.label, entry):
                return False
            if there is not None and not replace and members(there.stored.own).get("at", 0) >= int(since):
                raise newer(entry, "It was written after this one was withheld.", "--replace writes over it.")
            blank = Put(kept.context, kept.key or None, kept.value, b"", "")
            put = of.table.remade(blank, kept.value)
            put.own = {**put.own, "at": int(since), "label": label.as_dict()}
            expect = {kept.key: self._cell(kept.context, kept.key)} if kept.key else {}
            try:
                yield from of._operate({kept.context: Part([put], expect=expect)}, "release")
                return True
            except Moved:
                continue
        raise busy(entry)

    def take_out(self, kept: Kept, entry: str) -> Operation[bool]:
        """Delete the record if it is still the one that was released; False if it is gone already."""
        for _ in range(TRIES):
            there = yield from self._there(kept, entry)
            if there is None:
                return False
            if not released_from(there.label, entry):
                raise newer(
                    entry,
                    "What stands there now was written after the release.",
                    "Delete it yourself if it must go.",
                )
            expect = {there.key: self._cell(kept.context, there.key)}
            try:
                yield from self._of._operate({kept.context: Part(deletes=[there.key], expect=expect)})
                return True
            except Moved:
                continue
        raise busy(entry)

    def _there(self, kept: Kept, entry: str = "") -> Operation[Entry | None]:
        """What stands in the record's place, verified; without a key of its own, the one released from ``entry``."""
        if kept.key:
            return (yield from self._of.get(kept.context, [kept.key])).get(kept.key)
        found = yield from self._of.all(kept.context)
        return next((item for item in found if released_from(item.label, entry)), None)

    def _cell(self, context: str, key: str) -> bytes | None:
        held = self._of.custody.peek(context)
        return held.index.member(pack_key(key), MAIN) if held is not None else None


class Reverting:
    """See :class:`~memguard.reverting.Reverting`."""

    def __init__(self, collection: Collection) -> None:
        self._of = collection

    def draft(self, wanted: Wanted) -> Operation[Draft]:
        """Read every record, checked and complete, and choose."""
        of = self._of
        no_checkpoints(wanted, "a collection")
        records: list[Found] = []
        for context in (yield from of.names()):
            for item in (yield from of.all(context)):
                records.append(self._found(context, item))
        return Draft.of(records, wanted)

    def _found(self, context: str, item: Entry) -> Found:
        record = named(self._of.store, context, item.key)
        at = float(members(item.stored.own).get("at", 0))
        held = self._of.custody.peek(context)
        cell = held.index.member(pack_key(item.key), MAIN) if held is not None else None
        try:
            packed = unpack(item.stored.seal, record)[1]
            replaced = packed[32:48] != NOTHING and len(packed) >= EXTRA
        except Exception:  # noqa: BLE001 - report mode: nobody vouches for it
            replaced = False
        return Found(context, item.key, item.label, at, at, replaced, cell)

    def carry_out(self, draft: Draft) -> Operation[int]:
        """Delete what is still as it was when it was found, a context at a time."""
        gone = 0
        for context, found in draft.work.items():
            left = {record.key: record.state for record, _ in found}
            while left:
                part = Part(deletes=list(left), expect=dict(left))
                try:
                    yield from self._of._operate({context: part})
                    gone += len(part.gone)
                    break
                except Moved:
                    held = self._of.custody.peek(context)
                    still = {
                        k: c for k, c in left.items() if held and held.index.member(pack_key(k), MAIN) == c
                    }
                    if len(still) == len(left):
                        break
                    left = still
        return gone
