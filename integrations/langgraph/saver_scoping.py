"""A guarded checkpointer bound to the principal: other owners' threads are not there, and not written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, get_checkpoint_metadata

from memguard.binding import Binding
from memguard.effects import Operation
from memguard.errors import ScopeError
from memguard.integrations.langgraph.pages import Pages
from memguard.record import Scope
from memguard.scopes import foreign


class ScopedSaver:
    """The operations of a guarded saver, bound to the principal. Everything else is the wrapped operations'.

    Where metadata say whose a checkpoint is, a thread belongs to whoever its newest checkpoint names.
    """

    #: A list is read in one piece: what is left out must not look like its end.
    pageable = False

    def __init__(self, inner: Any, bound: Binding) -> None:
        self._inner, self._bound = inner, bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def with_serde(self, saver: Any) -> ScopedSaver:
        """The same over a clone of the saver with another serializer."""
        return ScopedSaver(self._inner.with_serde(saver), self._bound)

    # -- reads -------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> Operation[CheckpointTuple | None]:
        """The checkpoint, if it is the principal's; else the answer of a missing one."""
        scope = self._bound.scope("read")
        if scope is not None and not self._reads(scope, config):
            return None
        found: CheckpointTuple | None = yield from self._inner.get_tuple(config)
        return found if found is None or scope is None or self._shows(scope, found) else None

    def list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Operation[Sequence[CheckpointTuple]]:
        """The principal's own checkpoints, newest first."""
        scope = self._bound.scope("read")
        if scope is None:
            every: Sequence[CheckpointTuple] = yield from self._inner.list(config, filter, before, limit)
            return every
        self._bound.check_filter(filter)
        scopes = self._bound.map
        if config is not None and not self._reads(scope, config):
            return []
        if self._enforced:
            owners = {key: getattr(scope, part) for part, key in scopes.metadata.items()}
            for key, owner in owners.items():
                if key in (filter or {}) and (filter or {})[key] != owner:
                    return []
            filter = {**(filter or {}), **owners} if owners else filter
            if config is None and -1 in scopes.thread.values():
                part = next(part for part, at in scopes.thread.items() if at < 0)
                config = {"configurable": {"thread_id": getattr(scope, part)}}
        if limit is not None and limit <= 0:
            return []
        pages, own = Pages(self._inner, config, filter, before, None), list[CheckpointTuple]()
        while pages.more:
            for found in pages.take((yield from pages.next())):
                if self._shows(scope, found):
                    own.append(found)
                    if len(own) == limit:
                        return own
        return own

    # -- writes ------------------------------------------------------------------------------------

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        """Store a checkpoint of the principal's own thread.

        Raises:
            ScopeError: the thread is another owner's, or the metadata do not name the principal.
        """
        scope = self._bound.scope("write")
        if scope is not None:
            said: Mapping[str, Any] = get_checkpoint_metadata(config, metadata)
            yield from self._writes(scope, config, said)
        answer: RunnableConfig = yield from self._inner.put(config, checkpoint, metadata, new_versions)
        return answer

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Operation[None]:
        """Store pending writes of the principal's own thread.

        Raises:
            ScopeError: the thread is another owner's.
        """
        scope = self._bound.scope("write")
        if scope is not None:
            yield from self._writes(scope, config, None)
        yield from self._inner.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> Operation[None]:
        """Delete the principal's own thread; another owner's is not there."""
        scope = self._bound.scope("write")
        if scope is None or (yield from self._has(scope, thread_id)):
            yield from self._inner.delete_thread(thread_id)

    def prune(self, thread_ids: Sequence[str], strategy: str) -> Operation[None]:
        """Prune the principal's own threads among these."""
        scope = self._bound.scope("write")
        own = []
        for thread in thread_ids:
            if scope is None or (yield from self._has(scope, thread)):
                own.append(thread)
        yield from self._inner.prune(own, strategy)

    def delete_for_runs(self, run_ids: Sequence[str]) -> Operation[None]:
        """Refused: a run id names no owner.

        Raises:
            ScopeError: MG223.
        """
        self._bound.refused(
            "write",
            ScopeError(
                "deleting by run cannot be bound to one owner.",
                code="MG223",
                where=self._bound.map.store,
                do="Delete threads, or do this on a guarded saver without a scope map.",
            ),
        )
        yield from self._inner.delete_for_runs(run_ids)

    def copy_thread(self, source: str, target: str) -> Operation[None]:
        """Copy the principal's own thread to another of theirs; another owner's is not there.

        Raises:
            ScopeError: the target is another owner's.
        """
        scope = self._bound.scope("write")
        if scope is not None:
            yield from self._writes(scope, {"configurable": {"thread_id": target}}, None)
            if not (yield from self._has(scope, source)):
                return
        yield from self._inner.copy_thread(source, target)

    # -- whose -------------------------------------------------------------------------------------

    @property
    def _enforced(self) -> bool:
        return self._bound._stages["read"]

    def _reads(self, scope: Scope, config: RunnableConfig) -> bool:
        """Whether a thread that is asked for may be the principal's, so far as its id tells."""
        return self._names(scope, _thread(config), "read")

    def _names(self, scope: Scope, thread: object, stage: Any) -> bool:
        try:
            own = self._bound.map.owns_thread(scope, thread)
        except ScopeError as error:
            self._bound.refused(stage, error)
            return True
        return own or not self._bound.hidden(stage, "a thread of another owner was named")

    def _shows(self, scope: Scope, found: CheckpointTuple) -> bool:
        """Whether a checkpoint that the saver returned is the principal's, whatever was asked."""
        scopes, thread = self._bound.map, _thread(found.config)
        own = isinstance(thread, str) and scopes.holds_metadata(scope, found.metadata)
        try:
            own = own and scopes.owns_thread(scope, thread)
        except ScopeError:
            own = False
        return own or not self._bound.hidden("read", "a saver returned another owner's checkpoint")

    def _has(self, scope: Scope, thread: object) -> Operation[bool]:
        """Whether a thread is the principal's, or nobody's."""
        if not self._names(scope, thread, "write"):
            return False
        return (yield from self._free(scope, str(thread))) or not self._bound.hidden(
            "write", "a thread of another owner was named"
        )

    def _writes(
        self, scope: Scope, config: RunnableConfig, metadata: Mapping[str, Any] | None
    ) -> Operation[None]:
        scopes, thread = self._bound.map, _thread(config)
        try:
            if not scopes.owns_thread(scope, thread):
                raise foreign(scopes.store, "the thread of a write")
            if metadata is not None and not scopes.holds_metadata(scope, metadata):
                raise foreign(scopes.store, "the owner in the metadata of a write")
            if scopes.says_other(scope, config.get("configurable", {})):
                raise foreign(scopes.store, "the owner in the config of a write")
            if not (yield from self._free(scope, str(thread))):
                raise foreign(scopes.store, "the thread of a write")
        except ScopeError as error:
            self._bound.refused("write", error)

    def _free(self, scope: Scope, thread: str) -> Operation[bool]:
        """Whether no checkpoint of the thread names another owner; only asked where metadata say whose it is."""
        if not self._bound.map.metadata:
            return True
        place: RunnableConfig = {"configurable": {"thread_id": thread}}
        newest: Sequence[CheckpointTuple] = yield from self._inner.list(place, None, None, 1)
        return all(self._bound.map.holds_metadata(scope, found.metadata) for found in newest)


def _thread(config: RunnableConfig) -> object:
    return config.get("configurable", {}).get("thread_id")
