"""A guarded PostgreSQL store answers as the bare one does, whatever is asked and however it is connected."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore

from memguard import MemGuard, UnsupportedError, unwrap

ALICE, BOB = ("users", "alice"), ("users", "bob")
WAYS = ["connection", "pipeline", "pool"]


def shown(result: Any) -> Any:
    """A result without its timestamps. Items of one moment, whose order the database does not say, by key."""
    if isinstance(result, list) and result and all(isinstance(one, SearchItem) for one in result):
        if all(one.score is None for one in result):
            result = sorted(result, key=lambda one: (-one.updated_at.timestamp(), one.namespace, one.key))
        return [("found", i.namespace, i.key, i.value, i.score and round(i.score, 6)) for i in result]
    if isinstance(result, Item):
        return ("item", result.namespace, result.key, result.value)
    return [shown(one) for one in result] if isinstance(result, list) else result


def spread(steps: list[list[Any]]) -> list[list[Any]]:
    """Each put in a batch of its own, so that no page is cut through items of one moment."""
    for ops in steps:
        puts = [op for op in ops if isinstance(op, PutOp)]
        if len(puts) < len(ops) or len({(op.namespace, op.key) for op in puts}) < len(puts):
            yield ops
        else:
            yield from ([op] for op in puts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("twin", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("ranked", [False, True], ids=["plain", "indexed"])
async def test_it_answers_as_bare(
    new_scene: Callable[..., Any], equality: Any, index: Any, ranked: bool, twin: bool, way: str
) -> None:
    steps = equality.STEPS[:3] + equality.RANKED + equality.STEPS if ranked else equality.STEPS
    options = {"index": index if ranked else None, "way": way}
    guarded, bare = new_scene().store(**options), new_scene().bare(**options)
    for number, ops in enumerate(spread(steps)):
        wanted = shown(bare.batch(iter(ops)))
        found = await guarded.abatch(iter(ops)) if twin else guarded.batch(iter(ops))
        assert shown(found) == wanted, f"step {number}"
    assert guarded._memguard.guard.audit(guarded).clean


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranked", [False, True], ids=["plain", "indexed"])
async def test_the_asynchronous_store_answers_as_bare(
    new_scene: Callable[..., Any], equality: Any, index: Any, ranked: bool, way: str
) -> None:
    steps = equality.STEPS[:3] + equality.RANKED + equality.STEPS if ranked else equality.STEPS
    options = {"index": index if ranked else None, "way": way}
    async with new_scene().abare(**options) as bare, new_scene().astore(**options) as guarded:
        for number, ops in enumerate(spread(steps)):
            wanted = shown(await bare.abatch(iter(ops)))
            assert shown(await guarded.abatch(iter(ops))) == wanted, f"step {number}"
        assert (await guarded._memguard.guard.aaudit(guarded)).clean


def test_attributes_types_and_times(scene: Any, index: Any) -> None:
    store = scene.store(index=index, ttl={"default_ttl": 5.0, "refresh_on_read": False})
    assert isinstance(store, PostgresStore)
    assert store.supports_ttl is True
    assert store.ttl_config == {"default_ttl": 5.0, "refresh_on_read": False}
    assert store.index_config is store.inner.index_config
    assert store.conn is store.inner.conn
    store.setup()
    store.put(ALICE, "a", {"text": "tea"})
    scene.sql("ALTER ROLE postgres SET timezone = 'Asia/Kolkata'")
    try:
        again = scene.store(index=index)
        (searched,), got, bare = again.search(ALICE), again.get(ALICE, "a"), again.inner.get(ALICE, "a")
        assert got.created_at == bare.created_at
        assert got.created_at.isoformat() == bare.created_at.isoformat() == searched.created_at.isoformat()
        assert got.created_at.isoformat().endswith("+05:30")
        assert scene.mg.audit(again).clean
    finally:
        scene.sql("ALTER ROLE postgres RESET timezone")
    with pytest.raises(AttributeError, match="inner"):
        store._cursor  # noqa: B018
    assert unwrap(store) is store.inner


def test_the_wrapped_object_is_unchanged_and_readable(scene: Any) -> None:
    bare = scene.bare()
    before = {
        name: getattr(bare, name) for name in ("conn", "pipe", "lock", "_deserializer", "_ttl_stop_event")
    }
    store = scene.guard().guard(bare, name="memories")
    store.put(ALICE, "a", {"text": "tea", "n": 1})
    assert all(getattr(bare, name) is value for name, value in before.items())
    found = bare.get(ALICE, "a").value
    assert found.keys() == {"text", "n", "memguard"}
    assert {k: v for k, v in found.items() if k != "memguard"} == {"text": "tea", "n": 1}


VALUES: dict[str, dict[str, Any]] = {
    "names of many lengths": {
        "b": 1,
        "aa": 2,
        "a": 3,
        "é": 4,
        "zz": 5,
        "": 6,
        'q"\\': 7,
        "memguarc": 8,
        "nemguard": 9,
    },
    "numbers": {
        "n": [
            0,
            -0.0,
            0.0,
            1.0,
            1.10,
            1e16,
            1e22,
            5e-324,
            1.7976931348623157e308,
            1.5e-7,
            1e-5,
            10**400,
            -(2**63),
        ]
    },
    "text": {"t": 'ü ☕ 😀 \u2028 \x7f\x1f\x01 \\u0000 "quoted" /\b\f\n\r\t'},
    "keys of other types": {1: "one", False: "no", None: "nothing", 2.5: "half", "1": "the last one stays"},
    "nested": {"a": [[], {}, [{"bb": [None, True, {"z": 1, "y": {}}]}]], "memguard": "not mine", "x": (1, 2)},
    "a nested member of our name": {
        "x": {"memguard": {"seal": "mg1.k.AAAA"}},
        "y": '"memguard": {"seal": "mg1.k.A"',
    },
    "empty": {},
}


@pytest.mark.parametrize("case", VALUES)
def test_values_come_back_as_from_the_bare_store(new_scene: Any, case: str) -> None:
    value = VALUES[case]
    bare, store = new_scene().bare(), new_scene().store()
    bare.put(ALICE, "k", {k: v for k, v in value.items() if k != "memguard"})
    store.put(ALICE, "k", value)
    wanted = bare.get(ALICE, "k").value
    assert repr(store.get(ALICE, "k").value) == repr(wanted)
    assert [repr(item.value) for item in store.search(ALICE)] == [repr(wanted)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": float("nan")},
        {"x": [float("-inf")]},
        {"x": "a\0b"},
        {"a\0": 1},
        {"x": "\ud800"},
        {"x": 10**5000},
    ],
    ids=["nan", "infinite", "nul", "nul in a name", "lone surrogate", "endless digits"],
)
def test_what_the_column_cannot_hold_is_refused_before_anything_is_stored(scene: Any, wrong: Any) -> None:
    store = scene.store()
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="MG510"):
            store.batch([PutOp(ALICE, "good", {"n": 1}), PutOp(ALICE, "bad", wrong)])
    assert scene.sql("SELECT count(*) FROM store") == [(0,)]
    with pytest.raises(TypeError):
        store.put(ALICE, "bad", {"x": object()})
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(UnsupportedError, match="MG145"):
        store.put(ALICE, "bad", endless)
    store.put(ALICE, "good", {"text": "\\u0000"})
    assert store.get(ALICE, "good").value == {"text": "\\u0000"}
    assert scene.mg.audit(store).clean


def test_keys_and_filters_with_nul_are_refused_by_name(scene: Any) -> None:
    store = scene.store()
    for call in (
        lambda: store.put(ALICE, "a\0b", {"n": 1}),
        lambda: store.get(ALICE, "a\0b"),
        lambda: store.delete(ALICE, "a\0b"),
        lambda: store.search(ALICE, filter={"t": "a\0b"}),
    ):
        with pytest.raises(UnsupportedError, match="MG510"):
            call()
    assert store.search(ALICE) == []
    assert scene.mg.audit(store).clean


def test_refusals_are_those_of_the_bare_store(scene: Any) -> None:
    store = scene.store()
    for call in (
        lambda: store.put((), "k", {}),
        lambda: store.put(("a.b",), "k", {}),
        lambda: store.put(("langgraph",), "k", {}),
        lambda: store.batch([GetOp(("a", ""), "k")]),
    ):
        with pytest.raises(InvalidNamespaceError):
            call()
    for wrong in ({"memguard": "x"}, {"n": {"$regex": "."}}):
        with pytest.raises(UnsupportedError, match="MG140"):
            store.search(ALICE, filter=wrong)


def test_json_written_and_read_as_the_connection_was_told(new_scene: Any) -> None:
    """Decimals for floats, by functions that the application registered on its connection."""
    from decimal import Decimal

    from psycopg.types.json import set_json_dumps, set_json_loads

    def dumps(value: Any) -> str:
        return json.dumps(value, default=lambda v: {"@": str(v)}).replace('"@": ', '"n": ')

    scene, other = new_scene(), new_scene()
    bare, inner = other.bare(), scene.bare()
    for one in (bare, inner):
        set_json_dumps(dumps, one.conn)
        set_json_loads(lambda text: json.loads(text, parse_float=Decimal), one.conn)
    store = scene.guard().guard(inner, name="memories")
    for one in (bare, store):
        one.put(ALICE, "k", {"price": Decimal("1.10"), "x": 1.5, "y": 1e20})
    assert repr(store.get(ALICE, "k").value) == repr(bare.get(ALICE, "k").value)
    assert isinstance(store.get(ALICE, "k").value["x"], Decimal)
    assert scene.mg.audit(store).clean


def test_a_connection_that_does_not_commit_is_refused(scene: Any) -> None:
    scene.set_up()
    with psycopg.connect(scene.uri) as connection:
        store = scene.guard().guard(PostgresStore(connection), name="memories")
        with pytest.raises(UnsupportedError, match="MG512"):
            store.put(ALICE, "a", {"n": 1})
        with pytest.raises(UnsupportedError, match="MG512"):
            store.get(ALICE, "a")
    scene.close()
    store = scene.store()
    store.put(ALICE, "a", {"n": 1})
    with store.conn.transaction(), pytest.raises(UnsupportedError, match="MG512"):
        store.put(ALICE, "a", {"n": 2})
    assert store.get(ALICE, "a").value == {"n": 1}
    assert scene.mg.audit(store).clean


def test_two_stores_of_one_name_are_told_apart_by_their_database(new_scene: Any) -> None:
    one, two = new_scene(), new_scene()
    mg = one.guard()
    mg.guard(one.bare(), name="memories")
    mg.guard(one.bare(way="pool"), name="memories")
    with pytest.raises(Exception, match="MG122"):
        mg.guard(two.bare(), name="memories")


async def test_a_synchronous_call_from_the_loop_of_an_asynchronous_store_is_refused(scene: Any) -> None:
    async with scene.astore() as store:
        await store.aput(ALICE, "a", {"text": "tea"})
        with pytest.raises(UnsupportedError, match="MG131"):
            store.get(ALICE, "a")
        assert (await asyncio.to_thread(store.get, ALICE, "a")).value == {"text": "tea"}
        assert isinstance(store, AsyncPostgresStore)


@pytest.mark.parametrize("way", WAYS)
async def test_many_tasks_at_once_and_a_cancelled_one(scene: Any, way: str) -> None:
    async with scene.astore(way=way) as store:

        async def one(number: int) -> None:
            namespace = ("users", f"u{number % 3}")
            await store.aput(namespace, f"k{number}", {"n": number})
            assert (await store.aget(namespace, f"k{number}")).value == {"n": number}
            await store.asearch(("users",), limit=3)

        await asyncio.gather(*(one(number) for number in range(20)))
        assert len(await store.asearch(("users",), limit=100)) == 20
        task = asyncio.ensure_future(store.aput(ALICE, "a", {"n": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await store._memguard.guard.aaudit(store)).clean


def test_labels_and_withheld_writes(screened: Any) -> None:
    from memguard import source

    store = screened.store()
    with source("web:https://shop.example"):
        store.put(ALICE, "k", {"text": "green tea is sold out"})
    item = store.get(ALICE, "k")
    assert item.value == {"text": "green tea is sold out"}
    assert str(screened.mg.label(item).source) == "web:https://shop.example"
    (kept,) = screened.sql("SELECT value -> 'memguard' ->> 'seal' FROM store")[0]
    assert kept.startswith("mg1.")


def test_namespaces_and_depths(new_scene: Any) -> None:
    bare, store = new_scene().bare(), new_scene().store()
    for one in (bare, store):
        for number, namespace in enumerate(
            (("a", "b", "c"), ("a", "b"), ("a_", "b"), ("A", "b"), ("ab",), ("ü",))
        ):
            one.put(namespace, "k", {"n": number})
        one.delete(("A", "b"), "k")
    for op in (
        ListNamespacesOp(),
        ListNamespacesOp(max_depth=1),
        ListNamespacesOp(max_depth=2, limit=2, offset=1),
    ):
        assert store.batch([op]) == bare.batch([op])
    for prefix in ((), ("a",), ("a_",), ("A",)):
        assert [i.namespace for i in store.search(prefix)] == [i.namespace for i in bare.search(prefix)]
    assert store.batch([SearchOp(("a",), filter={"n": {"$gte": 1}})])[0][0].key == "k"


def test_one_mg_over_sqlite_and_postgres(scene: Any) -> None:
    """A key copied into another store under the same home does not verify there."""
    import sqlite3

    from langgraph.store.sqlite import SqliteStore

    mg = scene.guard()
    here = mg.guard(scene.bare(), name="memories")
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "x.db", check_same_thread=False, isolation_level=None)
        there = SqliteStore(connection)
        there.setup()
        other = mg.guard(there, name="other")
        for store in (here, other):
            store.put(ALICE, "k", {"n": 1})
        ((value,),) = connection.execute("SELECT value FROM store").fetchall()
        scene.sql("UPDATE store SET value = %s::jsonb", value.decode())
        with pytest.raises(Exception, match="MG4"):
            here.get(ALICE, "k")
        assert other.get(ALICE, "k").value == {"n": 1}
        connection.close()
        assert isinstance(mg, MemGuard)
