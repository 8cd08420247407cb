"""What is served was checked here first. Pure: claims in, cells or errors out, no I/O.

Rules for a row, in order (all before anything of it is decoded):
 1. it carries a seal, and the seal parses;
 2. its key id is in the ring ("unknown key" is neither "tampered" nor "empty");
 3. the tag holds over store, context, record key, position, digest and bound fields;
 4. where the content is at hand, its digest is the seal's.
Rules for a group that is served: its cells are exactly the index's: no row of it missing,
added, or of another time. Rules for a whole context: count and keyed sum equal the head's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import NamedTuple

from memguard.errors import IntegrityError, RollbackError, TamperedError
from memguard.integrity.head import MODULUS, Accumulator, Head
from memguard.integrity.index import CELL, Index
from memguard.integrity.mac import Mac
from memguard.integrity.records import Owed
from memguard.integrity.tag import (
    CONTENT,
    EXTRA,
    FIXED,
    NOTHING,
    TAG,
    Seal,
    Sealer,
    read,
    tampered,
    unpack,
)
from memguard.ports import KeyRing

_PLACE = b"memguard/place/1"


class Claim(NamedTuple):
    """A row as the store shows it, before it is believed.

    Attributes:
        kind: two bytes naming the kind of row (``ck``, ``wr``, ``it``).
        group: packed key of the group it belongs to.
        member: 8 bytes naming the row in its group.
        key: the record key bytes that the tag binds.
        seal: the seal text found with it (anything, or None), or that text parsed.
        bound: further bytes that the tag binds.
        record: how errors name it (identifiers only).
        content: SHA-256 digest of the content when it was read, else None.
        place: attributes that the store sets by itself (timestamps, vectors); not in the
            tag, which is made before them, but in the cell.
        flaw: what is wrong with the row already as it stands, found while it was read.
    """

    kind: bytes
    group: bytes
    member: bytes
    key: bytes
    seal: object
    bound: tuple[bytes, ...]
    record: str
    content: bytes | None = None
    place: bytes = b""
    flaw: IntegrityError | None = None


class Row(NamedTuple):
    """A row that was checked."""

    group: bytes
    cell: bytes
    seal: Seal
    record: str


@dataclass(slots=True)
class Observation:
    """Every row of a context, checked one by one, added up, not yet compared with a head.

    Attributes:
        index: their cells.
        term: the keyed hash of a cell.
        newer: the rows of operations that the head does not count.
        top: number of the newest operation, of the head or of a row.
        counted: the sum of the cells' terms, once somebody asked for :attr:`total`.
    """

    index: Index
    term: Callable[[bytes, bytes], int]
    newer: list[Row] = field(default_factory=list)
    top: int = 0
    counted: int | None = None

    @property
    def total(self) -> int:
        """The sum of the cells' terms."""
        if self.counted is None:
            self.counted = sum(self.term(*pair) for pair in self.index.items()) % MODULUS
        return self.counted


