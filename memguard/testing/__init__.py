"""In-memory ports for tests, examples and stores that die with their process.

They keep the contracts of :mod:`memguard.ports` in full; the same test classes run over
them and over the durable backends.
"""

from __future__ import annotations

from memguard.testing.anchors import FaultyAnchor, MemoryAnchor
from memguard.testing.keys import MemoryKeyRing
from memguard.testing.ledger import MemoryLedger

__all__ = ["FaultyAnchor", "MemoryAnchor", "MemoryKeyRing", "MemoryLedger"]
