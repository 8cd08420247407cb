"""The index of a context: which records it has, in 24-byte cells, so that reads need no scan.

A *group* is what one read returns: a checkpoint with its pending writes, or a store item.
Its *cells* are one for each row: 8 bytes naming the row inside the group, 16 bytes that
only this row in this state has. Groups are keyed by the record's own key, packed so that
byte order is key order. 100,000 groups of one cell take about 18 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CELL = 24
MEMBER = 8
#: Member name of a group's main row.
MAIN = bytes(MEMBER)


def pack_key(text: str) -> bytes:
    """A record key as bytes in the same order: UUIDs in 17 bytes, anything else as UTF-8 after 0xFE.

    A UUID keeps its order because its text is fixed-width lower-case hexadecimal. The two
    forms are never compared byte by byte: see :func:`newest` and :func:`not_after`.
    """
    if len(text) == 36 and text[8:24:5] == "----":
        digits = text.replace("-", "")
        try:
            packed = bytes.fromhex(digits)
        except ValueError:
            pass  # letters beyond f: an ordinary key
        else:
            if len(packed) == 16 and packed.hex() == digits:  # in lower case, nothing between
                return b"\x01" + packed
    return b"\xfe" + text.encode("utf-8", "surrogatepass")


def unpack_key(key: bytes) -> str:
    """The record key that :func:`pack_key` packed."""
    if key[:1] == b"\x01":
        text = key[1:].hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return key[1:].decode("utf-8", "surrogatepass")


def newest(keys: Iterable[bytes]) -> bytes:
    """The key whose text sorts last, or empty. Mixed forms are compared as text."""
    best = b""
    for key in keys:
        if not best or not not_after(key, best):
            best = key
    return best


def not_after(key: bytes, other: bytes) -> bool:
    """Whether ``key`` sorts at or before ``other`` as text."""
    return key <= other if key[:1] == other[:1] else unpack_key(key) <= unpack_key(other)


class Index:
    """Groups of cells. A cell set is kept sorted by member, packed in one bytes object."""

    __slots__ = ("cells", "groups")

    def __init__(self) -> None:
        self.groups: dict[bytes, bytes] = {}
        self.cells = 0

    def add(self, group: bytes, cell: bytes) -> bytes | None:
        """Put a cell in; the cell of the same member that it replaces comes back."""
        packed = self.groups.get(group)
        if packed is None:
            self.groups[group] = cell
            self.cells += 1
            return None
        member, at = cell[:MEMBER], 0
        while at < len(packed) and packed[at : at + MEMBER] < member:
            at += CELL
        old = packed[at : at + CELL]
        if old[:MEMBER] == member:
            self.groups[group] = packed[:at] + cell + packed[at + CELL :]
            return old
        self.groups[group] = packed[:at] + cell + packed[at:]
        self.cells += 1
        return None

    def remove(self, group: bytes, cell: bytes) -> bool:
        """Take a cell out; False if it was not there."""
        packed = self.groups.get(group, b"")
        for at in range(0, len(packed), CELL):
            if packed[at : at + CELL] == cell:
                rest = packed[:at] + packed[at + CELL :]
                if rest:
                    self.groups[group] = rest
                else:
                    del self.groups[group]
                self.cells -= 1
                return True
        return False

    def member(self, group: bytes, member: bytes) -> bytes | None:
        """The cell of one member of a group."""
        packed = self.groups.get(group, b"")
        for at in range(0, len(packed), CELL):
            if packed[at : at + MEMBER] == member:
                return packed[at : at + CELL]
        return None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every (group, cell)."""
        for group, packed in self.groups.items():
            for at in range(0, len(packed), CELL):
                yield group, packed[at : at + CELL]


def split(packed: bytes) -> list[bytes]:
    """The cells of a packed group."""
    return [packed[at : at + CELL] for at in range(0, len(packed), CELL)]
