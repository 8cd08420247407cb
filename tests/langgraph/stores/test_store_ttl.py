"""Expiry: authenticated, never served past its time, moved by reads within bounds, swept as a counted delete."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from memguard import IntegrityError, RollbackError, UnsupportedError

ALICE = ("users", "alice")
MOMENT = 0.5 / 60  # minutes
TTL = {"refresh_on_read": False}
REFRESH = {"refresh_on_read": True}


def column(scene: Any, key: str) -> str:
    ((found,),) = scene.sql("SELECT expires_at FROM store WHERE key = ?", key)
    return str(found)


def test_an_expired_item_that_nobody_swept_is_not_served(scene: Any) -> None:
    """V07."""
    store = scene.store(ttl=TTL)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    store.put(ALICE, "long", {"n": 2}, ttl=60)
    store.put(ALICE, "ever", {"n": 3})
    assert store.get(ALICE, "short").value == {"n": 1}
    time.sleep(1.6)
    assert store.inner.get(ALICE, "short") is not None  # the bare store does serve it
    assert store.get(ALICE, "short") is None
    assert {item.key for item in store.search(ALICE)} == {"long", "ever"}
    assert {item.key for item in store.search(ALICE, limit=2)} == {"long", "ever"}
    assert len(store.search(ALICE, limit=1, offset=1)) == 1
    assert store.search(ALICE, filter={"n": 1}) == []
    scene.close()
    store = scene.store(ttl=TTL)
    assert store.get(ALICE, "short") is None
    assert scene.mg.audit(store).clean


@pytest.mark.parametrize("read", ["get", "search"])
def test_an_expired_item_does_not_come_back_by_being_read(scene: Any, read: str) -> None:
    store = scene.store(ttl=REFRESH)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    time.sleep(1.6)
    for _ in range(2):
        if read == "get":
            assert store.get(ALICE, "short") is None
        else:
            assert store.search(ALICE) == []


def test_reads_prolong_what_is_alive(scene: Any) -> None:
    store = scene.store(ttl=REFRESH)
    store.put(ALICE, "a", {"n": 1}, ttl=10)
    store.put(ALICE, "b", {"n": 1}, ttl=10)
    before = column(scene, "a"), column(scene, "b")
    time.sleep(2.1)
    assert store.get(ALICE, "a", refresh_ttl=False).value == {"n": 1}
    assert column(scene, "a") == before[0]
    assert store.get(ALICE, "a").value == {"n": 1}
    assert column(scene, "a") > before[0]
    assert column(scene, "b") == before[1]
    assert len(store.search(ALICE)) == 2
    assert column(scene, "b") > before[1]
    assert store.get(ALICE, "a").value == {"n": 1}
    scene.close()
    store = scene.store(ttl=REFRESH)
    assert len(store.search(ALICE)) == 2
    assert scene.mg.audit(store).clean


def test_a_sweep_is_a_delete_that_the_head_counts(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    for number in range(3):
        store.put((*ALICE, str(number)), "short", {"n": number}, ttl=MOMENT)
        store.put((*ALICE, str(number)), "ever", {"n": number})
    time.sleep(1.6)
    assert store.sweep_ttl() == 3
    assert store.sweep_ttl() == 0
    assert scene.sql("SELECT count(*) FROM store WHERE key = 'short'") == [(0,)]
    assert len(store.search(ALICE)) == 3
    store.put((*ALICE, "0"), "short", {"n": 9})
    scene.close()
    store = scene.store(ttl=TTL)
    assert store.get((*ALICE, "0"), "short").value == {"n": 9}
    assert store.get((*ALICE, "1"), "short") is None
    assert scene.mg.audit(store).clean


def test_an_expiry_that_nobody_set_deletes_nothing(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    store.put(ALICE, "a", {"n": 1})
    store.put(("other",), "b", {"n": 1}, ttl=MOMENT)
    scene.sql("UPDATE store SET expires_at = '2001-01-01 00:00:00', ttl_minutes = 1 WHERE key = 'a'")
    time.sleep(1.6)
    with pytest.raises(IntegrityError):
        store.sweep_ttl()
    assert scene.sql("SELECT key FROM store") == [("a",)]  # the other namespace was swept all the same
    with pytest.raises(IntegrityError):
        store.get(ALICE, "a")


def test_what_an_unguarded_sweep_deletes_is_missed(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    time.sleep(1.6)
    assert store.inner.sweep_ttl() == 1
    with pytest.raises(RollbackError):
        store.get(ALICE, "short")


def test_a_sweeper_of_the_bare_store_must_be_stopped_first(scene: Any) -> None:
    bare = scene.bare(ttl=TTL)
    bare.start_ttl_sweeper(1)
    try:
        with pytest.raises(UnsupportedError, match="MG156"):
            scene.guard().guard(bare, name="memories")
    finally:
        bare.stop_ttl_sweeper()
    scene.mg.guard(bare, name="memories")


def test_the_guarded_sweeper_runs_the_guarded_sweep(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    future = store.start_ttl_sweeper(0.8 / 60)
    until = time.time() + 10
    while scene.sql("SELECT count(*) FROM store") != [(0,)] and time.time() < until:
        time.sleep(0.1)
    assert store.stop_ttl_sweeper(5) is True
    assert future.done()
    assert store.get(ALICE, "short") is None
    assert scene.mg.audit(store).clean


async def test_the_asynchronous_sweeper(scene: Any) -> None:
    async with scene.astore(ttl=TTL) as store:
        await store.aput(ALICE, "short", {"n": 1}, ttl=MOMENT)
        await store.aput(ALICE, "ever", {"n": 2})
        await store.start_ttl_sweeper(0.8 / 60)
        until = time.time() + 10
        while scene.sql("SELECT count(*) FROM store") != [(1,)] and time.time() < until:
            await asyncio.sleep(0.1)
        assert await store.stop_ttl_sweeper(5) is True
        assert await store.aget(ALICE, "short") is None
        assert len(await store.asearch(ALICE)) == 1
        assert await store.sweep_ttl() == 0


def test_the_default_lifetime_of_the_configuration(scene: Any) -> None:
    store = scene.store(ttl={"default_ttl": MOMENT, "refresh_on_read": False})
    store.put(ALICE, "a", {"n": 1})
    store.put(ALICE, "b", {"n": 1}, ttl=None)
    time.sleep(1.6)
    assert store.get(ALICE, "a") is None
    assert store.get(ALICE, "b").value == {"n": 1}


def test_a_store_without_lifetimes_says_so(scene: Any) -> None:
    store = scene.memory()
    with pytest.raises(NotImplementedError):
        store.put(ALICE, "a", {"n": 1}, ttl=5)
