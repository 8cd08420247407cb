"""The hash-chained history of operations, per context (the port is :class:`memguard.ports.Ledger`)."""

from __future__ import annotations

from memguard.ledger.chain import GENESIS, encode, link, verify_chain

__all__ = ["GENESIS", "encode", "link", "verify_chain"]
