"""Byte forms that a tag can be computed over: length-prefixed framing and sorted JSON.

``frame`` is injective: two different sequences of parts never give the same bytes,
so no part can borrow a byte from its neighbour (docs/spec/rows.md, section "Framing").
``canonical_json`` is for values that passed through a JSON column: JSON keeps the value
but not the order of keys, so keys are sorted by code point after they became strings.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

_length = struct.Struct(">I").pack
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=True, check_circular=True
).encode


class _Lengths(dict[int, bytes]):
    """Lengths as they stand in a frame. Most parts are short: to look one up is a third of packing it."""

    def __missing__(self, length: int) -> bytes:
        return _length(length)


LENGTHS = _Lengths((length, _length(length)) for length in range(512))


def frame(*parts: bytes) -> bytes:
    """Each part preceded by its length as a 4-byte big-endian integer."""
    lengths = LENGTHS
    pieces: list[bytes] = []
    for part in parts:
        pieces += (lengths[len(part)], part)
    return b"".join(pieces)


def unframe(data: bytes) -> list[bytes]:
    """The parts of a frame.

    Raises:
        ValueError: lengths and data do not add up.
    """
    parts: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        if at + 4 > end:
            raise ValueError("truncated length")
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if at + size > end:
            raise ValueError("truncated part")
        parts.append(data[at : at + size])
        at += size
    return parts


_FLAT = frozenset({str, int, float, bool, type(None)})


def _string_keys(value: Any) -> Any:
    """``value`` with the keys of every mapping turned to the strings JSON would write.

    json sorts keys before it converts them, so ``{10: .., 9: ..}`` would be
    written in another order than the ``{"10": .., "9": ..}`` that comes back.
    """
    if type(value) in _FLAT:
        return value
    if isinstance(value, Mapping):
        return {_key(k): _string_keys(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_string_keys(v) for v in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is True or key is False or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    if isinstance(key, int | float):
        return json.dumps(key)
    raise TypeError(f"a key of type {type(key).__name__} is not JSON")


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of a JSON value (UTF-8, sorted keys, no spaces, Python's number forms).

    A lone surrogate is kept as its three-byte form instead of failing: a store may
    hold one, and refusing to tag it would be refusing to keep it.

    Raises:
        TypeError: the value is not JSON.
        ValueError: the value contains itself.
    """
    return _encode(_string_keys(value)).encode("utf-8", "surrogatepass")
