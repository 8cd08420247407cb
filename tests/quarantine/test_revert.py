"""Taking records of a source, or of a time, back out of stores and checkpointers (V52)."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from quarantine_place import Place

from memguard import ConfigError, ForgottenError, IntegrityError, UnsupportedError, reverting, source
from memguard.labels import Label
from memguard.record import Lineage, Parent, Source, Trust
from memguard.reverting import Found, Wanted, chosen, moment_of

ALICE, BOB = ("users", "alice"), ("users", "bob")


def _memories(place: Place) -> Any:
    """A store in which a shop's page was read, summed up, and summed up again."""
    mg = place.guard()
    store = place.store(mg)
    store.put(ALICE, "overwritten", {"text": "what Alice said"})
    with source("web:https://shop.example"):
        store.put(ALICE, "page", {"text": "free shipping"})
        store.put(ALICE, "overwritten", {"text": "what the shop says"})
    with source("web:https://news.example"):
        store.put(ALICE, "news", {"text": "rain"})
    with source("summary", parents=[store.get(ALICE, "page"), store.get(ALICE, "news")]):
        store.put(BOB, "summary", {"text": "shipping and rain"})
    with source("assistant", parents=[store.get(BOB, "summary")]):
        store.put(BOB, "plan", {"text": "order on Friday"})
    with source("user:alice"):
        store.put(ALICE, "diet", {"text": "vegetarian"})
    return mg, store


def _keys(store: Any) -> set[str]:
    return {item.key for item in store.search((), limit=50)}


def test_a_plan_follows_lineage_and_changes_nothing(place: Place) -> None:
    mg, store = _memories(place)
    plan = mg.revert(store, source="web:https://shop.example")
    why = {item["key"]: item["why"] for action in plan.actions for item in action["keys"]}
    assert why == {
        "page": "from web:https://shop.example",
        "overwritten": "from web:https://shop.example",
        "summary": "derived from page",
        "plan": "derived from summary",
    }
    assert not plan.applied
    assert plan.notes == ("1 of them were written over an earlier value, whose text cannot be restored",)
    assert len(_keys(store)) == 6
    assert mg._log.notes() == []


def test_an_act_takes_them_out_and_the_history_keeps_it(place: Place) -> None:
    mg, store = _memories(place)
    before = len(list(mg._ledger.entries()))
    plan = mg.revert(store, source="web:https://shop.example", apply=True, by="alice", reason="poison")
    assert plan.applied
    assert _keys(store) == {"news", "diet"}
    assert mg.audit(store).clean
    (note,) = mg._log.notes()
    assert (note.store, note.operation) == ("memories", "revert")
    assert (note.details["source"], note.details["records"], note.details["by"], note.details["reason"]) == (
        "web:https://shop.example",
        4,
        "alice",
        "poison",
    )
    assert mg._log.signatures()[1] == 0
    assert len(list(mg._ledger.entries())) > before
    assert mg.revert(store, source="web:https://shop.example").actions == ()
    mg.close()
    again = place.guard()
    store = place.store(again)
    assert _keys(store) == {"news", "diet"}
    assert again.audit(store).clean


def test_patterns(place: Place) -> None:
    mg, store = _memories(place)

    def keys(pattern: str) -> set[str]:
        return {i["key"] for a in mg.revert(store, source=pattern).actions for i in a["keys"]}

    assert keys("web:*") == {"page", "overwritten", "news", "summary", "plan"}
    assert keys("web:*news*") == {"news", "summary", "plan"}
    assert keys("user:ali") == set()
    assert keys("user:*") == {"diet"}
    assert keys("summary:*") == {"summary", "plan"}
    assert keys("tool:*") == set()
    with pytest.raises(ConfigError):
        keys("website:x")


def test_what_is_written_between_plan_and_act_stays(place: Place) -> None:
    mg, store = _memories(place)
    handle = store.__dict__["_memguard"]
    draft = handle.run(handle.rows.reverting.draft(Wanted.of(source="web:https://shop.example")))
    store.put(ALICE, "page", {"text": "written by a person now"})
    assert handle.run(handle.rows.reverting.carry_out(draft)) == 3
    assert _keys(store) == {"page", "news", "diet"}
    assert mg.audit(store).clean


