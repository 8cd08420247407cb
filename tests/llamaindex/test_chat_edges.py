"""Interrupted writes, many writers at once, PostgreSQL, and what an operation costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from memguard import IntegrityError

ARCHIVED = MessageStatus.ARCHIVED


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=one) for one in texts]


class Killed(BaseException):
    """The process ends here."""


CHANGES: dict[str, Callable[[Any], Any]] = {
    "add": lambda store: store.add_messages("alice", said("d", "e")),
    "archive": lambda store: store.archive_oldest_messages("alice", 2),
    "oldest": lambda store: store.delete_oldest_messages("alice", 1),
    "set": lambda store: store.set_messages("alice", said("c", "x")),
    "delete": lambda store: store.delete_messages("alice"),
}
#: (texts, texts in the archive) afterwards.
AFTER = {
    "add": ("abcde", ""),
    "archive": ("abc", "ab"),
    "oldest": ("bc", ""),
    "set": ("cx", ""),
    "delete": ("", ""),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_process_that_ends_half_way_leaves_before_or_after(
    scene: Any, change: str, when: str
) -> None:
    store = scene.store("sql")
    await store.add_messages("alice", said("a", "b", "c"))
    table = store._ops.table
    whole = table._change

    async def ends(*args: Any) -> None:
        if when == "after":
            await whole(*args)
        raise Killed

    table._change = ends
    with pytest.raises(Killed):
        await CHANGES[change](store)
    scene.close()
    mg = scene.guard()
    store = scene.store("sql", mg)

    async def texts(status: Any) -> str:
        return "".join(message.content for message in await store.get_messages("alice", status=status))

    done = when == "after" or change in ("oldest", "delete")  # a delete that was announced is finished
    assert (await texts(None), await texts(ARCHIVED)) == (AFTER[change] if done else ("abc", ""))
    before = await texts(None)
    await store.add_message("alice", said("z")[0])
    assert await texts(None) == before + "z"
    assert (await mg.aaudit(store)).clean


async def test_writers_of_one_loop_do_not_disturb_each_other(scene: Any) -> None:
    mg = scene.guard()
    one, two = scene.store("sql", mg), scene.store("sql", mg)
    await asyncio.gather(*[(one if n % 2 else two).add_message("alice", said(f"{n}")[0]) for n in range(12)])
    gone = await asyncio.gather(
        one.delete_oldest_messages("alice", 2),
        two.delete_oldest_messages("alice", 2),
        one.get_messages("alice"),
    )
    left = [message.content for message in await two.get_messages("alice")]
    taken = [message.content for found in gone[:2] for message in found]
    assert sorted(left + taken, key=int) == [f"{n}" for n in range(12)]
    assert len(taken) == 4


async def test_on_postgresql(scene: Any, new_database: Any) -> None:
    uri = new_database().replace("postgresql://", "postgresql+psycopg://", 1)
    engine, mg = create_async_engine(uri), scene.guard()
    store = mg.guard(SQLAlchemyChatStore("chats", async_engine=engine), name="chat")
    await store.add_messages("alice", said("a", "b", "c"))
    await store.archive_oldest_messages("alice", 1)
    assert [message.content for message in await store.get_messages("alice")] == ["b", "c"]
    assert (await mg.aaudit(store)).clean
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE chats SET status = 'active'"))
    with pytest.raises(IntegrityError):
        await store.get_messages("alice")
    await engine.dispose()


async def test_what_an_operation_costs_in_syncs_of_the_anchor(scene: Any, monkeypatch: Any) -> None:
    mg = scene.guard()
    store = scene.store("sql", mg)
    count = 0
    whole = mg.anchor.sync

    def sync() -> None:
        nonlocal count
        count += 1
        whole()

    monkeypatch.setattr(mg.anchor, "sync", sync)
    costs = []
    for call in (
        lambda: store.add_messages("alice", said("a", "b", "c")),  # the first of a key
        lambda: store.add_message("alice", said("d")[0]),
        lambda: store.archive_oldest_messages("alice", 2),
        lambda: store.get_messages("alice"),
        store.get_keys,
        lambda: store.delete_oldest_messages("alice", 1),
        lambda: store.set_messages("alice", said("d", "e")),
        lambda: store.delete_messages("alice"),
    ):
        count = 0
        await call()
        costs.append(count)
    assert costs == [2, 1, 1, 0, 0, 2, 2, 2]