class Context:
    """One context's keys, head and index: the trusted side of every comparison.

    Not thread-safe by itself; the custody that owns it serialises changes.
    """

    __slots__ = (
        "_accumulator", "_keys", "_owed", "_places", "_sealers", "doubt", "flawed", "head", "id", "index", "kid",
        "reads", "ready", "store",
    )  # fmt: skip

    def __init__(
        self,
        keys: KeyRing,
        store: str,
        context: str,
        kid: str,
        head: Head | None,
        owed: Owed | None = None,
    ) -> None:
        self._keys = keys
        #: What the head's sum follows from, where it was not added up.
        self._owed = owed
        self.store, self.id, self.kid = store, context, kid
        self.head = head or Head(context)
        self.index = Index()
        #: The index was compared with the head in this process.
        self.ready = False
        #: An operation of ours ended without our knowing how.
        self.doubt = False
        #: Set in report mode when the context failed: it is served, and said to be wrong.
        self.flawed: IntegrityError | None = None
        #: Change hint of the store when completeness was last checked.
        self.reads: object = None
        self._sealers: dict[tuple[bytes, str], Sealer] = {}
        self._places: dict[str, Mac] = {}
        self._accumulator = Accumulator(keys.subkey("accumulator", kid), context)

    @property
    def commitment(self) -> bytes:
        """What the next rows carry as ``prev``."""
        return self.head.commitment

    def sealer(self, kind: bytes, kid: str | None = None) -> Sealer:
        """The sealer for a kind of row under a key id (default: the current one)."""
        kid = kid or self._keys.current
        made = self._sealers.get((kind, kid))
        if made is None:
            made = Sealer(self._keys.subkey("row", kid), kid, kind, self.store, self.id)
            self._sealers[kind, kid] = made
        return made

    def _proved(self, claims: Iterable[Claim]) -> Iterator[tuple[bytes, bytes, str, bytes, str]]:
        """Rules 1 to 4, claim by claim: group, cell, key id, packed seal and name of each row that holds.

        One loop over local names, because a first verification is this and little else.

        Raises:
            TamperedError, UnknownKeyError.
        """
        kind_now, kid_now, tag_of = None, None, None
        for kind, group, member, key, seal, bound, record, content, place, flaw in claims:
            if flaw is not None:
                raise flaw
            kid, packed = (seal.kid, seal.packed) if isinstance(seal, Seal) else unpack(seal, record)
            if kid != kid_now or kind != kind_now or tag_of is None:
                tag_of = self.sealer(kind, kid).tag
                kind_now, kid_now = kind, kid
            tag = packed[FIXED:EXTRA]
            if not compare_digest(tag, tag_of(packed[:FIXED], key, packed[EXTRA:], bound)):
                raise tampered(record, "T1", "Its place or its fields do not match its tag.")
            if content is not None and not compare_digest(content, packed[CONTENT:FIXED]):
                raise tampered(record, "T1", "Its bytes do not match the digest under its tag.")
            yield group, member + (self._placed(kid, tag, place) if place else tag), kid, packed, record

    def check(self, claim: Claim) -> Row:
        """Rules 1 to 4.

        Raises:
            TamperedError, UnknownKeyError.
        """
        ((group, cell, kid, packed, record),) = self._proved((claim,))
        return Row(group, cell, read(kid, packed), record)

    def cell(self, member: bytes, seal: Seal, place: bytes = b"") -> bytes:
        """The cell of a row: its member name and sixteen bytes only this state of it has."""
        return member + (self._placed(seal.kid, seal.tag, place) if place else seal.tag)

    def _placed(self, kid: str, tag: bytes, place: bytes) -> bytes:
        mac = self._places.get(kid)
        if mac is None:
            mac = self._places[kid] = Mac(self._keys.subkey("row", kid), _PLACE)
        return mac.digest(tag + place)[:TAG]

    def term(self, group: bytes, cell: bytes) -> int:
        """The keyed hash of a cell, as it enters the head's sum."""
        return self._accumulator.term(group, cell)

    def verify_group(self, rows: Iterable[Row], group: bytes, record: str) -> None:
        """That the rows served for a group are exactly its cells.

        Raises:
            RollbackError: a row is missing. TamperedError: one is extra or of another time.
        """
        seen = b"".join(sorted(row.cell for row in rows))
        known = self.index.groups.get(group, b"")
        if seen != known:
            raise mismatch(seen, known, record)

    def observe(self, claims: Iterable[Claim], limit: int = 0) -> Observation:
        """Check every row of the context and add them up. Memory: one cell a row.

        Args:
            limit: rows that are looked at, at most; 0 for no limit.

        Raises:
            TamperedError, UnknownKeyError; IntegrityError where there are more rows than ``limit``.
        """
        index = Index()
        groups = index.groups
        newer: list[Row] = []
        head = top = self.head.generation.to_bytes(
            8, "big"
        )  # numbers of eight bytes are in the order of their bytes
        for group, cell, kid, packed, record in self._proved(claims):
            if groups.setdefault(group, cell) is cell:
                index.cells += 1
            elif index.add(group, cell) is not None:
                raise TamperedError("two rows claim one place.", case="T5", record=record)
            if limit and index.cells > limit:
                raise IntegrityError(
                    f"a context holds more than {limit} rows.",
                    case="limit",
                    record=f"{self.store} {self.id}",
                    code="MG407",
                    why="A scan is bounded, so that a flooded store cannot take all memory.",
                    do="Raise integrity.max_rows if the rows are yours; memguard audit STORE tells.",
                )
            generation = packed[:8]
            if generation > head:
                newer.append(Row(group, cell, read(kid, packed), record))
                top = max(top, generation)
        return Observation(index, self.term, newer, int.from_bytes(top, "big"))

    def matches(self, seen: Observation) -> bool:
        """Whether count and sum are the head's."""
        if seen.index.cells != self.head.cells:
            return False
        if self._owed is None or seen.counted is not None:
            return seen.total == self.total
        return self._balanced(self._owed, seen.index)

    def _balanced(self, owed: Owed, index: Index) -> bool:
        """Whether a sum and the cells since are those of an index.

        A cell that came and is there stands on both sides: it is taken off both, and its term need not be known.
        """
        total, deltas = owed
        left: dict[tuple[bytes, bytes], int] = {}
        for adds, removes in deltas:
            for pair in adds:
                left[pair] = left.get(pair, 0) + 1
            for pair in removes:
                left[pair] = left.get(pair, 0) - 1
        term = self.term
        for pair in index.items():
            if left.get(pair) == 1:
                del left[pair]
            else:
                total -= term(*pair)
        for pair, times in left.items():
            if times:
                total += times * term(*pair)
        return total % MODULUS == 0

    @property
    def total(self) -> int:
        """The head's sum."""
        if self._owed is not None:
            self.head = self.head._replace(total=self._accumulator.added_up(*self._owed))
            self._owed = None
        return self.head.total

    def adopt(self, head: Head, index: Index, kid: str | None = None) -> None:
        """Make this head and index the truth."""
        if kid is not None and kid != self.kid:
            self.kid = kid
            self._accumulator = Accumulator(self._keys.subkey("accumulator", kid), self.id)
        self.head, self.index, self._owed = head, index, None
        self.ready, self.doubt, self.flawed = True, False, None


