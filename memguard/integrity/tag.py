"""Seals: what stands beside every stored row and binds it to its place.

A seal is one string, ``mg1.<key id>.<base64 of the packed fields>``. Its tag is
HMAC-SHA256 truncated to 128 bits (RFC 2104, section 5) over a frame of everything
that makes the row what it is: kind, store, key id, context, record key, generation, fence,
size of its operation, commitment to the head before it, the tag it replaced, the
digest of its content, and the bound fields that the adapter names (parent, metadata,
label, type...). The digest is inside the tag, so that a scan verifies a context
without reading blobs. Byte layout and golden vectors: docs/spec/rows.md.
"""

from __future__ import annotations

import hashlib
import struct
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Iterable
from hmac import compare_digest
from typing import NamedTuple

from memguard.errors import TamperedError
from memguard.integrity.canonical import LENGTHS, frame
from memguard.integrity.mac import Mac

PREFIX = "mg1."
TAG = 16
NOTHING = bytes(TAG)
#: Generation, fence, size, prev, replaced, digest: the fields of fixed length, packed and tagged as they stand.
_FIELDS = struct.Struct(">QII16s16s32s")
#: Where the content's digest, the tag and the extra bytes begin in a packed seal.
FIXED = _FIELDS.size
CONTENT, EXTRA = FIXED - 32, FIXED + TAG
_DOMAIN = b"memguard/row/1"


class Seal(NamedTuple):
    """The parsed seal of one row.

    Attributes:
        kid: id of the key its tag was made with.
        generation: the context's generation this row's operation created (1, 2, ...).
        fence: the writer's fence at that time.
        size: rows written by that operation, for recognising half of one.
        prev: 16-byte keyed commitment to the head before the operation.
        replaced: tag of the row that this one overwrote, or sixteen zero bytes.
        digest: SHA-256 of the content.
        tag: 16 bytes.
        extra: bytes of the record's own that the store's columns cannot prove
            (order key of a pending write), bound by the tag.
    """

    kid: str
    generation: int
    fence: int
    size: int
    prev: bytes
    replaced: bytes
    digest: bytes
    tag: bytes
    extra: bytes

    @property
    def packed(self) -> bytes:
        """The fields as bytes: those of fixed length, the tag, the extra bytes."""
        s = self
        fields = _FIELDS.pack(s.generation, s.fence, s.size, s.prev, s.replaced, s.digest)
        return fields + s.tag + s.extra

    def encode(self) -> str:
        """The seal as it stands in the store."""
        return _text(self.kid, self.packed, self.extra)


def _text(kid: str, packed: bytes, extra: bytes) -> str:
    text = b2a_base64(packed, newline=False).decode("ascii")
    return f"{PREFIX}{kid}.{text.rstrip('=') if extra else text}"  # without extra bytes nothing is padded


def unpack(text: object, record: str) -> tuple[str, bytes]:
    """Key id and packed fields of a seal; whatever is not exactly one is tampering.

    Raises:
        TamperedError: absent or malformed (case ``untagged``).
    """
    if not isinstance(text, str) or not text.startswith(PREFIX):
        raise TamperedError(
            "a record carries no memguard tag.",
            case="untagged",
            record=record,
            code="MG404",
            why="It was written past the guard, or its tag was stripped.",
            do="memguard audit STORE shows every such record; data from before the guard needs memguard adopt once.",
        )
    try:
        _, kid, body = text.split(".", 2)
        over = len(body) % 4
        packed = a2b_base64(body + "=" * (4 - over) if over else body, strict_mode=True)
        # One spelling only: padding may stand there, and the last character has bits that say nothing.
        if body[-1:] == "=" or (over and b2a_base64(packed, newline=False).rstrip(b"=") != body.encode()):
            raise malformed(record)
    except (Error, ValueError):
        raise malformed(record) from None
    if len(packed) < EXTRA:
        raise malformed(record)
    return kid, packed


