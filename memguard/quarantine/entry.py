"""One withheld write: what may be seen of it, and the record as it was, as bytes to be sealed.

What may be seen is metadata that holds no text of the memory: the record's own key and the namespace or thread
may be chosen by whoever writes, so they are sealed too and stand outside as keyed digests.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memguard.errors import TamperedError
from memguard.integrity.canonical import frame
from memguard.ports import KeyRing
from memguard.record import FIRST_HAND, Lineage, Parent, Source, Trust, text_of

#: States of an entry. ``purged`` has no content any more.
WAITING, RELEASED, DROPPED, PURGED = "waiting", "released", "dropped", "purged"
#: Bytes of a keyed digest that are kept.
DIGEST = 16
#: Nesting and nodes of a value that is kept as it is; a larger one is kept as its text and cannot be released.
MAX_DEPTH, MAX_NODES = 200, 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What may be seen of one withheld write without the review key.

    Attributes:
        id: short and stable, ``q-0043``.
        store: name of the guarded store.
        context: pseudonym of its namespace or thread, ``c-`` and 8 hex digits; the same for the same one.
        code, rule, guard: reason code, the rule's own sentence, and the guard that said so.
        source, trust: where it was declared to come from, and what that is worth.
        score: of the decision, in [0, 1].
        time: when it was withheld, seconds since the epoch.
        state: waiting, released, dropped or purged; ``changed`` is when, ``by`` who and ``note`` why.
        times: how often the very same write was withheld.
        like: how many entries say the same text, this one included.
        size: bytes of the sealed content; 0 once purged.
        withdrawn: when a release was last undone; 0 for never. Deletions before it are no tombstones of the entry.
    """

    id: str
    store: str
    context: str
    code: str
    rule: str
    guard: str
    source: str
    trust: Trust
    score: float
    time: float
    state: str = WAITING
    changed: float = 0.0
    by: str = ""
    note: str = ""
    times: int = 1
    like: int = 1
    size: int = 0
    withdrawn: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "id": self.id,
            "store": self.store,
            "context": self.context,
            "code": self.code,
            "rule": self.rule,
            "guard": self.guard,
            "source": self.source,
            "trust": str(self.trust),
            "score": self.score,
            "time": self.time,
            "state": self.state,
            "changed": self.changed,
            "by": self.by,
            "note": self.note,
            "times": self.times,
            "like": self.like,
            "size": self.size,
        }


