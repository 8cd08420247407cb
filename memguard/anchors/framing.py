"""The anchor log's bytes: header, records, and the rule for a damaged tail. No I/O.

The format is specified in ``docs/spec/anchor-log.md``. All integers are little-endian::

    header  64 bytes  magic 8s | version u32 | flags u32 | epoch u64 | base u64 | log id 16s | zero 12s | crc
    record  20+n+pad  mark 4s  | length u32 | durable u64 | payload n | zero pad | crc u32

A record's size is a multiple of eight, so records start at multiples of eight. Its CRC-32
starts from ``header crc XOR offset``: a record that is moved, or left over from another
epoch, is not valid where it stands. ``durable`` is the length of the log known to be on
stable storage when the record was written. It is what tells a crash from damage: a bad
record is a torn tail unless something valid after it says that this place was durable
before. CRCs find accidents; forgery is the business of the tags inside the payloads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from zlib import crc32

MAGIC = b"MGANCHOR"
VERSION = 1
HEADER_SIZE = 64
#: First bytes of a record; zero bytes there mean the end of the log.
MARK = b"MGr1"
#: Stands at the end of a log that a compaction has replaced.
SUPERSEDED = b"MGx1"
END = bytes(4)
#: Largest payload (bytes); a larger length in a file is damage, never an allocation.
MAX_RECORD = 16 * 1024 * 1024
_HEADER = struct.Struct("<8sIIQQ16s12s")
_RECORD = struct.Struct("<4sIQ")
_CRC = struct.Struct("<I")
#: Bytes of a record beside payload and padding.
OVERHEAD = _RECORD.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Header:
    """The file header. ``base``: bytes (header included) that were durable before the file got its name."""

    epoch: int
    log_id: bytes
    base: int = HEADER_SIZE

    def encode(self) -> bytes:
        """The 64 bytes."""
        body = _HEADER.pack(MAGIC, VERSION, 0, self.epoch, self.base, self.log_id, bytes(12))
        return body + _CRC.pack(crc32(body))

    @property
    def seed(self) -> int:
        """Start value of record CRCs in this file, before the offset is mixed in."""
        return crc32(self.encode()[:-4])


def decode_header(data: bytes) -> Header:
    """Parse a header.

    Raises:
        ValueError: with the reason, in words fit for an error's ``why``.
    """
    if len(data) < HEADER_SIZE:
        raise ValueError(f"The file header has {len(data)} of {HEADER_SIZE} bytes.")
    body, (crc,) = data[: HEADER_SIZE - 4], _CRC.unpack(data[HEADER_SIZE - 4 : HEADER_SIZE])
    magic, version, flags, epoch, base, log_id, zero = _HEADER.unpack(body)
    if magic != MAGIC:
        raise ValueError("The file does not start with the magic of an anchor log.")
    if crc32(body) != crc:
        raise ValueError("The header's checksum does not match.")
    if version != VERSION or flags or zero != bytes(12):
        raise ValueError(f"The log has format version {version}; this program reads version {VERSION}.")
    if base < HEADER_SIZE:
        raise ValueError("The header's base lies inside the header.")
    return Header(epoch, log_id, base)


def frame(payloads: Sequence[bytes], *, seed: int, offset: int, durable: int) -> bytes:
    """Records for ``payloads``, to be written at ``offset``.

    Raises:
        ValueError: a payload is larger than :data:`MAX_RECORD`.
    """
    out = bytearray()
    for payload in payloads:
        size = len(payload)
        if size > MAX_RECORD:
            raise ValueError(f"A record has {size} bytes, more than the limit of {MAX_RECORD}.")
        body = _RECORD.pack(MARK, size, durable) + payload + bytes((4 - size) % 8)
        out += body
        out += _CRC.pack(crc32(body, (seed ^ offset) & 0xFFFFFFFF))
        offset += len(body) + 4
    return bytes(out)


class Stop(Enum):
    """Why a scan ended where it did."""

    END = "end"
    """Zero bytes or the end of the data at a record's place: the log ends here."""
    SHORT = "short"
    """A record starts here and needs more bytes than were given."""
    BAD = "bad"
    """What stands here is no valid record."""
    SUPERSEDED = "superseded"
    """A compaction replaced this file."""


@dataclass(slots=True)
class Scan:
    """What :func:`scan` found: payloads, where it stopped and why, the last CRC, the largest ``durable``."""

    payloads: list[bytes]
    end: int
    stop: Stop
    durable: int
    crc: bytes | None


def scan(data: bytes, *, seed: int, offset: int) -> Scan:
    """Valid records of ``data`` in order, up to the first thing that is not one.

    Args:
        data: bytes of the file from ``offset`` on.
        seed: :attr:`Header.seed`.
        offset: where ``data`` starts in the file.
    """
    payloads: list[bytes] = []
    place, size, durable = 0, len(data), 0
    crc_bytes: bytes | None = None
    while True:
        mark = data[place : place + 4]
        if mark != MARK:
            if not mark.strip(b"\0"):
                stop = Stop.END
            else:
                stop = Stop.SUPERSEDED if mark == SUPERSEDED else Stop.SHORT if len(mark) < 4 else Stop.BAD
            break
        if place + _RECORD.size > size:
            stop = Stop.SHORT
            break
        _, length, known = _RECORD.unpack_from(data, place)
        if length > MAX_RECORD or known > offset + place:
            stop = Stop.BAD
            break
        start = place + _RECORD.size
        tail = start + length + (4 - length) % 8
        if tail + 4 > size:
            stop = Stop.SHORT
            break
        crc = data[tail : tail + 4]
        if crc32(data[place:tail], (seed ^ (offset + place)) & 0xFFFFFFFF) != _CRC.unpack(crc)[0]:
            stop = Stop.BAD
            break
        payloads.append(data[start : start + length])
        crc_bytes, durable = crc, max(durable, known)
        place = tail + 4
    return Scan(payloads, offset + place, stop, durable, crc_bytes)


def durable_after(data: bytes, *, seed: int, offset: int) -> int:
    """The largest ``durable`` that any valid record in ``data`` states, 0 if there is none.

    Called on what follows a place where no valid record stands. An answer above that
    place means that a record was there and was durable: it was damaged, not torn.
    """
    best, place = 0, data.find(MARK)
    while place >= 0:
        if (offset + place) % 8 == 0:
            window = data[place : place + OVERHEAD + 8 + _length(data, place)]
            best = max(best, scan(window, seed=seed, offset=offset + place).durable)
        place = data.find(MARK, place + 1)
    return best


def _length(data: bytes, place: int) -> int:
    """The length field at ``place``, 0 when it is cut off or over the limit."""
    if place + _RECORD.size > len(data):
        return 0
    length: int = _RECORD.unpack_from(data, place)[1]
    return length if length <= MAX_RECORD else 0