def mismatch(seen: bytes, known: bytes, record: str) -> IntegrityError:
    """The error for a group whose cells are not the index's."""
    have = {seen[at : at + CELL] for at in range(0, len(seen), CELL)}
    want = {known[at : at + CELL] for at in range(0, len(known), CELL)}
    if not have:
        return RollbackError(
            "a record that was written is not in the store.",
            case="T2",
            record=record,
            why="The head of its context, kept outside the store, still counts it.",
            do="memguard audit STORE. If you removed it: memguard anchor accept STORE --reason TEXT --apply",
        )
    if have < want:
        return RollbackError(
            "part of a record is missing from the store.",
            case="T3",
            record=record,
            why="The head of its context counts more rows for it.",
            do="memguard audit STORE shows which.",
        )
    case = "T5" if not want else "T7"
    return TamperedError(
        "a record is in the store that this state of it never held.",
        case=case,
        record=record,
        why="Its tag is genuine or not, but the head of its context does not count it: forged, replayed or older.",
        do="memguard audit STORE shows it; memguard repair STORE drops rows the head does not count.",
    )


def incomplete(context: Context, seen: Observation) -> IntegrityError:
    """The error for a context whose rows do not add up to its head."""
    have, want = seen.index.cells, context.head.cells
    where = f"{context.store} {context.id}"
    if have < want:
        return RollbackError(
            f"{want - have} of {want} records of a context are missing from the store.",
            case="T2",
            record=where,
            why="The head of the context, kept outside the store, counts them.",
            do="memguard audit STORE; restore the newest copy, or memguard anchor accept STORE --reason TEXT --apply.",
        )
    if have > want:
        return TamperedError(
            f"{have - want} records of a context were never counted by its head.",
            case="T5",
            record=where,
            why="They were put in or brought back past the guard.",
            do="memguard audit STORE lists them; memguard repair STORE drops them.",
        )
    return RollbackError(
        "the records of a context are not those its head counts.",
        case="T7",
        record=where,
        why="As many rows, but at least one of another time: replaced by an older copy, or the whole store went back.",
        do="memguard audit STORE; restore the newest copy, or memguard anchor accept STORE --reason TEXT --apply.",
    )


def newest_replaced(rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
    """(group, cell) of the rows that these replaced: a seal names the sixteen bytes of that cell."""
    return [(r.group, r.cell[:8] + r.seal.replaced) for r in rows if r.seal.replaced != NOTHING]
