"""Bytes through a saver untouched: the wrapped saver stores what it is handed and returns what it finds.

The guard serialises once with the saver's own serializer, computes tags over exactly those
bytes, and gives the saver a serializer that neither makes nor reads bytes. Nothing that a
store returns is decoded before its tag was checked, so an edited row cannot run code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from memguard.errors import IntegrityError, TamperedError


class Sealed:
    """A value that is serialised already, with the type tag that is to be stored beside it."""

    __slots__ = ("typed",)

    def __init__(self, kind: str, data: bytes) -> None:
        self.typed = (kind, data)


class SealedCheckpoint(dict[str, Any]):
    """A checkpoint whose bytes are made; still a mapping, because savers read ``id`` from it."""

    __slots__ = ("typed",)
    typed: tuple[str, bytes]


class SealedSnapshot(_DeltaSnapshot):
    """A delta channel's snapshot that is serialised already; savers tell snapshots by their type."""

    typed: tuple[str, bytes]


_MADE = (Sealed, SealedCheckpoint, SealedSnapshot)


class Parted(dict[str, Any]):
    """A checkpoint whose channel values are :class:`Sealed`, for a saver that stores each by itself."""


class PartedValues(dict[str, Any]):
    """The channel values of such a checkpoint; a saver's own copy of the checkpoint still holds them."""


class OnePiece(Exception):
    """The saver is about to serialise a whole checkpoint: it does not store channel by channel."""


class Raw(Mapping[str, Any]):
    """What a store returned, undecoded.

    A saver that keeps a checkpoint's frame apart from its values looks into the frame; then,
    and only then, its plain msgpack is read by a decoder that knows no types and calls nothing.
    """

    __slots__ = ("_plain", "_serde", "data", "kind")

    def __init__(self, kind: str, data: bytes, serde: Any = None) -> None:
        self.kind, self.data, self._serde = kind, data, serde
        self._plain: dict[str, Any] | None = None

    def digest(self) -> bytes:
        """SHA-256 of the stored bytes (the type tag is bound apart); of nothing memguard stored, zeros."""
        return hashlib.sha256(self.data).digest() if isinstance(self.data, bytes | bytearray) else bytes(32)

    def plain(self) -> dict[str, Any]:
        """The frame or metadata as plain values.

        Raises:
            IntegrityError: not a plain msgpack mapping.
        """
        if self._plain is None:
            data, kind = self.data, self.kind
            if isinstance(self._serde, EncryptedSerializer) and "+" in kind:
                kind, cipher = kind.split("+", 1)
                data = self._serde.cipher.decrypt(cipher, data)
            try:
                if kind != "msgpack":
                    raise ValueError(kind)
                value = ormsgpack.unpackb(data, ext_hook=_refuse, option=ormsgpack.OPT_NON_STR_KEYS)
                self._plain = dict(value)
            except (ValueError, TypeError):
                raise undecodable() from None
        return self._plain

    def __getitem__(self, key: str) -> Any:
        return self.plain()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self.plain())


def _refuse(code: int, data: bytes) -> Any:
    raise ValueError("typed value")


def undecodable(record: str = "checkpoint") -> IntegrityError:
    """The error for stored bytes that cannot be what memguard stored."""
    return TamperedError(
        "stored bytes do not decode.",
        case="undecodable",
        record=record,
        code="MG405",
        why="memguard only ever stores bytes that its serializer made.",
        do="memguard audit STORE lists what is damaged.",
    )


class RawSerde:
    """The serializer given to the wrapped saver's copy. Counts nothing, decodes nothing.

    Args:
        serde: the saver's own serializer, for the frames that such a saver builds itself.
    """

    def __init__(self, serde: Any) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The bytes that were made before; the saver's own frame and metadata, if it keeps any."""
        if isinstance(obj, _MADE):
            return obj.typed
        if isinstance(obj, Parted) or (
            type(obj) is dict and isinstance(obj.get("channel_values"), PartedValues)
        ):
            raise OnePiece
        made: tuple[str, bytes] = self.serde.dumps_typed(obj)
        return made

    def loads_typed(self, data: tuple[str, bytes]) -> Raw:
        """What was stored, undecoded."""
        return Raw(data[0], data[1], self.serde)
