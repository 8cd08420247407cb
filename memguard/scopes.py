"""Scope maps: where a store's rows say whose they are, and what a principal may name there. No I/O.

A map gives ``tenant`` and ``user`` each a place: ``namespace.N`` (a segment of an item's namespace, from 0),
``thread`` or ``thread.N`` (a thread id, or a part of one between colons), ``metadata.KEY`` (a field of a
checkpoint's metadata). With a map everything is bound, fail-closed: without a principal that names every
mapped owner nothing is read or written, and what is another owner's is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from memguard.errors import ConfigError, ScopeError
from memguard.record import Principal, Scope, check_identity

Part = Literal["tenant", "user"]
#: Between the parts of a thread id.
SEPARATOR = ":"


@dataclass(frozen=True)
class ScopeMap:
    """Where the rows of one store say whose they are.

    Attributes:
        namespace: segment of the namespace, by part.
        thread: part of the thread id, by part; -1 is the whole id.
        metadata: key of the metadata, by part.
    """

    store: str
    namespace: Mapping[Part, int] = field(default_factory=dict)
    thread: Mapping[Part, int] = field(default_factory=dict)
    metadata: Mapping[Part, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, store: str, places: Mapping[str, str]) -> ScopeMap:
        """The map written ``{"tenant": "namespace.0", "user": "namespace.1"}``.

        Raises:
            ConfigError: MG225, a part or a place that does not exist, or two parts in one place.
        """
        found: dict[str, dict[Any, Any]] = {"namespace": {}, "thread": {}, "metadata": {}}
        for part, place in places.items():
            where, _, which = str(place).partition(".")
            number = which.isascii() and which.isdigit() and len(which) <= 2
            good = (
                (where == "namespace" and number)
                or (where == "thread" and (number or place == "thread"))
                or (where == "metadata" and which)
            )
            if part not in ("tenant", "user") or not good:
                raise _unusable(store, f"{part} = {place!r} is no place of an owner")
            found[where][part] = which if where == "metadata" else int(which) if which else -1
        if len(set(places.values())) < len(places):
            raise _unusable(store, "tenant and user are in one place")
        return cls(store, **found)

    def only(self, *places: Literal["namespace", "thread", "metadata"]) -> ScopeMap:
        """This map, for a kind of store that has these places.

        Raises:
            ConfigError: MG225, it names another.
        """
        for place in ("namespace", "thread", "metadata"):
            if getattr(self, place) and place not in places:
                raise _unusable(self.store, f"this kind of store has no {place}")
        return self

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What it maps."""
        every: tuple[Part, ...] = ("tenant", "user")
        return tuple(p for p in every if p in self.namespace or p in self.thread or p in self.metadata)

    # -- the principal -----------------------------------------------------------------------------

    def bound(self, principal: Principal | None) -> Scope:
        """The owner that a principal names here.

        Raises:
            ScopeError: MG222, no principal is in force or it leaves out a mapped part; MG221, what it names
                is not one owner (a thread's separator in a part of a thread id included).
        """
        if principal is None:
            raise ScopeError(
                "there is no principal, and this store belongs to somebody.",
                code="MG222",
                where=self.store,
                why="Nothing is read or written on nobody's behalf.",
                do=f"with principal({', '.join(f'{part}=…' for part in self.parts)}): …",
            )
        for part in self.parts:
            owner = getattr(principal, part)
            if owner is None:
                raise ScopeError(
                    f"the principal names no {part}.",
                    code="MG222",
                    where=self.store,
                    why="The scope map of this store has one.",
                    do=f"principal({part}=…), from the request.",
                )
            check_identity(part, owner)
            if self.thread.get(part, -1) >= 0 and SEPARATOR in owner:
                raise ScopeError(
                    f"{part} holds {SEPARATOR!r}, which separates the parts of a thread id.",
                    code="MG221",
                    where=self.store,
                    do="Map the whole thread id, or use identities without it.",
                )
        return Scope(
            principal.tenant if "tenant" in self.parts else None,
            principal.user if "user" in self.parts else None,
        )

    # -- namespaces --------------------------------------------------------------------------------

    def owns(self, scope: Scope, namespace: Sequence[str]) -> bool:
        """Whether a namespace is the owner's, segment by segment.

        Raises:
            ScopeError: MG221, it names no owner: too short, or empty, a wildcard or no text in that place.
        """
        own = True
        for part, at in self.namespace.items():
            owner = getattr(scope, part)
            if at >= len(namespace):
                raise ScopeError(
                    f"a namespace does not say which {part} it belongs to.",
                    code="MG221",
                    where=self.store,
                    why=f"The scope map reads it from segment {at}.",
                    do="Use a namespace that goes so far.",
                )
            if namespace[at] != owner or not isinstance(namespace[at], str):
                check_identity(part, namespace[at])
                own = False
        return own

    def holds(self, scope: Scope, namespace: Sequence[str]) -> bool:
        """Whether a namespace that a store returned is the owner's. Never raises."""
        return all(
            at < len(namespace) and isinstance(namespace[at], str) and namespace[at] == getattr(scope, part)
            for part, at in self.namespace.items()
        )

    def narrowed(self, scope: Scope, prefix: Sequence[str]) -> tuple[str, ...] | None:
        """The prefix of a search, down to the owner's part of the store; None if it is another owner's.

        Raises:
            ScopeError: MG223, it stops before a segment that is not an owner's and above one that is; MG221.
        """
        found = list(prefix)
        places = sorted((at, part) for part, at in self.namespace.items())
        for at, part in places:
            owner = getattr(scope, part)
            if at < len(found):
                if found[at] != owner or not isinstance(found[at], str):
                    check_identity(part, found[at])
                    return None
            elif at == len(found):
                found.append(owner)
            else:
                raise ScopeError(
                    "a search does not go so far that it could be bound to one owner.",
                    code="MG223",
                    where=self.store,
                    why=f"{part.capitalize()} is segment {at} of the namespace, the search names {len(found)}.",
                    do=f"Search in a namespace of at least {at} segments.",
                )
        return tuple(found)

    def scope_of(self, namespace: Sequence[str]) -> Scope:
        """Whose a namespace is, as it says itself."""
        found = {p: namespace[at] for p, at in self.namespace.items() if at < len(namespace)}
        return Scope(found.get("tenant"), found.get("user"))

    def scope_of_thread(self, thread: str) -> Scope:
        """Whose a thread is, so far as its id says."""
        found = {p: thread if at < 0 else self._segment(thread, at) for p, at in self.thread.items()}
        return Scope(found.get("tenant"), found.get("user"))

    # -- threads -----------------------------------------------------------------------------------

    def owns_thread(self, scope: Scope, thread: object) -> bool:
        """Whether a thread id is the owner's.

        Raises:
            ScopeError: MG221, it is missing, empty, a wildcard, or no text.
        """
        if isinstance(thread, int) and not isinstance(thread, bool):
            thread = str(thread)  # as LangGraph does
        name = check_identity("thread_id", thread)
        return all(
            name == getattr(scope, part) if at < 0 else self._segment(name, at) == getattr(scope, part)
            for part, at in self.thread.items()
        )

    @staticmethod
    def _segment(thread: str, at: int) -> str | None:
        parts = thread.split(SEPARATOR)
        return parts[at] if at < len(parts) else None

    def holds_metadata(self, scope: Scope, metadata: Mapping[str, Any]) -> bool:
        """Whether a checkpoint's metadata name the owner, exactly: text, and the same text."""
        return all(
            isinstance(metadata.get(key), str) and metadata[key] == getattr(scope, part)
            for part, key in self.metadata.items()
        )

    def says_other(self, scope: Scope, metadata: Mapping[str, Any]) -> bool:
        """Whether metadata name somebody else; what they leave out says nothing."""
        return any(
            metadata.get(key) is not None and metadata[key] != getattr(scope, part)
            for part, key in self.metadata.items()
        )


def foreign(store: str, what: str) -> ScopeError:
    """The refusal of a write that would be another owner's. The same whether or not something is there."""
    return ScopeError(
        f"{what} is not the principal's.",
        code="MG220",
        where=store,
        why="The scope map of this store gives it to another owner.",
        do="Write as its owner: principal(tenant=…, user=…) from the request, and a place that is theirs.",
    )


def _unusable(store: str, what: str) -> ConfigError:
    return ConfigError(
        f"the scope map of {store!r} cannot be used: {what}.",
        code="MG225",
        why="Nothing was guarded.",
        do='Places are "namespace.N" for stores, "thread", "thread.N" and "metadata.KEY" for checkpointers.',
    )
