"""Who is speaking and for whom: two context variables and the ``with`` blocks that set them.

    with source("web:https://shop.example"):
        graph.invoke(...)
    with principal(tenant="acme", user="alice"):
        ...

A context variable follows a task through ``await`` and into threads that are given a copy of the
context (``asyncio.to_thread`` and LangGraph's executors do that), and never leaks into other tasks.
An inner block hides the outer one until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from memguard.errors import ConfigError
from memguard.record import Lineage, Parent, Principal, Provenance, Record, Source, check_identity

_source: ContextVar[Provenance | None] = ContextVar("memguard.source", default=None)
_principal: ContextVar[Principal | None] = ContextVar("memguard.principal", default=None)

#: Blocks that are open here, the innermost last. In the context and not in the block: one block may be open in several
#: threads and tasks at once, and each leaves its own.
_blocks: ContextVar[tuple[Declared[Any], ...]] = ContextVar("memguard.blocks", default=())

T = TypeVar("T")


class Declared(Generic[T]):
    """A ``with`` block that sets one context variable; may be open several times, nested or in other threads."""

    __slots__ = ("_variable", "value")

    def __init__(self, variable: ContextVar[T | None], value: T) -> None:
        self._variable = variable
        #: What is in force inside the block.
        self.value: Final = value

    def __enter__(self) -> T:
        _blocks.set((*_blocks.get(), self))
        self._variable.set(self.value)
        return self.value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = _blocks.get()
        if self not in entered:
            return  # entered in another context (a generator that was closed elsewhere): nothing of it is in force here
        at = len(entered) - 1 - entered[::-1].index(self)
        left = (*entered[:at], *entered[at + 1 :])
        _blocks.set(left)
        inner = [block.value for block in left if block._variable is self._variable]
        self._variable.set(inner[-1] if inner else None)


def source(
    what: str | Source,
    *,
    id: str | None = None,
    parents: Iterable[object] = (),
    signature: bytes | None = None,
) -> Declared[Provenance]:
    """Declare where the memories written inside the block come from.

    Args:
        what: ``"kind"`` or ``"kind:id"``; kinds user assistant tool web document system summary unknown.
        id: the identity within the kind, instead of ``"kind:id"``.
        parents: what they are derived from: record ids, records, labels or labelled items.
            The trust of what is written is then at most the least of theirs.
        signature: the source's own signature, for sources that must sign.

    Raises:
        ConfigError: MG141 or MG142 for what is no source, MG144 for what is no parent.
    """
    base = what if isinstance(what, Source) else Source.parse(what)
    if id is not None or signature is not None:
        base = Source(
            base.kind, base.id if id is None else id, base.signature if signature is None else signature
        )
    if isinstance(parents, (str, bytes)):
        raise ConfigError("parents is a list, not one string", code="MG144", do="Write parents=[id].")
    lineage = Lineage.of(*(as_parent(item) for item in parents))
    return Declared(_source, Provenance(base, lineage))


class _Left:
    """An argument that was left out: ``user=None`` is a mistake, no ``user`` is a choice."""


_LEFT: Final = _Left()


def principal(
    *, tenant: str | _Left = _LEFT, user: str | _Left = _LEFT, purpose: str = "context"
) -> Declared[Principal]:
    """Declare on whose behalf the block reads and writes.

    Raises:
        ScopeError: MG221 for an identity that is missing, None, empty or a wildcard: a request whose
            user got lost must not become everybody's.
        ConfigError: MG143 for an unknown purpose.
    """
    owner = None if isinstance(tenant, _Left) else check_identity("tenant", tenant)
    person = None if isinstance(user, _Left) else check_identity("user", user)
    return Declared(_principal, Principal(owner, person, purpose))


def current_source() -> Provenance | None:
    """What :func:`source` declared here; None where nobody did."""
    return _source.get()


def current_principal() -> Principal | None:
    """What :func:`principal` declared here; None where nobody did."""
    return _principal.get()


def as_parent(item: object) -> Parent:
    """The parent an item stands for.

    A string is always a record id, also one that looks like ``user:7``: reading it as a source
    would let a key raise the trust of what is derived from it.
    """
    if isinstance(item, Parent):
        return item
    if isinstance(item, str) and item:
        return Parent(item)
    if isinstance(item, Record):
        return Parent(item.key or str(item.source), item.trust)
    # A label, or an item of a guarded store that carries one (memguard.labels).
    label = getattr(item, "memguard_label", item)
    trust, origin = getattr(label, "trust", None), getattr(label, "source", None)
    if trust is not None and isinstance(origin, Source):
        return Parent(str(getattr(item, "key", "") or origin), trust)
    raise ConfigError(
        f"{type(item).__name__} cannot be a parent",
        code="MG144",
        do="Pass record ids, or items read through a guarded store.",
    )
