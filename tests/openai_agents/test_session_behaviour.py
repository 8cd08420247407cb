"""One behaviour suite over every session, bare and guarded: both have to answer alike."""

from __future__ import annotations

from typing import Any

import pytest
from agents.memory import Session, SessionABC, SessionSettings

FLAVOURS = ("sqlite", "sqlalchemy", "async-sqlite", "encrypted", "encrypted-sqlalchemy", "custom")
#: Sessions of the SDK, whose database reads a negative limit as none.
SHIPPED = tuple(name for name in FLAVOURS if name != "custom")
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "first, with „quotes“, 日本語 and \U0001f642"},
    {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "second", "annotations": []}],
        "id": "msg_1",
    },
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "rain\nand wind"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "extra": {"deep": [1, 2.5, None, True, -0.0, 10**20]}},
    {"role": "user", "content": "the same twice"},
    {"role": "user", "content": "the same twice"},
]


@pytest.fixture(params=["bare", "guarded"])
def make(request: Any, scene: Any) -> Any:
    mg = scene.guard() if request.param == "guarded" else None

    def made(flavour: str, name: str = "alice", **more: Any) -> Any:
        if mg is None:
            return scene.bare(flavour, name, **more)
        return scene.session(flavour, name, mg, **more)

    made.guarded = mg is not None  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_items_come_back_as_they_went_in_and_in_order(make: Any, flavour: str) -> None:
    session = make(flavour)
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    assert await session.get_items() == ITEMS
    assert await make(flavour).get_items() == ITEMS


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_limits_cut_from_the_end(make: Any, flavour: str) -> None:
    session = make(flavour)
    await session.add_items(ITEMS)
    assert await session.get_items(limit=2) == ITEMS[-2:]
    assert await session.get_items(0) == []
    assert await session.get_items(100) == ITEMS
    if flavour in SHIPPED:
        assert await session.get_items(-1) == ITEMS


@pytest.mark.parametrize("flavour", SHIPPED)
async def test_the_setting_is_the_default_limit_and_an_argument_wins(make: Any, flavour: str) -> None:
    session = make(flavour)
    await session.add_items(ITEMS)
    session.session_settings = SessionSettings(limit=3)
    assert session.session_settings.limit == 3
    assert await session.get_items() == ITEMS[-3:]
    assert await session.get_items(limit=5) == ITEMS[-5:]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_pop_takes_the_newest_until_nothing_is_left(make: Any, flavour: str) -> None:
    session = make(flavour)
    assert await session.pop_item() is None
    await session.add_items(ITEMS[:3])
    assert await session.pop_item() == ITEMS[2]
    await session.add_items(ITEMS[3:4])
    assert await session.get_items() == [*ITEMS[:2], ITEMS[3]]
    assert [await session.pop_item() for _ in range(4)] == [ITEMS[3], ITEMS[1], ITEMS[0], None]
    await session.add_items(ITEMS[:1])
    assert await session.get_items() == ITEMS[:1]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_clear_empties_one_session_and_it_can_begin_again(make: Any, flavour: str) -> None:
    alice, bob = make(flavour), make(flavour, "bob")
    await alice.add_items(ITEMS)
    await bob.add_items(ITEMS[:2])
    await alice.clear_session()
    await alice.clear_session()
    assert await alice.get_items() == []
    assert await bob.get_items() == ITEMS[:2]
    await alice.add_items(ITEMS[:1])
    assert await alice.get_items() == ITEMS[:1]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_nothing_added_is_nothing_stored(make: Any, flavour: str) -> None:
    session = make(flavour)
    await session.add_items([])
    assert await session.get_items() == []


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_it_is_what_the_sdk_asks_for(make: Any, flavour: str) -> None:
    session = make(flavour)
    assert session.session_id == "alice"
    assert isinstance(session, Session)
    assert isinstance(session, SessionABC) is (flavour != "custom")
    await session.add_items(ITEMS[:1])
    (item,) = await session.get_items()
    assert isinstance(item, dict)
    item["content"] = "changed by whoever read it"
    assert await session.get_items() == ITEMS[:1]


@pytest.mark.parametrize("flavour", ["encrypted", "encrypted-sqlalchemy"])
async def test_a_reading_budget_refuses_what_it_refuses_bare(make: Any, flavour: str) -> None:
    session = make(flavour)
    inner = getattr(session, "inner", session)
    await session.add_items(ITEMS)
    inner.max_scan_items = 6
    with pytest.raises(RuntimeError, match="max_scan_items"):
        await session.get_items()
    with pytest.raises(ValueError, match="non-negative"):
        await session.get_items(-1)
    assert await session.get_items(2) == ITEMS[-2:]
    inner.max_scan_items = 30
    assert await session.get_items() == ITEMS


async def test_a_closed_session_says_so(make: Any) -> None:
    session = make("sqlite")
    await session.add_items(ITEMS[:1])
    session.close()
    for call in (session.add_items([]), session.add_items(ITEMS), session.get_items(), session.pop_item()):
        with pytest.raises(RuntimeError, match="closed"):
            await call
