"""A scan is bounded, and says so."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard import IntegrityError, MemGuard


def test_flooded_context_is_refused_and_others_are_served(tmp_path: Path) -> None:
    mg = MemGuard.create(tmp_path / "home", anchor=f"file:{tmp_path}/a", keys=f"file:{tmp_path}/k.json")
    conn = sqlite3.connect(tmp_path / "c.db", check_same_thread=False)
    saver = mg.guard(SqliteSaver(conn), name="checkpoints")
    for thread, count in (("big", 6), ("small", 5)):
        for number in range(count):
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": "1"}}
            saver.put_writes(config, [("a", number)], f"task-{number}")
    mg.close()
    mg = MemGuard.open(tmp_path / "home", config={"integrity": {"max_rows": 5}})
    saver = mg.guard(SqliteSaver(conn), name="checkpoints")
    assert saver.get_tuple({"configurable": {"thread_id": "small", "checkpoint_ns": ""}}) is None
    with pytest.raises(IntegrityError) as caught:
        saver.get_tuple({"configurable": {"thread_id": "big", "checkpoint_ns": ""}})
    assert (caught.value.code, caught.value.case) == ("MG407", "limit")
    mg.close()
