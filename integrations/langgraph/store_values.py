"""Values that a store keeps as objects: their digest, and copies that share no container.

A digest must not change while nobody changed the store. A caller who goes on changing the dict it put, or
the one it was served, would change an in-memory store's content; so containers are copied on the way in
and on the way out.

What the digest covers: dicts, lists, tuples, sets, strings, numbers, booleans, None, bytes, dates, UUIDs,
decimals and enum members, by type and content. Any other object is kept and served as the very same
object, as InMemoryStore does, and the digest covers which object it is, not what state it is in.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from memguard.errors import UnsupportedError
from memguard.integrity.canonical import canonical_json, frame

#: Types whose ``repr`` is their content.
_REPR = (
    bool, int, float, complex, type(None), datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    decimal.Decimal, uuid.UUID, enum.Enum,
)  # fmt: skip

#: Numbers from here on are written in hexadecimal.
_LONG = 10**1000


class Forms:
    """Digest and copy of values. ``Forms`` is for a store that gives back parsed JSON."""

    def digest(self, value: Mapping[str, Any]) -> bytes:
        """SHA-256 of the canonical JSON.

        Raises:
            TypeError, ValueError: the value is not JSON.
        """
        return hashlib.sha256(canonical_json(value)).digest()

    def copied(self, value: Any) -> Any:
        """A copy of all containers."""
        if isinstance(value, dict):
            return {k: self.copied(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.copied(v) for v in value]
        return value


class ObjectForms(Forms):
    """For a store that keeps the objects themselves."""

    def digest(self, value: Mapping[str, Any]) -> bytes:
        """SHA-256 of the value's form.

        Raises:
            UnsupportedError: the value contains itself, or is nested too deeply.
        """
        try:
            return hashlib.sha256(_form(value)).digest()
        except RecursionError:
            raise endless() from None

    def copied(self, value: Any) -> Any:
        """A copy of plain containers; everything else is the same object."""
        kind = type(value)
        if kind is dict:
            return {k: self.copied(v) for k, v in value.items()}
        if kind is list:
            return [self.copied(v) for v in value]
        if kind is tuple:
            return tuple([self.copied(v) for v in value])
        if kind is set:
            return set(value)
        if kind is bytearray:
            return bytearray(value)
        return value


def endless() -> UnsupportedError:
    """The refusal of a value without an end."""
    return UnsupportedError(
        "a value contains itself, or is nested too deeply.", code="MG145", do="Store a value that ends."
    )


def _form(value: Any) -> bytes:
    """Injective bytes of a value: its kind, then its content."""
    kind = type(value)
    if kind is str:
        return frame(b"s", value.encode("utf-8", "surrogatepass"))
    if kind is dict:
        return frame(b"d", *sorted(frame(_form(k), _form(v)) for k, v in value.items()))
    if kind is list or kind is tuple:
        return frame(b"l" if kind is list else b"t", *[_form(v) for v in value])
    if kind is set or kind is frozenset:
        return frame(b"u", *sorted(_form(v) for v in value))
    if kind is bytes or kind is bytearray:
        return frame(b"b", bytes(value))
    name = f"{kind.__module__}.{kind.__qualname__}".encode("utf-8", "surrogatepass")
    if kind is int and not -_LONG < value < _LONG:
        return frame(b"r", name, hex(value).encode())  # Python writes no number of so many digits
    if isinstance(value, _REPR):
        return frame(b"r", name, repr(value).encode("utf-8", "surrogatepass"))
    return frame(b"o", name, str(id(value)).encode())
