"""source and principal: blocks that follow a task, and mistakes that are refused."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memguard.context import current_principal, current_source, principal, source
from memguard.decision import Decision
from memguard.errors import ConfigError, ScopeError
from memguard.labels import Label
from memguard.record import Lineage, Parent, Principal, Record, Source, Trust


def test_nothing_is_declared_by_default() -> None:
    assert current_source() is None
    assert current_principal() is None


def test_blocks_nest_and_end() -> None:
    with source("web:https://shop.example", parents=["r1"], signature=b"s") as outer:
        assert current_source() is outer
        assert outer.source == Source("web", "https://shop.example", b"s")
        assert outer.lineage == Lineage.of("r1")
        with source("tool:crm"):
            assert str(current_source().source) == "tool:crm"  # type: ignore[union-attr]
        assert current_source() is outer
    assert current_source() is None


def test_a_block_ends_when_its_body_raises() -> None:
    def body() -> None:
        with principal(tenant="acme", user="alice", purpose="act"):
            assert current_principal() == Principal("acme", "alice", "act")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        body()
    assert current_principal() is None


def test_one_block_may_be_entered_twice() -> None:
    block = source("user:alice")
    with block, block:
        assert current_source() is not None
    with block:
        assert current_source() is not None
    assert current_source() is None


async def test_tasks_do_not_see_each_other_and_threads_inherit() -> None:
    seen: dict[str, str] = {}

    async def work(name: str) -> None:
        with source(f"user:{name}"):
            await asyncio.sleep(0)
            seen[name] = str(current_source().source)  # type: ignore[union-attr]
            seen[name + "-thread"] = await asyncio.to_thread(lambda: str(current_source().source))  # type: ignore[union-attr]

    await asyncio.gather(work("a"), work("b"))
    assert seen == {"a": "user:a", "a-thread": "user:a", "b": "user:b", "b-thread": "user:b"}
    assert current_source() is None


def test_a_thread_with_a_copied_context_inherits_and_a_bare_one_does_not() -> None:
    with source("user:alice"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(contextvars.copy_context().run, current_source).result() is not None
        assert pool.submit(current_source).result() is None


def test_a_string_parent_is_a_record_id_even_if_it_looks_like_a_source() -> None:
    with source("summary", parents=["user:7"]) as declared:
        assert declared.lineage.parents == (Parent("user:7", None),)


def test_items_bring_their_trust() -> None:
    class Item:
        key = "k9"
        memguard_label = Label(Source("web", "x"), Trust.UNTRUSTED, Decision())

    parents = [
        Item(),
        Record("t", key="k1", trust=Trust.USER),
        Label(Source("tool", "crm"), Trust.TOOL),
        Parent("p"),
    ]
    with source("summary", parents=parents) as declared:
        assert declared.lineage.parents == (
            Parent("k9", Trust.UNTRUSTED),
            Parent("k1", Trust.USER),
            Parent("tool:crm", Trust.TOOL),
            Parent("p"),
        )


@pytest.mark.parametrize("parents", ["r1", [""], [7], [object()], [{"trust": "system"}]])
def test_what_is_no_parent_is_refused_before_the_block(parents: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        source("summary", parents=parents)
    assert caught.value.code == "MG144"


@pytest.mark.parametrize(
    "identity",
    [
        {},
        {"user": None},
        {"tenant": "acme", "user": None},
        {"user": ""},
        {"user": "*"},
        {"tenant": ""},
        {"user": 3},
    ],
)
def test_a_lost_identity_fails_closed(identity: dict[str, Any]) -> None:
    # V25: a request whose user got lost must not become everybody's.
    with pytest.raises(ScopeError):
        principal(**identity)
    assert current_principal() is None


def _twice(block: Any, read: Callable[[], object]) -> list[object]:
    """What is in force in two threads after both were inside one and the same block at once."""
    entered, left = threading.Barrier(2), threading.Event()
    found: list[object] = ["nothing was read"] * 2

    def one(number: int) -> None:
        with block:
            entered.wait(10)
            if number:
                left.wait(10)
        left.set()
        found[number] = read()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_one_block_in_two_threads_at_once_ends_in_both() -> None:
    """A worker of a pool must not go on as the user of a request that is over."""
    assert _twice(principal(user="alice"), current_principal) == [None, None]
    assert _twice(source("user:alice"), current_source) == [None, None]


async def test_one_block_in_two_tasks_at_once_ends_in_both() -> None:
    block = source("user:alice")
    found: list[object] = []
    first = asyncio.Event()

    async def one(waits: bool) -> None:
        with block:
            if waits:
                await first.wait()
            else:
                await asyncio.sleep(0)
            assert current_source() is block.value
        first.set()
        found.append(current_source())

    await asyncio.gather(one(True), one(False))
    assert found == [None, None]


def test_blocks_that_end_out_of_order_leave_nothing_behind() -> None:
    outer, inner = principal(user="alice"), principal(user="bob")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert current_principal() == inner.value
    inner.__exit__(None, None, None)
    assert current_principal() is None
