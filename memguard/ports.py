"""Ports: the few things memguard asks of the world, each small enough to implement in an hour.

Backends live in the folder named after the port (``anchors/``, ``keys/``, ``ledger/``);
``memguard.testing`` has in-memory ones. Foreign exceptions are mapped to
:mod:`memguard.errors` inside the backend, never above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in an anchor's log: which file generation, and how far into it (bytes or rows)."""

    epoch: int
    offset: int


@runtime_checkable
class Anchor(Protocol):
    """An ordered log of opaque records, kept where the store's adversary is not.

    The anchor knows nothing of what the records mean: their tags, links and
    signatures are the business of :mod:`memguard.integrity`. It promises order,
    durability when asked, exclusion, and an error rather than a guess.
    """

    uri: str
    #: Durable writes so far (one per fsync/fdatasync or durable commit); counted, not timed.
    syncs: int

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the exclusive lock, across threads and processes. False if not blocking and taken."""
        ...

    def release(self) -> None:
        """Give the lock back."""
        ...

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """Records after ``since`` (all, for None), the new cursor, and whether the log was
        compacted meanwhile (then the records are the whole new log)."""
        ...

    def changed(self, since: Cursor) -> bool:
        """Whether :meth:`read` would answer anything new. Must be cheap: called on every read."""
        ...

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """Append in order under the lock; durable on return if ``sync``.

        Raises:
            AnchorError: the write or the sync failed. After a failed sync every
                further call raises too: the state of the log is unknown until reopened.
        """
        ...

    def sync(self) -> None:
        """Make everything appended so far durable."""
        ...

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """Atomically replace the whole log by ``records`` (durable), under the lock."""
        ...

    def close(self) -> None:
        """Release handles. Idempotent."""
        ...


@runtime_checkable
class SharedAnchor(Anchor, Protocol):
    """An anchor that also keeps the writers of several hosts apart."""

    def lease(self, store: str) -> Any:
        """The lock of a store among all its writers (:class:`memguard.effects.Lock`), and the place of its note
        (:class:`memguard.custody.Slot`). A writer that lost it cannot append any more."""
        ...

    def life(self) -> bytes:
        """Sixteen bytes, others after every restart or failover of what holds the notes."""
        ...


@runtime_checkable
class KeyRing(Protocol):
    """Named root secrets; purposes get derived subkeys, so no key serves two ends."""

    uri: str
    #: Id of the key that new records are written under.
    current: str
    #: Every id this ring can verify with, oldest first.
    ids: tuple[str, ...]

    def subkey(self, purpose: str, kid: str | None = None) -> bytes:
        """32 bytes, HKDF-SHA256 of the root key ``kid`` (default current) for ``purpose``.

        Raises:
            UnknownKeyError: the ring does not hold ``kid``.
        """
        ...

    def sign(self, message: bytes, kid: str | None = None) -> bytes:
        """Ed25519 signature (64 bytes) under the signing key derived from ``kid``."""
        ...

    def verify(self, message: bytes, signature: bytes, kid: str) -> bool:
        """Whether the signature is ``kid``'s over ``message``."""
        ...

    def public_key(self, kid: str | None = None) -> bytes:
        """Raw Ed25519 public key (32 bytes) of ``kid``."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One operation in the history of a context.

    ``chain`` is the hash chain over the context's entries:
    HMAC(k_chain, previous chain || encoded entry without chain).
    """

    context: str
    generation: int
    fence: int
    operation: str
    #: Record ids touched (identifiers, never content).
    records: tuple[str, ...]
    kid: str
    #: Seconds since the epoch, by the writer's clock (order, not time, is promised).
    time: float
    chain: bytes


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors, the same ones in every process. Threads may share one."""

    @property
    def name(self) -> str:
        """Its name in the configuration; vectors of two names are not compared."""
        ...

    @property
    def dim(self) -> int:
        """Numbers per vector."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, of unit length or zero. Any string is taken, lone surrogates too."""
        ...


@runtime_checkable
class Ledger(Protocol):
    """The hash-chained, append-only history of operations, per context."""

    def append(self, entries: Sequence[LedgerEntry]) -> None:
        """Add entries in order; the same (context, generation, fence) twice is ignored."""
        ...

    def sync(self) -> None:
        """Make everything appended so far durable."""
        ...

    def entries(self, context: str | None = None) -> Iterable[LedgerEntry]:
        """Entries oldest first, of one context or of all."""
        ...

    def last(self, context: str) -> LedgerEntry | None:
        """The newest entry of a context."""
        ...

    def close(self) -> None:
        """Release handles. Idempotent."""
        ...
