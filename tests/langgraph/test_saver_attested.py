"""Messages of sources that sign, in a real graph: a signature is for one message of one thread, once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nacl.signing
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from memguard import MemGuard, attest, source

KEY, OTHER = nacl.signing.SigningKey(bytes(range(32))), nacl.signing.SigningKey(bytes(range(1, 33)))
PUBLIC = bytes(KEY.verify_key).hex()
SAID = "The invoices of March are ready."


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.uris = {"anchor": f"file:{root / 'anchor'}", "keys": f"file:{root / 'key.json'}"}
        names = ("user:alice", "tool:crm")
        config = {"attested": {name: {"public_key": PUBLIC, "level": "user"} for name in names}}
        self.mg = MemGuard.create(root / "home", config=config, **self.uris)

    def graph(self) -> Any:
        saver = self.mg.guard(SqliteSaver(sqlite3.connect(self.root / "a.db", check_same_thread=False)), "ck")
        graph: Any = StateGraph(MessagesState)
        graph.add_node("answer", lambda state: {"messages": [AIMessage(f"noted {len(state['messages'])}")]})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        return graph.compile(checkpointer=saver)

    def again(self) -> Any:
        self.mg.close()
        self.mg = MemGuard.open(self.root / "home", **self.uris)
        return self.graph()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.mg.close()


def token(content: str = SAID, key: Any = KEY, **changed: Any) -> bytes:
    about = {"source": "user:alice", "store": "ck", "place": ("t-1", "m-1"), **changed}
    return attest(key, content, **about)


def said(
    scene: Scene, app: Any, signature: bytes | None, thread: str = "t-1", ident: str = "m-1", **more: Any
) -> Any:
    message = more.get("message") or HumanMessage(SAID, id=ident)
    place = {"configurable": {"thread_id": thread}}
    with source(more.get("name", "user:alice"), signature=signature):
        app.invoke({"messages": [message]}, place)
    found = {m.id: m for m in app.get_state(place).values["messages"]}[message.id]
    label = scene.mg.label(found)
    assert label is not None
    return str(label.trust), label.decision.code if label.decision else ""


def test_a_signed_message_is_its_sources_and_stays_so(scene: Scene) -> None:
    app = scene.graph()
    assert said(scene, app, token()) == ("user", "")
    app = scene.again()
    (first, *_) = app.get_state({"configurable": {"thread_id": "t-1"}}).values["messages"]
    label = scene.mg.label(first)
    assert label is not None
    assert (str(label.source), str(label.trust)) == ("user:alice", "user")


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        (None, "MG303"),
        (token(key=OTHER), "MG304"),
        (token("Something else."), "MG304"),
        (token(place=("t-2", "m-1")), "MG304"),
        (token(place=("t-1", "m-2")), "MG304"),
        (token(store="other"), "MG304"),
        (token(source="user:bob"), "MG304"),
    ],
    ids=["unsigned", "key", "content", "thread", "message", "store", "source"],
)
def test_a_forged_message_is_stored_and_not_believed(
    scene: Scene, signature: bytes | None, code: str
) -> None:
    assert said(scene, scene.graph(), signature) == ("untrusted", code)


def test_a_signature_is_good_for_one_message_once(scene: Scene) -> None:
    app, good = scene.graph(), token()
    assert said(scene, app, good) == ("user", "")
    app.checkpointer.delete_thread("t-1")
    app = scene.again()
    assert said(scene, app, good) == ("untrusted", "MG305")


def test_a_signature_is_good_for_no_other_message_or_thread(scene: Scene) -> None:
    app, good = scene.graph(), token()
    assert said(scene, app, good) == ("user", "")
    assert said(scene, app, good, ident="m-2") == ("untrusted", "MG304")
    assert said(scene, app, good, thread="t-2") == ("untrusted", "MG304")


def test_an_answer_is_worth_what_its_signed_question_is(scene: Scene) -> None:
    app = scene.graph()
    for thread, signature, trust in (("t-1", token(), "user"), ("t-2", None, "untrusted")):
        said(scene, app, signature, thread)
        answer = app.get_state({"configurable": {"thread_id": thread}}).values["messages"][-1]
        label = scene.mg.label(answer)
        assert label is not None
        assert (str(label.source), str(label.trust)) == ("assistant", trust)


def test_a_tool_that_signs_its_message(scene: Scene) -> None:
    app = scene.graph()

    def told(signature: bytes | None, thread: str) -> Any:
        message = ToolMessage(SAID, tool_call_id="c", name="crm", id="m-1")
        calls = AIMessage("", id="call", tool_calls=[{"name": "crm", "args": {}, "id": "c"}])
        app.invoke({"messages": [calls]}, {"configurable": {"thread_id": thread}})
        return said(scene, app, signature, thread, message=message, name="tool:crm")

    assert told(token(source="tool:crm"), "t-1") == ("user", "")
    assert told(None, "t-2") == ("untrusted", "MG303")