def test_since_a_moment(place: Place) -> None:
    mg = place.guard()
    store = place.store(mg)
    store.put(ALICE, "old", {"text": "old"})
    store.put(ALICE, "deleted", {"text": "old"})
    time.sleep(1.1)
    moment = time.time()
    store.put(ALICE, "new", {"text": "new"})
    store.put(ALICE, "old2", {"text": "new"})
    store.delete(ALICE, "deleted")
    plan = mg.revert(store, since=moment)
    assert {i["key"] for a in plan.actions for i in a["keys"]} == {"new", "old2"}
    assert plan.notes == ("1 deletions were made since then: what they took cannot be restored",)
    assert mg.revert(store, to=moment).actions == plan.actions
    mg.revert(store, since=moment, apply=True)
    assert _keys(store) == {"old"}
    with pytest.raises(UnsupportedError) as caught:
        mg.revert(store, to="1f0c2a52-0000-6000-8000-000000000000")
    assert caught.value.code == "MG358"


def test_a_store_that_is_not_as_it_was_left_is_not_cut(place: Place) -> None:
    mg, store = _memories(place)
    connection = sqlite3.connect(place.db)
    with connection:
        changed = "UPDATE store SET value = replace(value, 'rain', 'snow') WHERE key = 'news'"
        assert connection.execute(changed).rowcount == 1
    connection.close()
    with pytest.raises(IntegrityError):
        mg.revert(store, source="web:https://shop.example", apply=True)
    assert mg._log.notes() == []


def test_a_store_in_memory(place: Place) -> None:
    mg = place.guard()
    store = mg.guard(InMemoryStore(), name="notes")
    with source("web:a"):
        store.put(ALICE, "a", {"text": "x"})
    store.put(ALICE, "b", {"text": "y"})
    mg.revert(store, source="web:a", apply=True)
    assert _keys(store) == {"b"}
    assert mg.audit(store).clean


