"""A compiled graph of three nodes and no model, with a bare and with a guarded saver."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from memguard.bench.overhead.saver import SaverPair
from memguard.bench.overhead.timing import Operation


class State(TypedDict):
    """What the graph keeps: a growing list of short notes and the last step's name."""

    notes: Annotated[list[str], operator.add]
    last: str


def _node(name: str) -> Any:
    def run(state: State) -> dict[str, Any]:
        return {"notes": [f"{name} saw {len(state['notes'])} notes"], "last": name}

    return run


def compiled(saver: Any) -> Any:
    """plan -> act -> reflect, compiled with ``saver``."""
    from langgraph.graph import END, START, StateGraph

    builder: Any = StateGraph(State)
    for name in ("plan", "act", "reflect"):
        builder.add_node(name, _node(name))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "act")
    builder.add_edge("act", "reflect")
    builder.add_edge("reflect", END)
    return builder.compile(checkpointer=saver)


def turns(pair: SaverPair, *, turns_per_thread: int = 10) -> tuple[Operation, Operation]:
    """One ``invoke`` per call; a thread is left after some turns, so that its state stays small."""

    def on(saver: Any) -> Operation:
        graph = compiled(saver)

        def turn(index: int) -> object:
            config = {"configurable": {"thread_id": f"graph-{index // turns_per_thread}"}}
            return graph.invoke({"notes": ["go"], "last": ""}, config)

        return turn

    return on(pair.bare.saver), on(pair.guarded.saver)
