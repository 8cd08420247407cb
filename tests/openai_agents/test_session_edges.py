"""Interrupted writes, many writers at once, other sessions of the SDK, PostgreSQL, and the milder modes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession
from agents.run_internal.items import ensure_input_item_format
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from memguard import IntegrityError, TamperedError

ITEMS = [{"role": "user", "content": f"message {n}"} for n in range(5)]


class Killed(BaseException):
    """The process ends here."""


def dies(scene: Any, session: Any, when: str) -> None:
    """Have the session's next change of its store end the process, before or after the store's own commit."""
    backend = session._ops.table.backend
    whole = backend.commit

    def commit(*args: Any) -> Any:
        if when == "after":
            yield from whole(*args)
        raise Killed
        yield

    backend.commit = commit


CHANGES: dict[str, Callable[[Any], Any]] = {
    "add": lambda session: session.add_items(ITEMS[3:4]),
    "many": lambda session: session.add_items(ITEMS[3:]),
    "pop": lambda session: session.pop_item(),
    "clear": lambda session: session.clear_session(),
    "replace": lambda session: session._atomic_replace_items(ITEMS[4:]),
}
AFTER = {"add": ITEMS[:4], "many": ITEMS, "pop": ITEMS[:2], "clear": [], "replace": ITEMS[4:]}


@pytest.mark.parametrize("flavour", ["sqlite", "sqlalchemy"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_process_that_ends_half_way_leaves_before_or_after(
    scene: Any, flavour: str, change: str, when: str
) -> None:
    await scene.session(flavour).add_items(ITEMS[:3])
    session = scene.session(flavour)
    await session.get_items()
    dies(scene, session, when)
    with pytest.raises(Killed):
        await CHANGES[change](session)
    await scene.aclose()
    mg = scene.guard()
    session = scene.session(flavour, mg=mg)
    found = await session.get_items()
    # A delete that was announced is finished; anything else is as the store says.
    destructive = change in ("pop", "clear")
    assert found == (AFTER[change] if when == "after" or destructive else ITEMS[:3])
    await session.add_items(ITEMS[:1])
    assert await session.get_items() == [*found, ITEMS[0]]
    assert (await mg.aaudit(session)).clean


@pytest.mark.parametrize("flavour", ["sqlite", "sqlalchemy", "custom"])
async def test_writers_of_one_loop_do_not_disturb_each_other(scene: Any, flavour: str) -> None:
    mg = scene.guard()
    one, two = scene.session(flavour, mg=mg), scene.session(flavour, mg=mg)
    new = [{"role": "user", "content": f"{n}"} for n in range(16)]
    await asyncio.gather(*[(one if n % 2 else two).add_items([item]) for n, item in enumerate(new)])
    popped = await asyncio.gather(one.pop_item(), two.pop_item(), one.get_items())
    left = await two.get_items()
    assert sorted(i["content"] for i in [*left, *popped[:2]]) == sorted(i["content"] for i in new)
    assert len(left) == 14


async def test_a_cancelled_caller_leaves_a_whole_write(scene: Any) -> None:
    session = scene.session("sqlite")
    for turn in range(6):
        task = asyncio.ensure_future(session.add_items(ITEMS))
        await asyncio.sleep(0.002 * turn)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = await session.get_items()
    assert len(found) % len(ITEMS) == 0
    assert (await session.__dict__["_memguard"].guard.aaudit(session)).clean


async def test_the_session_with_branches_is_guarded_on_the_branch_it_is_on(scene: Any) -> None:
    mg = scene.guard()
    made = AdvancedSQLiteSession(session_id="alice", db_path=scene.db, create_tables=True)
    session = mg.guard(made, name="chat")
    await session.add_items(ITEMS[:3])
    assert await session.get_items(limit=2) == ITEMS[1:3]
    assert await session.pop_item() == ITEMS[2]
    assert await session.get_items() == ITEMS[:2]
    with pytest.raises(AttributeError):
        session.create_branch_from_turn(1)
    scene.sql("UPDATE agent_messages SET message_data = replace(message_data, 'message 1', 'courier')")
    with pytest.raises(TamperedError):
        await session.get_items()
    made.close()


async def test_a_guarded_item_becomes_the_sdks_own_plain_item(scene: Any) -> None:
    session = scene.session("sqlite")
    await session.add_items(ITEMS[:1])
    (item,) = await session.get_items()
    assert type(ensure_input_item_format(item)) is dict or ensure_input_item_format(item) == ITEMS[0]


async def test_on_postgresql(scene: Any, new_database: Any) -> None:
    uri = new_database().replace("postgresql://", "postgresql+psycopg://", 1)
    engine, mg = create_async_engine(uri), scene.guard()
    session = mg.guard(SQLAlchemySession("alice", engine=engine, create_tables=True), name="chat")
    await session.add_items(ITEMS)
    assert await session.get_items(limit=2) == ITEMS[3:]
    assert await session.pop_item() == ITEMS[4]
    assert await session.get_items() == ITEMS[:4]
    assert (await mg.aaudit(session)).clean
    for edit in (
        "UPDATE agent_messages SET created_at = created_at - interval '1 day' WHERE message_data LIKE '%message 2%'",
        "UPDATE agent_messages SET message_data = replace(message_data, 'message 1', 'courier')",
    ):
        async with engine.begin() as connection:
            await connection.execute(text(edit))
        with pytest.raises(IntegrityError):
            await session.get_items()
    await engine.dispose()


@pytest.mark.parametrize(("mode", "served"), [("enforce", False), ("report", True), ("off", True)])
async def test_only_enforcing_refuses_and_report_says_so(
    scene: Any, mode: str, served: bool, caplog: Any
) -> None:
    await scene.session("sqlite").add_items(ITEMS)
    await scene.aclose()
    scene.sql("UPDATE agent_messages SET message_data = replace(message_data, 'message 1', 'courier')")
    session = scene.guard().guard(scene.bare("sqlite"), name="chat", mode=mode)
    if not served:
        with pytest.raises(TamperedError):
            await session.get_items()
        return
    assert [item["content"] for item in await session.get_items()][1] == "courier"
    assert "memguard" not in (await session.get_items())[1]
    assert ("MG401" in caplog.text) is (mode == "report")


async def test_what_an_operation_costs_in_syncs_of_the_anchor(scene: Any, monkeypatch: Any) -> None:
    mg = scene.guard()
    session = scene.session("sqlite", mg=mg)
    count = 0
    whole = mg.anchor.sync

    def sync() -> None:
        nonlocal count
        count += 1
        whole()

    monkeypatch.setattr(mg.anchor, "sync", sync)
    costs = []
    for call in (
        lambda: session.add_items(ITEMS[:1]),  # the first of a session
        lambda: session.add_items(ITEMS[:1]),
        lambda: session.add_items(ITEMS),
        session.get_items,
        lambda: session.get_items(2),
        session.pop_item,
        session.clear_session,
    ):
        count = 0
        await call()
        costs.append(count)
    assert costs == [2, 1, 1, 0, 0, 2, 2]