@dataclass(frozen=True, slots=True)
class Kept:
    """The record as it was: what the review key opens.

    Attributes:
        value: the caller's value.
        exact: whether ``value`` is what was written; False where JSON could not hold a part of it, which then
            stands as its ``repr`` and cannot be released.
        context, key: its place in the store.
        lineage: what it was declared to be derived from.
        ttl: minutes to live that the write asked for; ``index`` its index argument (None, False or paths).
        decision: the decision in plain values, evidence included.
    """

    value: Any = field(repr=False)
    exact: bool
    context: str
    key: str
    source: Source
    trust: Trust
    lineage: Lineage = FIRST_HAND
    ttl: float | None = None
    index: Any = None
    decision: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """JSON, ASCII: a lone surrogate is spelled out and comes back as one."""
        values = {
            "value": self.value,
            "exact": self.exact,
            "context": self.context,
            "key": self.key,
            "source": str(self.source),
            "trust": str(self.trust),
            "parents": [[p.id, None if p.trust is None else str(p.trust)] for p in self.lineage.parents],
            "ttl": self.ttl,
            "index": self.index,
            "decision": dict(self.decision),
        }
        return json.dumps(values, default=repr).encode("ascii")

    @classmethod
    def decode(cls, plain: bytes, record: str) -> Kept:
        """What :meth:`encode` wrote.

        Raises:
            TamperedError: MG344, it is not of this form: whoever knows the public half can seal anything.
        """
        try:
            values = json.loads(plain)
            parents = (
                Parent(str(ident), None if trust is None else Trust(trust))
                for ident, trust in values["parents"]
            )
            return cls(
                values["value"],
                bool(values["exact"]),
                str(values["context"]),
                str(values["key"]),
                Source.parse(values["source"]),
                Trust(values["trust"]),
                Lineage(tuple(parents)),
                values["ttl"],
                values["index"],
                values["decision"],
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            raise TamperedError(
                "a quarantined entry does not hold a record.",
                case="state",
                code="MG344",
                record=record,
                why="It opens, and what is in it is not of the form that is sealed.",
            ) from None


def is_exact(value: Any) -> bool:
    """Whether JSON gives back what was written: strings, numbers, booleans, None, lists, objects with string keys.

    (Tuples come back as lists, as they do from the stores.) Nesting costs memory, not stack; a value that holds
    itself is not exact.
    """
    stack, above = [(value, 0)], 0
    while stack:
        node, depth = stack.pop()
        above += 1
        if depth > MAX_DEPTH or above > MAX_NODES:
            return False
        if isinstance(node, Mapping):
            if not all(isinstance(key, str) for key in node):
                return False
            stack.extend((item, depth + 1) for item in node.values())
        elif isinstance(node, (list, tuple)):
            stack.extend((item, depth + 1) for item in node)
        elif node is not None and not isinstance(node, (str, int, float, bool)):
            return False
    return True


class Digests(NamedTuple):
    """What an entry can be found by: keyed digests under one key, in hex."""

    place: str
    like: str
    content: tuple[str, ...]
    body: str


class Indexer:
    """Keyed digests of places and texts: they find an entry, and tell nothing to who has no key.

    Whoever holds the agent's key can test a guess, and only whole strings are indexed: an index of pieces
    would let such a reader put a text together piece by piece, which is what the sealing is for.
    """

    def __init__(self, keys: KeyRing, limit: int) -> None:
        self._keys, self._limit = keys, limit

    def of(self, store: str, kept: Kept, body: bytes) -> Digests:
        """The digests of a record under the current key."""
        strings = dict.fromkeys([text_of(kept.value), *_strings(kept.value)])
        chosen = [text for text, _ in zip(strings, range(self._limit), strict=False)]
        return Digests(
            self.place(store, kept.context, kept.key),
            self.like(text_of(kept.value)),
            tuple(self.content(text) for text in chosen),
            self._digest("body", body, None),
        )

    def place(self, store: str, context: str, key: str, kid: str | None = None) -> str:
        """Of a record's place."""
        return self._digest("place", frame(*(_utf8(part) for part in (store, context, key))), kid)

    def pseudonym(self, store: str, context: str) -> str:
        """A short name for a namespace or thread."""
        return "c-" + self._digest("context", frame(_utf8(store), _utf8(context)), None)[:8]

    def content(self, text: str, kid: str | None = None) -> str:
        """Of one exact string."""
        return self._digest("content", _utf8(text), kid)

    def like(self, text: str, kid: str | None = None) -> str:
        """Of a text but for case, width and spacing."""
        plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        return self._digest("like", _utf8(plain), kid)

    def every(self, text: str) -> set[str]:
        """What a text may be indexed as, under every key of the ring."""
        found = {self.content(text, kid) for kid in self._keys.ids}
        return found | {self.like(text, kid) for kid in self._keys.ids}

    def places(self, store: str, context: str, key: str) -> set[str]:
        """A place under every key of the ring."""
        return {self.place(store, context, key, kid) for kid in self._keys.ids}

    def _digest(self, what: str, data: bytes, kid: str | None) -> str:
        key = self._keys.subkey("quarantine-index", kid)
        return hmac.digest(key, frame(b"memguard/index/1", what.encode(), data), "sha256")[:DIGEST].hex()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _strings(value: Any) -> Iterable[str]:
    """Strings inside a value that JSON can hold, without recursion, in order."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if node.strip():
                yield node
        elif isinstance(node, Mapping):
            stack.extend(reversed(list(node.values())))
        elif isinstance(node, (list, tuple)):
            stack.extend(reversed(node))
