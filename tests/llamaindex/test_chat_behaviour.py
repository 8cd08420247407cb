"""One behaviour suite over every chat store, bare and guarded, through the sync and the async methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
CHATS = ("simple", "file")


def messages(*texts: str, role: str = "user") -> list[ChatMessage]:
    return [ChatMessage(role=role, content=text) for text in texts]


RICH = [
    ChatMessage(role="system", content="be brief"),
    ChatMessage(role="user", content="„quotes“, 日本語, \U0001f642"),
    ChatMessage(
        role="assistant",
        blocks=[ToolCallBlock(tool_call_id="t1", tool_name="weather", tool_kwargs={"city": "Oslo"})],
        additional_kwargs={"deep": {"list": [1, 2.5, None, True]}},
    ),
    ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": "t1", "name": "weather"}),
    *messages("twice", "twice"),
]


def tokens(text: str) -> list[str]:
    """LlamaIndex's own tokenizer is downloaded; this one is not."""
    return text.split()


class Plain:
    """A chat store's methods, sync."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def __call__(self, name: str, *args: Any) -> Any:
        return getattr(self._store, name)(*args)


class Twins(Plain):
    """A chat store's methods, async."""

    _NAMES = {"add_message": "async_add_message"}  # noqa: RUF012

    async def __call__(self, name: str, *args: Any) -> Any:
        return await getattr(self._store, self._NAMES.get(name, f"a{name}"))(*args)


@pytest.fixture(params=["bare", "guarded"])
def make(request: Any, scene: Any) -> Any:
    mg = scene.guard() if request.param == "guarded" else None
    return lambda flavour: scene.bare(flavour) if mg is None else scene.store(flavour, mg)


@pytest.fixture(params=[Plain, Twins])
def face(request: Any) -> Any:
    return request.param


@pytest.mark.parametrize("flavour", CHATS)
async def test_messages_come_back_as_they_went_in(make: Any, face: Any, flavour: str) -> None:
    store = make(flavour)
    call = face(store)
    assert await call("get_messages", "alice") == []
    for message in RICH:
        await call("add_message", "alice", message)
    await call("add_message", "bob", RICH[0])
    assert await call("get_messages", "alice") == RICH
    assert await call("get_messages", "bob") == RICH[:1]
    assert sorted(await call("get_keys")) == ["alice", "bob"]
    assert [message.model_dump() for message in await call("get_messages", "alice")] == [
        message.model_dump() for message in RICH
    ]


@pytest.mark.parametrize("flavour", CHATS)
async def test_set_replaces_everything(make: Any, face: Any, flavour: str) -> None:
    call = face(make(flavour))
    await call("set_messages", "alice", messages("a", "b", "c"))
    await call("set_messages", "alice", messages("c", "d"))
    assert await call("get_messages", "alice") == messages("c", "d")
    await call("add_message", "alice", *messages("e"))
    await call("set_messages", "alice", [])
    assert await call("get_messages", "alice") == []
    await call("add_message", "alice", *messages("f"))
    assert await call("get_messages", "alice") == messages("f")


@pytest.mark.parametrize("flavour", CHATS)
async def test_deletes_answer_as_the_store_does(make: Any, face: Any, flavour: str) -> None:
    call = face(make(flavour))
    assert await call("delete_message", "alice", 0) is None
    assert await call("delete_last_message", "alice") is None
    assert await call("delete_messages", "alice") is None
    await call("set_messages", "alice", messages("a", "b", "c", "d"))
    (b,) = messages("b")
    assert await call("delete_message", "alice", 1) == b
    assert await call("delete_message", "alice", 9) is None
    assert await call("get_messages", "alice") == messages("a", "c", "d")
    assert await call("delete_last_message", "alice") == messages("d")[0]
    assert await call("delete_message", "alice", -1) == messages("c")[0]
    assert await call("get_messages", "alice") == messages("a")
    assert await call("delete_messages", "alice") == messages("a")
    assert await call("get_messages", "alice") == []
    assert await call("get_keys") == []


async def test_what_is_left_of_an_emptied_key_is_the_stores_own_affair(make: Any, face: Any) -> None:
    call = face(make("simple"))
    await call("add_message", "alice", *messages("a"))
    assert await call("delete_last_message", "alice") == messages("a")[0]
    assert await call("get_keys") == ["alice"]
    with pytest.raises(IndexError):
        await call("delete_last_message", "alice")
    assert await call("delete_messages", "alice") == []


async def test_a_message_is_inserted_at_a_place(make: Any) -> None:
    store = make("simple")
    for text in "ad":
        store.add_message("alice", *messages(text))
    store.add_message("alice", messages("c")[0], idx=1)
    store.add_message("alice", messages("b")[0], 1)
    assert store.get_messages("alice") == messages("a", "b", "c", "d")


