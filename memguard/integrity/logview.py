"""The anchor's log, read: bytes in, heads and open intents out. No I/O.

Rules, in order, each a failure of the whole log when broken:
 1. a record is a frame of kind, key id, body, link (and signature where the kind has one);
 2. the first record of a log is its base;
 3. the key id is one the ring holds;
 4. the link is HMAC over the link before it and this record: nothing was cut out, put in or moved;
 5. a head's generation and fence never go down.
A head is signed with Ed25519 besides, for readers who hold no secret (:meth:`LogView.signed`).

Kinds: ``B`` base, ``I`` intent, ``H`` head after an operation, ``S`` head carried over by
compaction, ``N`` a note by an operator. Layout: docs/spec/heads.md.
"""

from __future__ import annotations

import hmac
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from memguard.errors import AnchorError
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.head import Head
from memguard.ports import KeyRing

#: Cells a head record spells out; a larger operation is followed by a rescan instead.
MAX_DELTA = 64
_TIME = struct.Struct(">d")
_SIGNED, _LINKED, _NO_LINK = b"memguard/signed/1", b"memguard/link/1", bytes(32)
_MASKING = b"memguard/store/1"
Place = tuple[str, str]  # store name, context id
Cells = Sequence[tuple[bytes, bytes]]
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
    """One head with the operation that led to it; ``delta`` is None where it was too long to write."""

    store: str
    operation: str
    time: float
    kid: str
    head: Head
    delta: tuple[tuple[tuple[bytes, bytes], ...], tuple[tuple[bytes, bytes], ...]] | None
    carried: bool = False


class Note(NamedTuple):
    """What an operator did to the log: accept, rotate, recover; signed like a head."""

    store: str
    operation: str
    details: dict[str, Any]


class Mark(NamedTuple):
    """The parts of a view that new records change."""

    link: bytes
    places: dict[Place, tuple[tuple[str, Head] | None, Intent | None]]
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
        self._link = b""
        self._mask_keys: dict[tuple[str, str], bytes] = {}
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
            self._link, self.base, self.heads, self.intents, self.notes = b"", None, {}, {}, []
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
            said = payload[: len(payload) - len(link) - len(signature) - 8]
        except ValueError:
            raise _damaged("a record of the anchor log does not parse") from None
        if not hmac.compare_digest(link, self._make_link(kid, said)):
            raise _damaged("the anchor log was changed: a record does not follow the one before it")
        self._link = link
        if self.base is None and kind != b"B":
            raise _damaged("the anchor log does not begin with its base record")
        return kind, kid, body

    def _make_link(self, kid: str, said: bytes) -> bytes:
        """The link of a record that says ``said`` (its frame up to the link) after the present one."""
        key = self._keys.subkey("anchor", kid)
        return hmac.digest(key, _LINKED + (self._link or _NO_LINK) + said, "sha256")

    def _mask_key(self, store: str, kid: str) -> bytes:
        """The key that masks the sums of one store: two stores may have a context of one name, and a mask
        that is used twice tells the difference of what it hides."""
        made = self._mask_keys.get((store, kid))
        if made is None:
            made = hmac.digest(self._keys.subkey("accumulator", kid), _MASKING + store.encode(), "sha256")
            self._mask_keys[store, kid] = made
        return made

    def _take(self, kind: bytes, kid: str, body: bytes, seen: list[HeadRecord]) -> None:
        if kind == b"H" or kind == b"S":
            record = self._head_record(kind, kid, body)
            place = (record.store, record.head.context)
            known = self.heads.get(place)
            if known and (record.head.generation < known[1].generation or record.head.fence < known[1].fence):
                raise _rolled_back(place)
            self.heads[place] = (record.kid, record.head)
            self.intents.pop(place, None)
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
        else:
            raise ValueError(f"unknown kind {kind!r}")

    def _head_record(self, kind: bytes, kid: str, body: bytes) -> HeadRecord:
        store, operation, time, head, *rest = unframe(body)
        delta = None
        if kind == b"S":
            kid = rest[0].decode() if rest else kid
        elif rest:
            adds, removes = (_cells(part) for part in rest)
            delta = (adds, removes)
        return HeadRecord(
            store.decode(),
            operation.decode(),
            _TIME.unpack(time)[0],
            kid,
            Head.decode(head, self._mask_key(store.decode(), kid)),
            delta,
            carried=kind == b"S",
        )

    # -- writing -----------------------------------------------------------------------------

    def mark(self, items: Iterable[Intent | HeadRecord | Note]) -> Mark:
        """What making these records will change, so that :meth:`undo` can take it back."""
        places = [
            (item.store, item.head.context if isinstance(item, HeadRecord) else item.context)
            for item in items
            if not isinstance(item, Note)
        ]
        before = {place: (self.heads.get(place), self.intents.get(place)) for place in places}
        return Mark(self._link, before, len(self.notes))

    def undo(self, mark: Mark) -> None:
        """Records that were made could not be appended: the log goes on from where it was."""
        self._link = mark.link
        for place, (head, intent) in mark.places.items():
            _put(self.heads, place, head)
            _put(self.intents, place, intent)
        del self.notes[mark.notes :]

    def _payload(self, kind: bytes, body: bytes, *, sign: bool, kid: str | None = None) -> bytes:
        """The next record. The view goes on from it: what was made must be appended, in order."""
        kid = kid or self._keys.current
        said = frame(kind, kid.encode(), body)
        self._link = link = self._make_link(kid, said)
        signature = self._keys.sign(_SIGNED + link + said, kid) if sign else b""
        return said + frame(link, signature)

    def start(self, serial: int, reason: str) -> bytes:
        """The base record of a new or compacted log. Its link starts from nothing."""
        self._link = b""
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

    def head(self, record: HeadRecord) -> bytes:
        """A head and the operation that led to it, under the key its sum was made with.

        One that is carried over is signed with the current key and names its sum's: that one may be retired.
        """
        parts = [
            record.store.encode(),
            record.operation.encode(),
            _TIME.pack(record.time),
            record.head.encode(self._mask_key(record.store, record.kid)),
        ]
        if record.delta is not None and not record.carried:
            parts += [frame(*(g + c for g, c in cells)) for cells in record.delta]
        if record.carried:
            parts.append(record.kid.encode())
        place = (record.store, record.head.context)
        self.heads[place] = (record.kid, record.head)
        self.intents.pop(place, None)
        if record.carried:
            return self._payload(b"S", frame(*parts), sign=True)
        return self._payload(b"H", frame(*parts), sign=True, kid=record.kid)

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
        for (store, _), (kid, head) in self.heads.items():
            records.append(fresh.head(HeadRecord(store, "carry", time, kid, head, None, carried=True)))
        records += [fresh.intent(intent) for intent in self.intents.values()]
        records += [fresh.note(note) for note in self.notes]
        return records

    def signed(self, payload: bytes) -> bool:
        """Whether a head's, base's or note's Ed25519 signature holds; True for kinds without one."""
        kind, kid, body, link, signature = unframe(payload)
        if kind == b"I":
            return True
        return self._keys.verify(_SIGNED + link + frame(kind, kid, body), signature, kid.decode())


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
