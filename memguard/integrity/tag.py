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
import hmac
import struct
from binascii import Error, a2b_base64, b2a_base64
from typing import NamedTuple

from memguard.errors import TamperedError
from memguard.integrity.canonical import frame

PREFIX = "mg1."
TAG = 16
NOTHING = bytes(TAG)
_FIXED = struct.Struct(">QII16s16s32s16s")
#: The framed fields of fixed length: position, prev, replaced, content digest, each after its length.
_FRAMED = struct.Struct(">IQIII16sI16sI32s")
_LENGTH = struct.Struct(">I")
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

    def encode(self) -> str:
        """The seal as it stands in the store."""
        packed = _FIXED.pack(
            self.generation, self.fence, self.size, self.prev, self.replaced, self.digest, self.tag
        )
        text = b2a_base64(packed + self.extra, newline=False).decode("ascii")
        return f"{PREFIX}{self.kid}.{text.rstrip('=') if self.extra else text}"


def parse(text: object, record: str) -> Seal:
    """Read a seal; whatever is not exactly one is tampering.

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
        kid, _, body = text[len(PREFIX) :].partition(".")
        over = len(body) % 4
        raw = a2b_base64(body + "=" * (-over % 4), strict_mode=True)
        # One spelling only: padding may stand there, and the last character has bits that say nothing.
        if body[-1:] == "=" or (over and b2a_base64(raw, newline=False).rstrip(b"=") != body.encode()):
            raise malformed(record)
        generation, fence, size, prev, replaced, content, tag = _FIXED.unpack_from(raw)
        return Seal(kid, generation, fence, size, prev, replaced, content, tag, raw[_FIXED.size :])
    except (Error, ValueError, struct.error):
        raise malformed(record) from None


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

    The prefix of the framed message is the same for all of them and computed once.
    """

    __slots__ = ("_key", "_prefix", "kid")

    def __init__(self, key: bytes, kid: str, kind: bytes, store: str, context: str) -> None:
        self._key = key
        self.kid = kid
        self._prefix = frame(
            _DOMAIN, kind, store.encode(), kid.encode(), context.encode("utf-8", "surrogatepass")
        )

    def _tag(
        self,
        key: bytes,
        position: tuple[int, int, int],
        prev: bytes,
        replaced: bytes,
        content: bytes,
        extra: bytes,
        bound: tuple[bytes, ...],
    ) -> bytes:
        # frame(key, position, prev, replaced, content, extra, *bound), with the lengths that are known packed at once
        pieces = [
            self._prefix,
            _LENGTH.pack(len(key)),
            key,
            _FRAMED.pack(16, *position, TAG, prev, TAG, replaced, 32, content),
        ]
        for part in (extra, *bound):
            pieces += (_LENGTH.pack(len(part)), part)
        return hmac.digest(self._key, b"".join(pieces), "sha256")[:TAG]

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
        tag = self._tag(key, (generation, fence, size), prev, replaced, content, extra, bound)
        return Seal(self.kid, generation, fence, size, prev, replaced, content, tag, extra)

    def check(self, seal: Seal, key: bytes, bound: tuple[bytes, ...], record: str, case: str = "T1") -> None:
        """Whether the seal is this key's over exactly this row.

        Raises:
            TamperedError: it is not. Nothing of the row may be decoded.
        """
        s = seal
        tag = self._tag(key, (s.generation, s.fence, s.size), s.prev, s.replaced, s.digest, s.extra, bound)
        if not hmac.compare_digest(tag, s.tag):
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
