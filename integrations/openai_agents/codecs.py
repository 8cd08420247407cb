"""How a session's items stand in the store: as they are, or in the envelopes of ``EncryptedSession``. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memguard.errors import IntegrityError, TamperedError, UnknownKeyError
from memguard.integrations.openai_agents.backends import Raw, undecodable


class Opened(NamedTuple):
    """A raw item opened: a mapping with memguard's field still in it, or what is wrong.

    Attributes:
        issued: when it was encrypted, seconds since the epoch; None for plain items.
    """

    raw: Raw
    item: Mapping[str, Any] | None
    issued: int | None = None


class PlainCodec:
    """Items as they are."""

    #: Seconds after which an item is left out; None for never.
    ttl: int | None = None

    def normal(self, item: Any) -> Any:
        """The item in the form in which the store will give it back."""
        return item

    def close(self, item: Mapping[str, Any]) -> Any:
        """What is handed to the backend."""
        return dict(item)

    def open(self, session: str, raws: Sequence[Raw]) -> list[Opened]:
        """Raw items, opened."""
        found = []
        for raw in raws:
            good = isinstance(raw.item, Mapping)
            if not good and raw.flaw is None:
                raw = raw._replace(flaw=undecodable(session, raw.ref))
            found.append(Opened(raw, raw.item if good else None))
        return found


class SealedCodec:
    """The envelopes of an ``EncryptedSession``, opened with the session's own cipher.

    The session leaves out what it cannot decrypt, so a wrong key looks like an empty history there. Here each such
    envelope is a finding: of all of them at once that the key is another one, of a single one that it was damaged.
    Expiry is told apart: the time of encryption is authenticated by the envelope.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._cipher = session, session.cipher

    @property
    def ttl(self) -> int:
        """Seconds, as the session has it at this moment."""
        ttl: int = self._session.ttl
        return ttl

    def normal(self, item: Any) -> Any:
        """What the session's own JSON makes of the item: models as dictionaries, other objects as text."""
        if not isinstance(item, Mapping):
            item = item.model_dump() if hasattr(item, "model_dump") else getattr(item, "__dict__", item)
        return json.loads(json.dumps(item, default=str))

    def close(self, item: Mapping[str, Any]) -> Any:
        """The envelope that the session makes."""
        return self._session._wrap(dict(item))

    def open(self, session: str, raws: Sequence[Raw]) -> list[Opened]:
        """Raw items, opened."""
        opened = [self._opened(session, raw) for raw in raws]
        envelopes = [one for one in opened if one.issued is not None]
        if envelopes and all(one.item is None for one in envelopes):
            wrong = _wrong_key(session)
            opened = [
                one._replace(raw=one.raw._replace(flaw=wrong)) if one.issued is not None else one
                for one in opened
            ]
        return opened

    def _opened(self, session: str, raw: Raw) -> Opened:
        from cryptography.fernet import InvalidToken

        found = raw.item
        if raw.flaw is not None:
            return Opened(raw, None)
        if not _is_envelope(found):
            return Opened(raw._replace(flaw=_plain(session, raw.ref)), None)
        try:
            token = found["payload"].encode("utf-8")
            issued = int(self._cipher.extract_timestamp(token))
            item = json.loads(self._cipher.decrypt(token))
        except (InvalidToken, ValueError, AttributeError, TypeError, RecursionError):
            return Opened(raw._replace(flaw=_unreadable(session, raw.ref)), None, 0)
        if not isinstance(item, Mapping):
            return Opened(raw._replace(flaw=undecodable(session, raw.ref)), None, issued)
        return Opened(raw, item, issued)


def expired(issued: int | None, ttl: int | None) -> bool:
    """Whether an item's time is over, as Fernet counts it."""
    return issued is not None and ttl is not None and issued + ttl < int(time.time())


def _is_envelope(item: object) -> bool:
    return (
        isinstance(item, Mapping)
        and item.get("__enc__") == 1
        and all(name in item for name in ("payload", "kid", "v"))
    )


def _wrong_key(session: str) -> IntegrityError:
    return UnknownKeyError(
        "no item of the session can be decrypted with this key.",
        case="key",
        record=f"session {session!r}",
        code="MG582",
        why="The history is there and was encrypted with another key or for another session id; nothing was deleted.",
        do="Give EncryptedSession the key that the items were written with.",
    )


def _unreadable(session: str, where: object) -> IntegrityError:
    return TamperedError(
        "an item cannot be decrypted, and others of its session can.",
        case="undecodable",
        record=f"item {where} of session {session!r}",
        code="MG583",
        why="Its envelope is damaged, or was made with another key.",
        do="memguard audit STORE lists what is damaged; the bare session would leave it out without a word.",
    )


def _plain(session: str, where: object) -> IntegrityError:
    return TamperedError(
        "an item of an encrypted session is not encrypted.",
        case="undecodable",
        record=f"item {where} of session {session!r}",
        code="MG584",
        why="The session stores envelopes only, so somebody else put it there, or it is from before the encryption.",
        do="Move old history over with add_items, item by item, once you know where it is from.",
    )
