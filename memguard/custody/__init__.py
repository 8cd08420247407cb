"""The custody of one guarded store: operations in, verified rows out, heads to the anchor.

Every write goes lock -> tail of the log -> first touch of its contexts -> intent -> the
store's own commit -> head (durable) -> index -> unlock. Every read goes the store's own read
-> tail -> comparison with the index; what does not match is looked at again under the lock
before it alarms, because a writer may be half-way. Operations are generators
(:mod:`memguard.effects`); what rows look like is the adapter's business (:class:`Rows`).
"""

from __future__ import annotations

from memguard.custody.contexts import Rows, Slot, entry_of, latest_of
from memguard.custody.reading import Custody
from memguard.custody.writing import Change, Pair

__all__ = ["Change", "Custody", "Pair", "Rows", "Slot", "entry_of", "latest_of"]
