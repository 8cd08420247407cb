"""A real compiled graph gives the same results guarded and bare: on every shipped saver, sync and async.

One script of calls is run twice, over a bare and over a guarded saver; what it answers is compared
with ids and times replaced by the order in which they first appear.
"""

from __future__ import annotations

import operator
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+")
VERSION = re.compile(r"(\d{32})\.\d\.\d+")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    total: Annotated[int, operator.add]
    tags: set[str]


class Inner(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def build(saver: Any) -> Any:
    """A chat with a subgraph that keeps its own memory, two parallel branches and an approval."""

    def count(state: Inner) -> dict[str, Any]:
        return {"count": 1}

    inner = StateGraph(Inner)
    inner.add_node("count", count)
    inner.add_edge(START, "count")
    sub = inner.compile(checkpointer=True)

    def plan(state: State) -> dict[str, Any]:
        return {
            "messages": [
                AIMessage(f"plan for {state['messages'][-1].content}", id=f"p{len(state['messages'])}")
            ]
        }

    def left(state: State) -> dict[str, Any]:
        return {"total": 1}

    def right(state: State) -> dict[str, Any]:
        return {"total": 10, "tags": {"a", "b", "c"}}

    def approve(state: State) -> dict[str, Any]:
        answer = interrupt({"limit": 100, "total": state["total"]})
        return {"messages": [AIMessage(f"answered {answer}", id=f"a{len(state['messages'])}")]}

    graph = StateGraph(State)
    for name, node in (("plan", plan), ("left", left), ("right", right), ("sub", sub), ("approve", approve)):
        graph.add_node(name, node)
    graph.add_edge(START, "plan")
    for branch in ("left", "right", "sub"):
        graph.add_edge("plan", branch)
    graph.add_edge(["left", "right", "sub"], "approve")
    graph.add_edge("approve", END)
    return graph.compile(checkpointer=saver)


def plain(value: Any) -> str:
    """Text with ids, times and random version tails replaced by the order in which they appear."""
    if isinstance(value, list):
        value = sorted(value, key=lambda v: repr(v)) if value and isinstance(value[0], frozenset) else value
    text = VERSION.sub(r"\1", TIME.sub("TIME", repr(value)))
    names: dict[str, str] = {}
    text = UUID.sub(lambda m: names.setdefault(m[0], f"ID{len(names)}"), text)
    return re.sub(r"\{('[abc]', )*'[abc]'\}", "{abc}", text)


def snapshot(found: Any) -> Any:
    return (
        found.values,
        found.next,
        found.metadata,
        bool(found.parent_config),
        [(t.name, t.path, str(t.error), len(t.interrupts), t.result) for t in found.tasks],
    )


def script(graph: Any, durability: str) -> list[str]:
    """The calls of an application's life."""
    config = {"configurable": {"thread_id": "t", "user": "alice"}, "metadata": {"origin": "web"}}
    seen: list[Any] = []
    first = {"messages": [HumanMessage("book it", id="h1")], "total": 0}
    seen.append(
        sorted(plain(c) for c in graph.stream(first, config, stream_mode="updates", durability=durability))
    )
    seen.append(snapshot(graph.get_state(config)))
    seen.append(graph.invoke(Command(resume="yes"), config, durability=durability))
    history = list(graph.get_state_history(config))
    seen += map(snapshot, history)
    seen.append([snapshot(s) for s in graph.get_state_history(config, filter={"source": "loop"})])
    seen.append([snapshot(s) for s in graph.get_state_history(config, limit=2)])
    seen.append([snapshot(s) for s in graph.get_state_history(config, before=history[0].config, limit=1)])
    old = next((s for s in history if s.next == ("approve",)), history[-1])
    forked = graph.update_state(
        old.config, {"messages": [HumanMessage("another", id="h9")]}, as_node="plan"
    )  # a fork
    seen.append(snapshot(graph.get_state(forked)))
    seen.append(graph.invoke(None, old.config, durability=durability))  # time travel
    seen.append(snapshot(graph.get_state(config, subgraphs=True)))
    second = {"messages": [HumanMessage("again", id="h2")], "total": 0}
    streamed = graph.stream(
        second, config, stream_mode=["values", "updates"], subgraphs=True, durability=durability
    )
    seen.append(sorted(plain(chunk) for chunk in streamed))
    seen.append(graph.invoke(Command(resume={"edited": 1}), config, durability=durability))
    seen.append(len(list(graph.get_state_history(config))))
    return [plain(s) for s in seen]


async def ascript(graph: Any, durability: str) -> list[str]:
    """The same, asynchronously."""
    config = {"configurable": {"thread_id": "t", "user": "alice"}, "metadata": {"origin": "web"}}
    seen: list[Any] = []
    first = {"messages": [HumanMessage("book it", id="h1")], "total": 0}
    updates = [c async for c in graph.astream(first, config, stream_mode="updates", durability=durability)]
    seen.append(sorted(map(plain, updates)))
    seen.append(snapshot(await graph.aget_state(config)))
    seen.append(await graph.ainvoke(Command(resume="yes"), config, durability=durability))
    history = [s async for s in graph.aget_state_history(config)]
    seen += map(snapshot, history)
    seen.append([snapshot(s) async for s in graph.aget_state_history(config, filter={"source": "loop"})])
    seen.append([snapshot(s) async for s in graph.aget_state_history(config, limit=2)])
    old = next((s for s in history if s.next == ("approve",)), history[-1])
    forked = await graph.aupdate_state(
        old.config, {"messages": [HumanMessage("another", id="h9")]}, as_node="plan"
    )
    seen.append(snapshot(await graph.aget_state(forked)))
    seen.append(await graph.ainvoke(None, old.config, durability=durability))
    second = {"messages": [HumanMessage("again", id="h2")], "total": 0}
    streamed = graph.astream(second, config, stream_mode=["values"], subgraphs=True, durability=durability)
    seen.append(sorted([plain(chunk) async for chunk in streamed]))
    events = [e["event"] async for e in graph.astream_events(Command(resume="e"), config, version="v2")]
    seen.append(sorted(set(events)))
    return [plain(s) for s in seen]


@asynccontextmanager
async def saver_of(kind: str, scene: Any, guarded: bool, serde: Any = None) -> AsyncIterator[Any]:
    if kind == "async-sqlite":
        async with AsyncSqliteSaver.from_conn_string(str(scene.db)) as inner:
            yield scene.guard().guard(inner, name="checkpoints") if guarded else inner
        return
    inner = InMemorySaver(serde=serde) if kind == "memory" else scene.bare(serde)
    yield scene.guard().guard(inner, name="checkpoints") if guarded else inner


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_a_graph_gives_the_same_results_sync(kind: str, durability: str, new_scene: Any) -> None:
    results = []
    for guarded in (False, True):
        scene = new_scene()
        async with saver_of(kind, scene, guarded) as saver:
            results.append(script(build(saver), durability))
            if guarded:
                assert scene.guard().audit(saver).clean if kind == "sqlite" else True
    assert results[1] == results[0]
    assert len(results[0]) > 10


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["async-sqlite", "memory"])
async def test_a_graph_gives_the_same_results_async(kind: str, durability: str, new_scene: Any) -> None:
    results = []
    for guarded in (False, True):
        async with saver_of(kind, new_scene(), guarded) as saver:
            results.append(await ascript(build(saver), durability))
    assert results[1] == results[0]


