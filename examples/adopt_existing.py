"""An existing LangGraph database is put under the guard, and taken out again.

A database that was written before the guard holds rows without a tag. The guard does
not wave such rows through: a tag that an attacker stripped looks exactly like a row
from before. So adoption is an explicit act, done once, that prints its plan first.

1. A bare ``SqliteSaver`` writes two threads.
2. The guarded saver refuses to read them.
3. ``mg.adopt(...)`` prints the plan and changes nothing; with ``apply=True`` it tags
   what is there. From then on the threads go on where they were.
4. An edit made after adoption is refused.
5. The way back: a bare ``SqliteSaver`` still reads the untouched thread.

No model, no network. Run: ``python examples/adopt_existing.py``
"""

from __future__ import annotations

import operator
import sqlite3
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from memguard import IntegrityError, MemGuard


class Notes(TypedDict):
    """A list that grows by one line per turn."""

    lines: Annotated[list[str], operator.add]


def build(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that acknowledges every line."""
    graph = StateGraph(Notes)
    graph.add_node("ack", lambda state: {"lines": [f"noted: {state['lines'][-1]}"]})
    graph.add_edge(START, "ack")
    graph.add_edge("ack", END)
    return graph.compile(checkpointer=saver)


def thread(name: str) -> dict[str, dict[str, str]]:
    """The LangGraph configuration that selects one thread."""
    return {"configurable": {"thread_id": name}}


def edit_metadata(database: Path, thread_id: str) -> int:
    """The attack: relabel the steps of a thread, content untouched. Returns the rows changed."""
    db = sqlite3.connect(database)
    with db:
        rows = db.execute(
            "UPDATE checkpoints SET metadata = CAST(replace(metadata, '\"loop\"', '\"fork\"') AS BLOB)"
            " WHERE thread_id = ? AND instr(CAST(metadata AS TEXT), '\"loop\"') > 0",
            (thread_id,),
        ).rowcount
    db.close()
    return rows


def tell(word: str, plan: Any) -> None:
    """One line about what an adoption would do, or did."""
    records = sum(action["records"] for action in plan.actions)
    contexts = [action["context"] for action in plan.actions]
    print(
        f"{word}: applied {plan.applied}, {records} records in {len(contexts)} contexts, refused {plan.refused}"
    )


def main() -> int:
    """The story in a temporary folder. 0 if every step went as described above."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = folder / "agent.db"
        with SqliteSaver.from_conn_string(str(database)) as saver:
            for customer in ("alice", "bob"):
                build(saver).invoke({"lines": [f"hello from {customer}"]}, thread(customer))
        print("a bare saver wrote two threads")

        mg = MemGuard.create(
            folder / "home",
            preset="balanced",
            anchor=f"file:{folder / 'elsewhere' / 'anchor'}",
            keys=f"file:{folder / 'elsewhere' / 'key.json'}",
        )
        with SqliteSaver.from_conn_string(str(database)) as saver:
            guarded = mg.guard(saver, name="checkpoints")
            try:
                guarded.get_tuple(thread("alice"))
                print("NOT REFUSED before adoption")
                return 1
            except IntegrityError as error:
                print(f"before adoption: refused, {type(error).__name__} {error.code}")

            tell("plan", mg.adopt(guarded))
            tell("done", mg.adopt(guarded, apply=True))
            state = build(guarded).invoke({"lines": ["second turn"]}, thread("alice"))
            print(f"after adoption, alice: {state['lines']}")
        mg.close()

        rows = edit_metadata(database, "alice")
        print(f"the database is edited: {'done' if rows else 'nothing changed'}")
        mg = MemGuard.open(folder / "home")
        with SqliteSaver.from_conn_string(str(database)) as saver:
            guarded = mg.guard(saver, name="checkpoints")
            try:
                guarded.get_tuple(thread("alice"))
                print("NOT REFUSED after the edit")
                return 1
            except IntegrityError as error:
                print(f"edited afterwards: refused, {type(error).__name__} {error.code}")
        mg.close()

        with SqliteSaver.from_conn_string(str(database)) as saver:
            state = build(saver).get_state(thread("bob")).values
        print(f"without the guard, bob: {state['lines']}")
    return 0 if state["lines"] == ["hello from bob", "noted: hello from bob"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
