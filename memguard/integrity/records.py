"""What the records of an anchor's log say, as values and as bytes. Pure.

A record is one frame: kind, key id, the parts of its kind, link, signature. What stands before the link is
what it *says*; how links and signatures follow from that is the business of :mod:`memguard.integrity.logview`.

Layout: docs/spec/heads.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from memguard.integrity.canonical import LENGTHS, canonical_json, frame, unframe
from memguard.integrity.head import MODULUS, UNCOUNTED, Head
from memguard.integrity.index import CELL

#: Kinds: a head after an operation, whose sum follows from its cells; one that states its sum; one carried
#: over by a compaction; an announced operation; the beginning; an operator's note; a signature.
HEAD, STATED, CARRIED, INTENT, BASE, NOTE, ATTEST = b"H", b"T", b"S", b"I", b"B", b"N", b"A"
#: Cells a head record spells out; a larger operation is followed by a rescan instead.
MAX_DELTA = 64
#: Generation, fence, cells, boot, chain, time, cells that came; with the length that they have in a frame.
_FIXED = struct.Struct(">IQIQ16s32sdH")
_FIXED_SIZE = _FIXED.size - 4
_PARTS_OF_INTENT = 5
Place = tuple[str, str]  # store name, context id
Cells = Sequence[tuple[bytes, bytes]]
Delta = tuple[Cells, Cells]
#: A sum that was stated, and the cells that came and went since.
Owed = tuple[int, Sequence[Delta]]


class Intent(NamedTuple):
    """An operation that was announced and whose head has not been seen yet.

    ``delete`` is about to empty the context, ``remove`` to take exactly ``removes`` out of it,
    ``prune`` some of ``removes``; any other operation only adds or replaces.
    """

    store: str
    context: str
    operation: str
    generation: int
    removes: tuple[tuple[bytes, bytes], ...] = ()


class HeadRecord(NamedTuple):
    """One head with the operation that led to it.

    ``delta``: the cells that came, and those that went or were replaced; None where there were too many to
    write. The head's sum follows from it and from the head before, and is left out.
    """

    store: str
    operation: str
    time: float
    kid: str
    head: Head
    delta: Delta | None
    carried: bool = False


class Note(NamedTuple):
    """What an operator did to the log: accept, rotate, recover; signed like a head."""

    store: str
    operation: str
    details: dict[str, Any]


@lru_cache(maxsize=4096)
def _opening(kind: bytes, kid: str, store: str, context: str, operation: str) -> bytes:
    """What all records of one operation on one context begin with."""
    place = store.encode(), context.encode("utf-8", "surrogatepass"), operation.encode()
    return frame(kind, kid.encode(), *place)


def say_head(kind: bytes, kid: str, record: HeadRecord, key: bytes | None) -> bytes:
    """A head and its cells; under ``key``, the mask key of its store, a head and its sum."""
    store, operation, time, sum_kid, head, delta, _ = record
    context, generation, fence, boot, cells, total, latest, horizon, chain = head
    lengths = LENGTHS
    adds, removes = ((), ()) if delta is None else delta
    pieces = [
        _opening(kind, kid, store, context, operation),
        _FIXED.pack(_FIXED_SIZE, generation, fence, cells, boot, chain, time, len(adds)),
        lengths[len(latest)],
        latest,
        lengths[len(horizon)],
        horizon,
    ]
    for group, cell in adds:
        pieces += (lengths[len(group) + CELL], group, cell)
    for group, cell in removes:
        pieces += (lengths[len(group) + CELL], group, cell)
    if key is not None:
        pieces.append(frame(((total + head.mask(key)) % MODULUS).to_bytes(32, "big")))
    if kind == CARRIED:
        pieces.append(frame(sum_kid.encode()))
    return b"".join(pieces)


def read_head(
    kind: bytes, kid: str, parts: Sequence[bytes], mask_key: Callable[[str, str], bytes]
) -> HeadRecord:
    """Read :func:`say_head`'s parts. ``mask_key``: of store and key id.

    Raises:
        ValueError: not such parts.
    """
    name, place, done, fixed, latest, horizon, *rest = parts
    try:
        _, generation, fence, cells, boot, chain, time, added = _FIXED.unpack(bytes(4) + fixed)
    except struct.error as error:
        raise ValueError(str(error)) from None
    store, context = name.decode(), place.decode("utf-8", "surrogatepass")
    head = Head(context, generation, fence, boot, cells, UNCOUNTED, latest, horizon, chain)
    if kind == HEAD:
        if added > len(rest):
            raise ValueError("a head has fewer cells than it says")
        delta = (_cells(rest[:added]), _cells(rest[added:]))
        return HeadRecord(store, done.decode(), time, kid, head, delta)
    if kind == CARRIED:
        kid = rest.pop().decode()
    if added:
        raise ValueError("a sum is stated where it follows from the cells")
    (masked,) = rest
    total = (int.from_bytes(masked, "big") - head.mask(mask_key(store, kid))) % MODULUS
    return HeadRecord(
        store, done.decode(), time, kid, head._replace(total=total), None, carried=kind == CARRIED
    )


def say_intents(kid: str, intents: Iterable[Intent]) -> bytes:
    """An announced operation, on all of its contexts."""
    parts: list[bytes] = []
    for store, context, operation, generation, removes in intents:
        parts += (
            store.encode(),
            context.encode("utf-8", "surrogatepass"),
            operation.encode(),
            generation.to_bytes(8, "big"),
            frame(*(group + cell for group, cell in removes)),
        )
    return frame(INTENT, kid.encode(), *parts)


def read_intents(parts: Sequence[bytes]) -> list[Intent]:
    """Read :func:`say_intents`' parts.

    Raises:
        ValueError: not such parts.
    """
    if not parts:
        raise ValueError("an intent announces nothing")
    found = []
    for at in range(0, len(parts), _PARTS_OF_INTENT):
        store, context, operation, generation, removes = parts[at : at + _PARTS_OF_INTENT]
        name, number = context.decode("utf-8", "surrogatepass"), int.from_bytes(generation, "big")
        found.append(Intent(store.decode(), name, operation.decode(), number, _cells(unframe(removes))))
    return found


def say_note(kid: str, note: Note) -> bytes:
    """An operator's act."""
    place = note.store.encode(), note.operation.encode()
    return frame(NOTE, kid.encode(), *place, canonical_json(note.details))


def _cells(items: Iterable[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple([(item[:-CELL], item[-CELL:]) for item in items])
