"""Tenancy of checkpointers, fail-closed (V09 V25 V31 V37): other owners' threads are not there, and not written to."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from memguard import ConfigError, MemGuard, ScopeError, principal
from memguard.events import ReadDecided

THREAD = {"tenant": "thread.0", "user": "thread.1"}
WHOLE = {"user": "thread"}
META = {"user": "metadata.user_id"}
#: Scope map, and how it spells alice's and others' threads.
MAPS: dict[str, tuple[dict[str, str], Any]] = {
    "parts": (THREAD, lambda user: f"acme:{user}:session-1"),
    "whole": (WHOLE, lambda user: user),
    "metadata": (META, lambda user: f"thread-of-{user}"),
}


@pytest.fixture
def mg(tmp_path: Path) -> Iterator[MemGuard]:
    with MemGuard.create(
        tmp_path / "home", anchor=f"file:{tmp_path / 'anchor'}", keys=f"file:{tmp_path / 'key.json'}"
    ) as made:
        yield made


def sqlite_saver(path: Path) -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(path / "a.db", check_same_thread=False))


@pytest.fixture(params=["sqlite", "memory"])
def bare(request: Any, tmp_path: Path) -> Any:
    return sqlite_saver(tmp_path) if request.param == "sqlite" else InMemorySaver()


def as_(user: str, tenant: str = "acme") -> Any:
    return principal(tenant=tenant, user=user)


_clock = iter(range(1, 10**6))


def checkpoint(value: Any = "x") -> Any:
    number = next(_clock)
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=number % 16384))
    made["channel_values"], made["channel_versions"] = {"x": value}, {"x": str(number)}
    return made


def config(thread: Any, user: str | None = None, **more: Any) -> Any:
    owner = {} if user is None else {"user_id": user}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **owner, **more}}


def put(saver: Any, thread: Any, value: Any, user: str, **more: Any) -> Any:
    made = checkpoint(value)
    full = {"source": "loop", "step": 1, "parents": {}, "user_id": user, **more}
    return saver.put(config(thread, user), made, full, {"x": made["channel_versions"]["x"]})


class Filled:
    """A guarded saver with threads of three owners, two checkpoints each."""

    def __init__(self, mg: MemGuard, bare: Any, places: dict[str, str], thread: Any) -> None:
        self.bare, self.thread = bare, thread
        self.saver = mg.guard(bare, name="checkpoints", scope=places)
        self.last: dict[str, Any] = {}
        for user in ("alice", "bob", "alice2"):
            with as_(user):
                for number in range(2):
                    self.last[user] = put(self.saver, thread(user), f"{user} {number}", user)
                self.saver.put_writes(self.last[user], [("x", f"write of {user}")], "task", "")


@pytest.fixture(params=MAPS)
def filled(request: Any, mg: MemGuard, bare: Any) -> Filled:
    return Filled(mg, bare, *MAPS[request.param])


def count(bare: Any) -> int:
    """Checkpoints that the bare saver holds, of whomever."""
    if isinstance(bare, SqliteSaver):
        return int(bare.conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0])
    return sum(len(rows) for thread in bare.storage.values() for rows in thread.values())


# -- ids of others answer like missing ids (V31) ---------------------------------------------------------


@pytest.mark.parametrize("other", ["bob", "alice2", "nobody-at-all", "Alice", "alice%", "a_ice"])
def test_a_thread_of_another_owner_answers_like_a_missing_one(filled: Filled, other: str) -> None:
    saver, thread = filled.saver, filled.thread(other)
    before = count(filled.bare)
    with as_("alice"):
        assert (
            saver.get_tuple(config(thread)) is saver.get_tuple(config(filled.thread("alice") + "-x")) is None
        )
        named = filled.last.get(other, {"configurable": {"checkpoint_id": str(uuid.uuid4())}})
        by_id = config(thread, checkpoint_id=named["configurable"]["checkpoint_id"])
        assert saver.get_tuple(by_id) is None
        assert list(saver.list(config(thread))) == []
        assert list(saver.list(by_id)) == []
        assert saver.delete_thread(thread) is None
    assert count(filled.bare) == before, "nothing of another owner was deleted"
    if other in filled.last:
        with as_(other):
            found = filled.saver.get_tuple(config(thread))
            assert found.checkpoint["channel_values"]["x"] == f"{other} 1"
            assert [write[2] for write in found.pending_writes] == [f"write of {other}"]


def test_the_owner_is_served(filled: Filled) -> None:
    with as_("alice"):
        found = filled.saver.get_tuple(config(filled.thread("alice")))
        assert found.checkpoint["channel_values"]["x"] == "alice 1"
        values = [
            i.checkpoint["channel_values"]["x"] for i in filled.saver.list(config(filled.thread("alice")))
        ]
        assert values == ["alice 1", "alice 0"]
        filled.saver.delete_thread(filled.thread("alice"))
        assert filled.saver.get_tuple(config(filled.thread("alice"))) is None
    assert count(filled.bare) == 4


def test_a_list_over_all_threads_is_the_owners(filled: Filled) -> None:
    saver = filled.saver
    with as_("alice"):
        assert [i.checkpoint["channel_values"]["x"] for i in saver.list(None)] == ["alice 1", "alice 0"]
        assert [i.checkpoint["channel_values"]["x"] for i in saver.list(None, limit=1)] == ["alice 1"]
        assert list(saver.list(None, limit=0)) == []
        before = filled.last["alice"]
        assert [i.checkpoint["channel_values"]["x"] for i in saver.list(None, before=before)] == ["alice 0"]
        assert list(saver.list(None, filter={"user_id": "bob"})) == []
        assert len(list(saver.list(None, filter={"user_id": "alice"}))) == 2
    with as_("nobody"):
        assert list(saver.list(None)) == []


@pytest.mark.parametrize("there", [True, False])
def test_writes_for_another_owner_are_refused(filled: Filled, there: bool) -> None:
    other = "bob" if there else "somebody"
    thread, before = filled.thread(other), count(filled.bare)
    said = "alice" if there else other  # metadata that name the principal do not make the thread theirs
    with as_("alice"):
        for write in (
            lambda: put(filled.saver, thread, "planted", said),
            lambda: filled.saver.put_writes(
                filled.last.get(other, config(thread, other, checkpoint_id=str(uuid6()))),
                [("x", "p")],
                "t",
                "",
            ),
        ):
            with pytest.raises(ScopeError) as caught:
                write()
            assert caught.value.code == "MG220"
            assert thread not in str(caught.value)
    assert count(filled.bare) == before
    if there:
        with as_(other):
            found = filled.saver.get_tuple(config(thread))
            assert found.checkpoint["channel_values"]["x"] == "bob 1"
            assert len(found.pending_writes) == 1


# -- who asks (V25, V37) -----------------------------------------------------------------------------------


def calls(saver: Any, thread: Any) -> list[Any]:
    return [
        lambda: saver.get_tuple(config(thread)),
        lambda: list(saver.list(config(thread))),
        lambda: list(saver.list(None)),
        lambda: put(saver, thread, "x", "alice"),
        lambda: saver.put_writes(config(thread, checkpoint_id=str(uuid6())), [("x", 1)], "t", ""),
        lambda: saver.delete_thread(thread),
    ]


def test_without_a_principal_nothing_is_served_or_stored(filled: Filled) -> None:
    before = count(filled.bare)
    for call in calls(filled.saver, filled.thread("alice")):
        with pytest.raises(ScopeError) as caught:
            call()
        assert caught.value.code == "MG222"
        with principal(tenant="acme"), pytest.raises(ScopeError):
            call()
    assert count(filled.bare) == before


@pytest.mark.parametrize("thread", ["", " ", "*", "%", "acme:*", None, True, b"alice", "a\x00b"])
def test_a_thread_id_that_names_no_one_is_refused(filled: Filled, thread: Any) -> None:
    with as_("alice"):
        for write in calls(filled.saver, thread)[3:]:
            with pytest.raises(ScopeError):
                write()
        for read in calls(filled.saver, thread)[:2]:
            with pytest.raises(ScopeError) as caught:
                read()
            assert caught.value.code == "MG221"


def test_a_missing_thread_id_is_refused(filled: Filled) -> None:
    with as_("alice"):
        for call in (filled.saver.get_tuple, lambda c: list(filled.saver.list(c))):
            with pytest.raises(ScopeError) as caught:
                call({"configurable": {}})
            assert caught.value.code == "MG221"


@pytest.mark.parametrize("identity", [None, "", "*", "%", 7])
def test_metadata_that_name_no_one_or_another_are_refused(mg: MemGuard, bare: Any, identity: Any) -> None:
    saver = mg.guard(bare, name="checkpoints", scope=META)
    with as_("alice"):
        for user in (identity, "bob"):
            with pytest.raises(ScopeError):
                put(saver, "t", "x", user)
        made = checkpoint()
        with pytest.raises(ScopeError):
            saver.put(config("t"), made, {"source": "loop", "step": 1, "parents": {}}, {})
        put(saver, "t", "x", "alice")
        assert list(saver.list(None, filter={"user_id": identity})) == []
    assert count(bare) == 1


# -- filters (V09) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["x') OR 1=1 --", "$or", "", "a b", "x;", "x'", 'x"', None, 7])
def test_filter_keys_that_are_not_plain_are_refused(filled: Filled, key: Any) -> None:
    with as_("alice"), pytest.raises(ScopeError) as caught:
        list(filled.saver.list(None, filter={key: 1}))
    assert caught.value.code == "MG224"


@pytest.mark.parametrize("value", ["*", "%", "' OR '1'='1", "bob", "%bob%"])
def test_filter_values_stay_literal(filled: Filled, value: Any) -> None:
    with as_("alice"):
        assert list(filled.saver.list(None, filter={"note": value})) == []
        put(filled.saver, filled.thread("alice"), "noted", "alice", note=value)
        (found,) = filled.saver.list(None, filter={"note": value})
        assert found.checkpoint["channel_values"]["x"] == "noted"


# -- whatever the backend does (V10) -------------------------------------------------------------------------


class Leaky(InMemorySaver):
    """A backend whose listing ignores what it was asked for."""

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        yield from super().list(None)


def test_a_backend_that_leaks_is_looked_over(mg: MemGuard) -> None:
    bare = Leaky()
    saver = mg.guard(bare, name="checkpoints", scope=WHOLE, mode="report")
    seen: list[Any] = []
    for user in ("alice", "alice2", "bob"):
        with as_(user):
            put(saver, user, user, user)
    mg.events.subscribe(lambda event: seen.append(event) if isinstance(event, ReadDecided) else None)
    with as_("alice"):
        assert [i.checkpoint["channel_values"]["x"] for i in saver.list(config("alice"))] == ["alice"]
        assert [i.checkpoint["channel_values"]["x"] for i in saver.list(None)] == ["alice"]
    assert {event.decision.code for event in seen} == {"MG220"}


# -- the other methods, asynchronous, and a graph -------------------------------------------------------------


async def test_the_asynchronous_saver_is_bound_alike(mg: MemGuard, tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "b.db")) as inner:
        saver: Any = mg.guard(inner, name="checkpoints", scope=THREAD)
        for user in ("alice", "bob"):
            with as_(user):
                made = checkpoint(user)
                meta = {"source": "loop", "step": 1, "parents": {}}
                await saver.aput(config(f"acme:{user}:1"), made, meta, {"x": made["channel_versions"]["x"]})
        with as_("alice"):
            assert await saver.aget_tuple(config("acme:bob:1")) is None
            assert [i.checkpoint["channel_values"]["x"] async for i in saver.alist(None)] == ["alice"]
            assert [i async for i in saver.alist(config("acme:bob:1"))] == []
            await saver.adelete_thread("acme:bob:1")
            with pytest.raises(ScopeError):
                await saver.aput(config("acme:bob:1"), checkpoint(), {}, {})
            with pytest.raises(ScopeError):
                await saver.aput_writes(config("acme:bob:1", checkpoint_id=str(uuid6())), [("x", 1)], "t")
        with as_("bob"):
            assert (await saver.aget_tuple(config("acme:bob:1"))).checkpoint["channel_values"]["x"] == "bob"
        with pytest.raises(ScopeError):
            await saver.aget_tuple(config("acme:alice:1"))


def test_a_graph_runs_for_its_principal(mg: MemGuard, tmp_path: Path) -> None:
    saver = mg.guard(sqlite_saver(tmp_path), name="checkpoints", scope=THREAD)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [("assistant", f"noted {len(state['messages'])}")]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    app = graph.compile(checkpointer=saver)
    for user in ("alice", "bob"):
        for _ in range(2):
            with as_(user):
                app.invoke({"messages": [("user", f"I am {user}")]}, config(f"acme:{user}:1"))
    with as_("alice"):
        assert len(app.get_state(config("acme:alice:1")).values["messages"]) == 4
        assert app.get_state(config("acme:bob:1")).values == {}
        with pytest.raises(ScopeError):
            app.invoke({"messages": [("user", "hello")]}, config("acme:bob:1"))
        with pytest.raises(ScopeError):
            app.update_state(config("acme:bob:1"), {"messages": [("user", "planted")]})
        assert len(list(app.get_state_history(config("acme:alice:1")))) > 2
        assert list(app.get_state_history(config("acme:bob:1"))) == []
    with pytest.raises(ScopeError):
        app.invoke({"messages": [("user", "hello")]}, config("acme:alice:1"))
    with as_("bob"):
        assert len(app.get_state(config("acme:bob:1")).values["messages"]) == 4


class Whole(InMemorySaver):
    """A saver with the optional methods."""

    def prune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            self.delete_thread(thread)

    def delete_for_runs(self, run_ids: Any) -> None:
        raise AssertionError("must not be reached")

    def copy_thread(self, source: str, target: str) -> None:
        raise AssertionError("memguard copies itself")


def test_optional_methods_are_bound(mg: MemGuard) -> None:
    bare = Whole()
    saver: Any = mg.guard(bare, name="checkpoints", scope=THREAD)
    for user in ("alice", "bob"):
        with as_(user):
            put(saver, f"acme:{user}:1", user, user)
    with as_("alice"):
        saver.copy_thread("acme:bob:1", "acme:alice:2")
        assert saver.get_tuple(config("acme:alice:2")) is None, "a thread of another owner is not there"
        with pytest.raises(ScopeError):
            saver.copy_thread("acme:alice:1", "acme:bob:2")
        saver.copy_thread("acme:alice:1", "acme:alice:2")
        assert saver.get_tuple(config("acme:alice:2")).checkpoint["channel_values"]["x"] == "alice"
        with pytest.raises(ScopeError) as caught:
            saver.delete_for_runs(["run"])
        assert caught.value.code == "MG223"
        saver.prune(["acme:bob:1", "acme:alice:2"], strategy="delete")
        assert saver.get_tuple(config("acme:alice:2")) is None
    with as_("bob"):
        assert saver.get_tuple(config("acme:bob:1")) is not None


def test_a_clone_with_another_serializer_stays_bound(mg: MemGuard) -> None:
    saver: Any = mg.guard(InMemorySaver(), name="checkpoints", scope=WHOLE)
    with as_("bob"):
        put(saver, "bob", "x", "bob")
    clone = saver.with_allowlist([("collections", "OrderedDict")])
    with as_("alice"):
        assert clone.get_tuple(config("bob")) is None
    with pytest.raises(ScopeError):
        clone.get_tuple(config("bob"))


def test_by_configuration_and_without(mg: MemGuard, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        mg.guard(InMemorySaver(), name="one", scope={"user": "namespace.0"})
    assert caught.value.code == "MG225"
    store = {"kind": "langgraph-sqlite-saver", "uri": "sqlite:x", "scope": WHOLE}
    made = MemGuard.create(
        tmp_path / "two",
        anchor=f"file:{tmp_path / 'anchor-2'}",
        keys=f"file:{tmp_path / 'key.json'}",
        config={"stores": {"checkpoints": store}},
    )
    with made:
        saver = made.guard(InMemorySaver(), name="checkpoints")
        with pytest.raises(ScopeError):
            saver.get_tuple(config("alice"))
        free = made.guard(InMemorySaver(), name="free")
        with as_("alice"):
            assert free.get_tuple(config("bob")) is None
            put(free, "bob", "x", "bob")
            assert free.get_tuple(config("bob")) is not None
