"""LangGraph's own kit over PostgreSQL: a guarded saver passes exactly what the saver it wraps passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import EXTENDED_CAPABILITIES, DetectedCapabilities
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

BASE_TESTS = 58


async def report_of(way: str, new_scene: Any, guarded: bool) -> Any:
    scene = new_scene()

    @checkpointer_test(name=way)
    async def make() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        async with scene.abare(way=way) as inner:
            yield scene.guard().guard(inner, name="checkpoints") if guarded else inner

    return await validate(make)


def lines(report: Any) -> dict[str, tuple[Any, ...]]:
    return {
        name: (r.detected, r.passed, r.tests_passed, r.tests_failed, r.tests_skipped)
        for name, r in report.results.items()
    }


@pytest.mark.parametrize("way", ["connection", "pipeline", "pool"])
async def test_the_report_of_the_guarded_saver_equals_the_inner_one(way: str, new_scene: Any) -> None:
    bare = await report_of(way, new_scene, guarded=False)
    guarded = await report_of(way, new_scene, guarded=True)
    assert lines(guarded) == lines(bare), {n: r.failures for n, r in guarded.results.items()}
    assert bare.passed_all_base()
    assert bare.results["prune"].detected
    assert bare.results["prune"].passed


async def test_the_sync_saver_gains_async_twins_and_passes_every_base_test(new_scene: Any) -> None:
    scene = new_scene()

    @checkpointer_test(name="sync")
    async def make() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        yield scene.saver(way="pool")

    report = await validate(make)
    assert report.passed_all_base(), {n: r.failures for n, r in report.results.items()}
    assert sum(r.tests_passed for r in report.results.values() if r.detected) >= BASE_TESTS


async def test_capabilities_are_detected_on_the_type_exactly(scene: Any) -> None:
    async with scene.abare() as inner:
        guarded = scene.guard().guard(inner, name="checkpoints")
        bare, shown = (DetectedCapabilities.from_instance(s).detected for s in (inner, guarded))
        assert shown & EXTENDED_CAPABILITIES == bare & EXTENDED_CAPABILITIES
        assert isinstance(guarded, AsyncPostgresSaver)
        assert guarded.conn is inner.conn
    sync = scene.saver()
    assert isinstance(sync, PostgresSaver)
    assert sync.inner.conn is sync.conn
    with pytest.raises(AttributeError, match="inner"):
        _ = sync._cursor
