"""What a collection does on writes: each one operation of custody, read back before its head is written."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from memguard.collection.rows import (
    KIND,
    Put,
    Stored,
    Table,
    Withheld,
    Written,
    claim_of,
    named,
    position,
)
from memguard.collection.screen import Screen
from memguard.custody import Change, Custody, Pair
from memguard.effects import Operation
from memguard.errors import TamperedError
from memguard.integrity.canonical import canonical_json
from memguard.integrity.index import MAIN, MEMBER, pack_key, split, unpack_key
from memguard.integrity.tag import NOTHING
from memguard.integrity.verifier import Context


@dataclass(slots=True)
class Part:
    """What an operation does to one context."""

    puts: list[Put] = field(default_factory=list)
    deletes: Sequence[str] = ()
    #: Everything goes that is neither among the puts nor named here; None: nothing but the deletes.
    keep: Collection[str] | None = None
    #: Keys of records that are there and go, once known.
    gone: list[str] = field(default_factory=list)
    #: The record that must be there, in this state, for the operation to go through; by key.
    expect: Mapping[str, bytes | None] = field(default_factory=dict)
    #: The operation that the context must be at for this one to go through; None for any.
    at: int | None = None


class Moved(Exception):
    """A record is not as it was when it was looked at. Raised before anything is announced."""


class Writes:
    """The writing half of a collection."""

    store: str
    table: Table
    custody: Custody
    screen: Screen

    def write(
        self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]] | None = None
    ) -> Operation[Written]:
        """Store records and delete others; the last put of a key wins.

        One operation over all its contexts where the table is atomic, else one for each record.

        Raises:
            RejectedError, QuarantinedError: a guard refused a put; nothing of the call was stored.
            IntegrityError: a context is not as it was left, or the store does not hold what was written.
        """
        written = yield from self._screened(puts)
        parts = _parts(written.stored, deletes or {})
        if self.table.atomic:
            yield from self._operate(parts)
            return written
        for context, part in parts.items():
            for put in part.puts:
                yield from self._operate({context: Part([put])})
            for key in part.deletes:
                yield from self._operate({context: Part(deletes=[key])})
        return written

    def replace(self, context: str, puts: Sequence[Put]) -> Operation[Written]:
        """The context holds exactly these from now on: in one operation where the table is atomic, else the new ones
        first and then the end of the others, which a crash leaves to be finished.

        Raises:
            as :meth:`write`.
        """
        written = yield from self._screened(puts)
        new = _last(written.stored)
        if self.table.atomic:
            yield from self._operate({context: Part(new, keep=())})
            return written
        for put in new:
            yield from self._operate({context: Part([put])})
        yield from self._operate({context: Part(keep=[put.name for put in new])})
        return written

    def delete(self, context: str, keys: Sequence[str] | None = None) -> Operation[list[str]]:
        """Delete records (default: all of the context); the keys of those that were there."""
        part = Part(deletes=list(keys or ()), keep=None if keys is not None else ())
        yield from self._operate({context: part})
        return part.gone

    def _screened(self, puts: Sequence[Put]) -> Operation[Written]:
        written = Written()
        for put in puts:
            said = yield from self.screen(put)
            if isinstance(said, Withheld):
                written.withheld.append(said)
            else:
                written.stored.append(said)
        return written

    # -- one operation -----------------------------------------------------------------------

    def _operate(self, parts: Mapping[str, Part], name: str = "") -> Operation[None]:
        """Seal, commit, read back.

        Args:
            name: of the operation in the ledger, where it is none of the ordinary ones.
        """
        if not parts:
            return

        def prepare(contexts: list[Context]) -> list[Change]:
            changes = [self._sealed(context, parts[context.id]) for context in contexts]
            for change in changes:
                change.operation = name or change.operation
            return changes

        def perform() -> Operation[None]:
            puts = [put for part in parts.values() for put in part.puts]
            gone = {context: part.gone for context, part in parts.items() if part.gone}
            if puts or gone:
                yield from self.table.commit(puts, gone)

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            for context, change in zip(contexts, changes, strict=True):
                part = parts[context.id]
                if part.puts:
                    change.adds = yield from self._read_back(context, part.puts)
            return changes

        yield from self.custody.operate(list(parts), prepare, perform, settle)

    def _sealed(self, context: Context, part: Part) -> Change:
        """Seal the puts for the context as it stands, and say what changes."""
        index, generation = context.index, context.head.generation + 1
        if part.at is not None and context.head.generation != part.at:
            raise Moved
        for key, cell in part.expect.items():
            if index.member(pack_key(key), MAIN) != cell:
                raise Moved
        adds: list[Pair] = []
        removes: list[Pair] = []
        sealer = context.sealer(KIND)
        for at, put in enumerate(part.puts):
            if put.key is None:
                # A number that no operation had before, so that a record taken back out never shares a key.
                put.key = put.own["key"] = f"{generation:012d}-{at:06d}"
            group = pack_key(put.name)
            old = index.member(group, MAIN)
            seal = sealer.seal(
                put.name.encode("utf-8", "surrogatepass"),
                generation=generation,
                fence=context.head.fence,
                size=len(part.puts),
                prev=context.commitment,
                replaced=old[MEMBER:] if old else NOTHING,
                content=hashlib.sha256(put.content).digest(),
                bound=(canonical_json(put.own),),
                extra=position(at),
            )
            put.seal = seal.encode()
            adds.append((group, context.cell(MAIN, seal)))  # the real cell is known after the commit
        new = {group for group, _ in adds}
        groups = [pack_key(key) for key in part.deletes]
        if part.keep is not None:
            kept = {pack_key(key) for key in part.keep}
            groups = [group for group in index.groups if group not in kept]
        part.gone = []
        for group in dict.fromkeys(groups):
            held = index.groups.get(group)
            if held is not None and group not in new:
                part.gone.append(unpack_key(group))
                removes += [(group, cell) for cell in split(held)]
        # A mixture goes or comes as one transaction of the store; a delete alone is finished after a crash.
        operation = "put" if not removes else "prune" if adds else "remove"
        return Change(operation, adds, removes)

    def _read_back(self, context: Context, puts: Sequence[Put]) -> Operation[list[Pair]]:
        """The cells of what was just stored, which must be what was handed over."""
        found = yield from self.table.fetch(context.id, [put.name for put in puts])
        adds: list[Pair] = []
        for put in puts:
            stored = found.get(put.name)
            record = named(self.store, context.id, put.key)
            held = stored is not None and _held(stored, put)
            if stored is None or not held:
                error = _altered(record)
                if stored is None or self.custody.enforcing:
                    raise error
                self.custody.report(context.id, record, error)
            row = context.check(claim_of(self.store, context.id, stored)) if held else None
            if row is not None:
                adds.append((row.group, row.cell))
        return adds

    # -- for custody -------------------------------------------------------------------------

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """Complete an announced delete after a crash. See :class:`~memguard.custody.Rows`."""
        if removes is None:
            keys = [stored.key for stored in (yield from self.table.rows(context.id))]
        else:
            keys = list(dict.fromkeys(unpack_key(group) for group, _ in removes))
        there = yield from self.table.fetch(context.id, keys)
        if there:
            yield from self.table.commit([], {context.id: list(there)})


def _held(stored: Stored, put: Put) -> bool:
    return stored.seal == put.seal and stored.own == canonical_json(put.own) and stored.content == put.content


def _last(puts: Sequence[Put]) -> list[Put]:
    """The last put of every key, at the place of its first mention."""
    last: dict[object, Put] = {}
    for at, put in enumerate(puts):
        last[put.key if put.key is not None else at] = put
    return list(last.values())


def _parts(puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> dict[str, Part]:
    by_context: dict[str, list[Put]] = {}
    for put in puts:
        by_context.setdefault(put.context, []).append(put)
    parts = {context: Part(_last(held)) for context, held in by_context.items()}
    for context, keys in deletes.items():
        parts.setdefault(context, Part()).deletes = list(keys)
    return parts


def _altered(record: str) -> TamperedError:
    return TamperedError(
        "the store does not hold what was just written to it.",
        case="T1",
        record=record,
        why="It was changed between the store's commit and the reading back, or the store keeps it in another form.",
        do="memguard audit STORE lists what is damaged.",
    )
