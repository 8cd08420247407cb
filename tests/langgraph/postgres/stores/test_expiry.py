"""Expiry: authenticated, told by the server's clock, moved by reads within bounds, swept as a counted delete."""

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


def column(scene: Any, key: str) -> Any:
    ((found,),) = scene.sql("SELECT expires_at FROM store WHERE key = %s", key)
    return found


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
@pytest.mark.parametrize("omit", [False, True], ids=["", "omitted"])
def test_an_expired_item_does_not_come_back_by_being_read(scene: Any, read: str, omit: bool) -> None:
    store = scene.store(ttl={**REFRESH, "omit_expired": omit})
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    time.sleep(1.6)
    for _ in range(2):
        if read == "get":
            assert store.get(ALICE, "short") is None
        else:
            assert store.search(ALICE) == []
    assert scene.mg.audit(store).clean


def test_reads_prolong_what_is_alive(scene: Any) -> None:
    store = scene.store(ttl=REFRESH)
    store.put(ALICE, "a", {"n": 1}, ttl=10)
    store.put(ALICE, "b", {"n": 1}, ttl=10)
    before = column(scene, "a"), column(scene, "b")
    time.sleep(0.1)
    assert store.get(ALICE, "a", refresh_ttl=False).value == {"n": 1}
    assert column(scene, "a") == before[0]
    assert store.get(ALICE, "a").value == {"n": 1}
    assert column(scene, "a") > before[0]
    assert column(scene, "b") == before[1]
    assert len(store.search(ALICE)) == 2
    assert column(scene, "b") > before[1]
    scene.close()
    store = scene.store(ttl=REFRESH)
    assert len(store.search(ALICE)) == 2
    assert scene.mg.audit(store).clean


@pytest.mark.parametrize(("minutes", "kept"), [(1.4, 1), (1.6, 2), (2.5, 2), (10, 10)])
def test_lifetimes_that_the_column_rounds(scene: Any, minutes: float, kept: int) -> None:
    """The first expiry is exact; what a read leaves counts in whole minutes, earlier or later."""
    store = scene.store(ttl=REFRESH)
    store.put(ALICE, "a", {"n": 1}, ttl=minutes)
    assert scene.sql("SELECT ttl_minutes FROM store") == [(kept,)]
    first = column(scene, "a").timestamp()
    for _ in range(2):
        assert store.get(ALICE, "a").value == {"n": 1}
        assert store.search(ALICE)[0].value == {"n": 1}
    assert column(scene, "a").timestamp() - first == pytest.approx((kept - minutes) * 60, abs=5)
    assert scene.mg.audit(store).clean
    for change in ("interval '50 seconds'", "- interval '45 seconds'"):
        scene.sql(f"UPDATE store SET expires_at = now() + ttl_minutes * interval '1 minute' + {change}")
        with pytest.raises(IntegrityError):
            store.get(ALICE, "a")


def test_a_sweep_is_a_delete_that_the_head_counts(scene: Any, index: Any) -> None:
    store = scene.store(ttl=TTL, index=index)
    for number in range(3):
        store.put((*ALICE, str(number)), "short", {"n": number}, ttl=MOMENT)
        store.put((*ALICE, str(number)), "ever", {"n": number})
    assert len(store.search(ALICE)) == 6
    time.sleep(1.6)
    assert store.sweep_ttl() == 3
    assert store.sweep_ttl() == 0
    assert scene.sql("SELECT count(*) FROM store WHERE key = 'short'") == [(0,)]
    assert scene.sql("SELECT count(*) FROM store_vectors WHERE key = 'short'") == [(0,)]
    assert len(store.search(ALICE)) == 3
    store.put((*ALICE, "0"), "short", {"n": 9})
    scene.close()
    store = scene.store(ttl=TTL, index=index)
    assert store.get((*ALICE, "0"), "short").value == {"n": 9}
    assert store.get((*ALICE, "1"), "short") is None
    assert scene.mg.audit(store).clean


def test_an_expiry_that_nobody_set_deletes_nothing(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    store.put(ALICE, "a", {"n": 1})
    store.put(("other",), "b", {"n": 1}, ttl=MOMENT)
    scene.sql("UPDATE store SET expires_at = '2001-01-01', ttl_minutes = 1 WHERE key = 'a'")
    time.sleep(1.6)
    with pytest.raises(IntegrityError):
        store.sweep_ttl()
    assert scene.sql("SELECT key FROM store") == [("a",)]  # the other namespace was swept all the same
    with pytest.raises(IntegrityError):
        store.get(ALICE, "a")


def test_what_an_unguarded_sweep_deletes_is_missed(scene: Any) -> None:
    store = scene.store(ttl=TTL)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    time.sleep(0.6)
    assert store.inner.sweep_ttl() == 1
    with pytest.raises(RollbackError):
        store.get(ALICE, "short")


def test_sweepers(scene: Any) -> None:
    bare = scene.bare(ttl=TTL)
    bare.start_ttl_sweeper(1)
    try:
        with pytest.raises(UnsupportedError, match="MG156"):
            scene.guard().guard(bare, name="memories")
    finally:
        bare.stop_ttl_sweeper()
    store = scene.mg.guard(bare, name="memories")
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    future = store.start_ttl_sweeper(0.8 / 60)
    until = time.time() + 10
    while scene.sql("SELECT count(*) FROM store") != [(0,)] and time.time() < until:
        time.sleep(0.1)
    assert store.stop_ttl_sweeper(5) is True
    assert future.done()
    assert bare._ttl_sweeper_thread is None
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


@pytest.mark.parametrize("seconds", [-40.0, 40.0])
def test_a_server_whose_clock_is_off(scene: Any, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The machine's own clock is moved; stamps and expiries are told by the server's."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    store = scene.store(ttl=REFRESH)
    store.put(ALICE, "short", {"n": 1}, ttl=MOMENT)
    store.put(ALICE, "long", {"n": 2}, ttl=1)
    store.put(ALICE, "long", {"n": 3}, ttl=1)
    assert store.get(ALICE, "long").value == {"n": 3}
    assert store.search(ALICE, filter={"n": 3})[0].key == "long"
    time.sleep(1.6)
    assert store.get(ALICE, "short") is None
    assert store.sweep_ttl() == 1
    assert scene.mg.audit(store).clean
    monkeypatch.undo()
    scene.close()
    store = scene.store(ttl=REFRESH)  # and another machine agrees
    assert store.get(ALICE, "long").value == {"n": 3}
    assert scene.mg.audit(store).clean


def test_a_clock_that_is_set_while_the_program_runs(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, shift = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    store = scene.store(ttl=TTL)
    for number, seconds in enumerate((0.0, 30.0, -30.0, 0.0)):
        shift[0] = seconds
        monkeypatch.setattr(store._ops.table, "_offset_at", float("-inf"))  # as if it were a while later
        store.put(ALICE, f"k{number}", {"n": number}, ttl=5)
        store.put(ALICE, "same", {"n": number})
        assert store.get(ALICE, f"k{number}").value == {"n": number}
    assert len(store.search(ALICE)) == 5
    assert scene.mg.audit(store).clean


def test_a_clock_that_tells_nothing(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 500)
    store = scene.store(ttl=TTL)
    with pytest.raises(UnsupportedError, match="MG511"):
        store.put(ALICE, "a", {"n": 1}, ttl=5)
    assert scene.sql("SELECT count(*) FROM store") == [(0,)]
    monkeypatch.undo()
    scene.close()
    store = scene.store(ttl=TTL)
    store.put(ALICE, "a", {"n": 1}, ttl=5)
    assert scene.mg.audit(store).clean