@pytest.mark.parametrize(
    "what", [{}, {"source": "web:a", "since": 1}, {"since": "yesterday"}, {"since": "web"}], ids=str
)
def test_what_cannot_be_read_is_refused(what: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Wanted.of(**what)
    assert caught.value.code == "MG357"


def test_moments_and_ids() -> None:
    assert moment_of("1970-01-01T00:01:00") == 60
    assert moment_of("1970-01-01T01:00:00+01:00") == 0
    assert moment_of(7) == 7
    assert moment_of("1f0c2a52-1111-6000-8000-000000000000") is None
    assert moment_of(True) is None
    assert Wanted.of(to="12345678-0000-6000-8000-000000000000").to == "12345678-0000-6000-8000-000000000000"


def test_lineage_through_sources_and_in_circles() -> None:
    def record(key: str, kind: str, *parents: str) -> Found:
        label = Label(Source.parse(kind), lineage=Lineage(tuple(Parent(p) for p in parents)))
        return Found("c", key, label, 0, 0, False, None)

    records = [
        record("a", "web:x"),
        record("b", "summary", "web:x"),  # a parent without a key of its own
        record("c", "summary", "d"),
        record("d", "summary", "c", "b"),
        record("e", "summary", "web:y"),
        Found("c", "f", None, 0, 0, False, None),
    ]
    assert sorted(chosen(records, Wanted(source="web:x"))) == [0, 1, 2, 3]


# -- checkpointers -------------------------------------------------------------------------------


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def _graph(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("answer", lambda s: {"messages": [AIMessage(f"heard {s['messages'][-1].content}")]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


class Talk:
    """A guarded saver over a file, and two threads: one that hears a shop in its second turn."""

    def __init__(self, place: Place) -> None:
        self.place, self.db = place, place.root / "agent.db"
        self.open()
        self.say("t1", "hello")
        with source("web:https://shop.example"):
            self.say("t1", "free shipping")
        self.say("t1", "thanks")
        self.say("t2", "hello")

    def open(self) -> None:
        connection = sqlite3.connect(self.db, check_same_thread=False)
        self.place._open.append(connection)
        self.mg = self.place.guard()
        self.saver = self.mg.guard(SqliteSaver(connection), name="checkpoints")
        self.graph = _graph(self.saver)

    def say(self, thread: str, text: str) -> None:
        self.graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})

    def texts(self, thread: str) -> list[str]:
        state = self.graph.get_state({"configurable": {"thread_id": thread}})
        return [m.content for m in state.values.get("messages", [])]

    def ids(self, thread: str) -> list[str]:
        found = self.saver.list({"configurable": {"thread_id": thread}})
        return sorted(item.config["configurable"]["checkpoint_id"] for item in found)

    def count(self, table: str, thread: str) -> int:
        connection = sqlite3.connect(self.db)
        try:
            query = f"SELECT count(*) FROM {table} WHERE thread_id = ?"
            return int(connection.execute(query, (thread,)).fetchone()[0])
        finally:
            connection.close()


@pytest.fixture
def talk(place: Place) -> Talk:
    return Talk(place)


def test_a_thread_is_cut_in_front_of_what_a_source_said(talk: Talk) -> None:
    assert talk.texts("t1")[2] == "free shipping"
    plan = talk.mg.revert(talk.saver, source="web:https://shop.example")
    (action,) = plan.actions
    assert (action["thread"], action["why"]) == ("t1", "holds a message from web:https://shop.example")
    assert len(talk.texts("t1")) == 6
    talk.mg.revert(talk.saver, source="web:https://shop.example", apply=True, by="alice")
    assert talk.texts("t1") == ["hello", "heard hello"]
    assert talk.texts("t2") == ["hello", "heard hello"]
    assert talk.mg.audit(talk.saver).clean
    assert [(n.operation, n.details["by"]) for n in talk.mg._log.notes()] == [("revert", "alice")]
    data = talk.db.read_bytes() + Path(f"{talk.db}-wal").read_bytes()
    assert b"free shipping" in data  # bytes of deleted rows are for forget, not for revert
    talk.say("t1", "and now")
    assert talk.texts("t1") == ["hello", "heard hello", "and now", "heard and now"]
    assert talk.mg.audit(talk.saver).clean


def test_the_results_that_led_to_what_was_cut_are_not_taken_up_again(talk: Talk) -> None:
    talk.mg.revert(talk.saver, source="web:https://shop.example", apply=True)
    newest = talk.ids("t1")[-1]
    config = {"configurable": {"thread_id": "t1", "checkpoint_ns": "", "checkpoint_id": newest}}
    assert talk.saver.get_tuple(config).pending_writes == []


def test_back_to_a_checkpoint(talk: Talk) -> None:
    ids = talk.ids("t1")
    target = ids[2]  # the end of the first turn
    plan = talk.mg.revert(talk.saver, to=target, apply=True)
    assert sum(action["records"] for action in plan.actions) == len(ids) - 3
    assert talk.ids("t1") == ids[:3]
    assert talk.texts("t1") == ["hello", "heard hello"]
    assert talk.mg.audit(talk.saver).clean
    late = {"configurable": {"thread_id": "t1", "checkpoint_ns": "", "checkpoint_id": ids[-1]}}
    with pytest.raises(ForgottenError):
        talk.saver.put_writes(late, [("messages", "late")], "task")
    with pytest.raises(ConfigError) as caught:
        talk.mg.revert(talk.saver, to="no-such-checkpoint")
    assert caught.value.code == "MG358"


def test_back_to_a_moment_in_one_thread(talk: Talk) -> None:
    time.sleep(0.05)
    moment = time.time()
    talk.say("t1", "later")
    talk.say("t2", "later")
    talk.mg.revert(talk.saver, to=moment, thread="t2", apply=True)
    assert talk.texts("t2") == ["hello", "heard hello"]
    assert talk.texts("t1")[-2:] == ["later", "heard later"]
    assert talk.mg.audit(talk.saver).clean


def test_a_whole_thread_can_go(talk: Talk) -> None:
    talk.mg.revert(talk.saver, since=0, thread="t1", apply=True)
    assert talk.texts("t1") == []
    assert (talk.count("checkpoints", "t1"), talk.count("writes", "t1")) == (0, 0)
    assert talk.mg.audit(talk.saver).clean


@pytest.mark.parametrize("edit", ["changed", "deleted"])
def test_back_to_the_last_state_that_verifies(talk: Talk, edit: str) -> None:
    ids = talk.ids("t1")
    talk.mg.close()
    connection = sqlite3.connect(talk.db)
    with connection:
        statement = {
            "changed": "UPDATE checkpoints SET checkpoint = checkpoint || x'00' WHERE checkpoint_id = ?",
            "deleted": "DELETE FROM checkpoints WHERE checkpoint_id = ?",
        }[edit]
        assert connection.execute(statement, (ids[-1],)).rowcount == 1
    connection.close()
    talk.open()
    with pytest.raises(IntegrityError):
        talk.texts("t1")
    if edit == "changed":
        with pytest.raises(ConfigError):
            talk.mg.revert(talk.saver, to=ids[-1])
    plan = talk.mg.revert(talk.saver, to=ids[2])
    # Bytes that were changed are counted all the same; a row that is missing leaves the head without its sum.
    assert [action["damaged"] for action in plan.actions] == [edit == "deleted"]
    assert any("do not verify" in note for note in plan.notes) == (edit == "deleted")
    assert len(talk.mg.revert(talk.saver, to=ids[-2]).actions) == 1
    with pytest.raises(IntegrityError):
        talk.texts("t1")
    talk.mg.revert(talk.saver, to=ids[2], apply=True)
    assert talk.texts("t1") == ["hello", "heard hello"]
    assert talk.mg.audit(talk.saver).clean
    assert {note.operation for note in talk.mg._log.notes()} == {"revert"}
    talk.say("t1", "and now")
    talk.mg.close()
    talk.open()
    assert talk.texts("t1")[-1] == "heard and now"


def test_a_damaged_thread_is_not_searched_for_a_source(talk: Talk) -> None:
    ids = talk.ids("t1")
    connection = sqlite3.connect(talk.db)
    with connection:
        connection.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (ids[1],))
    connection.close()
    with pytest.raises(IntegrityError):
        talk.mg.revert(talk.saver, source="web:https://shop.example", apply=True)


def test_a_saver_in_memory_cannot_be_cut(place: Place) -> None:
    mg = place.guard()
    saver = mg.guard(InMemorySaver(), name="checkpoints")
    with pytest.raises(UnsupportedError) as caught:
        mg.revert(saver, source="web:a")
    assert caught.value.code == "MG352"


def test_a_lineage_of_many_parents_and_many_generations_is_followed_in_few_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(key: str, source: str, *parents: str) -> Found:
        label = Label(Source.parse(source), Trust.USER, None, Lineage.of(*parents))
        return Found("c", key, label, 0.0, 0.0, False, None)

    records = [found("n0", "web:https://x.example", "n99")]  # and round again
    records += [found(f"n{i}", "user:a", f"p{i}", f"n{i - 1}") for i in range(1, 100)]
    records += [
        found("wide", "user:a", *(f"q{i}" for i in range(5000)), "n50"),
        found("free", "user:a", "q1"),
    ]
    looks = 0

    def counted(*arguments: Any) -> bool:
        nonlocal looks
        looks += 1
        return named(*arguments)

    named = reverting.named
    monkeypatch.setattr(reverting, "named", counted)
    why = chosen(records, Wanted(source="web:https://x.example"))
    assert [records[at].key for at in sorted(why)] == [*(f"n{i}" for i in range(100)), "wide"]
    assert why[7] == "derived from n6"
    assert why[100] == "derived from n50"
    assert looks <= 5300
