"""Audit, adoption, repair, accepting and taking back over PostgreSQL; the tables are LangGraph's before and after."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint

from memguard import ForgottenError, IntegrityError, TamperedError


def place(thread: str, checkpoint: str | None = None) -> Any:
    configurable = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


def key(number: int) -> str:
    return f"1f000000-0000-6000-8000-{number:012x}"


def put(saver: Any, thread: str, number: int, messages: list[Any], parent: int | None = None) -> None:
    checkpoint: Any = empty_checkpoint()
    version = f"{number:032}.0.{number:016}"
    checkpoint.update({"v": 4, "id": key(number), "ts": f"2026-01-0{number}T00:00:00+00:00"})
    checkpoint.update({"channel_values": {"messages": messages, "plain": number}})
    checkpoint.update({"channel_versions": {"messages": version, "plain": version}})
    config = place(thread, key(parent) if parent else None)
    metadata: Any = {"source": "loop", "step": number, "parents": {}, "owner": thread, "score": 1e16}
    saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
    saver.put_writes(
        place(thread, key(number)), [("messages", [f"w{number}"]), ("plain", number)], "task", "~p"
    )


def fill(saver: Any, thread: str = "t", count: int = 3) -> None:
    for number in range(1, count + 1):
        put(saver, thread, number, [f"said {n}" for n in range(number)], number - 1 or None)


def layout(scene: Any) -> Any:
    return scene.sql(
        "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY 1, ordinal_position"
    )


def seen(saver: Any) -> list[str]:
    return sorted(repr(item) for item in saver.list(None))


def test_no_table_is_altered_and_no_row_added(scene: Any, new_scene: Any) -> None:
    bare_scene = new_scene()
    fill(bare_scene.bare())
    fill(scene.saver())
    assert layout(scene) == layout(bare_scene)
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"):
        counted = f"SELECT count(*) FROM {table}"
        assert scene.sql(counted) == bare_scene.sql(counted)
    # Values are stored byte for byte as the bare saver stores them, and the frame is the same: it can be taken off.
    values = "SELECT channel, version, type, blob FROM checkpoint_blobs ORDER BY 1, 2"
    frames = "SELECT checkpoint, metadata - 'memguard' FROM checkpoints ORDER BY checkpoint_id"
    for query in (values, frames):
        assert scene.sql(query) == bare_scene.sql(query)
    scene.sql("UPDATE checkpoint_writes SET type = split_part(type, '|', 1)")
    scene.sql("UPDATE checkpoints SET metadata = metadata - 'memguard'")
    assert seen(scene.bare()) == seen(bare_scene.bare())


def test_data_from_before_the_guard_are_adopted_once(scene: Any) -> None:
    bare = scene.bare()
    fill(bare)
    put(bare, "legacy", 1, ["x"])
    before = seen(bare)
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    with pytest.raises(TamperedError):
        saver.get_tuple(place("t"))
    plan = mg.adopt(saver)
    assert (plan.applied, sum(line["records"] for line in plan.actions)) == (False, 12)
    with pytest.raises(TamperedError):
        saver.get_tuple(place("t"))
    assert mg.adopt(saver, apply=True).applied
    assert seen(saver) == before
    assert mg.audit(saver).clean
    put(saver, "t", 4, ["more"], 3)
    scene.close()
    again = scene.saver()
    assert len(seen(again)) == len(before) + 1
    scene.sql("UPDATE checkpoint_blobs SET blob = set_byte(blob, 2, 90) WHERE thread_id = 'legacy'")
    with pytest.raises(TamperedError):
        again.get_tuple(place("legacy"))


EDITS = {
    "value": ("UPDATE checkpoint_blobs SET blob = set_byte(blob, 4, 88) WHERE right(version, 1) = '2'", {"T1"}),
    "frame": ("UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,plain}', '9') "
              f"WHERE checkpoint_id = '{key(2)}'", {"T1"}),
    "parent": (f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = '{key(2)}'", {"T4"}),
    "deleted": (f"DELETE FROM checkpoints WHERE checkpoint_id = '{key(2)}'", {"T2", "T3"}),
    "write": (f"UPDATE checkpoint_writes SET blob = '\\x93' WHERE checkpoint_id = '{key(2)}' AND idx = 0", {"T1"}),
    "stripped": ("UPDATE checkpoints SET metadata = metadata - 'memguard' "
                 f"WHERE checkpoint_id = '{key(2)}'", {"untagged"}),
    "broken": (f"UPDATE checkpoints SET checkpoint = '[]' WHERE checkpoint_id = '{key(2)}'", {"undecodable"}),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_audit_finds_it_and_a_repair_leaves_what_verifies(scene: Any, edit: str) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    fill(saver)
    put(saver, "other", 1, ["kept"])
    assert mg.audit(saver).clean
    statement, cases = EDITS[edit]
    scene.sql(statement)
    assert scene.changed > 0
    report = mg.audit(saver)
    assert {f.case for f in report.findings} & cases, report.findings
    assert all("other" not in f.record for f in report.findings)
    for apply in (False, True):
        mg.repair(saver, apply=apply)
    mg.accept(saver, reason="tests", apply=True)
    assert mg.audit(saver).clean, mg.audit(saver).findings
    ids = [item.config["configurable"]["checkpoint_id"] for item in saver.list(place("t"))]
    assert ids == ([key(3), key(2), key(1)] if edit == "write" else [key(3), key(1)])
    assert saver.get_tuple(place("other")).checkpoint["channel_values"]["messages"] == ["kept"]
    put(saver, "t", 4, ["on"], 3)
    assert saver.get_tuple(place("t")).checkpoint["channel_values"]["messages"] == ["on"]


def test_a_thread_is_taken_back_to_a_checkpoint_with_its_values(scene: Any) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    fill(saver, count=4)
    put(saver, "other", 1, ["kept"])
    plan = mg.revert(saver, to=key(2))
    assert (plan.applied, [line["records"] for line in plan.actions]) == (False, [2])
    assert mg.revert(saver, to=key(2), apply=True).applied
    assert [i.checkpoint["channel_values"]["plain"] for i in saver.list(place("t"))] == [2, 1]
    assert saver.get_tuple(place("t")).pending_writes == []
    assert scene.sql("SELECT count(*) FROM checkpoint_blobs WHERE thread_id = 't'") == [(2,)]
    with pytest.raises(ForgottenError):
        put(saver, "t", 6, ["late"], 4)
    put(saver, "t", 5, ["on"], 2)
    assert mg.audit(saver).clean
    assert len(seen(saver)) == 4


def test_a_thread_is_taken_back_to_before_a_source_was_heard(scene: Any) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    said: list[Any] = [HumanMessage("look it up", id="1")]
    put(saver, "t", 1, list(said))
    said.append(AIMessage("", id="2", tool_calls=[{"name": "shop", "args": {}, "id": "c1"}]))
    put(saver, "t", 2, list(said), 1)
    said.append(ToolMessage("cheap", name="shop", tool_call_id="c1", id="3"))
    put(saver, "t", 3, list(said), 2)
    assert mg.revert(saver, source="tool:shop", apply=True).applied
    assert [i.checkpoint["id"] for i in saver.list(place("t"))] == [key(2), key(1)]


def test_a_damaged_thread_can_be_taken_back(scene: Any) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    fill(saver)
    scene.sql("UPDATE checkpoint_blobs SET blob = '\\xc1' WHERE right(version, 1) = '3'")
    with pytest.raises(IntegrityError):
        saver.get_tuple(place("t"))
    assert mg.revert(saver, to=key(2), apply=True).applied
    assert saver.get_tuple(place("t")).checkpoint["id"] == key(2)
    assert mg.audit(saver).clean


async def test_the_same_through_the_async_saver(scene: Any) -> None:
    async with scene.abare() as inner:
        scene.set_up()
        fill(scene.bare())
        mg = scene.guard()
        saver = mg.guard(inner, name="checkpoints")
        assert (await mg.aadopt(saver, apply=True)).applied
        assert (await mg.aaudit(saver)).clean
        scene.sql(EDITS["value"][0])
        assert {f.case for f in (await mg.aaudit(saver)).findings} == {"T1"}
        scene.sql("DELETE FROM checkpoints WHERE checkpoint_id = %s", key(2))
        with pytest.raises(IntegrityError):
            _ = [i async for i in saver.alist(place("t"))]


def test_keys_can_be_rotated_under_it(scene: Any) -> None:
    from memguard.keys import open_keys

    fill(scene.saver())
    scene.close()
    open_keys(f"file:{scene.key}").rotate()  # type: ignore[attr-defined]
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    assert len(seen(saver)) == 3
    put(saver, "t", 4, ["new key"], 3)
    assert mg.audit(saver).clean
    found = scene.sql(
        "SELECT DISTINCT split_part(metadata -> 'memguard' ->> 'seal', '.', 2) FROM checkpoints"
    )
    assert len(found) == 2
