"""Heads: what a context must look like, in a few hundred bytes kept where the adversary is not.

A head names its context, how many operations it has seen (generation), which writer may
write (fence), how many rows there are and a keyed multiset hash of them. The multiset hash
(MSet-Add-Hash of Clarke et al., ASIACRYPT 2003) is a sum of HMACs, so it follows forks,
replacement and deletion, which a chain over rows cannot. It is written only where it does not follow
from the cells that an operation spells out, and then masked: two plain sums would give their
difference, one row's HMAC, away.

Record layout: docs/spec/heads.md.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable
from typing import NamedTuple

from memguard.integrity.canonical import frame
from memguard.integrity.mac import Mac

Pairs = Iterable[tuple[bytes, bytes]]
MODULUS = 1 << 256
BOOT = 16
#: Bytes of the commitment that rows carry to the head before them: the head's chain, cut.
COMMITMENT = 16
#: Stands for a total that nobody has added up yet; no sum equals it.
UNCOUNTED = -1
_PLACE = struct.Struct(">QI16s")


class Head(NamedTuple):
    """The state of one context after its newest operation.

    Attributes:
        context: the context's id.
        generation: operations so far; 0 before the first.
        fence: raised at every recovery, so that a write from before it is dead for ever.
        boot: 16 bytes naming the boot of the machine that wrote it.
        cells: rows in the context.
        total: sum of the cells' keyed hashes modulo 2^256 (never written unmasked), or UNCOUNTED.
        latest: record key of the newest record, or empty.
        horizon: newest record key that was ever deleted, or empty.
        chain: 32 bytes, the ledger's hash chain after the newest entry.
    """

    context: str
    generation: int = 0
    fence: int = 1
    boot: bytes = bytes(BOOT)
    cells: int = 0
    total: int = 0
    latest: bytes = b""
    horizon: bytes = b""
    chain: bytes = bytes(32)

    def mask(self, key: bytes) -> int:
        """What hides the sum of this head, under its store's mask key."""
        place = _PLACE.pack(self.generation, self.fence, self.boot) + self.context.encode(
            "utf-8", "surrogatepass"
        )
        return int.from_bytes(hmac.digest(key, b"memguard/mask/1" + place, "sha256"), "big")

    @property
    def commitment(self) -> bytes:
        """16-byte keyed commitment to the history that led to this head; the ``prev`` of the rows after it."""
        return self.chain[:COMMITMENT]


class Accumulator:
    """Keyed hashes of the cells of one context, to be added to and taken from a head's sum."""

    __slots__ = ("_digest",)

    def __init__(self, key: bytes, context: str) -> None:
        prefix = frame(b"memguard/cell/1", context.encode("utf-8", "surrogatepass"))
        self._digest = Mac(key, prefix).digest

    def term(self, group: bytes, cell: bytes) -> int:
        """The hash of one cell (24 bytes) as an integer below 2^256."""
        return int.from_bytes(self._digest(cell + group), "big")

    def added_up(self, total: int, deltas: Iterable[tuple[Pairs, Pairs]]) -> int:
        """A sum after cells came and went."""
        term = self.term
        for adds, removes in deltas:
            for pair in adds:
                total += term(*pair)
            for pair in removes:
                total -= term(*pair)
        return total % MODULUS
