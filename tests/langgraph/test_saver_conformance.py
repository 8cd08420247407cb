"""LangGraph's own kit: a guarded saver has exactly the capabilities of what it wraps, and passes what that passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import EXTENDED_CAPABILITIES, DetectedCapabilities
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

BASE_TESTS = 58


class FullSaver(AsyncSqliteSaver):
    """Every optional method, in plain SQL over the tables of AsyncSqliteSaver."""

    async def _run(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        await self.setup()
        async with self.lock:
            for sql, values in statements:
                await self.conn.execute(sql, values)
            await self.conn.commit()

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        copied = []
        for table, columns in (
            ("checkpoints", "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"),
            ("writes", "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"),
        ):
            sql = f"INSERT INTO {table} (thread_id, {columns}) SELECT ?, {columns} FROM {table} WHERE thread_id = ?"
            copied.append((sql, (target_thread_id, source_thread_id)))
        await self._run(*copied)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        newest = (
            "(SELECT max(checkpoint_id) FROM checkpoints c "
            "WHERE c.thread_id = {0}.thread_id AND c.checkpoint_ns = {0}.checkpoint_ns)"
        )
        for thread in thread_ids:
            await self._run(
                *(
                    (
                        f"DELETE FROM {table} WHERE thread_id = ?"
                        + (
                            f" AND checkpoint_id <> {newest.format(table)}"
                            if strategy == "keep_latest"
                            else ""
                        ),
                        (thread,),
                    )
                    for table in ("writes", "checkpoints")
                )
            )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        for run in run_ids:
            is_of = "WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
            of_run = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {is_of}"
            await self._run(
                (f"DELETE FROM writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ({of_run})", (run,)),
                (
                    "DELETE FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?",
                    (run,),
                ),
            )


class ShrinkingSaver(InMemorySaver):
    """InMemorySaver with two optional methods.

    It copies no thread: the kit's copies give one channel version two values, and InMemorySaver
    then shows the later one in the earlier checkpoint, which a guard must not serve.
    """

    def _drop(self, thread: str, namespace: str, key: str) -> None:
        del self.storage[thread][namespace][key]
        self.writes.pop((thread, namespace, key), None)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            for namespace, found in list(self.storage[thread].items()):
                kept = max(found, default=None) if strategy == "keep_latest" else None
                for key in [key for key in found if key != kept]:
                    self._drop(thread, namespace, key)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread, namespaces in list(self.storage.items()):
            for namespace, found in list(namespaces.items()):
                for key, (_, metadata, _) in list(found.items()):
                    if self._run_of(metadata) in run_ids:
                        self._drop(thread, namespace, key)

    def _run_of(self, metadata: tuple[str, bytes]) -> Any:
        return self.serde.loads_typed(metadata).get("run_id")


@asynccontextmanager
async def opened(kind: str, scene: Any) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    if kind in ("async-sqlite", "full"):
        made = {"async-sqlite": AsyncSqliteSaver, "full": FullSaver}[kind]
        async with made.from_conn_string(str(scene.db)) as saver:
            yield saver
    elif kind == "sqlite":
        yield scene.bare()
    else:
        yield {"memory": InMemorySaver, "shrinking": ShrinkingSaver}[kind]()


async def report_of(kind: str, new_scene: Any, guarded: bool) -> Any:
    @checkpointer_test(name=kind)
    async def make() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        scene = new_scene()
        async with opened(kind, scene) as inner:
            yield scene.guard().guard(inner, name="checkpoints") if guarded else inner
        scene.close()

    return await validate(make)


def lines(report: Any) -> dict[str, tuple[Any, ...]]:
    return {
        name: (r.detected, r.passed, r.tests_passed, r.tests_failed, r.tests_skipped)
        for name, r in report.results.items()
    }


@pytest.mark.parametrize("kind", ["async-sqlite", "memory", "full", "shrinking"])
async def test_the_report_of_the_guarded_saver_equals_the_inner_one(kind: str, new_scene: Any) -> None:
    bare = await report_of(kind, new_scene, guarded=False)
    guarded = await report_of(kind, new_scene, guarded=True)
    assert lines(guarded) == lines(bare), {n: r.failures for n, r in guarded.results.items()}
    assert bare.passed_all_base()
    assert all(r.passed is not False for r in bare.results.values())


async def test_a_sync_saver_gains_async_twins_and_passes_every_base_test(new_scene: Any) -> None:
    bare = await report_of("sqlite", new_scene, guarded=False)
    guarded = await report_of("sqlite", new_scene, guarded=True)
    assert not bare.passed_all_base()  # the control: SqliteSaver alone has no async side
    assert guarded.passed_all_base(), {n: r.failures for n, r in guarded.results.items()}
    assert sum(r.tests_passed for r in guarded.results.values()) == BASE_TESTS


@pytest.mark.parametrize("kind", ["sqlite", "async-sqlite", "memory", "full", "shrinking"])
async def test_capabilities_are_detected_on_the_type_exactly(kind: str, scene: Any) -> None:
    async with opened(kind, scene) as inner:
        guarded = scene.guard().guard(inner, name="checkpoints")
        bare, shown = (DetectedCapabilities.from_instance(s).detected for s in (inner, guarded))
        assert shown & EXTENDED_CAPABILITIES == bare & EXTENDED_CAPABILITIES
        assert shown >= bare
        for method in ("prune", "copy_thread", "delete_for_runs"):
            has = any(
                getattr(type(inner), side) is not getattr(BaseCheckpointSaver, side)
                for side in (method, f"a{method}")
            )
            for side in (method, f"a{method}"):
                there = getattr(type(guarded), side) is not getattr(BaseCheckpointSaver, side)
                assert there == has, side


async def test_it_is_the_wrapped_type_to_isinstance_and_lets_it_out_again(scene: Any) -> None:
    from memguard import unwrap

    inner = scene.bare()
    guarded = scene.guard().guard(inner, name="checkpoints")
    assert isinstance(guarded, SqliteSaver)
    assert isinstance(guarded, BaseCheckpointSaver)
    assert unwrap(guarded) is inner
    assert guarded.inner is inner
    assert guarded.conn is inner.conn  # reachable by an explicit list
    with pytest.raises(AttributeError, match="inner"):
        _ = guarded.cursor  # not on the list: it would write past the guard
