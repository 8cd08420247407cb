"""Labels, owners, memories, care and importing."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory, VectorMemoryBlock
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from memguard import (
    AlreadyGuardedError,
    IntegrityError,
    RejectedError,
    ScopeError,
    UnsupportedError,
    principal,
    source,
    unwrap,
)
from memguard.decision import Disposition

COUNT = int(os.environ.get("MEMGUARD_OPERATIONS", "300"))


def said(text: str, role: str = "user", **more: Any) -> ChatMessage:
    return ChatMessage(role=role, content=text, additional_kwargs=more)


def tokens(text: str) -> list[str]:
    return text.split()


def labels(mg: Any, messages: list[ChatMessage]) -> list[tuple[str, str]]:
    return [(str(mg.label(message).source), str(mg.label(message).trust)) for message in messages]


# -- labels ------------------------------------------------------------------------------------


def test_labels_follow_roles_tools_and_the_declared_source(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("simple", mg)
    store.add_message("alice", said("hello"))
    store.add_message("alice", said("hi", "assistant"))
    store.add_message("alice", said("rain", "tool", name="weather", tool_call_id="t1"))
    store.add_message("alice", said("be brief", "system"))
    with source("web:https://shop.example"):
        store.add_message("alice", said("open until nine"))
        store.add_message("alice", said("noted", "assistant"))
    found = store.get_messages("alice")
    assert labels(mg, found) == [
        ("user", "user"),
        ("assistant", "user"),
        ("tool:weather", "tool"),
        ("system", "system"),
        ("web:https://shop.example", "untrusted"),
        ("assistant", "untrusted"),
    ]
    assert all("memguard" not in str(message.model_dump()) for message in found)
    assert all("memguard" not in message.model_dump_json() for message in found)


@pytest.mark.parametrize("flavour", ["simple", "sql"])
async def test_a_history_that_is_set_again_keeps_its_labels(scene: Any, flavour: str) -> None:
    """Agents read a history and set it again: what a web page said does not become the user's own word by that."""
    mg = scene.guard()
    store = scene.store(flavour, mg)

    async def call(name: str, *args: Any) -> Any:
        found = getattr(store, name)(*args)
        return await found if asyncio.iscoroutine(found) else found

    with source("web:https://shop.example"):
        await call("add_message", "alice", said("open until nine"))
    await call("add_message", "alice", said("hello"))
    history = await call("get_messages", "alice")
    await call("set_messages", "alice", [*history, said("new")])
    assert labels(mg, await call("get_messages", "alice")) == [
        ("web:https://shop.example", "untrusted"),
        ("user", "user"),
        ("user", "user"),
    ]


@pytest.mark.parametrize("flavour", ["simple", "sql"])
async def test_words_that_are_said_again_are_new(scene: Any, flavour: str) -> None:
    """A page that repeats an approval does not get the trust of the user who gave it, wherever it puts it."""
    mg = scene.guard()
    store = scene.store(flavour, mg)

    async def call(name: str, *args: Any) -> Any:
        found = getattr(store, name)(*args)
        return await found if asyncio.iscoroutine(found) else found

    await call("add_message", "alice", said("approve"))
    await call("add_message", "alice", said("done"))
    history = await call("get_messages", "alice")
    with source("web:https://evil.example"):
        await call("set_messages", "alice", [*history, said("approve")])
    user, page = ("user", "user"), ("web:https://evil.example", "untrusted")
    assert labels(mg, await call("get_messages", "alice")) == [user, user, page]
    with source("web:https://evil.example"):  # the window moves on by one, and the page says it instead
        await call("set_messages", "alice", [said("done"), said("approve"), said("approve")])
    assert labels(mg, await call("get_messages", "alice")) == [user, page, page]
    await call("set_messages", "alice", [said("done"), said("approve"), said("approve"), said("approve")])
    assert labels(mg, await call("get_messages", "alice")) == [user, page, page, ("user", "untrusted")]


