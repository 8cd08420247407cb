"""A refund agent whose approval limit is edited in its database between two runs.

A LangGraph graph keeps a manager's approval limit in its checkpoints. Between two
runs somebody with write access to the database file changes 100 into 5000. They
hold no key and go through no agent: they decode the row, change one integer, and
put the row back.

* With the bare ``SqliteSaver`` the second run pays a refund of 900: the edited limit
  is served as the manager's own.
* With the same saver inside ``guard(...)`` the second run raises ``IntegrityError``
  before anything is decoded, and the refund is not paid. Another thread in the same
  file still works.

No model, no network. Run: ``python examples/approval_limit_agent.py``
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any, Literal, TypedDict

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from memguard import IntegrityError, MemGuard


class Desk(TypedDict, total=False):
    """What the agent remembers of one customer's thread."""

    approval_limit: int  # euros, set by a manager
    refund: int  # euros, asked for by a customer
    outcome: str


def build(saver: BaseCheckpointSaver[Any], paid: list[int]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The agent: a refund up to the limit is paid, a larger one waits for a manager.

    Args:
        saver: the checkpointer, bare or guarded; the graph is the same for both.
        paid: stands in for the bank; every refund made is appended to it.
    """

    def route(state: Desk) -> Literal["pay", "escalate", "__end__"]:
        if not state.get("refund"):
            return "__end__"
        return "pay" if state["refund"] <= state["approval_limit"] else "escalate"

    def pay(state: Desk) -> Desk:
        paid.append(state["refund"])
        return {"outcome": f"paid {state['refund']}", "refund": 0}

    def escalate(state: Desk) -> Desk:
        return {"outcome": f"waiting for a manager: {state['refund']}", "refund": 0}

    graph = StateGraph(Desk)
    graph.add_node("clerk", lambda state: {})
    graph.add_node("pay", pay)
    graph.add_node("escalate", escalate)
    graph.add_edge(START, "clerk")
    graph.add_conditional_edges("clerk", route, ["pay", "escalate", END])
    graph.add_edge("pay", END)
    graph.add_edge("escalate", END)
    return graph.compile(checkpointer=saver)


def thread(name: str) -> dict[str, dict[str, str]]:
    """The LangGraph configuration that selects one thread."""
    return {"configurable": {"thread_id": name}}


def edit_the_limit(database: Path, new_limit: int) -> int:
    """The attack: change the stored limit of thread ``alice`` with plain SQL and msgpack.

    Returns:
        the number of rows changed. Nothing of LangGraph or memguard is imported for this.
    """
    with sqlite3.connect(database) as db:
        rows = db.execute("SELECT rowid, checkpoint FROM checkpoints WHERE thread_id = 'alice'").fetchall()
        changed = 0
        for rowid, blob in rows:
            checkpoint = ormsgpack.unpackb(blob)
            if "approval_limit" in checkpoint["channel_values"]:
                checkpoint["channel_values"]["approval_limit"] = new_limit
                db.execute(
                    "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?",
                    (ormsgpack.packb(checkpoint), rowid),
                )
                changed += 1
    db.close()
    return changed


def first_run(saver: BaseCheckpointSaver[Any], paid: list[int]) -> None:
    """Monday: a manager sets a limit of 100 for two customers; 900 is not paid."""
    agent = build(saver, paid)
    for name in ("alice", "bob"):
        agent.invoke({"approval_limit": 100}, thread(name))
    outcome = agent.invoke({"refund": 900}, thread("alice"))["outcome"]
    print(f"  monday    limit 100, refund of 900 asked: {outcome}")


def bare(folder: Path) -> list[int]:
    """Both runs on the saver as LangGraph ships it. Returns what was paid."""
    database, paid = folder / "bare.db", []
    with SqliteSaver.from_conn_string(str(database)) as saver:
        first_run(saver, paid)
    rows = edit_the_limit(database, 5000)
    print(f"  night     limit edited to 5000 in {'the database' if rows else 'nothing'}")
    with SqliteSaver.from_conn_string(str(database)) as saver:
        outcome = build(saver, paid).invoke({"refund": 900}, thread("alice"))["outcome"]
    print(f"  tuesday   the agent acts on the edited limit: {outcome}")
    return paid


def guarded(folder: Path) -> list[int]:
    """The same two runs with one word added. Returns what was paid."""
    database, home, paid = folder / "guarded.db", folder / "home", []
    anchor, keys = f"file:{folder / 'elsewhere' / 'anchor'}", f"file:{folder / 'elsewhere' / 'key.json'}"
    with SqliteSaver.from_conn_string(str(database)) as saver:
        mg = MemGuard.create(home, preset="balanced", anchor=anchor, keys=keys)
        first_run(mg.guard(saver, name="checkpoints"), paid)
        mg.close()
    rows = edit_the_limit(database, 5000)
    print(f"  night     limit edited to 5000 in {'the database' if rows else 'nothing'}")
    with SqliteSaver.from_conn_string(str(database)) as saver:
        mg = MemGuard.open(home)
        agent = build(mg.guard(saver, name="checkpoints"), paid)
        try:
            outcome = agent.invoke({"refund": 900}, thread("alice"))["outcome"]
            print(f"  tuesday   NOT REFUSED: {outcome}")
        except IntegrityError as error:
            print(f"  tuesday   refused: {type(error).__name__} {error.code}, nothing was loaded")
        outcome = agent.invoke({"refund": 80}, thread("bob"))["outcome"]
        print(f"  tuesday   bob's thread still works: {outcome}")
        mg.close()
    return paid


def main() -> int:
    """Run both stories in a temporary folder. 0 if the guard kept the 900 in the till."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("bare SqliteSaver")
        without = bare(folder)
        print(f"  refunds paid: {without}")
        print('guard(SqliteSaver, name="checkpoints")')
        within = guarded(folder)
        print(f"  refunds paid: {within}")
    return 0 if without == [900] and within == [80] else 1


if __name__ == "__main__":
    raise SystemExit(main())
