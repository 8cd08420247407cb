"""The place of a quarantined record in its store, for adapters: whose release stands there, and why none can."""

from __future__ import annotations

from memguard.errors import RefusedError
from memguard.labels import Label

#: Looks at a place that somebody keeps writing to, before it is called busy.
TRIES = 5


def released_from(label: Label | None, entry: str) -> bool:
    """Whether the record with this label is the one that was released from an entry."""
    return label is not None and label.released.partition(" ")[0] == entry


def newer(entry: str, why: str, do: str) -> RefusedError:
    """The error for a place in which another value stands: MG351."""
    return RefusedError(
        "a newer value stands in the place of a quarantined record.",
        code="MG351",
        where=entry,
        why=why,
        do=do,
    )


def busy(entry: str) -> RefusedError:
    """The error for a place that changed at every look: MG351."""
    return RefusedError(
        "the place of a quarantined record is being written to.",
        code="MG351",
        where=entry,
        why="Every time it was looked at it had changed again.",
        do="Try again when the writer is done.",
    )
