"""Collections: guarded stores of plain, keyed records. The shared core of the adapters."""

from memguard.collection.care import CollectionCare
from memguard.collection.collection import Collection
from memguard.collection.rows import (
    FIELD,
    Entry,
    Put,
    Stored,
    Table,
    Withheld,
    Written,
    label_in,
    members,
    named,
    opened,
)

__all__ = [
    "FIELD",
    "Collection",
    "CollectionCare",
    "Entry",
    "Put",
    "Stored",
    "Table",
    "Withheld",
    "Written",
    "label_in",
    "members",
    "named",
    "opened",
]