async def test_a_sync_saver_under_an_async_graph_gives_what_the_async_saver_gives(new_scene: Any) -> None:
    async with saver_of("async-sqlite", new_scene(), guarded=False) as saver:
        expected = await ascript(build(saver), "sync")
    async with saver_of("sqlite", new_scene(), guarded=True) as saver:
        assert await ascript(build(saver), "sync") == expected


async def test_an_encrypted_saver_gives_the_same_results(new_scene: Any) -> None:
    results = []
    for kind in ("sqlite", "memory"):
        for guarded in (False, True):
            serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
            async with saver_of(kind, new_scene(), guarded, serde) as saver:
                results.append(script(build(saver), "sync"))
    assert results[1] == results[0]
    assert results[3] == results[2]


# -- delta channels ---------------------------------------------------------------------------------


class Delta(TypedDict):
    log: Annotated[
        list[str], DeltaChannel(lambda state, writes: [*state, *(w for ws in writes for w in ws)], list)
    ]


def build_delta(saver: Any) -> Any:
    graph = StateGraph(Delta)
    graph.add_node("note", lambda state: {"log": [f"note {len(state['log'])}"]})
    graph.add_edge(START, "note")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("kind", ["sqlite", "async-sqlite", "memory"])
async def test_a_delta_channel_gives_the_same_state_and_history(kind: str, new_scene: Any) -> None:
    results = []
    for guarded in (False, True):
        async with saver_of(kind, new_scene(), guarded) as saver:
            graph = build_delta(saver)
            config: Any = {"configurable": {"thread_id": "t"}}
            seen = (
                [plain(await graph.ainvoke({"log": [f"say {n}"]}, config)) for n in range(3)]
                if kind != "sqlite"
                else [plain(graph.invoke({"log": [f"say {n}"]}, config)) for n in range(3)]
            )
            if kind == "sqlite":
                seen += [plain(snapshot(s)) for s in graph.get_state_history(config)]
                found = saver.get_delta_channel_history(config=config, channels=["log"])
            else:
                seen += [plain(snapshot(s)) async for s in graph.aget_state_history(config)]
                found = await saver.aget_delta_channel_history(config=config, channels=["log"])
            results.append([*seen, plain(dict(found))])
    assert results[1] == results[0]
    assert "note 5" in results[1][2]


