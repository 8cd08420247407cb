"""Any LangGraph checkpointer, guarded: the same methods, with every row sealed and every read checked.

The operations are written once, as generators (:class:`Operations`); the faces below drive them
with the wrapped saver's own sync or async methods. A saver that has only one side gains the
other. Which optional methods a guarded saver has is decided by the wrapped type alone:
LangGraph looks for them on the type (:func:`guarded_type`).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from memguard.effects import Operation, adrive, drive, shielded
from memguard.errors import UnsupportedError
from memguard.integrations.face import Face
from memguard.integrations.langgraph.operations import Operations
from memguard.integrations.langgraph.pages import Pages

#: Attributes of wrapped savers that frameworks and users reach.
REACHABLE = (
    "conn",
    "db",
    "client",
    "loop",
    "lock",
    "is_setup",
    "jsonplus_serde",
    "storage",
    "writes",
    "blobs",
    "pipe",
)


class GuardedSaver(Face, BaseCheckpointSaver[Any]):
    """A checkpointer whose memory cannot be changed behind its back.

    Attributes:
        inner: the wrapped saver, unchanged and unguarded.

    Raises (from every method): IntegrityError if what the store holds is not what was written;
    ForgottenError from a write that names a deleted checkpoint; UnsupportedError from a sync
    call that an async-only saver cannot serve.
    """

    inner: BaseCheckpointSaver[Any]
    reachable = REACHABLE

    def __init__(self, inner: BaseCheckpointSaver[Any], operations: Operations) -> None:
        self.inner = inner
        self._ops = operations
        self.serde = inner.serde

    def __copy__(self) -> GuardedSaver:
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        return clone

    @property
    def config_specs(self) -> list[Any]:
        """The wrapped saver's."""
        return self.inner.config_specs

    def get_next_version(self, current: Any, channel: Any) -> Any:
        """The wrapped saver's: versions are its own."""
        return self.inner.get_next_version(current, channel)

    def setup(self) -> Any:
        """The wrapped saver's, if it has one (an awaitable where that is async)."""
        make = getattr(self.inner, "setup", None)
        return make() if make is not None else None

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[Any]:
        """A guarded clone whose serializer admits these types besides."""
        inner = self.inner.with_allowlist(extra_allowlist)
        if inner is self.inner:
            return self
        clone = copy.copy(self)
        clone.inner, clone.serde = inner, inner.serde
        clone._ops = self._ops.with_serde(inner)
        return clone

    # -- faces -------------------------------------------------------------------------------

    def _run(self, operation: Operation[Any]) -> Any:
        """Drive from synchronous code."""
        if not self._ops.is_async:
            return drive(operation)
        loop = getattr(self.inner, "loop", None)
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
                do="Use the async methods (await graph.ainvoke(...)), or call from another thread.",
            )
        return asyncio.run_coroutine_threadsafe(adrive(operation), loop).result()

    async def _arun(self, operation: Operation[Any], *, writes: bool = False) -> Any:
        """Drive from asynchronous code. A write runs to its end even if the caller is cancelled."""
        if self._ops.is_async:
            return await (shielded(operation) if writes else adrive(operation))
        if self._ops.inline:
            return drive(operation)
        return await asyncio.to_thread(drive, operation)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint the config names, or the newest of its thread; None if there is none."""
        found: CheckpointTuple | None = self._run(self._ops.get_tuple(config))
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async :meth:`get_tuple`."""
        found: CheckpointTuple | None = await self._arun(self._ops.get_tuple(config))
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints newest first, each checked, none left out; read in pages, so that a long
        history costs no more memory than the caller keeps."""
        pages = Pages(self._ops, config, filter, before, limit)
        while pages.more:
            yield from pages.take(self._run(pages.next()))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async :meth:`list`."""
        pages = Pages(self._ops, config, filter, before, limit)
        while pages.more:
            for found in pages.take(await self._arun(pages.next())):
                yield found

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Store a checkpoint with its seal."""
        stored: RunnableConfig = self._run(self._ops.put(config, checkpoint, metadata, new_versions))
        return stored

    async def aput(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """Async :meth:`put`."""
        operation = self._ops.put(config, checkpoint, metadata, new_versions)
        stored: RunnableConfig = await self._arun(operation, writes=True)
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store pending writes with their seals."""
        self._run(self._ops.put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async :meth:`put_writes`."""
        await self._arun(self._ops.put_writes(config, writes, task_id, task_path), writes=True)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread in every namespace. Rows of it that come back are a RollbackError."""
        self._run(self._ops.delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Async :meth:`delete_thread`."""
        await self._arun(self._ops.delete_thread(thread_id), writes=True)


# -- optional methods: present exactly where the wrapped type has them ---------------------------


def _prune(self: GuardedSaver, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
    """Prune threads as the wrapped saver does; what it keeps must be what was there."""
    self._run(self._ops.prune(thread_ids, strategy))


async def _aprune(self: GuardedSaver, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
    """Async ``prune``."""
    await self._arun(self._ops.prune(thread_ids, strategy), writes=True)


def _delete_for_runs(self: GuardedSaver, run_ids: Sequence[str]) -> None:
    """Delete the checkpoints of runs as the wrapped saver does; nothing else may go."""
    self._run(self._ops.delete_for_runs(run_ids))


async def _adelete_for_runs(self: GuardedSaver, run_ids: Sequence[str]) -> None:
    """Async ``delete_for_runs``."""
    await self._arun(self._ops.delete_for_runs(run_ids), writes=True)


def _copy_thread(self: GuardedSaver, source_thread_id: str, target_thread_id: str) -> None:
    """Copy a thread, row by row, each sealed anew for its new place."""
    self._run(self._ops.copy_thread(source_thread_id, target_thread_id))


async def _acopy_thread(self: GuardedSaver, source_thread_id: str, target_thread_id: str) -> None:
    """Async ``copy_thread``."""
    await self._arun(self._ops.copy_thread(source_thread_id, target_thread_id), writes=True)


_OPTIONAL = {
    "prune": (_prune, _aprune),
    "delete_for_runs": (_delete_for_runs, _adelete_for_runs),
    "copy_thread": (_copy_thread, _acopy_thread),
}
_types: dict[type, type[GuardedSaver]] = {}


def guarded_type(inner: type) -> type[GuardedSaver]:
    """The guarded class for a saver type: with both sides of each optional method it has a side of."""
    made = _types.get(inner)
    if made is None:
        body: dict[str, Any] = {"__doc__": GuardedSaver.__doc__, "__module__": __name__}
        for method, (plain, twin) in _OPTIONAL.items():
            sides = (method, f"a{method}")
            if any(getattr(inner, s, None) is not getattr(BaseCheckpointSaver, s, None) for s in sides):
                body[method], body[f"a{method}"] = plain, twin
        made = _types[inner] = type(f"Guarded{inner.__name__}", (GuardedSaver,), body)
    return made
