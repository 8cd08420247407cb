"""The log's bytes: round trip, every torn tail, damage told from a crash."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.anchors.framing import (
    HEADER_SIZE,
    MARK,
    MAX_RECORD,
    SUPERSEDED,
    Header,
    Stop,
    decode_header,
    durable_after,
    frame,
    scan,
)

HEADER = Header(epoch=7, log_id=bytes(range(16)))
SEED = HEADER.seed
payloads = st.lists(st.binary(max_size=80), max_size=6)


@given(payloads, st.integers(0, 1 << 20), st.integers(0, 64))
def test_what_is_framed_is_read(records: list[bytes], eighth: int, durable: int) -> None:
    offset = HEADER_SIZE + eighth * 8
    data = frame(records, seed=SEED, offset=offset, durable=durable)
    assert len(data) % 8 == 0
    found = scan(data + bytes(8), seed=SEED, offset=offset)
    assert (found.payloads, found.end, found.stop) == (records, offset + len(data), Stop.END)
    assert found.durable == (durable if records else 0)
    assert found.crc == (data[-4:] if records else None)


@given(payloads, st.binary(min_size=1, max_size=80), st.booleans())
def test_a_tail_torn_at_any_byte_is_no_record_and_no_damage(
    records: list[bytes], last: bytes, zeros: bool
) -> None:
    """Cut (the file ends) or zero-filled (the space was reserved) at every offset of the last record."""
    head = frame(records, seed=SEED, offset=HEADER_SIZE, durable=HEADER_SIZE)
    tail = frame([last], seed=SEED, offset=HEADER_SIZE + len(head), durable=HEADER_SIZE)
    for cut in range(len(tail)):
        torn = tail[:cut] + (bytes(len(tail) - cut + 8) if zeros else b"")
        if torn[: len(tail)] == tail:
            continue  # only zeros were cut
        found = scan(head + torn, seed=SEED, offset=HEADER_SIZE)
        assert (found.payloads, found.end) == (records, HEADER_SIZE + len(head))
        assert found.stop in (Stop.END, Stop.SHORT, Stop.BAD)
        assert durable_after(torn, seed=SEED, offset=found.end) <= found.end


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_no_flipped_bit_is_read_as_a_record(records: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(frame(records, seed=SEED, offset=HEADER_SIZE, durable=0))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    found = scan(bytes(whole), seed=SEED, offset=HEADER_SIZE)
    assert len(found.payloads) < len(records)
    assert found.payloads == records[: len(found.payloads)]


@given(st.binary(max_size=400))
def test_any_bytes_scan_without_an_exception(noise: bytes) -> None:
    for data in (noise, MARK + noise, MARK + struct.pack("<I", 3) + noise, SUPERSEDED + noise):
        found = scan(data, seed=SEED, offset=HEADER_SIZE)
        assert HEADER_SIZE <= found.end <= HEADER_SIZE + len(data)
        durable_after(data, seed=SEED, offset=HEADER_SIZE)


def test_a_record_is_valid_only_where_and_in_the_epoch_it_was_written() -> None:
    data = frame([b"moved"], seed=SEED, offset=HEADER_SIZE, durable=0)
    assert scan(data, seed=SEED, offset=HEADER_SIZE).payloads == [b"moved"]
    assert scan(data, seed=SEED, offset=HEADER_SIZE + 8).payloads == []
    assert scan(data, seed=Header(8, HEADER.log_id).seed, offset=HEADER_SIZE).payloads == []
    assert scan(data, seed=Header(7, bytes(16)).seed, offset=HEADER_SIZE).payloads == []


def test_what_was_durable_is_told_from_what_was_not() -> None:
    first = frame([b"first"], seed=SEED, offset=HEADER_SIZE, durable=HEADER_SIZE)
    end = HEADER_SIZE + len(first)
    unsynced = frame([b"second"], seed=SEED, offset=end, durable=HEADER_SIZE)
    synced = frame([b"second"], seed=SEED, offset=end, durable=end)
    broken = b"\xff" + first[1:]
    assert durable_after(broken + unsynced, seed=SEED, offset=HEADER_SIZE) <= HEADER_SIZE
    assert durable_after(broken + synced, seed=SEED, offset=HEADER_SIZE) == end > HEADER_SIZE


def test_a_durable_claim_beyond_the_record_itself_is_not_valid() -> None:
    data = frame([b"x"], seed=SEED, offset=HEADER_SIZE, durable=HEADER_SIZE + 8)
    assert scan(data, seed=SEED, offset=HEADER_SIZE).stop is Stop.BAD


def test_records_over_the_limit_are_refused_both_ways() -> None:
    with pytest.raises(ValueError, match="limit"):
        frame([bytes(MAX_RECORD + 1)], seed=SEED, offset=HEADER_SIZE, durable=0)
    claim = MARK + struct.pack("<IQ", MAX_RECORD + 1, 0)
    assert scan(claim, seed=SEED, offset=HEADER_SIZE).stop is Stop.BAD


@given(st.integers(0, 2**64 - 1), st.binary(min_size=16, max_size=16), st.integers(HEADER_SIZE, 2**64 - 1))
def test_headers_come_back(epoch: int, log_id: bytes, base: int) -> None:
    header = Header(epoch, log_id, base)
    assert decode_header(header.encode()) == header


GOOD = Header(1, bytes(16)).encode()


def resealed(data: bytes) -> bytes:
    """The header with a right checksum, so that another rule has to refuse it."""
    return data[:60] + struct.pack("<I", crc32(data[:60]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 of 64 bytes"),
        (GOOD[:63], "63 of 64 bytes"),
        (b"X" + GOOD[1:], "magic"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "checksum"),
        (GOOD[:20] + b"\x09" + GOOD[21:], "checksum"),
        (resealed(GOOD[:8] + b"\x02" + GOOD[9:]), "version 2"),
        (resealed(GOOD[:12] + b"\x01" + GOOD[13:]), "version"),
        (resealed(GOOD[:59] + b"\x01" + GOOD[60:]), "version"),
        (resealed(GOOD[:24] + bytes(8) + GOOD[32:]), "base"),
    ],
)
def test_bad_headers_are_named(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_header(data)
