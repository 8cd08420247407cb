"""Store items as claims: the translation between LangGraph's items and seals. Pure.

A context is one namespace. A group is one item key, and has one cell. The seal is the last member of
the stored value::

    {"text": "...", "memguard": {"seal": "mg1....", "label": {...}, "exp": 1764590400, "ttl": 10.0}}

``label``, ``exp`` (expiry at the time of the put, whole seconds since the epoch) and ``ttl`` (minutes) are
there only where they say something. The tag binds them and the digest of the caller's value:

``TextForm``    the store keeps JSON text (the SQLite stores): the digest is over the stored bytes in front
                of the seal, so that the JSON a filter sees is the JSON that is served.
``ObjectForm``  the store keeps objects (InMemoryStore) or gives back parsed JSON (any other): see
                :mod:`~memguard.integrations.langgraph.store_values`.

What the store sets by itself (timestamps, lifetime, vectors) is in the cell (``Claim.place``), read back
after the commit. The expiry column may move by reads, so it is held to a range instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.langgraph.store_seals import read_any
from memguard.integrations.langgraph.store_values import Forms
from memguard.integrity.canonical import canonical_json, frame
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import Seal
from memguard.integrity.verifier import Claim

FIELD = "memguard"
ITEM = b"it"
_MARK = b'"memguard":{"seal":"'
#: How far the expiry column may lie off what the clock and the lifetime say, seconds: SQLite cuts
#: its clock to whole seconds, and the guard reads its own a moment before the store does.
SLACK = 2.0
Namespace = tuple[str, ...]


@lru_cache(maxsize=65536)
def context_of(namespace: Namespace) -> str:
    """The context id of a namespace."""
    return json.dumps(["it", *namespace], ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=65536)
def namespace_of(context: str) -> Namespace:
    """The namespace of a context id."""
    return tuple(json.loads(context)[1:])


def name(namespace: Namespace, key: object) -> str:
    """How errors name an item."""
    return f"item {key!r} of {'/'.join(namespace)!r}"


class Stored(NamedTuple):
    """An item as the store shows it, undecoded and unbelieved.

    Attributes:
        value: bytes of JSON text, or the value itself.
        created, updated, ttl: timestamps and lifetime as text that also tells their storage class.
        expires: the expiry column in the same form; "NULL" for none, None where it cannot be seen.
        vectors: digest of the item's vectors; empty for none.
    """

    key: str
    value: Any
    created: str
    updated: str
    ttl: str = "NULL"
    expires: str | None = None
    vectors: bytes = b""


class Opened(NamedTuple):
    """A stored value taken apart: the caller's part, its digest, memguard's part."""

    seal: object
    content: bytes
    own: bytes
    body: Any


UNSEALED = Opened(None, bytes(32), b"", None)


class SealedValue(dict[str, Any]):
    """A value with its seal, as a store is handed it.

    Read as a mapping (``dict(value)``, which is how LangGraph's stores take what they keep) it has the
    member ``memguard``; looked into (``in``, ``items``, ``values``, ``json.dumps``, which is how
    texts to embed are found) it is the caller's value alone. So a seal is never embedded, whatever
    paths are indexed.
    """

    __slots__ = ("own",)

    def __init__(self, value: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.own = own

    def __iter__(self) -> Iterator[str]:
        yield from dict.__iter__(self)
        yield FIELD

    def keys(self) -> Any:
        """The caller's keys and ``memguard``."""
        return [*dict.keys(self), FIELD]

    def __getitem__(self, key: str) -> Any:
        return self.own if key == FIELD else dict.__getitem__(self, key)


class TextForm:
    """Values that the store keeps as the JSON text orjson makes."""

    def __init__(self, loads: Any = None) -> None:
        self._loads = loads or orjson.loads

    def kept(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The value to hand to the store (as it is: the store makes its text at once)."""
        return dict(value)

    def body(self, value: Mapping[str, Any]) -> bytes:
        """The text of a value that is about to be stored.

        Raises:
            TypeError: the value is not JSON (the store would say the same).
        """
        return orjson.dumps(value)

    def content(self, body: bytes) -> bytes:
        """Digest of a value's text."""
        return hashlib.sha256(body[:-1]).digest()

    def own(self, own: Mapping[str, Any]) -> bytes:
        """The bytes of memguard's members but the seal, as they will stand in the text."""
        return orjson.dumps(own)

    def handed(self, value: dict[str, Any], own: Mapping[str, Any]) -> SealedValue:
        """What the store is given."""
        return SealedValue(value, own)

    def expected(self, body: bytes, own: bytes, seal: Seal, text: str) -> bytes:
        """What the store must show for what it was given."""
        return self.joined(body, own, text)

    def matches(self, found: Any, expected: bytes) -> bool:
        """Whether it does."""
        return type(found) is bytes and found == expected

    def open(self, raw: Any) -> Opened:
        """Take the stored text apart without parsing it. What is of another shape carries no seal."""
        if type(raw) is not bytes:
            return UNSEALED
        at = raw.rfind(_MARK)
        end = raw.find(b'"', at + len(_MARK))
        if at < 1 or end < 0 or raw[-2:] != b"}}":
            return UNSEALED
        before, rest = raw[:at], raw[end + 1 : -1]
        if before[-1:] == b"," and len(before) > 2:
            before = before[:-1]
        elif before != b"{":
            return UNSEALED
        if rest == b"}":
            own = b"{}"
        elif rest[:1] == b",":
            own = b"{" + rest[1:]
        else:
            return UNSEALED
        seal = raw[at + len(_MARK) : end].decode("ascii", "replace")
        return Opened(seal, hashlib.sha256(before).digest(), own, before + b"}")

    def joined(self, body: bytes, own: bytes, seal: str) -> bytes:
        """The stored text of a value, of memguard's members and of a seal over both."""
        between = b"" if body == b"{}" else b","
        rest = b"" if own == b"{}" else b"," + own[1:-1]
        return body[:-1] + between + _MARK + seal.encode() + b'"' + rest + b"}}"

    def decode(self, opened: Opened) -> Any:
        """The caller's value, once it was checked."""
        return self._loads(opened.body)

    def lenient(self, raw: Any) -> tuple[Any, bytes]:
        """Value and memguard's members of whatever is stored, unchecked."""
        opened = self.open(raw)
        if opened.body is not None:
            return self._loads(opened.body), opened.own
        value = self._loads(raw)
        if isinstance(value, dict):
            value.pop(FIELD, None)
        return value, b"{}"


class ObjectForm:
    """Values that the store keeps or gives back as objects.

    Args:
        forms: how they are digested and copied.
        plain: hand the store a plain dict: it serialises what it is given by ``json.dumps``.
    """

    def __init__(self, forms: Forms, *, plain: bool) -> None:
        self._forms, self._plain = forms, plain

    def kept(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A copy whose containers nobody else can change."""
        copied: dict[str, Any] = self._forms.copied(dict(value))
        return copied

    def body(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value: it is kept as it is."""
        return value

    def content(self, value: Mapping[str, Any]) -> bytes:
        """Digest of a value."""
        return self._forms.digest(value)

    def own(self, own: Mapping[str, Any]) -> bytes:
        """The bytes of memguard's members but the seal."""
        return canonical_json(own)

    def handed(self, value: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """What the store is given."""
        return {**value, FIELD: own} if self._plain else SealedValue(value, own)

    def expected(self, body: dict[str, Any], own: bytes, seal: Seal, text: str) -> tuple[str, bytes, bytes]:
        """What the store must show for what it was given: seal, digest, memguard's members."""
        return text, seal.digest, own

    def matches(self, found: Any, expected: tuple[str, bytes, bytes]) -> bool:
        """Whether it does."""
        return self.open(found)[:3] == expected

    def open(self, raw: Any) -> Opened:
        """Take a stored value apart."""
        own = raw.get(FIELD) if isinstance(raw, Mapping) else None
        if not isinstance(own, Mapping):
            return UNSEALED
        body = {k: v for k, v in raw.items() if k != FIELD}
        try:
            mine = canonical_json({k: v for k, v in own.items() if k != "seal"})
            return Opened(own.get("seal"), self._forms.digest(body), mine, body)
        except (TypeError, ValueError, RecursionError):
            return UNSEALED

    def decode(self, opened: Opened) -> Any:
        """The caller's value, as a copy of its own."""
        return self._forms.copied(opened.body)

    def lenient(self, raw: Any) -> tuple[Any, bytes]:
        """Value and memguard's members of whatever is stored, unchecked."""
        opened = self.open(raw)
        body = opened.body if opened.body is not None else {k: v for k, v in raw.items() if k != FIELD}
        return self._forms.copied(body), opened.own or b"{}"


Form = TextForm | ObjectForm


def claim_of(namespace: Namespace, stored: Stored, form: Form, now: float) -> tuple[Claim, Opened]:
    """The claim of an item as found, and its parts. Not to be decoded before the claim was checked."""
    key, opened = stored.key, form.open(stored.value)
    if not isinstance(key, str):  # no put stores such a key
        key, opened = repr(key), UNSEALED
    record = name(namespace, key)
    seal, flaw = read_any(opened.seal, opened.content, record)
    claim = Claim(
        ITEM,
        pack_key(key),
        MAIN,
        key.encode("utf-8", "surrogatepass"),
        seal,
        (opened.own,),
        record,
        opened.content,
        place_of(stored, opened.own, now),
        flaw,
    )
    return claim, opened


def text_key(key: object) -> str:
    """The key, if it is text: SQLite would make text of a number, and no later call would find it.

    Raises:
        UnsupportedError: MG155.
    """
    if not isinstance(key, str):
        raise UnsupportedError(
            f"an item key is text, not {type(key).__name__}.",
            code="MG155",
            do="Pass str(key), on every call.",
        )
    return key


def order_of(claim: Claim) -> bytes | None:
    """What rows are ordered by: operation, then place in it. None without a seal that parses."""
    seal = claim.seal
    return seal.generation.to_bytes(8, "big") + seal.extra if isinstance(seal, Seal) else None


def disordered(record: str) -> TamperedError:
    """The error for rows that do not stand in the order in which they were written."""
    return TamperedError(
        "items of a namespace are out of order.",
        case="T4",
        record=record,
        why="Rows stand in the order in which they were written; the tags say another order.",
        do="memguard audit STORE shows it.",
    )


def members(own: bytes) -> dict[str, Any]:
    """memguard's members of a value; ``{}`` where they are not an object."""
    if own == b"{}" or not own:
        return {}
    try:
        found = orjson.loads(own)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def place_of(stored: Stored, own: bytes, now: float) -> bytes:
    """What the store set by itself, for the cell. The expiry is told off only where it cannot be right."""
    return frame(
        stored.created.encode("utf-8", "surrogatepass"),
        stored.updated.encode("utf-8", "surrogatepass"),
        stored.ttl.encode("utf-8", "surrogatepass"),
        stored.vectors,
        _odd_expiry(stored.expires, own, now),
    )


def _odd_expiry(expires: str | None, own: bytes, now: float) -> bytes:
    """Empty if the expiry column is one that a put or a read may have left there."""
    if expires is None:
        return b""
    if b'"exp"' not in own:
        return b"" if expires == "NULL" else expires.encode("utf-8", "surrogatepass")
    mine, at = members(own), epoch(expires)
    try:
        last = max(mine["exp"], now + mine["ttl"] * 60)  # a read at this moment would leave the second
        if at is not None and mine["exp"] - SLACK <= at <= last + SLACK:
            return b""
    except (KeyError, TypeError):
        pass
    return b"!" + expires.encode("utf-8", "surrogatepass")


def epoch(quoted: str) -> float | None:
    """Seconds since the epoch of a timestamp column in the form of :class:`Stored`; None if it is none."""
    try:
        moment = datetime.fromisoformat(unquoted(quoted))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def unquoted(quoted: str) -> str:
    """The text inside SQLite's ``quote``."""
    return quoted[1:-1] if quoted[:1] == "'" else quoted
