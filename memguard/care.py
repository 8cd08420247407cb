"""Looking after a guarded store: audit it, adopt data from before the guard, drop what does not belong.

Operations over what custody knows and what the adapter can read. Destructive ones plan first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from memguard.custody import Custody, Rows
from memguard.effects import Operation
from memguard.errors import UnsupportedError
from memguard.integrity.audit import Finding
from memguard.integrity.tag import Seal
from memguard.integrity.verifier import Claim, Context

if TYPE_CHECKING:
    from memguard.engine import MemGuard

T = TypeVar("T")


class Existing(NamedTuple):
    """A row as it stands, with all that a seal over it needs."""

    claim: Claim
    content: bytes
    extra: bytes
    #: The adapter's own name for the row, to write its seal or to drop it.
    row: Any


class CareRows(Rows, Protocol):
    """What care needs of an adapter beyond what custody needs."""

    def contexts(self) -> Operation[Sequence[str]]:
        """Ids of the contexts that have rows."""
        ...

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """Every row of a context, content digested, whether sealed or not."""
        ...

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """Put seals beside rows that stand already, in one transaction."""
        ...

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """Delete single rows, in one transaction."""
        ...


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        store: the store's name.
        findings: everything that is not as it was left; empty for a clean store.
        contexts, records: how many were looked at.
        anchor: where the heads are.
        level: the mechanisms in force (``head``, ``chain`` or ``tag``).
        ledger: entries of the history that were checked.
    """

    store: str
    findings: tuple[Finding, ...]
    contexts: int
    records: int
    anchor: str
    level: str
    ledger: int = 0

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "store": self.store,
            "clean": self.clean,
            "contexts": self.contexts,
            "records": self.records,
            "anchor": self.anchor,
            "level": self.level,
            "ledger": self.ledger,
            "findings": [f.as_dict() for f in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What adopt, repair, accept or revert would do, or did.

    Attributes:
        verb: ``adopt``, ``repair``, ``accept`` or ``revert``.
        applied: whether it was done.
        actions: one for each context: ``{"context", "records", "action"}``.
        refused: contexts that it cannot help, with the reason.
        notes: what a reader should know before it is applied, such as what cannot be restored.
    """

    verb: str
    store: str
    applied: bool
    actions: tuple[dict[str, Any], ...] = ()
    refused: tuple[dict[str, Any], ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "verb": self.verb,
            "store": self.store,
            "applied": self.applied,
            "actions": list(self.actions),
            "refused": list(self.refused),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Handle:
    """What makes an object a guarded one: its custody, its rows, and how to run an operation on it."""

    guard: MemGuard
    custody: Custody
    rows: CareRows
    run: Callable[[Operation[Any]], Any]
    inner: object


def unwrap(obj: T) -> T:
    """The object that was wrapped; an unguarded object comes back as it is."""
    inner: T = getattr(obj, "inner", obj) if handle_of(obj) is not None else obj
    return inner


def handle_of(obj: object) -> Handle | None:
    """The handle of a guarded object, None for any other."""
    handle = obj.__dict__.get("_memguard") if hasattr(obj, "__dict__") else None
    return handle if isinstance(handle, Handle) else None


def handled(target: object) -> Handle:
    """The handle of a guarded object.

    Raises:
        UnsupportedError: MG124, it is not guarded.
    """
    handle = handle_of(target)
    if handle is None:
        raise UnsupportedError(
            f"this {type(target).__name__} is not guarded.",
            code="MG124",
            do="Give the object that guard(...) returned.",
        )
    return handle