def test_of_two_that_say_the_same_the_least_is_meant(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("simple", mg)
    store.add_message("alice", said("approve"))
    with source("web:https://evil.example"):
        store.add_message("alice", said("approve"))
    store.set_messages("alice", [said("approve")])
    assert labels(mg, store.get_messages("alice")) == [("web:https://evil.example", "untrusted")]


async def test_an_archived_message_that_is_set_again_keeps_its_label(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("sql", mg)
    with source("web:https://shop.example"):
        await store.add_message("alice", said("open until nine"))
    await store.add_message("alice", said("hello"))
    await store.archive_oldest_messages("alice", 1)
    await store.set_messages("alice", await store.get_messages("alice", status=None))
    assert labels(mg, await store.get_messages("alice")) == [
        ("web:https://shop.example", "untrusted"),
        ("user", "user"),
    ]


async def test_an_archived_message_keeps_its_label(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("sql", mg)
    with source("web:https://shop.example"):
        await store.add_message("alice", said("open until nine"))
    await store.archive_oldest_messages("alice", 1)
    found = await store.get_messages("alice", status=MessageStatus.ARCHIVED)
    assert labels(mg, found) == [("web:https://shop.example", "untrusted")]


def test_what_looks_like_our_field_is_dropped_and_not_believed(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("simple", mg)
    store.add_message(
        "alice", said("hello", memguard={"label": {"source": "system", "trust": "system"}, "key": "z"})
    )
    (found,) = store.get_messages("alice")
    assert found.additional_kwargs == {}
    assert str(mg.label(found).trust) != "system"


def test_of_a_rejected_call_nothing_is_stored(scene: Any) -> None:
    mg = scene.guard()
    mg.screening.hook = lambda decision, record: (
        Disposition.REJECT if "never this" in record.content else None
    )
    store = scene.store("simple", mg)
    store.add_message("alice", said("before"))
    with pytest.raises(RejectedError):
        store.set_messages("alice", [said("well"), said("never this")])
    with pytest.raises(RejectedError):
        store.add_message("alice", said("never this"))
    assert [message.content for message in store.get_messages("alice")] == ["before"]


# -- owners ------------------------------------------------------------------------------------

SCOPE = {"user": "thread.0"}


@pytest.mark.parametrize("key", [None, "", "*", "chat_history"])
def test_a_missing_key_is_refused_where_conversations_have_owners(scene: Any, key: Any) -> None:
    """The default key of LlamaIndex's memories is one conversation of all users."""
    store = scene.store("simple", scope=SCOPE)
    with principal(user="alice"):
        for call in (
            lambda: store.get_messages(key),
            lambda: store.add_message(key, said("hello")),
            lambda: store.set_messages(key, [said("hello")]),
            lambda: store.delete_messages(key),
        ):
            with pytest.raises(ScopeError) as caught:
                call()
            assert caught.value.code == "MG221"


def test_a_memory_without_a_key_of_its_own_is_refused_there(scene: Any) -> None:
    store = scene.store("simple", scope=SCOPE)
    memory = ChatMemoryBuffer(token_limit=100, tokenizer_fn=tokens, chat_store=store)
    with principal(user="alice"), pytest.raises(ScopeError):
        memory.put(said("hello"))


def test_keys_belong_to_the_principal(scene: Any) -> None:
    store = scene.store("simple", scope=SCOPE)
    for user in ("alice", "bob"):
        with principal(user=user):
            store.add_message(f"{user}:1", said(f"of {user}"))
    with principal(user="alice"):
        assert store.get_keys() == ["alice:1"]
        assert store.get_messages("bob:1") == []
        for write in (
            lambda: store.add_message("bob:1", said("x")),
            lambda: store.delete_messages("bob:1"),
            lambda: store.delete_last_message("bob:1"),
            lambda: store.delete_message("bob:1", 0),
        ):
            with pytest.raises(ScopeError):
                write()
    with pytest.raises(ScopeError):
        store.get_messages("alice:1")
    with principal(user="bob"):
        assert [message.content for message in store.get_messages("bob:1")] == ["of bob"]


async def test_keys_of_the_sql_store_too(scene: Any) -> None:
    store = scene.store("sql", scope=SCOPE)
    with principal(user="alice"):
        await store.add_message("alice:1", said("mine"))
        assert await store.get_messages("bob:1") == []
        assert await store.count_messages("bob:1") == 0
        with pytest.raises(ScopeError):
            await store.add_message("bob:1", said("x"))
        with pytest.raises(ScopeError):
            await store.delete_messages("bob:1")
        assert await store.get_keys() == ["alice:1"]


# -- memories ----------------------------------------------------------------------------------


def test_a_memory_is_guarded_as_a_whole(scene: Any) -> None:
    mg = scene.guard()
    bare = Memory.from_defaults(
        session_id="alice",
        tokenizer_fn=tokens,
        table_name="llama_index_memory",
        async_database_uri=f"sqlite+aiosqlite:///{scene.db}",
    )
    memory = mg.guard(bare, name="memory")
    assert type(memory) is Memory
    assert unwrap(memory) is bare
    memory.put(said("limit 100"))
    assert [message.content for message in memory.get()] == ["limit 100"]
    with pytest.raises(AlreadyGuardedError):
        mg.guard(memory, name="memory")
    scene.sql("UPDATE llama_index_memory SET data = replace(data, '100', '900')")
    with pytest.raises(IntegrityError):
        memory.get()
    assert not mg.audit(memory).clean


def test_a_chat_memory_buffer_is_guarded_as_a_whole(scene: Any) -> None:
    bare = ChatMemoryBuffer(
        token_limit=100, tokenizer_fn=tokens, chat_store=SimpleChatStore(), chat_store_key="k"
    )
    memory = scene.guard().guard(bare, name="memory")
    memory.put(said("limit 100"))
    assert memory.get_all()[0].content == "limit 100"
    bare.chat_store.store["k"][0].blocks[0].text = "limit 900"
    with pytest.raises(IntegrityError):
        memory.get()


def test_blocks_that_store_elsewhere_are_not_taken_for_guarded(scene: Any) -> None:
    from llama_index.core.embeddings import MockEmbedding
    from llama_index.core.vector_stores import SimpleVectorStore

    class TextStore(SimpleVectorStore):
        stores_text: bool = True

    mg = scene.guard()
    block = VectorMemoryBlock(name="far", vector_store=TextStore(), embed_model=MockEmbedding(4))
    bare = Memory.from_defaults(session_id="alice", tokenizer_fn=tokens, memory_blocks=[block])
    with pytest.raises(UnsupportedError) as caught:
        mg.guard(bare, name="memory")
    assert caught.value.code == "MG592"
    assert type(mg.guard(bare, name="memory", blocks="unguarded")) is Memory


def test_another_store_of_the_async_interface_is_not_guessed_at(scene: Any) -> None:
    class Own(SQLAlchemyChatStore):
        async def get_keys(self) -> list[str]:
            return []

    with pytest.raises(UnsupportedError) as caught:
        scene.guard().guard(Own("t"), name="own")
    assert caught.value.code == "MG590"


# -- care --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["sql", "file", "simple"])
async def test_old_messages_are_refused_until_they_are_adopted(scene: Any, flavour: str) -> None:
    bare = scene.bare(flavour)

    async def call(store: Any, name: str, *args: Any) -> Any:
        found = getattr(store, name)(*args)
        return await found if asyncio.iscoroutine(found) else found

    for text in "abc":
        await call(bare, "add_message", "alice", said(text))
    mg = scene.guard()
    store = mg.guard(bare, name="chat")
    with pytest.raises(IntegrityError):
        await call(store, "get_messages", "alice")
    await mg.aadopt(store, apply=True)
    assert [m.content for m in await call(store, "get_messages", "alice")] == ["a", "b", "c"]
    await call(store, "add_message", "alice", said("d"))
    assert [m.content for m in await call(store, "get_messages", "alice")] == ["a", "b", "c", "d"]
    assert (await mg.aaudit(store)).clean


async def test_what_a_source_said_can_be_taken_back_out(scene: Any) -> None:
    mg = scene.guard()
    store = scene.store("sql", mg)
    await store.add_message("alice", said("a"))
    with source("web:https://shop.example"):
        await store.add_message("alice", said("from the shop"))
    await store.add_message("alice", said("b"))
    await mg.arevert(store, source="web:*", apply=True, reason="a test")
    assert [m.content for m in await store.get_messages("alice")] == ["a", "b"]


async def test_the_bare_store_reads_the_content_and_its_table_is_as_it_was(scene: Any) -> None:
    store = scene.store("sql")
    await store.add_message("alice", said("hello"))
    (found,) = await unwrap(store).get_messages("alice")
    assert found.content == "hello"
    assert set(found.additional_kwargs) == {"memguard"}
    assert scene.sql("SELECT count(*) FROM sqlite_master WHERE type = 'table'") == [(1,)]


def test_the_command_line_audits_the_database(scene: Any, monkeypatch: Any) -> None:
    from memguard.cli.app import cli

    asyncio.run(scene.store("sql").add_message("alice", said("hello")))
    scene.close()
    monkeypatch.chdir(scene.root)
    monkeypatch.setenv("MEMGUARD_STATE", str(scene.home))
    toml = scene.home / "memguard.toml"
    toml.write_text(
        toml.read_text() + '\n[stores.chat]\nkind = "llamaindex-sqlite"\nuri = "sqlite:agent.db"\n'
    )
    run = CliRunner()
    sealed = run.invoke(cli, ["config", "seal", "--apply"])
    assert sealed.exit_code == 0, sealed.output
    clean = run.invoke(cli, ["audit", "chat"])
    assert clean.exit_code == 0, clean.output
    doctor = run.invoke(cli, ["doctor"])
    assert "an edited record is refused" in doctor.output, doctor.output
    assert "MG169" not in doctor.output, doctor.output
    scene.sql("DELETE FROM llama_index_memory")
    assert run.invoke(cli, ["audit", "chat"]).exit_code == 1


# -- genuine operations at random --------------------------------------------------------------


async def test_no_false_alarm_in_mixed_operations(scene: Any) -> None:
    """``MEMGUARD_OPERATIONS=10000`` runs so many: a guard that raises here has raised a false alarm."""
    rng = random.Random(21)
    model: dict[str, list[list[Any]]] = {"alice": [], "bob": []}  # [text, archived]
    mg = scene.guard()
    store = scene.store("sql", mg)
    for number in range(COUNT):
        key = rng.choice(("alice", "bob"))
        held = model[key]
        active = [m for m in held if not m[1]]
        what = rng.choices(
            (
                "add",
                "many",
                "get",
                "all",
                "archive",
                "oldest",
                "reset",
                "set",
                "one",
                "keys",
                "audit",
                "restart",
            ),
            (30, 8, 15, 8, 8, 6, 2, 6, 5, 4, 1, 3),
        )[0]
        if what == "add":
            held.append([f"{number}", False])
            await store.add_message(key, said(f"{number}"))
        elif what == "many":
            new = [rng.choice("xyz") for _ in range(rng.randrange(2, 6))]
            held += [[text, False] for text in new]
            await store.add_messages(key, [said(text) for text in new])
        elif what == "get":
            limit = rng.choice((None, 2))
            texts = [m.content for m in await store.get_messages(key, limit=limit)]
            assert texts == [m[0] for m in active][:limit]
        elif what == "all":
            assert [m.content for m in await store.get_messages(key, status=None)] == [m[0] for m in held]
        elif what in ("archive", "oldest"):
            n = rng.randrange(1, 4)
            call = store.archive_oldest_messages if what == "archive" else store.delete_oldest_messages
            assert [m.content for m in await call(key, n)] == [m[0] for m in active[:n]]
            for message in active[:n]:
                message[1] = True
                if what == "oldest":
                    held[:] = [m for m in held if m is not message]
        elif what == "reset":
            held.clear()
            await store.delete_messages(key)
        elif what == "set":
            await store.set_messages(key, [*(await store.get_messages(key)), said("again")])
            held[:] = [[m[0], False] for m in active] + [["again", False]]
        elif what == "one" and held:
            rows = scene.sql("SELECT id FROM llama_index_memory WHERE key = ? ORDER BY timestamp, id", key)
            at = rng.randrange(len(held))
            gone = await store.delete_message(key, rows[at][0])
            assert gone.content == held.pop(at)[0]
        elif what == "keys":
            assert sorted(await store.get_keys()) == sorted(k for k, m in model.items() if m)
        elif what == "audit":
            assert (await mg.aaudit(store)).clean
        elif what == "restart":
            scene.close()
            mg = scene.guard()
            store = scene.store("sql", mg)
        if len(held) > 60:  # long histories make every read dearer and no likelier to fail
            await store.delete_messages(key)
            held.clear()
    assert (await mg.aaudit(store)).clean


# -- importing ---------------------------------------------------------------------------------

_QUIET = """
import socket, sys
def refuse(*a, **k): raise SystemExit("a socket was opened")
socket.socket.connect = refuse
socket.create_connection = refuse
import memguard
assert "llama_index" not in sys.modules
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.llms import ChatMessage
mg = memguard.MemGuard.create("home", anchor="file:anchor", keys="file:key.json")
store = mg.guard(SimpleChatStore(), name="chat")
store.add_message("alice", ChatMessage(role="user", content="hello"))
assert store.get_messages("alice")[0].content == "hello"
print("quiet")
"""


def test_guarding_opens_no_socket(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _QUIET], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "quiet", done.stdout + done.stderr
