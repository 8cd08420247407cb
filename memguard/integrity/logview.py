"""The anchor's log, read: bytes in, heads and open intents out. No I/O.

Rules, in order, each a failure of the whole log when broken:
 1. a record is a frame of kind, key id, body, link (and signature where the kind has one);
 2. the first record of a log is its base;
 3. the key id is one the ring holds;
 4. the link is HMAC over the link before it and this record: nothing was cut out, put in or moved;
 5. a head's generation and fence never go down.
Some records are signed with Ed25519 besides. A signature covers the digest of the log up to its record, so
that readers who hold no secret can check whatever stands before one (:func:`signatures`).

Kinds: ``B`` base, ``I`` intent, ``H`` head after an operation, ``S`` head carried over by compaction,
``N`` a note by an operator, ``A`` a signature over what stands before. Layout: docs/spec/heads.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Any, NamedTuple, TypeVar

from memguard.errors import AnchorError
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.head import MODULUS, Accumulator, Head
from memguard.integrity.mac import Mac
from memguard.ports import KeyRing

#: Cells a head record spells out; a larger operation is followed by a rescan instead.
MAX_DELTA = 64
_TIME = struct.Struct(">d")
_SIGNED, _LINKED, _MASKING = b"memguard/signed/1", b"memguard/link/1", b"memguard/store/1"
#: What the digest of a log starts from.
_START = bytes(32)
_ALWAYS_SIGNED = (b"B", b"N", b"A")
Place = tuple[str, str]  # store name, context id
Cells = tuple[tuple[bytes, bytes], ...]
Delta = tuple[Cells, Cells]
#: A sum, and the cells that came and went since.
Owed = tuple[int, list[Delta]]
T = TypeVar("T")


class Intent(NamedTuple):
    """An operation that was announced and whose head has not been seen yet.

    ``delete`` is about to empty the context, ``remove`` to take exactly ``removes`` out of it,
    ``prune`` some of ``removes``; any other operation only adds or replaces.
    """

    store: str
    context: str
    operation: str
    generation: int
    removes: tuple[tuple[bytes, bytes], ...] = ()


class HeadRecord(NamedTuple):
    """One head with the operation that led to it.

    ``delta``: the cells that came, and those that went or were replaced; None where there were too many to
    write. The head's sum follows from it and from the head before, and is left out.
    """

    store: str
    operation: str
    time: float
    kid: str
    head: Head
    delta: Delta | None
    carried: bool = False


class Note(NamedTuple):
    """What an operator did to the log: accept, rotate, recover; signed like a head."""

    store: str
    operation: str
    details: dict[str, Any]


class Mark(NamedTuple):
    """The parts of a view that new records change."""

    digest: bytes
    unsigned: int
    places: list[tuple[Place, tuple[str, Head] | None, Intent | None, Owed | None, int]]
    notes: int


def _put(table: dict[Place, T], place: Place, value: T | None) -> None:
    if value is None:
        table.pop(place, None)
    else:
        table[place] = value


class LogView:
    """Follows one log. ``feed`` what an anchor read; ``intent``/``head``/``note`` make what to append."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        #: SHA-256 over the log so far, record by record.
        self._digest = _START
        #: Records that no signature covers yet.
        self.unsigned = 0
        self._links: dict[str, Mac] = {}
        self._mask_keys: dict[tuple[str, str], bytes] = {}
        self._owed: dict[Place, Owed] = {}
        self.base: dict[str, Any] | None = None
        self.heads: dict[Place, tuple[str, Head]] = {}
        self.intents: dict[Place, Intent] = {}
        self.notes: list[Note] = []

    # -- reading -----------------------------------------------------------------------------

    def feed(self, records: Iterable[bytes], *, reset: bool = False) -> list[HeadRecord]:
        """Take in new records; the heads among them come back in order.

        Raises:
            AnchorError: a rule above is broken.
            UnknownKeyError: a record's key is not in the ring.
        """
        before = self.heads
        if reset:
            self._digest, self.base, self.heads, self.intents, self.notes = _START, None, {}, {}, []
            self._owed, self.unsigned = {}, 0
        seen: list[HeadRecord] = []
        for payload in records:
            kind, kid, body = self._verify(payload)
            try:
                self._take(kind, kid, body, seen)
            except (ValueError, struct.error, KeyError, TypeError):
                raise _damaged("a record of the anchor log does not parse") from None
        if reset:
            for place, (_, head) in before.items():
                kept = self.heads.get(place)
                if kept is None or kept[1].generation < head.generation or kept[1].fence < head.fence:
                    raise _rolled_back(place)
        return seen

    def _verify(self, payload: bytes) -> tuple[bytes, str, bytes]:
        try:
            kind, kid_bytes, body, link, signature = unframe(payload)
            kid = kid_bytes.decode()
        except ValueError:
            raise _damaged("a record of the anchor log does not parse") from None
        digest = extended(self._digest, payload, link, signature)
        if not compare_digest(link, self._link(kid, digest)):
            raise _damaged("the anchor log was changed: a record does not follow the one before it")
        self._digest = digest
        self.unsigned = 0 if signature else self.unsigned + 1
        if self.base is None and kind != b"B":
            raise _damaged("the anchor log does not begin with its base record")
        return kind, kid, body

    def _link(self, kid: str, digest: bytes) -> bytes:
        """The link of the record that takes the log to this digest."""
        made = self._links.get(kid)
        if made is None:
            made = self._links[kid] = Mac(self._keys.subkey("anchor", kid), _LINKED)
        return made.digest(digest)

    def _mask_key(self, store: str, kid: str) -> bytes:
        """The key that masks the sums of one store: two stores may have a context of one name, and a mask
        that is used twice tells the difference of what it hides."""
        made = self._mask_keys.get((store, kid))
        if made is None:
            made = hmac_digest(self._keys.subkey("accumulator", kid), _MASKING + store.encode(), "sha256")
            self._mask_keys[store, kid] = made
        return made

    def _take(self, kind: bytes, kid: str, body: bytes, seen: list[HeadRecord]) -> None:
        if kind == b"H" or kind == b"S":
            record = self._head_record(kind, kid, body)
            place = (record.store, record.head.context)
            known = self.heads.get(place)
            if known and (record.head.generation < known[1].generation or record.head.fence < known[1].fence):
                raise _rolled_back(place)
            if record.delta is not None and known and known[0] != record.kid:
                raise ValueError("a sum goes on under another key")
            self._follow(place, record)
            seen.append(record)
        elif kind == b"I":
            parts = unframe(body)
            if not parts:
                raise ValueError("an intent announces nothing")
            for at in range(0, len(parts), 5):
                store, context, operation, generation, removes = parts[at : at + 5]
                intent = Intent(
                    store.decode(),
                    context.decode("utf-8", "surrogatepass"),
                    operation.decode(),
                    int.from_bytes(generation, "big"),
                    _cells(removes),
                )
                self.intents[intent.store, intent.context] = intent
        elif kind == b"N":
            store, operation, details = unframe(body)
            self.notes.append(Note(store.decode(), operation.decode(), json.loads(details)))
        elif kind == b"B":
            self.base = json.loads(body)
        elif kind == b"A":
            if body:
                raise ValueError("a signature says nothing of its own")
        else:
            raise ValueError(f"unknown kind {kind!r}")

    def _head_record(self, kind: bytes, kid: str, body: bytes) -> HeadRecord:
        name, operation, time, head, *rest = unframe(body)
        store, delta = name.decode(), None
        if kind == b"S":
            kid = rest[0].decode() if rest else kid
        elif rest:
            adds, removes = (_cells(part) for part in rest)
            delta = (adds, removes)
        key = self._mask_key(store, kid) if delta is None else None
        stamp = _TIME.unpack(time)[0]
        return HeadRecord(
            store, operation.decode(), stamp, kid, Head.decode(head, key), delta, carried=kind == b"S"
        )

    # -- heads and their sums ----------------------------------------------------------------

    def _follow(self, place: Place, record: HeadRecord) -> None:
        """Go on to a head. Its sum is added up when somebody asks: a writer never does."""
        if record.delta is None:
            self._owed.pop(place, None)
        elif place in self._owed:
            self._owed[place][1].append(record.delta)
        else:
            known = self.heads.get(place)
            self._owed[place] = (known[1].total if known else 0, [record.delta])
        self.heads[place] = (record.kid, record.head)
        self.intents.pop(place, None)

    def known(self, place: Place) -> tuple[str, Head] | None:
        """Key id and head of a context, its sum added up; None if it never had one."""
        found, owed = self.heads.get(place), self._owed.get(place)
        if found is None or owed is None:
            return found
        kid, head = found
        term = Accumulator(self._keys.subkey("accumulator", kid), head.context).term
        total = owed[0]
        for adds, removes in owed[1]:
            total += sum(term(*pair) for pair in adds) - sum(term(*pair) for pair in removes)
        made = self.heads[place] = (kid, head._replace(total=total % MODULUS))
        del self._owed[place]
        return made

    def settle(self) -> None:
        """Add up every sum."""
        for place in list(self._owed):
            self.known(place)

    # -- writing -----------------------------------------------------------------------------

    def mark(self, items: Iterable[Intent | HeadRecord | Note]) -> Mark:
        """What making these records will change, so that :meth:`undo` can take it back."""
        before = []
        for item in items:
            if not isinstance(item, Note):
                place = (item.store, item.head.context if isinstance(item, HeadRecord) else item.context)
                owed = self._owed.get(place)
                was = (
                    place,
                    self.heads.get(place),
                    self.intents.get(place),
                    owed,
                    len(owed[1]) if owed else 0,
                )
                before.append(was)
        return Mark(self._digest, self.unsigned, before, len(self.notes))

    def undo(self, mark: Mark) -> None:
        """Records that were made could not be appended: the log goes on from where it was."""
        self._digest, self.unsigned = mark.digest, mark.unsigned
        for place, head, intent, owed, length in mark.places:
            _put(self.heads, place, head)
            _put(self.intents, place, intent)
            _put(self._owed, place, owed)
            if owed is not None:
                del owed[1][length:]
        del self.notes[mark.notes :]

    def _payload(self, kind: bytes, body: bytes, *, sign: bool, kid: str | None = None) -> bytes:
        """The next record. The view goes on from it: what was made must be appended, in order."""
        kid = kid or self._keys.current
        said = frame(kind, kid.encode(), body)
        self._digest = digest = sha256(self._digest + said).digest()
        signature = self._keys.sign(_SIGNED + digest, kid) if sign else b""
        self.unsigned = 0 if sign else self.unsigned + 1
        return said + frame(self._link(kid, digest), signature)

    def start(self, serial: int, reason: str) -> bytes:
        """The base record of a new or compacted log. Its digest starts from nothing."""
        self._digest = _START
        self.base = {"serial": serial, "reason": reason}
        return self._payload(b"B", canonical_json(self.base), sign=True)

    def intent(self, *intents: Intent) -> bytes:
        """Announce an operation, on all of its contexts in one record: a torn write must not announce it on some.

        A delete of a thread empties every namespace of it; completed for one that was announced and not for
        another, it would take rows that the other's head still counts.
        """
        parts: list[bytes] = []
        for intent in intents:
            parts += (
                intent.store.encode(),
                intent.context.encode("utf-8", "surrogatepass"),
                intent.operation.encode(),
                intent.generation.to_bytes(8, "big"),
                frame(*(g + c for g, c in intent.removes)),
            )
            self.intents[intent.store, intent.context] = intent
        return self._payload(b"I", frame(*parts), sign=False)

    def head(self, record: HeadRecord, *, sign: bool = False) -> bytes:
        """A head and the operation that led to it, under the key its sum was made with.

        One that is carried over is linked with the current key and names its sum's: that one may be retired.
        """
        store, operation, time, kid, head, delta, carried = record
        parts = [store.encode(), operation.encode(), _TIME.pack(time)]
        if delta is None:
            parts.append(head.encode(self._mask_key(store, kid)))
        else:
            parts.append(head.encode(None))
            parts += [frame(*[g + c for g, c in cells]) if cells else b"" for cells in delta]
        self._follow((store, head.context), record)
        if carried:
            return self._payload(b"S", frame(*parts, kid.encode()), sign=False)
        return self._payload(b"H", frame(*parts), sign=sign, kid=kid)

    def attest(self) -> bytes:
        """A signature over everything before it."""
        return self._payload(b"A", b"", sign=True)

    def note(self, note: Note) -> bytes:
        """An operator's act."""
        body = frame(note.store.encode(), note.operation.encode(), canonical_json(note.details))
        self.notes.append(note)
        return self._payload(b"N", body, sign=True)

    def compacted(self, time: float) -> list[bytes]:
        """The records of a log that says the same heads, open intents and notes, and nothing else.

        A view of its own makes them; this one goes on when the new log is fed to it with ``reset``.
        """
        fresh = LogView(self._keys)
        serial = int((self.base or {"serial": 0})["serial"]) + 1
        records = [fresh.start(serial, "compaction")]
        self.settle()
        for (store, _), (kid, head) in self.heads.items():
            records.append(fresh.head(HeadRecord(store, "carry", time, kid, head, None, carried=True)))
        records += [fresh.intent(intent) for intent in self.intents.values()]
        records += [fresh.note(note) for note in self.notes]
        return [*records, fresh.attest()]


