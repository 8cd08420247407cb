"""Any LangGraph store, guarded: the same methods, with every item sealed and every read checked.

``get``, ``put``, ``search``, ``delete`` and ``list_namespaces`` and their async twins all come down to
``batch`` and ``abatch``; those two are what is guarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from langgraph.store.base import BaseStore, Op, Result, TTLConfig

from memguard.effects import Operation, adrive, drive, shielded
from memguard.errors import UnsupportedError
from memguard.integrations.face import Face
from memguard.integrations.langgraph.store_operations import StoreOperations

#: Attributes of wrapped stores that frameworks and users reach.
REACHABLE = ("conn", "embeddings", "index_config", "lock", "loop", "is_setup", "pipe", "supports_pipeline")


class GuardedStore(Face, BaseStore):
    """A store whose items cannot be changed behind its back.

    Attributes:
        inner: the wrapped store, unchanged and unguarded.

    Raises (from every method): IntegrityError if what the store holds is not what was written;
    RejectedError (and QuarantinedError where so configured) from a put that a guard refused;
    UnsupportedError from a sync call that an async-only store cannot serve, and for filters that
    memguard does not let through.
    """

    inner: BaseStore
    reachable = REACHABLE

    def __init__(self, inner: BaseStore, operations: StoreOperations) -> None:
        self.inner = inner
        self._ops = operations

    @property
    def supports_ttl(self) -> bool:  # type: ignore[override]
        """Whether items can expire. (AsyncSqliteStore's own attribute denies it by an accident of inheritance;
        its ``aput`` does not ask.)"""
        return self.inner.supports_ttl or self._ops.table.expiring

    @property
    def ttl_config(self) -> TTLConfig | None:  # type: ignore[override]
        """The wrapped store's."""
        return self.inner.ttl_config

    # -- faces -------------------------------------------------------------------------------

    def _run(self, operation: Operation[Any]) -> Any:
        """Drive from synchronous code."""
        if not self._ops.is_async:
            return drive(operation)
        loop = getattr(self.inner, "loop", None) or getattr(self.inner, "_loop", None)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if loop is None or running is loop or not loop.is_running():
            operation.close()
            raise UnsupportedError(
                f"a synchronous call reached {type(self.inner).__name__}, which lives in this event loop.",
                code="MG131",
                why="It would wait for a loop that is waiting for it.",
                do="Use the async methods (await store.aget(...)), or call from another thread.",
            )
        return asyncio.run_coroutine_threadsafe(adrive(operation), loop).result()

    async def _arun(self, operation: Operation[Any]) -> Any:
        """Drive from asynchronous code, to its end even if the caller is cancelled: a batch may write."""
        if self._ops.native:
            return await shielded(operation)
        return await asyncio.to_thread(drive, operation)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Any mixture of operations; results in their order."""
        found: list[Result] = self._run(self._ops.batch(ops))
        return found

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async :meth:`batch`."""
        found: list[Result] = await self._arun(self._ops.batch(ops))
        return found

    def setup(self) -> Any:
        """The wrapped store's, if it has one (an awaitable where that is async)."""
        make = getattr(self.inner, "setup", None)
        return make() if make is not None else None


# -- what only some stores have ------------------------------------------------------------------


def _sweep(self: GuardedStore) -> int:
    """Delete what has expired, as an operation that the head counts. Returns how many items went."""
    swept: int = self._run(self._ops.sweep())
    return swept


async def _asweep(self: GuardedStore) -> int:
    """Delete what has expired, as an operation that the head counts. Returns how many items went."""
    swept: int = await self._arun(self._ops.sweep())
    return swept


def _start(self: GuardedStore, sweep_interval_minutes: int | None = None) -> Any:
    """The wrapped store's own loop, over the guarded sweep."""
    return self._ops.table.store.start_ttl_sweeper(sweep_interval_minutes)


def _stop(self: GuardedStore, timeout: float | None = None) -> Any:
    """Stop the loop that :meth:`start_ttl_sweeper` started."""
    return self._ops.table.store.stop_ttl_sweeper(timeout)


async def _aenter(self: GuardedStore) -> GuardedStore:
    """Enter the wrapped store; the guarded one is what the block gets."""
    await self.inner.__aenter__()  # type: ignore[attr-defined]
    return self


async def _aexit(self: GuardedStore, *details: Any) -> Any:
    """Stop a guarded sweeper, and leave the wrapped store."""
    await self._ops.table.store.__aexit__(*details)
    return await self.inner.__aexit__(*details)  # type: ignore[attr-defined]


_types: dict[type, type[GuardedStore]] = {}


def guarded_type(inner: type, *, sweeps: bool, is_async: bool) -> type[GuardedStore]:
    """The guarded class for a store type: with a sweeper and a context where it has them."""
    made = _types.get(inner)
    if made is None:
        body: dict[str, Any] = {"__doc__": GuardedStore.__doc__, "__module__": __name__}
        if sweeps:
            body["sweep_ttl"] = _asweep if is_async else _sweep
            body["start_ttl_sweeper"], body["stop_ttl_sweeper"] = _start, _stop
        if hasattr(inner, "__aenter__"):
            body["__aenter__"], body["__aexit__"] = _aenter, _aexit
        made = _types[inner] = type(f"Guarded{inner.__name__}", (GuardedStore,), body)
    return made
