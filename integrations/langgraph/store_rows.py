"""Store items as claims: the translation between LangGraph's items and seals. Pure.

A context is one namespace. A group is one item key, and has one cell. How a value carries its seal is in
:mod:`~memguard.integrations.langgraph.store_forms`, how the seal is spelled in
:mod:`~memguard.integrations.langgraph.store_seals`.

What the store sets by itself (timestamps, lifetime, vectors) is in the cell (``Claim.place``), read back
after the commit. The expiry column may move by reads, so it is held to a range instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.langgraph.rows import spelled
from memguard.integrations.langgraph.store_forms import UNSEALED, Form, Opened
from memguard.integrations.langgraph.store_seals import read_any
from memguard.integrity.canonical import frame
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import Seal
from memguard.integrity.verifier import Claim

ITEM = b"it"
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
    return spelled(key, "an item key")


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
        _odd_expiry(stored.expires, stored.ttl, own, now),
    )


def lasts(stored: Stored, own: Mapping[str, Any], now: float) -> bool:
    """Whether a row that was just written expires as it was asked to."""
    if stored.expires is None:
        return True  # it cannot be seen
    if "exp" not in own:
        return stored.expires == stored.ttl == "NULL"
    try:
        near = abs(float(stored.ttl) - own["ttl"]) <= 0.5  # PostgreSQL rounds to whole minutes
    except ValueError:
        return False
    return near and not _odd_expiry(stored.expires, stored.ttl, json.dumps(own).encode(), now)


def _odd_expiry(expires: str | None, ttl: str, own: bytes, now: float) -> bytes:
    """Empty if the expiry column is one that a put or a read may have left there."""
    if expires is None:
        return b""
    if b'"exp"' not in own:
        return b"" if expires == "NULL" else expires.encode("utf-8", "surrogatepass")
    mine, at = members(own), epoch(expires)
    try:
        # A read leaves its own moment and the column's lifetime, which PostgreSQL rounds to whole minutes.
        minutes = mine["ttl"] if ttl == "NULL" else float(ttl)  # the column itself is bound beside this
        first = mine["exp"] - max(0.0, mine["ttl"] - minutes) * 60
        last = max(mine["exp"], now + minutes * 60)
        if at is not None and first - SLACK <= at <= last + SLACK:
            return b""
    except (KeyError, TypeError, ValueError):
        pass
    return b"!" + expires.encode("utf-8", "surrogatepass")


def epoch(quoted: str) -> float | None:
    """Seconds since the epoch of a timestamp column in the form of :class:`Stored`; None if it is none."""
    try:
        moment = datetime.fromisoformat(unquoted(quoted))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def told(value: object) -> str:
    """A column's value as text that also tells its storage class: text in quotes, ``NULL``, a number, ``X'6162'``."""
    if type(value) is str:
        return f"'{value}'"
    if value is None:
        return "NULL"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else repr(value)


def unquoted(quoted: str) -> str:
    """The text that :func:`told` told."""
    return quoted[1:-1] if quoted[:1] == "'" else quoted