def extended(digest: bytes, payload: bytes, link: bytes, signature: bytes) -> bytes:
    """The digest of a log after one more record: over what it says, not over what proves it."""
    said = payload[: len(payload) - len(link) - len(signature) - 8]
    return sha256(digest + said).digest()


def signatures(payloads: Iterable[bytes], keys: KeyRing) -> tuple[int, int, int]:
    """What the signatures of a whole log are worth to a reader who holds no secret.

    Returns:
        Records at or before a good signature, records that carry a bad one or lack theirs, and records
        after the last good one.
    """
    digest, covered, bad, open_ = _START, 0, 0, 0
    for payload in payloads:
        kind, kid, _, link, signature = unframe(payload)
        digest = extended(digest, payload, link, signature)
        open_ += 1
        if signature or kind in _ALWAYS_SIGNED:
            if keys.verify(_SIGNED + digest, signature, kid.decode()):
                covered, open_ = covered + open_, 0
            else:
                bad += 1
    return covered, bad, open_


def _cells(part: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((item[:-24], item[-24:]) for item in unframe(part))


def _damaged(what: str) -> AnchorError:
    return AnchorError(
        what + ".",
        case="anchor",
        code="MG413",
        why="Every record is linked under the key to the one before it.",
        do="Nothing is served. Restore the anchor from its own backup, or memguard anchor recover after an audit.",
    )


def _rolled_back(place: Place) -> AnchorError:
    return AnchorError(
        "the anchor went back in time.",
        case="anchor",
        code="MG414",
        record=f"{place[0]} {place[1]}",
        why="A head it held is missing or older than one seen before.",
        do="memguard anchor show. If the restore was yours: memguard anchor accept STORE --reason TEXT --apply",
    )
