"""The page on LangGraph promises a way out: its SQL is run here, and bare objects go on from there."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command, interrupt

from memguard import IntegrityError, MemGuard

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations" / "langgraph.md"
THREAD: Any = {"configurable": {"thread_id": "t-1"}}


class State(TypedDict, total=False):
    amount: int
    answer: str


def build(saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", lambda state: {"answer": interrupt({"approve": state["amount"]})})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def statements(kind: str) -> str:
    """The SQL that the page gives for ``-- KIND``."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    parts = dict(re.findall(r"^-- (\w+)\n(.*?)(?=^-- |\Z)", "".join(blocks), re.MULTILINE | re.DOTALL))
    return parts[kind]


def strip(database: Path, kind: str) -> None:
    db = sqlite3.connect(database)
    with db:
        db.executescript(statements(kind))
    db.close()


def make(folder: Path) -> MemGuard:
    return MemGuard.create(
        folder / "home", anchor=f"file:{folder / 'anchor'}", keys=f"file:{folder / 'key.json'}"
    )


def test_a_bare_saver_resumes_an_interrupted_thread(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        mg = make(tmp_path)
        build(mg.guard(saver, name="checkpoints")).invoke({"amount": 7}, THREAD)
        mg.close()
    strip(path, "SqliteSaver")
    db = sqlite3.connect(path)
    rows = db.execute(
        "SELECT type, NULL FROM writes UNION ALL SELECT type, metadata FROM checkpoints"
    ).fetchall()
    db.close()
    assert rows
    assert not any("mg1." in str(value) or "memguard" in str(value) for row in rows for value in row)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build(saver)
        assert graph.get_state(THREAD).interrupts[0].value == {"approve": 7}
        assert graph.invoke(Command(resume="yes"), THREAD) == {"amount": 7, "answer": "yes"}


def test_a_bare_store_serves_the_values_that_were_put(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    value = {"text": "Alice eats no meat.", "n": [1, 2.5, None, True], "é": "日本"}
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        mg = make(tmp_path)
        mg.guard(store, name="memories").put(("users", "alice"), "diet", value)
        mg.close()
    strip(path, "SqliteStore")
    with SqliteStore.from_conn_string(str(path)) as store:
        item = store.get(("users", "alice"), "diet")
        assert item is not None
        assert item.value == value


def test_the_guard_refuses_what_was_stripped(tmp_path: Path) -> None:
    """The way out must not be a way in: rows without a tag are refused until they are adopted."""
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        mg = make(tmp_path)
        build(mg.guard(saver, name="checkpoints")).invoke({"amount": 7}, THREAD)
        mg.close()
    strip(path, "SqliteSaver")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        mg = MemGuard.open(tmp_path / "home")
        with pytest.raises(IntegrityError):
            mg.guard(saver, name="checkpoints").get_tuple(THREAD)
        mg.close()


def test_coming_back_takes_a_new_name(tmp_path: Path) -> None:
    """Under the old name there are heads: adopting is refused there, and works under another."""
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        mg = make(tmp_path)
        build(mg.guard(saver, name="checkpoints")).invoke({"amount": 7}, THREAD)
        mg.close()
    strip(path, "SqliteSaver")
    with SqliteSaver.from_conn_string(str(path)) as saver, MemGuard.open(tmp_path / "home") as mg:
        old = mg.adopt(mg.guard(saver, name="checkpoints"), apply=True)
        assert old.refused
        assert not old.actions
    with SqliteSaver.from_conn_string(str(path)) as saver, MemGuard.open(tmp_path / "home") as mg:
        again = mg.guard(saver, name="checkpoints-2")
        assert not mg.adopt(again, apply=True).refused
        assert mg.audit(again).clean
        assert build(again).invoke(Command(resume="yes"), THREAD) == {"amount": 7, "answer": "yes"}