@pytest.mark.parametrize("flavour", CHATS)
async def test_a_chat_memory_buffer_works_on_it(make: Any, flavour: str) -> None:
    store = make(flavour)
    memory = ChatMemoryBuffer(token_limit=4, tokenizer_fn=tokens, chat_store=store, chat_store_key="alice")
    assert isinstance(memory.chat_store, BaseChatStore)
    for number in range(4):
        memory.put(ChatMessage(role="user", content=f"question {number}"))
        await memory.aput(ChatMessage(role="assistant", content=f"answer {number}"))
    assert [m.content for m in memory.get()] == ["question 3", "answer 3"]
    assert len(await memory.aget_all()) == 8
    memory.set(messages("only"))
    assert memory.get_all() == messages("only")
    memory.reset()
    assert memory.get_all() == []


# -- the SQL store and Memory ------------------------------------------------------------------


async def test_the_sql_store_keeps_a_queue(make: Any) -> None:
    store = make("sql")
    assert isinstance(store, AsyncDBChatStore)
    assert await store.get_messages("alice") == []
    await store.add_message("alice", RICH[0])
    await store.add_messages("alice", RICH[1:])
    await store.add_message("bob", RICH[0])
    assert await store.get_messages("alice") == RICH
    assert await store.get_messages("alice", limit=2) == RICH[:2]
    assert await store.get_messages("alice", limit=2, offset=3) == RICH[3:5]
    assert await store.get_messages("alice", offset=4, limit=100) == RICH[4:]
    assert await store.count_messages("alice") == len(RICH)
    assert sorted(await store.get_keys()) == ["alice", "bob"]
    assert await store.archive_oldest_messages("alice", 2) == RICH[:2]
    assert await store.get_messages("alice") == RICH[2:]
    assert await store.get_messages("alice", status=ARCHIVED) == RICH[:2]
    assert await store.get_messages("alice", status=None) == RICH
    assert await store.count_messages("alice", None) == len(RICH)
    assert await store.count_messages("alice", ARCHIVED) == 2
    assert await store.delete_oldest_messages("alice", 1) == RICH[2:3]
    assert await store.delete_oldest_messages("nobody", 1) == []
    await store.delete_messages("alice", ARCHIVED)
    assert await store.get_messages("alice", status=None) == RICH[3:]
    await store.set_messages("alice", messages("new"), status=ACTIVE)
    assert await store.get_messages("alice", status=None) == messages("new")
    await store.delete_messages("alice")
    assert await store.get_messages("alice", status=None) == []
    assert await store.get_keys() == ["bob"]


async def test_the_sql_store_deletes_by_the_id_of_a_row(make: Any, scene: Any) -> None:
    store = make("sql")
    await store.add_messages("alice", messages("a", "b"))
    rows = scene.sql("SELECT id FROM llama_index_memory ORDER BY id")
    assert await store.delete_message("bob", rows[0][0]) is None
    assert await store.delete_message("alice", rows[0][0]) == messages("a")[0]
    assert await store.delete_message("alice", 10**6) is None
    assert await store.get_messages("alice") == messages("b")


def test_memory_waterfalls_over_it(make: Any) -> None:
    memory = Memory.from_defaults(
        session_id="alice", tokenizer_fn=tokens, chat_store=make("sql"), token_limit=20, token_flush_size=5
    )
    assert isinstance(memory.sql_store, AsyncDBChatStore)
    for number in range(8):
        role = "user" if number % 2 == 0 else "assistant"
        memory.put(ChatMessage(role=role, content=f"word {number} and more words"))
    assert [message.content[:6] for message in memory.get()] == ["word 6", "word 7"]
    assert [message.content[:6] for message in memory.get_all()] == [f"word {n}" for n in range(8)]
    memory.reset()
    assert memory.get_all() == []


def test_a_caller_that_changes_its_message_afterwards_changes_nothing(make: Any, scene: Any) -> None:
    store = make("file")
    given = ChatMessage(role="user", content="limit 100")
    store.add_message("alice", given)
    given.blocks[0].text = "limit 900"
    store.get_messages("alice")[0].blocks[0].text = "limit 900"
    assert store.get_messages("alice")[0].content == "limit 100"


def test_in_memory_too(scene: Any) -> None:
    store = scene.store("simple")
    given = ChatMessage(role="user", content="limit 100")
    store.add_message("alice", given)
    given.blocks[0].text = "limit 900"
    store.get_messages("alice")[0].blocks[0].text = "limit 900"
    assert store.get_messages("alice")[0].content == "limit 100"
    assert asyncio.run(store.aget_messages("alice"))[0].content == "limit 100"
