"""Rows of writers that had lost their lock: known for what they are, and taken out again.

Where a lock can be lost while it is held (:class:`memguard.ports.SharedAnchor`), a writer that was cut off may still
commit in the store after another took its lock and settled what it had announced. That settling raised the fence of
the context before the operation's number was reached: no head ever counted, and none ever will count, a row that
bears that number and an older fence. Nothing acknowledged can look like that, so such a row need not alarm anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from memguard.effects import Operation
from memguard.integrity.audit import examine
from memguard.integrity.head import MODULUS
from memguard.integrity.verifier import Context

if TYPE_CHECKING:
    from memguard.anchorlog import AnchorLog
    from memguard.care import Existing


class Mending(Protocol):
    """What burying needs of an adapter: the part of :class:`memguard.care.CareRows` that drops single rows."""

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """Every row, with what is needed to drop it."""
        ...

    def drop(self, context: Context, rows: Sequence[Existing]) -> Operation[None]:
        """Delete these rows, past the guard."""
        ...


def bury(mending: Mending, log: AnchorLog, context: Context) -> Operation[int]:
    """Drop the rows of fenced writers if that leaves exactly what the head counts. The store's lock is held.

    Returns:
        How many rows were dropped; 0 where anything else is wrong, and then nothing was touched.
    """
    existing = list((yield from mending.existing(context)))
    examined = examine(context, (item.claim for item in existing))
    if examined.bad:
        return 0
    place = (context.store, context.id)
    dead = {
        id(claim): row
        for claim, row in examined.good
        if log.fenced(place, row.seal.generation, row.seal.fence)
    }
    if not dead:
        return 0
    left = [row for claim, row in examined.good if id(claim) not in dead]
    total = sum(context.term(row.group, row.cell) for row in left) % MODULUS
    if len(left) != context.head.cells or total != context.total:
        return 0
    yield from mending.drop(context, [item for item in existing if id(item.claim) in dead])
    return len(dead)
