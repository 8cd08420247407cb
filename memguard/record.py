"""Values that describe a memory: who wrote it, whose it is, what it came from, what it says.

All of them are frozen and slotted: they cross threads, sit in sets and are built on the hot
path (about 2 us each). None does any I/O, and none shows content in its ``repr``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from memguard.errors import ConfigError, ScopeError

#: The kinds a :class:`Source` may have. ``unknown`` is what nobody declared.
KINDS = ("user", "assistant", "tool", "web", "document", "system", "summary", "unknown")

#: Longest source id, in characters (a URL with its query fits).
MAX_ID = 2048

# C0 and C1 controls and lone surrogates: they cannot be encoded or they rewrite a terminal.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Ordered(StrEnum):
    """A string enum whose members compare by the order in which they are declared.

    Members are equal to their word (``Trust.USER == "user"``), and a word may stand on the right
    of a comparison (``trust >= "user"``); a word that is no member raises ValueError.
    """

    rank: int

    def __new__(cls, value: str) -> Self:
        """A member ranked by the number of members before it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.rank = len(cls.__members__)
        return member

    # All four are needed: a missing one would fall back to alphabetical order, silently.
    def __lt__(self, other: str) -> bool:
        return self.rank < type(self)(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= type(self)(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > type(self)(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= type(self)(other).rank


class Trust(Ordered):
    """How far a memory may shape an action, lowest first."""

    UNTRUSTED = "untrusted"
    UNKNOWN = "unknown"
    TOOL = "tool"
    USER = "user"
    SYSTEM = "system"

    @classmethod
    def least(cls, levels: Iterable[Trust]) -> Trust | None:
        """The minimum, which is what a record derived from several is worth; None for none."""
        return min(levels, key=lambda level: level.rank, default=None)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``'Did you mean "x"?'``, or what exists, for an error's ``do``."""
    names = sorted(known)
    close = difflib.get_close_matches(str(word)[:100], names, n=1, cutoff=0.6)
    return f'Did you mean "{close[0]}"?' if close else f"Use one of {', '.join(names)}."


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory comes from: a kind and, within it, an identity.

    ``str()`` is ``kind:id`` (``web:https://shop.example``) or just the kind; :meth:`parse` reads it.

    Raises:
        ConfigError: MG141 for a kind that does not exist, MG142 for an id that cannot be one.
    """

    kind: str
    id: str = ""
    #: The source's own signature, for sources that must sign. Never printed.
    signature: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"{str(self.kind)[:40]!r} is not a kind of source",
                code="MG141",
                do=did_you_mean(self.kind, KINDS),
            )
        ident: object = self.id  # callers may not be type-checked
        if not isinstance(ident, str) or len(ident) > MAX_ID or _UNPRINTABLE.search(ident):
            raise ConfigError(
                f"the id of this {self.kind} source is not a line of at most {MAX_ID} printable characters",
                code="MG142",
                do="Give a name or a URL, without control characters.",
            )

    @classmethod
    def parse(cls, text: str, *, signature: bytes | None = None) -> Source:
        """The source written ``kind`` or ``kind:id``; the id may hold further colons."""
        if not isinstance(text, str):
            raise ConfigError(
                f"a source is a string, not {type(text).__name__}",
                code="MG141",
                do='Write it as "kind:id", for example "web:https://shop.example".',
            )
        kind, _, ident = text.partition(":")
        return cls(kind, ident, signature)

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else self.kind


UNKNOWN_SOURCE = Source("unknown")


@dataclass(frozen=True, slots=True)
class Parent:
    """One record that another was made from. ``trust`` is None until somebody has looked it up."""

    id: str
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a record was derived from; empty for a record that was written first hand."""

    parents: tuple[Parent, ...] = ()

    @classmethod
    def of(cls, *parents: str | Parent) -> Lineage:
        """Lineage of record ids or parents, duplicates dropped, order kept."""
        return cls(tuple(dict.fromkeys(p if isinstance(p, Parent) else Parent(p) for p in parents)))

    def __bool__(self) -> bool:
        return bool(self.parents)


FIRST_HAND = Lineage()


@dataclass(frozen=True, slots=True)
class Provenance:
    """A source with its lineage. ``trust`` is None while it is only declared, not judged."""

    source: Source = UNKNOWN_SOURCE
    lineage: Lineage = FIRST_HAND
    trust: Trust | None = None


#: Parents that a record takes over from what it was made of, at most.
INHERITED: Final = 32


def inherited(*made_of: Provenance, key: str = "") -> tuple[Parent, ...]:
    """The parents of what is made of records, or overwrites one: their key, their sources and their own parents.

    A key means nothing any more once its record was overwritten, moved or deleted; where that was from is still
    named by its source. Each counts at the level of the record that it is taken over from, which has the levels
    of its parents in it: nothing is raised by this, and nothing lowered that was granted to that record.
    """
    least: dict[str, Trust] = {}
    for one in made_of:
        trust = one.trust or Trust.UNKNOWN
        for ident in (str(one.source), *(parent.id for parent in one.lineage.parents)):
            least[ident] = min(trust, least.get(ident, trust))
    whole = Trust.least(least.values()) or Trust.UNKNOWN
    own = [Parent(key, whole)] if key else []
    # What is trusted least is what somebody will want to take back: it is the last to be left out.
    others = sorted(((i, t) for i, t in least.items() if i != key), key=lambda item: item[1].rank)
    return (*own, *(Parent(ident, trust) for ident, trust in others))[:INHERITED]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is. None means that the store does not say."""

    tenant: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf the program acts, and to what end (``context`` or ``act``).

    Raises:
        ScopeError: MG221 for an identity that is empty, a wildcard or not a string, or for none at all.
        ConfigError: MG143 for a purpose that does not exist.
    """

    tenant: str | None = None
    user: str | None = None
    purpose: str = "context"

    def __post_init__(self) -> None:
        if self.tenant is None and self.user is None:
            raise ScopeError("a principal names a tenant or a user", code="MG221")
        for name, value in (("tenant", self.tenant), ("user", self.user)):
            if value is not None:
                check_identity(name, value)
        if self.purpose not in ("context", "act"):
            raise ConfigError(
                f"{str(self.purpose)[:40]!r} is not a purpose",
                code="MG143",
                do=did_you_mean(self.purpose, ("context", "act")),
            )

    @property
    def scope(self) -> Scope:
        """Whose memories it may see."""
        return Scope(self.tenant, self.user)


def check_identity(name: str, value: object) -> str:
    """``value`` if it can name exactly one owner.

    Raises:
        ScopeError: MG221 for anything that is not a string, is blank, holds a wildcard or controls.
    """
    if not isinstance(value, str):
        why = f"it is {type(value).__name__}, not a string"
    elif not value.strip():
        why = "it is empty"
    elif "*" in value or value.strip() == "%":
        why = "it is a wildcard"
    elif _UNPRINTABLE.search(value):
        why = "it holds control characters"
    else:
        return value
    raise ScopeError(
        f"{name} does not name one owner: {why}",
        code="MG221",
        do=f"Pass the {name} of the request, or leave the argument out.",
    )


@dataclass(frozen=True, slots=True)
class Validity:
    """When a memory holds, in seconds since the epoch; None is open. The end is exclusive."""

    since: float | None = None
    until: float | None = None

    def at(self, moment: float) -> bool:
        """Whether it holds at that moment."""
        return (self.since is None or self.since <= moment) and (self.until is None or moment < self.until)


@dataclass(frozen=True, slots=True)
class Record:
    """One memory on its way through the chain.

    ``content`` is its text (see :func:`text_of` for values that are not). ``trust`` is the level of
    its stored label on a read and None on a write. ``data`` is what a stage hands its guards, such as
    ``claims``: labels found inside the payload, which nobody has to believe.
    """

    content: str = field(repr=False)
    store: str = ""
    key: str = ""
    source: Source = UNKNOWN_SOURCE
    lineage: Lineage = FIRST_HAND
    scope: Scope = Scope()
    validity: Validity = Validity()
    trust: Trust | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False, hash=False)

    @property
    def provenance(self) -> Provenance:
        """Source, lineage and trust together."""
        return Provenance(self.source, self.lineage, self.trust)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the agent wants to call, with its arguments; the act stage judges it."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, repr=False, hash=False)


def text_of(value: object, *, max_items: int = 10_000, max_chars: int | None = None) -> str:
    """The text inside a value, for the guards: strings, keys and scalars, one per line, in order.

    Never raises and never recurses: nesting costs memory, not stack. It stops after ``max_items``
    nodes or once ``max_chars`` is passed. Bytes are read as UTF-8 where they are UTF-8.
    """
    if isinstance(value, str):
        return value
    lines: list[str] = []
    stack: list[object] = [value]
    seen = size = 0
    while stack and seen < max_items and (max_chars is None or size <= max_chars):
        node = stack.pop()
        seen += 1
        if isinstance(node, str):
            lines.append(node)
        elif isinstance(node, Mapping):
            pairs = [part for pair in _first(node.items(), max_items) for part in pair]
            stack.extend(reversed(pairs))
            continue
        elif isinstance(node, (list, tuple, set, frozenset)):
            stack.extend(reversed(_first(node, max_items)))
            continue
        elif isinstance(node, (bytes, bytearray)):
            lines.append(bytes(node).decode("utf-8", "replace"))
        elif isinstance(node, (int, float)) and not isinstance(node, bool):
            lines.append(repr(node) if -1e300 < node < 1e300 else "number")
        else:
            # Objects of frameworks (messages, models) keep their text in one of these.
            inner = getattr(node, "content", None)
            if isinstance(inner, (str, list, tuple, dict)):
                stack.append(inner)
            continue
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def _first(items: Iterable[Any], count: int) -> list[Any]:
    return [item for item, _ in zip(items, range(count), strict=False)]
