"""An asynchronous agent that stops for a human's approval, and a forged approval.

The graph runs on ``AsyncSqliteSaver`` and uses LangGraph's ``interrupt``: it stops
before a payment and waits for an answer. While nobody is looking, one row is
inserted into the ``writes`` table: a pending write to the channel ``__resume__``
that says "yes". No checkpoint is touched.

* Bare, the next ``ainvoke`` finds the answer and pays.
* Guarded, the row carries no tag of this guard, so the thread is refused and nothing
  is paid. A second thread shows the honest way: the human answers, the graph resumes.

No model, no network. Run: ``python examples/async_agent.py``
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from memguard import IntegrityError, MemGuard


class Payment(TypedDict, total=False):
    """One payment that needs a human."""

    amount: int  # euros
    outcome: str


def build(saver: BaseCheckpointSaver[Any], paid: list[int]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph of two nodes: ask a human, then pay if the answer was "yes"."""

    async def ask(state: Payment) -> Payment:
        answer = interrupt({"approve": state["amount"]})
        return {"outcome": "approved" if answer == "yes" else "declined"}

    async def pay(state: Payment) -> Payment:
        if state["outcome"] == "approved":
            paid.append(state["amount"])
        return {}

    graph = StateGraph(Payment)
    graph.add_node("ask", ask)
    graph.add_node("pay", pay)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "pay")
    graph.add_edge("pay", END)
    return graph.compile(checkpointer=saver)


def thread(name: str) -> dict[str, dict[str, str]]:
    """The LangGraph configuration that selects one thread."""
    return {"configurable": {"thread_id": name}}


def forge_an_approval(database: Path, thread_id: str) -> None:
    """The attack: insert one pending write, in LangGraph's own format, that answers "yes"."""
    with sqlite3.connect(database) as db:
        checkpoint, task = db.execute(
            "SELECT checkpoint_id, task_id FROM writes WHERE thread_id = ? AND channel = '__interrupt__'",
            (thread_id,),
        ).fetchone()
        db.execute(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,"
            " channel, type, value) VALUES (?, '', ?, ?, '', -4, '__resume__', 'msgpack', ?)",
            (thread_id, checkpoint, task, ormsgpack.packb(["yes"])),
        )
    db.close()


async def bare(folder: Path) -> list[int]:
    """Stop for approval, forge it, run on. Returns what was paid."""
    database, paid = folder / "bare.db", []
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        await build(saver, paid).ainvoke({"amount": 900}, thread("alice"))
        print(f"  stopped for approval, paid {paid}")
    forge_an_approval(database, "alice")
    print("  a row that says yes is inserted into the database")
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        state = await build(saver, paid).ainvoke(None, thread("alice"))
        print(f"  resumed as {state['outcome']}")
    return paid


async def guarded(folder: Path) -> list[int]:
    """The same with the guard, and an honest approval beside it. Returns what was paid."""
    database, home, paid = folder / "guarded.db", folder / "home", []
    anchor, keys = f"file:{folder / 'elsewhere' / 'anchor'}", f"file:{folder / 'elsewhere' / 'key.json'}"
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        mg = MemGuard.create(home, preset="balanced", anchor=anchor, keys=keys)
        agent = build(mg.guard(saver, name="approvals"), paid)
        await agent.ainvoke({"amount": 900}, thread("alice"))
        await agent.ainvoke({"amount": 70}, thread("bob"))
        print(f"  stopped for approval, paid {paid}")
        mg.close()
    forge_an_approval(database, "alice")
    print("  a row that says yes is inserted into the database")
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        mg = MemGuard.open(home)
        agent = build(mg.guard(saver, name="approvals"), paid)
        try:
            state = await agent.ainvoke(None, thread("alice"))
            print(f"  NOT REFUSED: resumed as {state['outcome']}")
        except IntegrityError as error:
            print(f"  refused: {type(error).__name__} {error.code}, nothing was loaded")
        state = await agent.ainvoke(Command(resume="yes"), thread("bob"))
        print(f"  bob's payment, approved by a human: {state['outcome']}")
        mg.close()
    return paid


async def story() -> int:
    """Both halves. 0 if only the honest approval was paid under the guard."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("bare AsyncSqliteSaver")
        without = await bare(folder)
        print(f"  paid: {without}")
        print('guard(AsyncSqliteSaver, name="approvals")')
        within = await guarded(folder)
        print(f"  paid: {within}")
    return 0 if without == [900] and within == [70] else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(story()))
