"""Any session of the OpenAI Agents SDK, guarded: the same methods, every item sealed and every read checked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from memguard.effects import Operation, drive, shielded
from memguard.integrations.face import Face
from memguard.integrations.loops import driven
from memguard.integrations.openai_agents.backends import passed
from memguard.integrations.openai_agents.operations import SessionOperations

#: Attributes of wrapped sessions that the SDK and users reach. None of them reads or writes items.
REACHABLE = (
    "db_path",
    "sessions_table",
    "messages_table",
    "engine",
    "close",
    "ping",
    "ttl",
    "max_scan_items",
    "_ignore_ids_for_matching",
    "store_run_usage",
    "get_session_usage",
    "get_turn_usage",
)


class GuardedSession(Face):
    """A session whose history cannot be changed behind its back.

    Attributes:
        inner: the wrapped session, unchanged and unguarded.
        expired: how many items the last read left out because their time is over (encrypted sessions only).

    Raises (from every method): IntegrityError if what the session holds is not what was written; RejectedError
    from ``add_items`` of an item that a guard refused; ScopeError where a scope map gives the session to another
    principal.
    """

    reachable = REACHABLE

    def __init__(self, inner: Any, operations: SessionOperations) -> None:
        self.inner, self._ops = inner, operations
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def session_id(self) -> str:
        """The wrapped session's."""
        ident: str = self.inner.session_id
        return ident

    @property
    def session_settings(self) -> Any:
        """The wrapped session's; may be set."""
        return getattr(self.inner, "session_settings", None)

    @session_settings.setter
    def session_settings(self, value: Any) -> None:
        self.inner.session_settings = value

    @property
    def expired(self) -> int:
        """See the class."""
        return self._ops.expired

    # -- faces -------------------------------------------------------------------------------

    def _run(self, operation: Operation[Any]) -> Any:
        """Drive from synchronous code: audits, adoption and the like."""
        if not self._ops.table.backend.is_async:
            return drive(operation)
        return driven(operation, self._loop, self.inner)

    async def _arun(self, operation: Operation[Any], **passing: Any) -> Any:
        """Drive to the end even if the caller is cancelled."""
        self._loop = asyncio.get_running_loop()
        token = passed.set({name: value for name, value in passing.items() if value is not None})
        try:
            return await shielded(operation)
        finally:
            passed.reset(token)

    # -- the protocol ------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest ``limit`` items (default: the session's setting, else all), oldest first, checked."""
        found: list[Any] = await self._arun(self._ops.get(limit))
        return found

    async def add_items(self, items: list[Any]) -> None:
        """Append items, screened and sealed, as one operation."""
        await self._arun(self._ops.add(items))

    async def pop_item(self) -> Any:
        """Take the newest item; None if there is none. Nothing is deleted where a check fails."""
        return await self._arun(self._ops.pop())

    async def clear_session(self) -> None:
        """Delete every item. Nothing is deleted where a check fails."""
        await self._arun(self._ops.clear())


class ContextSession(GuardedSession):
    """A guarded session whose methods take the run's context, because the wrapped session's do."""

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """See :meth:`GuardedSession.get_items`."""
        found: list[Any] = await self._arun(self._ops.get(limit), wrapper=wrapper)
        return found

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """See :meth:`GuardedSession.add_items`."""
        await self._arun(self._ops.add(items), wrapper=wrapper)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """See :meth:`GuardedSession.pop_item`."""
        return await self._arun(self._ops.pop(), wrapper=wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """See :meth:`GuardedSession.clear_session`."""
        await self._arun(self._ops.clear(), wrapper=wrapper)


# -- what compaction looks up on the session that it wraps ---------------------------------------


async def _snapshot(self: GuardedSession, limit: int, *, prune_prefix: Any = None) -> Any:
    """The newest items and an atomic replacement of a tail of them, for automatic compaction."""
    from agents.memory.session import _CompactionSnapshot

    items, complete, replace = await self._arun(self._ops.snapshot(limit))

    async def replace_suffix(start: int, output: list[Any]) -> bool:
        done: bool = await self._arun(replace(start, output))
        return done

    return _CompactionSnapshot(items, complete, replace_suffix)


async def _atomic(self: GuardedSession, items: list[Any]) -> bool:
    """The whole history replaced in one operation, for compaction that was asked for."""
    await self._arun(self._ops.replace(items))
    return True


async def _visible(self: GuardedSession, limit: int | None, *, wrapper: Any = None) -> tuple[list[Any], bool]:
    """What compaction may send, asked anew each time because items expire; and whether that is everything."""
    items = await self._arun(self._ops.get(), wrapper=wrapper)
    if limit is None:
        return items, False
    return (items, True) if len(items) < limit else ([], False)


_types: dict[tuple[type, bool], type[GuardedSession]] = {}


def guarded_type(inner: type, *, whole: bool, encrypted: bool) -> type[GuardedSession]:
    """The guarded class for a session type.

    Args:
        whole: the backend replaces a tail of the history in one transaction.
        encrypted: items expire.
    """
    made = _types.get((inner, whole))
    if made is None:
        base = ContextSession if _takes_context(inner) else GuardedSession
        body: dict[str, Any] = {"__doc__": GuardedSession.__doc__, "__module__": __name__}
        if whole:
            body["_get_compaction_snapshot"], body["_atomic_replace_items"] = _snapshot, _atomic
        if encrypted:
            body["_read_compaction_items"] = _visible
        made = _types[inner, whole] = type(f"Guarded{inner.__name__}", (base,), body)
    return made


def _takes_context(inner: type) -> bool:
    """Whether every method of a session class takes ``wrapper``, as the SDK asks it."""
    methods: list[Callable[..., Awaitable[Any]] | None] = [
        getattr(inner, name, None) for name in ("get_items", "add_items", "pop_item", "clear_session")
    ]
    try:
        found = [inspect.signature(method).parameters for method in methods if method is not None]
    except (TypeError, ValueError):
        return False
    return len(found) == len(methods) and all("wrapper" in parameters for parameters in found)
