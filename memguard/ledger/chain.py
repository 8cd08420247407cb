"""The ledger's hash chain: encoding, linking, checking. Pure.

Format (``docs/spec/anchor-log.md``, section Ledger)::

    encoded = "memguard.ledger/1\\0" context operation kid generation fence time count record*
    chain   = HMAC-SHA256(key, previous chain || encoded)

Texts are UTF-8 with a u32 length before them; generation, fence and count are u64, time is
an IEEE 754 double (never NaN or -0), all big-endian. The first entry of a context follows 32 zero bytes.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from memguard.integrity.canonical import frame as _texts
from memguard.ports import LedgerEntry

#: What the first entry of a context is linked to.
GENESIS = bytes(32)
_DOMAIN = b"memguard.ledger/1\0"
_NUMBERS = struct.Struct(">QQdQ")


def encoded(
    context: str, operation: str, kid: str, generation: int, fence: int, time: float, records: Sequence[str]
) -> bytes:
    """The bytes of an entry that its link covers: every field but ``chain``, unambiguously.

    Raises:
        ValueError: a number is negative, over 64 bits or NaN, or a text has a lone surrogate.
    """
    if time != time:
        raise ValueError("a ledger time is not a number")
    try:
        # "+ 0.0" makes -0.0 plain 0.0: SQLite stores no sign of zero.
        numbers = _NUMBERS.pack(generation, fence, time + 0.0, len(records))
    except struct.error as exc:
        raise ValueError(f"a ledger number is out of range: {exc}") from None
    return b"".join(
        (_opening(context, operation, kid), numbers, _texts(*[record.encode() for record in records]))
    )


@lru_cache(maxsize=4096)
def _opening(context: str, operation: str, kid: str) -> bytes:
    return _DOMAIN + _texts(context.encode(), operation.encode(), kid.encode())


def encode(entry: LedgerEntry) -> bytes:
    """:func:`encoded` of an entry."""
    e = entry
    return encoded(e.context, e.operation, e.kid, e.generation, e.fence, e.time, e.records)


def link(key: bytes, previous_chain: bytes, entry: LedgerEntry) -> bytes:
    """The ``chain`` (32 bytes) of an entry that follows one whose chain is ``previous_chain``."""
    if len(previous_chain) != len(GENESIS):
        raise ValueError(f"a chain value has {len(previous_chain)} bytes, not {len(GENESIS)}")
    return hmac.digest(key, previous_chain + encode(entry), "sha256")


def verify_chain(
    key: bytes | Callable[[str], bytes], entries: Iterable[LedgerEntry], previous_chain: bytes = GENESIS
) -> int | None:
    """The position of the first entry that does not follow from those before it, or None.

    Args:
        key: the chain key, or a function from key id to key (then its ``UnknownKeyError`` passes).
        entries: entries of one context, oldest first. One of another context is broken.
        previous_chain: what the first of them follows; not genesis when checking a part.

    A chain shows edits, insertions and removals in the middle. That its end is missing shows
    only against the head in the anchor.
    """
    context: str | None = None
    for position, entry in enumerate(entries):
        context = entry.context if context is None else context
        secret = key if isinstance(key, bytes) else key(entry.kid)
        try:
            expected = link(secret, previous_chain, entry)
        except ValueError:
            return position
        if not hmac.compare_digest(expected, entry.chain) or entry.context != context:
            return position
        previous_chain = entry.chain
    return None
