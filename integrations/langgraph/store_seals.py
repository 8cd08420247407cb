"""How the seal of a store item is spelled: without what its row says anyway. Pure.

A search reads every row of a namespace, so each byte of a seal is paid for ten thousand times. The content
stands beside its seal, so its digest is computed and not stored; numbers take the bytes they need; what was
replaced is named only where something was. The tag binds the same fields as in any other seal::

    "mg1." key id "." base64(generation fence size position prev [replaced] tag), no padding

The numbers are varints: seven bits a byte, the lowest first, the high bit on all but the last (docs/spec/rows.md).
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

from memguard.errors import TamperedError
from memguard.integrity.tag import NOTHING, PREFIX, TAG, Seal, malformed

#: Bits of generation, fence, size and position.
_BITS = (64, 32, 32, 32)
#: Longest text after the key id: four numbers of 10 and 5 bytes, prev, replaced and tag.
_LONGEST = 98


def position(at: int) -> bytes:
    """The place of an item in its operation, as its tag binds it: rows of an ordered table stand in this order."""
    return at.to_bytes(4, "big")


def spell(seal: Seal) -> str:
    """The seal as it stands in the item."""
    packed = bytearray()
    for number in (seal.generation, seal.fence, seal.size, int.from_bytes(seal.extra, "big")):
        while number > 127:
            packed.append(number & 127 | 128)
            number >>= 7
        packed.append(number)
    replaced = b"" if seal.replaced == NOTHING else seal.replaced
    text = b2a_base64(packed + seal.prev + replaced + seal.tag, newline=False).decode("ascii")
    return f"{PREFIX}{seal.kid}.{text.rstrip('=')}"


def read(text: str, content: bytes, record: str) -> Seal:
    """The seal of an item whose content has this digest.

    Args:
        text: what begins with ``mg1.``.

    Raises:
        TamperedError: it is not spelled as :func:`spell` does (case ``untagged``).
    """
    try:
        _, kid, body = text.split(".", 2)
        over = len(body) % 4
        packed = a2b_base64(body + "=" * (4 - over) if over else body, strict_mode=True)
        # One spelling only: see what the last character must be, and that no padding stands there.
        if len(body) > _LONGEST or b2a_base64(packed, newline=False).rstrip(b"=") != body.encode():
            raise malformed(record)
        numbers, at = [], 0
        for bits in _BITS:
            number = shift = 0
            while (byte := packed[at]) > 127:
                number |= (byte & 127) << shift
                shift += 7
                at += 1
            number |= byte << shift
            if number >> bits or (shift and not byte):
                raise malformed(record)
            numbers.append(number)
            at += 1
    except (ValueError, IndexError):
        raise malformed(record) from None
    generation, fence, size, place = numbers
    prev, replaced, tag = packed[at : at + TAG], packed[at + TAG : -TAG] or NOTHING, packed[-TAG:]
    if len(packed) - at not in (2 * TAG, 3 * TAG) or (len(packed) - at == 3 * TAG and replaced == NOTHING):
        raise malformed(record)
    return Seal(kid, generation, fence, size, prev, replaced, content, tag, position(place))


def read_any(found: object, content: bytes, record: str) -> tuple[object, TamperedError | None]:
    """What a claim says of the seal found with an item: it, read if it can be, and what is wrong with it.

    What does not even begin like a seal is left to the verifier, which says so.
    """
    if not isinstance(found, str) or not found.startswith(PREFIX):
        return found, None
    try:
        return read(found, content, record), None
    except TamperedError as error:
        return found, error
