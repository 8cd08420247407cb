"""An edited record without a backup: repair cannot make it again, and an operator's signed word is the way out."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard import ConfigError, ForgottenError, IntegrityError, MemGuard

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def put(saver: Any, config: Any, value: str, step: int) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6(clock_seq=step))
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"x": value}, {"x": str(step)}
    return saver.put(config, checkpoint, {"source": "loop", "step": step}, {"x": str(step)})


def values(saver: Any) -> list[str]:
    return [found.checkpoint["channel_values"]["x"] for found in saver.list(THREAD)]


@pytest.fixture
def edited(tmp_path: Path) -> tuple[MemGuard, Any, list[Any]]:
    mg = MemGuard.create(tmp_path / "home", anchor=f"file:{tmp_path}/a", keys=f"file:{tmp_path}/k.json")
    conn = sqlite3.connect(tmp_path / "c.db", check_same_thread=False)
    saver = mg.guard(SqliteSaver(conn), name="checkpoints")
    config, configs = THREAD, []
    for step, value in enumerate(("one", "two", "three")):
        config = put(saver, config, value, step)
        configs.append(config)
    put(saver, {"configurable": {"thread_id": "other", "checkpoint_ns": ""}}, "safe", 9)
    key = configs[1]["configurable"]["checkpoint_id"]
    conn.execute(
        "UPDATE checkpoints SET checkpoint = CAST(replace(CAST(checkpoint AS TEXT), 'two', 'bad') AS BLOB) "
        "WHERE checkpoint_id = ?",
        (key,),
    )
    conn.commit()
    return mg, saver, configs


def test_accept_drops_what_has_no_good_tag_and_signs_what_is_left(
    edited: tuple[MemGuard, Any, list[Any]],
) -> None:
    mg, saver, configs = edited
    with pytest.raises(IntegrityError):
        values(saver)
    assert not mg.repair(saver, apply=True).actions
    plan = mg.accept(saver, "no backup of Tuesday")
    assert [(a["records"], a["action"]) for a in plan.actions] == [(1, "drop"), (2, "accept")]
    assert not plan.applied
    with pytest.raises(IntegrityError):
        values(saver)  # a plan changes nothing
    mg.accept(saver, "no backup of Tuesday", apply=True)
    assert values(saver) == ["three", "one"]
    assert mg.audit(saver).clean
    notes = [(n.operation, n.details["reason"]) for n in saver._memguard.custody.log.notes()]
    assert notes == [("accept", "no backup of Tuesday")]
    assert put(saver, configs[2], "four", 4)
    assert values(saver) == ["four", "three", "one"]
    mg.close()


def test_accept_needs_a_reason_and_leaves_whole_contexts_alone(
    edited: tuple[MemGuard, Any, list[Any]],
) -> None:
    mg, saver, _ = edited
    with pytest.raises(ConfigError):
        mg.accept(saver, " ")
    assert all("other" not in action["context"] for action in mg.accept(saver, "why").actions)
    mg.close()


def test_a_write_that_names_a_dropped_record_is_told(edited: tuple[MemGuard, Any, list[Any]]) -> None:
    mg, saver, configs = edited
    mg.accept(saver, "no backup", apply=True)
    with pytest.raises(ForgottenError):
        saver.put_writes(configs[1], [("a", 1)], "task")
    mg.close()