def test_an_old_write_behind_a_delta_channel_cannot_be_edited(scene: Any) -> None:
    """The head of such a thread holds no state: it is made from writes of checkpoints long past."""
    graph = build_delta(scene.saver())
    config: Any = {"configurable": {"thread_id": "t"}}
    for n in range(3):
        graph.invoke({"log": [f"say {n}"]}, config)
    scene.close()
    scene.sql(
        "UPDATE writes SET value = ? WHERE rowid = (SELECT min(rowid) FROM writes WHERE channel = 'log')",
        b"\x91\xa4EVIL",
    )
    assert scene.changed == 1
    scene.sql("UPDATE writes SET task_id = task_id")  # the control edit: nothing changes
    from memguard.errors import TamperedError

    with pytest.raises(TamperedError) as caught:
        build_delta(scene.saver()).get_state(config)
    assert caught.value.case == "T1"


# -- allow-lists ------------------------------------------------------------------------------------

STRICT = """
import sqlite3, sys
from dataclasses import dataclass
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.memory import InMemorySaver
from memguard import MemGuard

@dataclass
class Limit:
    amount: int

class State(TypedDict):
    limit: Limit

root = sys.argv[1]
mg = MemGuard.create(root + "/home", anchor="file:" + root + "/anchor", keys="file:" + root + "/key.json")

def answers(saver):
    graph = StateGraph(State)
    graph.add_node("raise_", lambda state: {"limit": Limit(state["limit"].amount + 1)})
    graph.add_edge(START, "raise_")
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    compiled.invoke({"limit": Limit(100)}, config)
    try:
        direct = saver.get_tuple(config).checkpoint["channel_values"]["limit"]
    except Exception as error:
        direct = type(error).__name__
    allowed = saver.with_allowlist([("__main__", "Limit")]).get_tuple(config).checkpoint["channel_values"]["limit"]
    return repr((direct, allowed, compiled.get_state(config).values["limit"]))

def sqlite(name):
    return SqliteSaver(sqlite3.connect(root + "/" + name, check_same_thread=False))

for make in (sqlite, lambda name: InMemorySaver()):
    print(answers(make("bare.db")))
    print(answers(mg.guard(make("guarded.db"), name="store-" + str(id(make)))))
"""


def test_a_dataclass_under_strict_msgpack_is_itself_or_an_error_and_never_a_mapping(tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STRICT, str(tmp_path)],
        env={"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    sqlite_bare, sqlite_guarded, memory_bare, memory_guarded = done.stdout.splitlines()
    for bare, guarded in ((sqlite_bare, sqlite_guarded), (memory_bare, memory_guarded)):
        assert bare.startswith(
            "({'amount': 101}, "
        )  # not allowed: the bare saver serves a mapping and says nothing
        assert guarded == bare.replace("{'amount': 101}", "'UnsupportedError'")
    assert sqlite_guarded.count("Limit(amount=101)") >= 2  # the clone with the allow-list and the graph's own


# -- what LangGraph's inspection sees ---------------------------------------------------------------


def test_send_and_branches_of_different_length(new_scene: Any) -> None:
    class Fan(TypedDict):
        items: list[int]
        done: Annotated[list[int], operator.add]

    def graph_of(saver: Any) -> Any:
        graph = StateGraph(Fan)
        graph.add_node("work", lambda state: {"done": [state["n"] * 2]})
        graph.add_conditional_edges(
            START, lambda state: [Send("work", {"n": n}) for n in state["items"]], ["work"]
        )
        return graph.compile(checkpointer=saver)

    config: Any = {"configurable": {"thread_id": "t"}}
    results = []
    for guarded in (False, True):
        scene = new_scene()
        saver = scene.saver() if guarded else scene.bare()
        graph = graph_of(saver)
        results.append(
            (
                graph.invoke({"items": list(range(20))}, config),
                [plain(snapshot(s)) for s in graph.get_state_history(config)],
            )
        )
    assert results[0] == results[1]