def parse(text: object, record: str) -> Seal:
    """Read a seal.

    Raises:
        TamperedError: as :func:`unpack`.
    """
    kid, packed = unpack(text, record)
    return read(kid, packed)


def read(kid: str, packed: bytes) -> Seal:
    """The seal of packed fields."""
    generation, fence, size, prev, replaced, content = _FIELDS.unpack_from(packed)
    return Seal(kid, generation, fence, size, prev, replaced, content, packed[FIXED:EXTRA], packed[EXTRA:])


def malformed(record: str) -> TamperedError:
    """The error for a seal that does not parse."""
    return TamperedError(
        "a record's memguard tag does not parse.",
        case="untagged",
        record=record,
        code="MG404",
        why="memguard writes one exact form.",
        do="memguard audit STORE lists what is damaged.",
    )


def digest(*parts: bytes) -> bytes:
    """SHA-256 over the frame of the parts (content digests)."""
    return hashlib.sha256(frame(*parts)).digest()


class Sealer:
    """Makes and checks tags for one kind of row in one context under one key.

    The prefix of the tagged message is the same for all of them and hashed once.
    """

    __slots__ = ("_digest", "kid")

    def __init__(self, key: bytes, kid: str, kind: bytes, store: str, context: str) -> None:
        self.kid = kid
        self._digest = Mac(
            key,
            frame(_DOMAIN, kind, store.encode(), kid.encode(), context.encode("utf-8", "surrogatepass")),
        ).digest

    def tag(self, fields: bytes, key: bytes, extra: bytes, bound: Iterable[bytes]) -> bytes:
        """The 16 bytes over packed fields (:data:`FIXED` bytes), record key, extra bytes and bound fields."""
        lengths = LENGTHS
        pieces = [fields, lengths[len(key)], key, lengths[len(extra)], extra]
        for part in bound:
            pieces += (lengths[len(part)], part)
        return self._digest(b"".join(pieces))[:TAG]  # of fields || frame(key, extra, *bound)

    def stamp(
        self,
        key: bytes,
        numbers: tuple[int, int, int],
        prev: bytes,
        replaced: bytes,
        content: bytes,
        bound: tuple[bytes, ...],
        extra: bytes = b"",
    ) -> tuple[str, bytes]:
        """Text and tag of the seal of a new row: what a writer needs of :meth:`seal`.

        Args:
            numbers: generation, fence and size.
        """
        fields = _FIELDS.pack(*numbers, prev, replaced, content)
        tag = self.tag(fields, key, extra, bound)
        return _text(self.kid, fields + tag + extra, extra), tag

    def seal(
        self,
        key: bytes,
        *,
        generation: int,
        fence: int,
        size: int,
        prev: bytes,
        replaced: bytes,
        content: bytes,
        bound: tuple[bytes, ...],
        extra: bytes = b"",
    ) -> Seal:
        """The seal of a new row whose content digest is ``content`` (32 bytes)."""
        fields = _FIELDS.pack(generation, fence, size, prev, replaced, content)
        tag = self.tag(fields, key, extra, bound)
        return Seal(self.kid, generation, fence, size, prev, replaced, content, tag, extra)

    def check(self, seal: Seal, key: bytes, bound: tuple[bytes, ...], record: str, case: str = "T1") -> None:
        """Whether the seal is this key's over exactly this row.

        Raises:
            TamperedError: it is not. Nothing of the row may be decoded.
        """
        if not compare_digest(seal.tag, self.tag(seal.packed[:FIXED], key, seal.extra, bound)):
            raise tampered(record, case, "Its place or its fields do not match its tag.")


def tampered(record: str, case: str, why: str) -> TamperedError:
    """The error for a row whose bytes or fields are not what was written."""
    return TamperedError(
        "a stored record was changed outside this program. Nothing of it was loaded.",
        case=case,
        record=record,
        why=why,
        do="memguard audit STORE shows what changed; memguard explain MG401 what to do.",
    )
