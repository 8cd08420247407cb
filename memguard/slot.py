"""The note of what is being written right now: one per store, overwritten by every operation.

An ordinary write is announced here and not in the anchor's log: one unsynced ``pwrite``
that survives the process and that nobody but its reader's recovery ever needs. It is
authenticated, so it cannot be made up; losing it to an adversary or to a power cut only makes a
recovery stricter (a new boot is recognised without it). Deletes and a context's first
operation are announced in the log, durably.

Layout: ``MGI1``, length (u32 big-endian), body, the first 16 bytes of
HMAC-SHA256(subkey "intent", body). The body is a frame of frames of store, context,
operation and generation (u64).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from hmac import compare_digest

from memguard.errors import TamperedError
from memguard.integrity.canonical import LENGTHS, frame, unframe
from memguard.integrity.mac import Mac
from memguard.integrity.records import Intent

_MAGIC = b"MGI1"
_MAC = 16
_U64 = struct.Struct(">IQ").pack
#: Stands there while nothing is being written: no length, no MAC, no intents.
NOTHING_NOTED = b"MGI0\x00\x00\x00\x00"
#: Longest note that is read back.
LIMIT = 1 << 20


@lru_cache(maxsize=8)
def _mac(key: bytes) -> Mac:
    return Mac(key)


@lru_cache(maxsize=4096)
def _opening(store: str, context: str, operation: str) -> bytes:
    """What the notes of one operation on one context have in common: all of a part but its generation."""
    place = frame(store.encode(), context.encode("utf-8", "surrogatepass"), operation.encode())
    return (len(place) + 12).to_bytes(4, "big") + place


def encode(announced: Sequence[tuple[str, str, str, int]], key: bytes) -> bytes:
    """The bytes of a note on operations: of each the store, context, name and generation."""
    body = b"".join(
        [
            _opening(store, context, operation) + _U64(8, number)
            for store, context, operation, number in announced
        ]
    )
    return b"".join((_MAGIC, LENGTHS[len(body)], body, _mac(key).digest(body)[:_MAC]))


def decode(raw: bytes, key: bytes) -> list[Intent]:
    """The intents of a note; none if it is torn, foreign or not authentic."""
    size = int.from_bytes(raw[4:8], "big")
    body, mac = raw[8 : 8 + size], raw[8 + size : 8 + size + _MAC]
    if raw[:4] != _MAGIC or not compare_digest(_mac(key).digest(body)[:_MAC], mac):
        return []
    found = []
    for part in unframe(body):
        store, context, operation, generation = unframe(part)
        name = context.decode("utf-8", "surrogatepass")
        found.append(Intent(store.decode(), name, operation.decode(), int.from_bytes(generation, "big")))
    return found


class FileSlot:
    """A note in a file of its own. Used under the store's lock."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            self._fd = os.open(path, flags, 0o600)
            os.lseek(self._fd, 0, os.SEEK_SET)  # a pipe cannot
        except OSError as error:
            raise TamperedError(
                "the note of a store cannot be opened.",
                case="state",
                record=path,
                code="MG433",
                why=f"{error.strerror}: it is a link, no file, or not this user's.",
                do="Remove it while nothing runs; memguard makes a new one.",
            ) from None

    def write(self, raw: bytes) -> None:
        """Overwrite the note."""
        os.pwrite(self._fd, raw, 0)

    def same(self, raw: bytes) -> bool:
        """Whether the note is still this one."""
        return os.pread(self._fd, len(raw), 0) == raw

    def read(self) -> bytes:
        """The note."""
        return os.pread(self._fd, LIMIT, 0)

    def __del__(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            os.close(fd)


class MemorySlot:
    """A note for a store that lives in this process only."""

    def __init__(self) -> None:
        self._raw = b""

    def write(self, raw: bytes) -> None:
        """Overwrite the note."""
        self._raw = raw

    def same(self, raw: bytes) -> bool:
        """Whether the note is still this one."""
        return self._raw == raw

    def read(self) -> bytes:
        """The note."""
        return self._raw
