"""How a stored value carries its seal, and what of it the seal covers. Pure.

The seal is in the last member of the stored value::

    {"text": "...", "memguard": {"seal": "mg1....", "label": {...}, "exp": 1764590400, "ttl": 10.0}}

``label``, ``exp`` (expiry at the time of the put, whole seconds since the epoch) and ``ttl`` (minutes) are
there only where they say something. The tag binds them and the digest of the caller's value:

``TextForm``    the store keeps JSON text (the SQLite stores): the digest is over the stored bytes in front
                of the seal, so that the JSON a filter sees is the JSON that is served.
``JsonbForm``   the store keeps ``jsonb`` (the PostgreSQL stores): see
                :mod:`~memguard.integrations.langgraph.store_jsonb`.
``ObjectForm``  the store keeps objects (InMemoryStore) or gives back parsed JSON (any other): see
                :mod:`~memguard.integrations.langgraph.store_values`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from memguard.integrations.langgraph.store_values import Forms, endless
from memguard.integrity.canonical import canonical_json
from memguard.integrity.tag import Seal

FIELD = "memguard"
_MARK = b'"memguard":{"seal":"'


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

    def kept(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value to hand to the store (as it is: the store makes its text at once)."""
        return value

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
        return orjson.dumps(own) if own else b"{}"

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

    def kept(self, value: dict[str, Any]) -> dict[str, Any]:
        """A copy whose containers nobody else can change."""
        try:
            copied: dict[str, Any] = self._forms.copied(value)
        except RecursionError:
            raise endless() from None
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


class Form(Protocol):
    """How a kind of store's values carry their seals; see :class:`TextForm`."""

    def kept(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value to hand to the store."""
        ...

    def body(self, value: dict[str, Any]) -> Any:
        """What of a value about to be stored is digested."""
        ...

    def content(self, body: Any) -> bytes:
        """Its digest."""
        ...

    def own(self, own: Mapping[str, Any]) -> bytes:
        """The bytes of memguard's members but the seal, as they will be stored."""
        ...

    def handed(self, value: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """What the store is given."""
        ...

    def expected(self, body: Any, own: bytes, seal: Seal, text: str) -> Any:
        """What the store must show for what it was given."""
        ...

    def matches(self, found: Any, expected: Any) -> bool:
        """Whether it does."""
        ...

    def open(self, raw: Any) -> Opened:
        """Take what is stored apart, without believing it."""
        ...

    def decode(self, opened: Opened) -> Any:
        """The caller's value, once it was checked."""
        ...

    def lenient(self, raw: Any) -> tuple[Any, bytes]:
        """Value and memguard's members of whatever is stored, unchecked."""
        ...
