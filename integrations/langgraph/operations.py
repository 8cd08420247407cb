"""What a guarded checkpointer does, written once for sync and async savers.

Translation only: configs to contexts, rows to claims. What is true is decided in
``memguard.integrity``, what may be written by the engine's write chain. Here are the operations on
whole threads; single checkpoints are read in ``saver_reads`` and written in ``saver_writes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointTuple,
    get_checkpoint_id,
)

from memguard.custody import Change, Pair
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.saver_base import place_of
from memguard.integrations.langgraph.saver_writes import Writes
from memguard.integrity.index import newest, pack_key, split
from memguard.integrity.verifier import Context


class Operations(Writes):
    """All operations of one guarded saver."""

    def delete_thread(self, thread_id: str) -> Operation[None]:
        """Delete every namespace of a thread; the heads stay, and count none."""
        thread = str(thread_id)

        def names() -> Operation[Sequence[str]]:
            return list((yield from self._thread(thread)))

        def perform() -> Operation[None]:
            yield from self._change("delete_thread", thread)

        yield from self.custody.operate(names, _delete_all, perform)

    def prune(self, thread_ids: Sequence[str], strategy: str) -> Operation[None]:
        """Let the saver prune; what is left must be what was there, and hold every newest checkpoint."""

        def names() -> Operation[Sequence[str]]:
            found: dict[str, None] = {}
            for thread in thread_ids:
                found.update((yield from self._thread(str(thread))))
            return list(found)

        def perform() -> Operation[None]:
            yield from self._change("prune", thread_ids, strategy=strategy)

        def candidates(context: Context, group: bytes, _found: Any) -> bool:
            return strategy == "delete" or group != context.head.latest

        yield from self._shrink(names, perform, candidates, "prune")

    def delete_for_runs(self, run_ids: Sequence[str]) -> Operation[None]:
        """Let the saver delete by run; only checkpoints of those runs may go."""
        runs = {str(r) for r in run_ids}
        of_run: dict[tuple[str, bytes], bool] = {}

        def names() -> Operation[Sequence[str]]:
            for item in (yield from self._fetch_list(None, None, None, None)):
                metadata = rows.plain(item.metadata)
                place = (
                    rows.context_of(*place_of(item.config)),
                    pack_key(str(get_checkpoint_id(item.config))),
                )
                of_run[place] = str(metadata.get("run_id")) in runs
            there = yield from self._scan.contexts(None)
            return list(dict.fromkeys([*self.custody.known(), *there]))

        def perform() -> Operation[None]:
            yield from self._change("delete_for_runs", run_ids)

        def candidates(context: Context, group: bytes, _found: Any) -> bool:
            return of_run.get((context.id, group), False)

        yield from self._shrink(names, perform, candidates, "prune")

    def _shrink(
        self,
        names: Callable[[], Operation[Sequence[str]]],
        perform: Callable[[], Operation[None]],
        may_go: Callable[[Context, bytes, Any], bool],
        operation: str,
    ) -> Operation[None]:
        """An operation in which the saver decides which of some groups go."""

        def prepare(contexts: list[Context]) -> list[Change]:
            changes = []
            for context in contexts:
                groups = [g for g in context.index.groups if may_go(context, g, None)]
                pairs = [(g, c) for g in groups for c in split(context.index.groups[g])]
                changes.append(Change(operation, candidates=pairs))
            return changes

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            done = []
            for context, change in zip(contexts, changes, strict=True):
                left = {(r.group, r.cell) for r in map(context.check, (yield from self._scan.rows(context)))}
                allowed = set(change.candidates)
                gone = [pair for pair in context.index.items() if pair not in left]
                if any(pair not in allowed for pair in gone) or len(left) + len(gone) != context.index.cells:
                    raise UnsupportedError(
                        "the saver removed or added records that this operation does not cover.",
                        code="MG146",
                        where=context.id,
                        do="memguard audit STORE shows what is left.",
                    )
                horizon = newest({g for g, _ in gone})
                done.append(replace(change, removes=gone, horizon=horizon))
            return done

        yield from self.custody.operate(names, prepare, perform, settle)

    def copy_thread(self, source: str, target: str) -> Operation[None]:
        """Copy every checkpoint and pending write of a thread, oldest first, sealed for the new place."""
        for name in list((yield from self._thread(str(source)))):
            _, namespace = rows.thread_of(name)
            config: RunnableConfig = {"configurable": {"thread_id": source, "checkpoint_ns": namespace}}
            found = yield from self.list(config, None, None, None)
            for item in sorted(found, key=lambda f: str(get_checkpoint_id(f.config))):
                parent = (item.parent_config or {}).get("configurable", {}).get("checkpoint_id")
                place = {"thread_id": target, "checkpoint_ns": namespace}
                above = {"checkpoint_id": parent} if parent else {}
                put_config: RunnableConfig = {"configurable": {**place, **above}}
                versions = item.checkpoint.get("channel_versions", {})
                yield from self.put(put_config, item.checkpoint, item.metadata, versions)
                yield from self._copy_writes(name, item, place)

    def _copy_writes(self, name: str, item: CheckpointTuple, place: dict[str, Any]) -> Operation[None]:
        """A batch is laid out again so that each write gets the order key it had."""
        key = str(get_checkpoint_id(item.config))
        config: RunnableConfig = {"configurable": {**place, "checkpoint_id": key}}
        raw = yield Call(self._method("get_tuple"), item.config)
        batches: dict[tuple[str, str], dict[int, tuple[str, Any]]] = {}
        for (task, channel, value), (_, _, stored) in zip(
            item.pending_writes or (), raw.pending_writes or (), strict=True
        ):
            _, (path, _, index) = rows.write_claim(key, task, channel, stored.kind, name)
            batches.setdefault((task, path), {})[index] = (channel, value)
        for (task, path), found in batches.items():
            special = [found[index] for index in sorted(found) if index < 0]
            batch: list[tuple[str, Any]] = []
            for index in range(max(found) + 1):
                if index not in found and not special:
                    raise UnsupportedError("pending writes of a task have a gap.", code="MG146", where=name)
                batch.append(found[index] if index in found else special.pop(0))
            for writes in (batch, special):
                if writes:
                    yield from self.put_writes(config, writes, task, path)

    # -- the other way -----------------------------------------------------------------------

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """Complete an announced delete after a crash."""
        if removes is not None:
            raise UnsupportedError("a partial delete of checkpoints cannot be completed.", code="MG146")
        yield Call(self._scan.clear, context)

    def scan(self, context: Context) -> Operation[Any]:
        """Every row of the context, for custody."""
        return (yield from self._scan.rows(context))


def _delete_all(contexts: list[Context]) -> list[Change]:
    return [
        Change("delete", horizon=newest(context.index.groups)) if context.index.cells else Change("none")
        for context in contexts
    ]
