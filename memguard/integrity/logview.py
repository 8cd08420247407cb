"""The anchor's log, read: bytes in, heads and open intents out. No I/O.

Rules, in order, each a failure of the whole log when broken:
 1. a record is a frame of kind, key id, body, link (and signature where the kind has one);
 2. the first record of a log is its base;
 3. the key id is one the ring holds;
 4. the link is HMAC over the link before it and this record: nothing was cut out, put in or moved;
 5. a head's generation and fence never go down.
Some records are signed with Ed25519 besides. A signature covers the digest of the log up to its record, so
that readers who hold no secret can check whatever stands before one (:func:`signatures`).

The kinds of records are those of :mod:`memguard.integrity.records`. Layout: docs/spec/heads.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Any

from memguard.errors import AnchorError
from memguard.integrity import records
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.head import Accumulator, Head
from memguard.integrity.mac import Mac
from memguard.integrity.records import MAX_DELTA, Delta, HeadRecord, Intent, Note, Owed, Place
from memguard.ports import KeyRing

__all__ = [
    "MAX_DELTA", "Delta", "HeadRecord", "Intent", "LogView", "Note", "Place", "extended", "signatures",
]  # fmt: skip
_SIGNED, _LINKED, _MASKING = b"memguard/signed/1", b"memguard/link/1", b"memguard/store/1"
#: Raised fences that are remembered of a context.
MAX_RAISED = 64
#: What the digest of a log starts from.
_START = bytes(32)
_ALWAYS_SIGNED = (records.BASE, records.NOTE, records.ATTEST)
#: What stands in a record before its link, and after it where nothing is signed.
_LINK, _UNSIGNED = (32).to_bytes(4, "big"), bytes(4)


class LogView:
    """Follows one log. ``feed`` what an anchor read.

    ``intent``, ``head``, ``note`` and ``attest`` make what to append, in order. They move :attr:`end` alone: if
    the anchor does not take the records, put it back; if it does, ``take`` what they say.
    """

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        #: SHA-256 over the log so far, record by record; and how many records no signature covers yet.
        self.end = (_START, 0)
        self._links: dict[str, Mac] = {}
        self._mask_keys: dict[tuple[str, str], bytes] = {}
        self._owed: dict[Place, tuple[int, list[Delta]]] = {}
        self.base: dict[str, Any] | None = None
        self.heads: dict[Place, tuple[str, Head]] = {}
        self.intents: dict[Place, Intent] = {}
        self.notes: list[Note] = []
        #: Where fences were raised: the generation and the new fence, the last ones of a context.
        self.raised: dict[Place, list[tuple[int, int]]] = {}

    # -- reading -----------------------------------------------------------------------------

    def feed(self, payloads: Iterable[bytes], *, reset: bool = False) -> list[HeadRecord]:
        """Take in new records; the heads among them come back in order.

        Raises:
            AnchorError: a rule above is broken.
            UnknownKeyError: a record's key is not in the ring.
        """
        before = self.heads
        if reset:
            self.end, self.base, self.heads, self.intents, self.notes = (_START, 0), None, {}, {}, []
            self._owed = {}
        seen: list[HeadRecord] = []
        for payload in payloads:
            kind, kid, parts = self._verify(payload)
            try:
                self._read(kind, kid, parts, seen)
            except (ValueError, struct.error, KeyError, TypeError):
                raise _damaged("a record of the anchor log does not parse") from None
        if reset:
            for place, (_, head) in before.items():
                kept = self.heads.get(place)
                if kept is None or kept[1].generation < head.generation or kept[1].fence < head.fence:
                    raise _rolled_back(place)
        return seen

    def _verify(self, payload: bytes) -> tuple[bytes, str, list[bytes]]:
        try:
            kind, kid_bytes, *parts, link, signature = unframe(payload)
            kid = kid_bytes.decode()
        except ValueError:
            raise _damaged("a record of the anchor log does not parse") from None
        before, unsigned = self.end
        digest = extended(before, payload, link, signature)
        if not compare_digest(link, self._link(kid, digest)):
            raise _damaged("the anchor log was changed: a record does not follow the one before it")
        self.end = (digest, 0 if signature else unsigned + 1)
        if self.base is None and kind != records.BASE:
            raise _damaged("the anchor log does not begin with its base record")
        return kind, kid, parts

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

    def _read(self, kind: bytes, kid: str, parts: Sequence[bytes], seen: list[HeadRecord]) -> None:
        if kind in (records.HEAD, records.STATED, records.CARRIED):
            record = records.read_head(kind, kid, parts, self._mask_key)
            place = (record.store, record.head.context)
            known = self.heads.get(place)
            if known and (record.head.generation < known[1].generation or record.head.fence < known[1].fence):
                raise _rolled_back(place)
            if record.delta is not None and known and known[0] != record.kid:
                raise ValueError("a sum goes on under another key")
            self.take(record)
            seen.append(record)
        elif kind == records.INTENT:
            for intent in records.read_intents(parts):
                self.take(intent)
        elif kind == records.NOTE:
            store, operation, details = parts
            self.take(Note(store.decode(), operation.decode(), json.loads(details)))
        elif kind == records.BASE:
            (body,) = parts
            self.base = json.loads(body)
        elif kind == records.ATTEST:
            if parts:
                raise ValueError("a signature says nothing of its own")
        else:
            raise ValueError(f"unknown kind {kind!r}")

    def take(self, item: Intent | HeadRecord | Note) -> None:
        """What a record says, now that it is in the log."""
        if isinstance(item, HeadRecord):
            self._follow((item.store, item.head.context), item)
        elif isinstance(item, Intent):
            self.intents[item.store, item.context] = item
        else:
            self.notes.append(item)

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
        before = self.heads.get(place)
        if before is not None and record.head.fence > before[1].fence:
            raised = self.raised.setdefault(place, [])
            raised.append((record.head.generation, record.head.fence))
            del raised[:-MAX_RAISED]
        self.heads[place] = (record.kid, record.head)
        self.intents.pop(place, None)

    def known(self, place: Place) -> tuple[str, Head] | None:
        """Key id and head of a context, its sum added up; None if it never had one."""
        found, owed = self.heads.get(place), self._owed.get(place)
        if found is None or owed is None:
            return found
        kid, head = found
        total = Accumulator(self._keys.subkey("accumulator", kid), head.context).added_up(*owed)
        made = self.heads[place] = (kid, head._replace(total=total))
        del self._owed[place]
        return made

    def owed(self, place: Place) -> Owed | None:
        """What the sum of a head follows from, if nobody has added it up;"""
        owed = self._owed.get(place)
        return None if owed is None else (owed[0], tuple(owed[1]))

    def settle(self) -> None:
        """Add up every sum."""
        for place in list(self._owed):
            self.known(place)

    # -- writing -----------------------------------------------------------------------------

    def _payload(self, said: bytes, kid: str, *, sign: bool) -> bytes:
        """The next record. What was made must be appended, in order."""
        before, unsigned = self.end
        digest = sha256(before + said).digest()
        link = self._link(kid, digest)
        if sign:
            self.end = (digest, 0)
            return said + frame(link, self._keys.sign(_SIGNED + digest, kid))
        self.end = (digest, unsigned + 1)
        return b"".join((said, _LINK, link, _UNSIGNED))

    def start(self, serial: int, reason: str) -> bytes:
        """The base record of a new or compacted log. Its digest starts from nothing."""
        self.end = (_START, 0)
        kid, body = self._keys.current, canonical_json({"serial": serial, "reason": reason})
        return self._payload(frame(records.BASE, kid.encode(), body), kid, sign=True)

    def intent(self, *intents: Intent) -> bytes:
        """Announce an operation, on all of its contexts in one record: a torn write must not announce it on some.

        A delete of a thread empties every namespace of it; completed for one that was announced and not for
        another, it would take rows that the other's head still counts.
        """
        kid = self._keys.current
        return self._payload(records.say_intents(kid, intents), kid, sign=False)

    def head(self, record: HeadRecord, *, sign: bool = False) -> bytes:
        """A head and the operation that led to it, under the key its sum was made with.

        One that is carried over is linked with the current key and names its sum's: that one may be retired.
        """
        kid = record.kid
        if record.delta is not None:
            return self._payload(records.say_head(records.HEAD, kid, record, None), kid, sign=sign)
        key = self._mask_key(record.store, kid)
        if record.carried:
            kid = self._keys.current
            return self._payload(records.say_head(records.CARRIED, kid, record, key), kid, sign=False)
        return self._payload(records.say_head(records.STATED, kid, record, key), kid, sign=sign)

    def attest(self) -> bytes:
        """A signature over everything before it."""
        kid = self._keys.current
        return self._payload(frame(records.ATTEST, kid.encode()), kid, sign=True)

    def note(self, note: Note) -> bytes:
        """An operator's act."""
        kid = self._keys.current
        return self._payload(records.say_note(kid, note), kid, sign=True)

    def compacted(self, time: float) -> list[bytes]:
        """The records of a log that says the same heads, open intents and notes, and nothing else.

        A view of its own makes them; this one goes on when the new log is fed to it with ``reset``.
        """
        fresh = LogView(self._keys)
        serial = int((self.base or {"serial": 0})["serial"]) + 1
        made = [fresh.start(serial, "compaction")]
        self.settle()
        for (store, _), (kid, head) in self.heads.items():
            made.append(fresh.head(HeadRecord(store, "carry", time, kid, head, None, carried=True)))
        made += [fresh.intent(intent) for intent in self.intents.values()]
        made += [fresh.note(note) for note in self.notes]
        return [*made, fresh.attest()]


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
        kind, kid, *_, link, signature = unframe(payload)
        digest = extended(digest, payload, link, signature)
        open_ += 1
        if signature or kind in _ALWAYS_SIGNED:
            if keys.verify(_SIGNED + digest, signature, kid.decode()):
                covered, open_ = covered + open_, 0
            else:
                bad += 1
    return covered, bad, open_


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
