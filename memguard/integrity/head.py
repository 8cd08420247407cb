"""Heads: what a context must look like, in a few hundred bytes kept where the adversary is not.

A head names its context, how many operations it has seen (generation), which writer may
write (fence), how many rows there are and a keyed multiset hash of them. The multiset hash
(MSet-Add-Hash of Clarke et al., ASIACRYPT 2003) is a sum of HMACs, so it follows forks,
replacement and deletion, which a chain over rows cannot. It is written masked: two plain
sums would give their difference, one row's HMAC, away.

Record layout: docs/spec/heads.md.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, replace

from memguard.integrity.canonical import frame, unframe

MODULUS = 1 << 256
BOOT = 16
_FIXED = struct.Struct(">QIQ")


@dataclass(frozen=True, slots=True)
class Head:
    """The state of one context after its newest operation.

    Attributes:
        context: the context's id.
        generation: operations so far; 0 before the first.
        fence: raised at every recovery, so that a write from before it is dead for ever.
        boot: 16 bytes naming the boot of the machine that wrote it.
        count: cells in the context.
        total: sum of the cells' keyed hashes modulo 2^256 (never written unmasked).
        latest: record key of the newest record, or empty.
        horizon: newest record key that was ever deleted, or empty.
        chain: the ledger's hash chain after the newest entry.
    """

    context: str
    generation: int = 0
    fence: int = 1
    boot: bytes = bytes(BOOT)
    count: int = 0
    total: int = 0
    latest: bytes = b""
    horizon: bytes = b""
    chain: bytes = bytes(32)

    def _mask(self, key: bytes) -> int:
        place = frame(
            b"memguard/mask/1",
            self.context.encode("utf-8", "surrogatepass"),
            self.generation.to_bytes(8, "big"),
            self.fence.to_bytes(4, "big"),
            self.boot,
        )
        return int.from_bytes(hmac.digest(key, place, "sha256"), "big")

    def encode(self, key: bytes) -> bytes:
        """The head's bytes, its sum masked under the accumulator key."""
        masked = (self.total + self._mask(key)) % MODULUS
        return frame(
            self.context.encode("utf-8", "surrogatepass"),
            _FIXED.pack(self.generation, self.fence, self.count),
            self.boot,
            masked.to_bytes(32, "big"),
            self.latest,
            self.horizon,
            self.chain,
        )

    @classmethod
    def decode(cls, data: bytes, key: bytes) -> Head:
        """Read :meth:`encode`'s bytes.

        Raises:
            ValueError: not such bytes.
        """
        context, fixed, boot, masked, latest, horizon, chain = unframe(data)
        try:
            generation, fence, count = _FIXED.unpack(fixed)
        except struct.error as error:
            raise ValueError(str(error)) from None
        head = cls(context.decode("utf-8", "surrogatepass"), generation, fence, boot, count, 0, latest, horizon, chain)
        return replace(head, total=(int.from_bytes(masked, "big") - head._mask(key)) % MODULUS)

    def commitment(self, key: bytes) -> bytes:
        """16-byte keyed commitment to this head; the ``prev`` of the rows that follow it."""
        body = frame(
            b"memguard/prev/1",
            self.context.encode("utf-8", "surrogatepass"),
            _FIXED.pack(self.generation, self.fence, self.count),
            self.total.to_bytes(32, "big"),
            self.chain,
        )
        return hmac.digest(key, body, "sha256")[:16]


class Accumulator:
    """Keyed hashes of the cells of one context, to be added to and taken from a head's sum."""

    __slots__ = ("_key", "_prefix")

    def __init__(self, key: bytes, context: str) -> None:
        self._key = key
        self._prefix = frame(b"memguard/cell/1", context.encode("utf-8", "surrogatepass"))

    def term(self, group: bytes, cell: bytes) -> int:
        """The hash of one cell as an integer below 2^256."""
        return int.from_bytes(hmac.digest(self._key, self._prefix + frame(group, cell), "sha256"), "big")
