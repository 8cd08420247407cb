"""Where the items of a session lie: any session through its own methods. The shipped ones have modules of their own.

A backend answers with raw items, undecrypted and unbelieved, and says nothing about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from memguard.collection import Stored
from memguard.effects import Call, Operation
from memguard.errors import IntegrityError, TamperedError, UnsupportedError
from memguard.integrity.canonical import canonical_json, frame

#: More items than a session has, for a call that must not be cut by the session's own default limit.
EVERY = 2**31 - 1
#: Keywords that a method of the guarded session was given and hands on (``wrapper`` of sessions that take one).
passed: ContextVar[Mapping[str, Any]] = ContextVar("memguard.openai_agents.passed", default={})  # noqa: B039


class Raw(NamedTuple):
    """An item as it lies in the session.

    Attributes:
        ref: how the backend finds it again.
        item: what the session holds, parsed; None where it does not parse.
        place: what the store set by itself, and the exact bytes where they can be seen.
        flaw: what is wrong with it as it stands.
    """

    ref: Any
    item: Any
    place: bytes
    flaw: IntegrityError | None = None


class Backend(Protocol):
    """What the table asks; every method an operation."""

    #: Its methods are coroutines.
    is_async: bool
    #: It orders by something that is not in its rows' places, so that the order itself has to be checked.
    ordered: bool
    #: It sees every session of its database, not only its own.
    reaches: bool

    def contexts(self) -> Operation[Sequence[str]]:
        """Ids of the sessions that have items."""
        ...

    def rows(self, session: str) -> Operation[list[Raw]]:
        """Every item of a session, oldest first."""
        ...

    def recent(self, session: str, count: int) -> Operation[list[Raw]]:
        """The newest items, oldest of them first; those just stored are among them."""
        ...

    def commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> Operation[None]:
        """Delete the items of these refs and append others; ``left`` older ones stay."""
        ...

    def rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> Operation[None]:
        """Put other items in the place of those of these refs, for ``adopt``."""
        ...


def undecodable(session: str, where: object) -> TamperedError:
    """The flaw of an item that is no item any more."""
    return TamperedError(
        "an item of a session cannot be read.",
        case="undecodable",
        record=f"item {where} of session {session!r}",
        why="The session wrote a JSON object there, and what lies there now is none.",
        do="memguard audit STORE lists what is damaged; the bare session would leave it out without a word.",
    )


class GeneralBackend:
    """Any session through the methods of the protocol: items can be appended, taken from the end, or cleared."""

    is_async, ordered, reaches = True, True, False

    def __init__(self, session: Any) -> None:
        self.session = session

    def ask(self, *limit: int | None) -> Operation[list[Any]]:
        """The session's own answer."""
        found = yield Call(self.session.get_items, *limit, **passed.get())
        return list(found)

    def contexts(self) -> Operation[Sequence[str]]:
        found = yield from self.recent(self.session.session_id, 1)
        return [self.session.session_id] if found else []

    def rows(self, session: str) -> Operation[list[Raw]]:
        if session != self.session.session_id:
            return []
        settings = getattr(self.session, "session_settings", None)
        limit = [] if getattr(settings, "limit", None) is None else [EVERY]
        return (yield from self._asked(*limit))

    def recent(self, session: str, count: int) -> Operation[list[Raw]]:
        return (yield from self._asked(count)) if session == self.session.session_id else []

    def _asked(self, *limit: int) -> Operation[list[Raw]]:
        try:
            return self._raws((yield from self.ask(*limit)))
        except (ValueError, RecursionError) as error:  # what its own decoding says of bytes that are no item
            raise undecodable(self.session.session_id, "?") from error

    def _raws(self, items: Sequence[Any]) -> list[Raw]:
        return [self._raw(at, item) for at, item in enumerate(items)]

    def _raw(self, at: int, item: Any) -> Raw:
        try:
            return Raw(at, item, frame(hashlib.sha256(canonical_json(item)).digest()))
        except (TypeError, ValueError, RecursionError):
            return Raw(at, None, b"", undecodable(self.session.session_id, at))

    def commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> Operation[None]:
        if gone and not left:
            yield Call(self.session.clear_session, **passed.get())
        elif gone and sorted(gone)[0] == left:
            for _ in gone:
                yield Call(self.session.pop_item, **passed.get())
        elif gone:
            raise UnsupportedError(
                f"{type(self.session).__name__} deletes its newest item or everything, and nothing in between.",
                code="MG581",
                do="Take items from the end, clear the session, or use a session on SQLite or SQLAlchemy.",
            )
        if items:
            yield Call(self.session.add_items, list(items), **passed.get())

    def rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> Operation[None]:
        there = yield from self.rows(session)
        new = dict(items)
        yield Call(self.session.clear_session)
        yield Call(self.session.add_items, [new.get(raw.ref, raw.item) for raw in there])


def synthetic(at: int) -> str:
    """The key of an item that was there before the guard: it sorts before every key that the guard gives."""
    return f"{1:012d}-{at:06d}"


def stored_as(key: str, content: bytes, seal: object, own: bytes, raw: Raw, value: Any) -> Stored:
    """A raw item that was opened, as the collection takes it."""
    return Stored(key, content, seal, own, raw.place, value, raw.flaw)
