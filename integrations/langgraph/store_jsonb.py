"""How a value in a ``jsonb`` column carries its seal, and what of it the seal covers. Pure.

PostgreSQL does not keep the JSON text that it is given: it orders members by the length of their names, keeps the
last of members of one name, and writes numbers as decimals without an exponent. So the seal, which must be made
before the value is stored, covers the text that the column *will* show (``value::text``), which is computed here
and looked at again after the commit. That text, and not the number that a program makes of it, is what filters and
orders in the database see: ``1.0`` and ``1.00`` are two values.

A value that such a column cannot hold as it is (no number of JSON, the character NUL, half a character) is refused
before anything is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.store_forms import UNSEALED, Opened, SealedValue
from memguard.integrations.langgraph.store_values import endless
from memguard.integrity.tag import Seal

_encode = json.JSONEncoder(ensure_ascii=False).encode


class Split(NamedTuple):
    """A stored value as the database takes it apart; None for a part that is not there or not of the right shape.

    Attributes:
        body: text of the value without memguard's member; None if it is not an object.
        seal: text of the seal.
        own: text of memguard's other members.
    """

    body: str | None
    seal: str | None
    own: str | None


class _Unlike(Exception):
    """A number that Python and PostgreSQL write in two ways."""


def jsonb_text(value: Any, dumps: Callable[[Any], str | bytes] = json.dumps) -> str:
    """The text that a ``jsonb`` column shows for a value that is handed over as ``dumps`` writes it.

    Raises:
        UnsupportedError: MG510, the column cannot hold it; MG145, it has no end.
        TypeError: it is not JSON (the store would say the same).
    """
    try:
        return _text(value, dumps)
    except RecursionError:
        raise endless() from None
    except UnicodeEncodeError:
        raise _unfit("half a character (a lone surrogate)") from None
    except ValueError as error:
        if "Circular" in str(error):
            raise endless() from None
        raise _unfit("a number of more digits than Python writes") from None


def _text(value: Any, dumps: Callable[[Any], str | bytes]) -> str:
    own = dumps is json.dumps
    try:
        # Through its text, so that keys are text and the last of two members of one name is the one that stays.
        said = json.loads(dumps(value), parse_constant=_no_number, parse_float=None if own else Decimal)
        if not own:
            raise _Unlike
        text = _encode(_ordered(said))
    except _Unlike:
        text = _written(said)
    text.encode()
    if "\\u0000" in text and _has_nul(said):
        raise _unfit("the character NUL")
    return text


def _no_number(name: str) -> Any:
    raise _unfit(f"{name}, which is no number of JSON,")


def _names(found: dict[str, Any]) -> list[str]:
    """The names of an object's members in the order of the column: by length in bytes, then by bytes."""
    if all(map(str.isascii, found)):
        return sorted(found, key=lambda name: (len(name), name))
    return sorted(found, key=lambda name: (len(name.encode()), name.encode()))


def _ordered(value: Any) -> Any:
    """The value with all members in the order of the column."""
    kind = type(value)
    if kind is dict:
        names = _names(value) if len(value) > 1 else value
        return {name: _ordered(value[name]) for name in names}
    if kind is list:
        return [_ordered(one) for one in value]
    if kind is float and ("e" in (written := repr(value)) or written == "-0.0"):
        raise _Unlike
    return value


def _written(value: Any) -> str:
    """The column's text of a value whose numbers need care."""
    if isinstance(value, dict):
        inner = ", ".join([f"{encode_basestring(name)}: {_written(value[name])}" for name in _names(value)])
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join([_written(one) for one in value])}]"
    if isinstance(value, float | Decimal):
        number = value if isinstance(value, Decimal) else Decimal(repr(value))
        return format(number.copy_abs() if number.is_zero() else number, "f")
    return _encode(value)


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in name or _has_nul(one) for name, one in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _unfit(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"a value holds {what} and cannot be stored as jsonb.",
        code="MG510",
        why="PostgreSQL would refuse it or keep something else. Nothing was stored.",
        do="Leave it out, or store it as text that can be written down.",
    )


class JsonbForm:
    """Values that PostgreSQL keeps as ``jsonb``.

    Args:
        deserializer: the store's own, for what the connection's loader makes no dict of.
    """

    def __init__(self, deserializer: Callable[[Any], Any] | None = None) -> None:
        self._deserializer = deserializer
        self._dumps: Callable[[Any], str | bytes] = json.dumps
        self._loads: Callable[[str], Any] = json.loads

    def learn(self, dumps: Callable[[Any], str | bytes], loads: Callable[[str], Any]) -> None:
        """Write and read JSON as the store's connection was told to."""
        self._dumps, self._loads = dumps, loads

    def kept(self, value: dict[str, Any]) -> dict[str, Any]:
        """The value to hand to the store (as it is: the store makes its text at once)."""
        return value

    def body(self, value: Mapping[str, Any]) -> str:
        """The column's text of a value that is about to be stored; raises what :func:`jsonb_text` raises."""
        return jsonb_text(value, self._dumps)

    def content(self, body: str) -> bytes:
        """Digest of a value's text."""
        return hashlib.sha256(body.encode()).digest()

    def own(self, own: Mapping[str, Any]) -> bytes:
        """The bytes of memguard's members but the seal, as the column will show them."""
        return jsonb_text(own).encode() if own else b"{}"

    def handed(self, value: dict[str, Any], own: Mapping[str, Any]) -> SealedValue:
        """What the store is given."""
        return SealedValue(value, own)

    def expected(self, body: str, own: bytes, seal: Seal, text: str) -> Split:
        """What the store must show for what it was given."""
        return Split(body, text, own.decode())

    def matches(self, found: Any, expected: Split) -> bool:
        """Whether it does."""
        return isinstance(found, Split) and found == expected

    def open(self, raw: Any) -> Opened:
        """What the column showed. What is of another shape carries no seal."""
        if not isinstance(raw, Split) or raw.body is None or raw.own is None:
            return UNSEALED
        return Opened(raw.seal, self.content(raw.body), raw.own.encode(), raw.body)

    def decode(self, opened: Opened) -> Any:
        """The caller's value, once it was checked."""
        return self._loaded(opened.body)

    def lenient(self, raw: Any) -> tuple[Any, bytes]:
        """Value and memguard's members of whatever is stored, unchecked."""
        return self._loaded(raw.body or "{}"), (raw.own or "{}").encode()

    def _loaded(self, text: str) -> Any:
        value = self._loads(text)
        if not isinstance(value, dict) and self._deserializer is not None:
            return self._deserializer(value)
        return value
