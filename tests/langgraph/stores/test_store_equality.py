"""A guarded store answers as the bare one does, whatever is asked of it and by whichever face."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from memguard import MemGuard, unwrap

ALICE, BOB, SUB = ("users", "alice"), ("users", "bob"), ("users", "alice", "notes")


def shown(result: Any) -> Any:
    """A result without its timestamps, which differ between two runs."""
    if isinstance(result, SearchItem):
        score = None if result.score is None else round(result.score, 6)
        return ("found", result.namespace, result.key, result.value, score)
    if isinstance(result, Item):
        return ("item", result.namespace, result.key, result.value)
    if isinstance(result, list):
        return [shown(one) for one in result]
    return result


def puts() -> list[Any]:
    return [
        PutOp(ALICE, "a", {"text": "likes green tea", "n": 1, "deep": {"x": [1, {"y": None}]}}),
        PutOp(ALICE, "b", {"text": "likes coffee", "n": 2.5, "flag": True}),
        PutOp(ALICE, "c", {"text": "ünïcode  \u2028 ☕", "n": -3}),
        PutOp(BOB, "a", {"text": "likes tea and rain", "n": 7}),
        PutOp(SUB, "z", {"text": "a note on tea", "n": 4, "tags": ["x", "y"]}),
        PutOp(("other",), "empty", {}),
        PutOp(("users", "alicedoor"), "a", {"text": "not alice"}),
    ]


#: Each step is a batch; results of all are compared.
STEPS: list[list[Any]] = [
    [GetOp(ALICE, "a"), SearchOp(("users",)), ListNamespacesOp()],
    puts(),
    [GetOp(ALICE, key) for key in "abczz"] + [GetOp(("nobody",), "a"), GetOp(("other",), "empty")],
    [SearchOp(()), SearchOp(ALICE), SearchOp(("users",), limit=2), SearchOp(("users",), limit=2, offset=3)],
    [SearchOp(("users",), filter=f) for f in ({"n": 1}, {"n": {"$gt": 1}}, {"n": {"$gte": 2.5, "$lt": 7}})],
    [
        SearchOp(("users",), filter=f)
        for f in ({"text": "likes coffee"}, {"n": {"$ne": 4}}, {"n": 1, "text": "no"})
    ],
    [SearchOp((), filter={"flag": True}), SearchOp((), filter={"missing": None}), SearchOp(ALICE, limit=0)],
    [
        ListNamespacesOp(),
        ListNamespacesOp(max_depth=1),
        ListNamespacesOp(max_depth=2),
        ListNamespacesOp(limit=2, offset=1),
    ],
    [
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users",)),)),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users", "alice")),)),
        ListNamespacesOp(match_conditions=(MatchCondition("suffix", ("notes",)),)),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users", "*", "notes")),)),
        ListNamespacesOp(
            match_conditions=(MatchCondition("prefix", ("*",)), MatchCondition("suffix", ("alice",)))
        ),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users",)),), max_depth=2),
    ],
    # reads see the state before the puts of their batch; the last write of a key wins
    [
        GetOp(ALICE, "a"),
        PutOp(ALICE, "a", {"text": "first"}),
        PutOp(ALICE, "a", {"text": "last", "n": 9}),
        SearchOp(ALICE),
    ],
    [
        GetOp(ALICE, "a"),
        PutOp(ALICE, "b", None),
        PutOp(ALICE, "never", None),
        PutOp(SUB, "new", {"text": "x"}),
    ],
    [SearchOp(()), ListNamespacesOp(), GetOp(ALICE, "b")],
    [
        PutOp(ALICE, "x", {"n": 1}),
        PutOp(ALICE, "x", None),
        PutOp(ALICE, "y", None),
        PutOp(ALICE, "y", {"n": 2}),
    ],
    [SearchOp(ALICE), PutOp(SUB, "z", None), PutOp(SUB, "new", None)],
    [SearchOp(()), PutOp(SUB, "z", {"text": "back again"}), SearchOp(SUB)],
    [SearchOp(()), GetOp(SUB, "z")],
]
RANKED: list[list[Any]] = [
    [
        SearchOp(("users",), query="tea"),
        SearchOp((), query="coffee", limit=1),
        SearchOp(ALICE, query="tea", filter={"n": 1}),
    ],
    [PutOp(ALICE, "r", {"text": "tea tea tea"}), SearchOp(ALICE, query="tea")],
    [SearchOp(("users",), query="tea", limit=3, offset=1), PutOp(ALICE, "r", None)],
    [SearchOp(("users",), query="tea", limit=20), PutOp(ALICE, "hidden", {"text": "tea"}, index=False)],
    [SearchOp(ALICE, query="tea", limit=20), PutOp(ALICE, "some", {"text": "tea", "n": "rain"}, index=["n"])],
    [SearchOp(ALICE, query="rain", limit=20), SearchOp(ALICE, query="tea", limit=20)],
]


async def aran(store: Any, steps: list[list[Any]], *, twin: bool = True) -> list[Any]:
    return [shown(await store.abatch(iter(ops)) if twin else store.batch(iter(ops))) for ops in steps]


def ran(store: Any, steps: list[list[Any]]) -> list[Any]:
    return [shown(store.batch(iter(ops))) for ops in steps]


async def compared(bare: Any, guarded: Any, steps: list[list[Any]], *, twins: tuple[bool, bool]) -> None:
    """Both, step by step. The stores order by a clock that ticks in seconds: a step must lie in one of them."""
    for number, ops in enumerate(steps):
        if time.time() % 1 > 0.6:
            await asyncio.sleep(1 - time.time() % 1)
        second = int(time.time())
        (wanted,) = await aran(bare, [ops], twin=twins[0])
        (found,) = await aran(guarded, [ops], twin=twins[1])
        if int(time.time()) != second:
            pytest.skip("the machine was too slow for two stores within one second")
        assert found == wanted, f"step {number}"


@pytest.mark.parametrize("twin", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("ranked", [False, True], ids=["plain", "indexed"])
async def test_sqlite_answers_as_bare(
    new_scene: Callable[..., Any], index: Any, ranked: bool, twin: bool
) -> None:
    options, steps = ({"index": index}, STEPS[:3] + RANKED + STEPS) if ranked else ({}, STEPS)
    guarded = new_scene().store(**options)
    await compared(new_scene().bare(**options), guarded, steps, twins=(False, twin))
    assert guarded._memguard.guard.audit(guarded).clean


@pytest.mark.parametrize("twin", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("ranked", [False, True], ids=["plain", "indexed"])
async def test_memory_answers_as_bare(
    new_scene: Callable[..., Any], index: Any, ranked: bool, twin: bool
) -> None:
    options, steps = ({"index": index}, STEPS[:3] + RANKED) if ranked else ({}, STEPS)
    # A bare InMemoryStore lists a namespace from then on when it was merely asked about; a guarded one does not.
    steps = [
        [op for op in ops if not (isinstance(op, GetOp) and op.namespace == ("nobody",))] for ops in steps
    ]
    steps[0] = steps[0][1:]
    # and it compares what an item does not have with a number by raising TypeError
    del steps[4:6]
    guarded = new_scene().memory(**options)
    await compared(InMemoryStore(**options), guarded, steps, twins=(twin, twin))
    assert guarded._memguard.guard.audit(guarded).clean


@pytest.mark.parametrize("ranked", [False, True], ids=["plain", "indexed"])
async def test_async_sqlite_answers_as_bare(new_scene: Callable[..., Any], index: Any, ranked: bool) -> None:
    options, steps = ({"index": index}, STEPS[:3] + RANKED + STEPS) if ranked else ({}, STEPS)
    async with new_scene().abare(**options) as bare, new_scene().astore(**options) as guarded:
        await compared(bare, guarded, steps, twins=(True, True))
        assert (await guarded._memguard.guard.aaudit(guarded)).clean


async def test_an_embedding_that_is_only_asynchronous_is_awaited(
    new_scene: Callable[..., Any], index: Any
) -> None:
    async def embed(texts: Any) -> Any:
        await asyncio.sleep(0)
        return index["embed"](texts)

    guarded = new_scene().memory(index={**index, "embed": embed})
    await guarded.aput(ALICE, "a", {"text": "tea"})
    assert (await guarded.asearch(ALICE, query="tea"))[0].score > 0


async def test_a_synchronous_call_from_the_loop_of_an_asynchronous_store_is_refused(scene: Any) -> None:
    async with scene.astore() as store:
        await store.aput(ALICE, "a", {"text": "tea"})
        with pytest.raises(Exception, match="MG131"):
            store.get(ALICE, "a")
        found = await asyncio.to_thread(store.get, ALICE, "a")
        assert found.value == {"text": "tea"}


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


_WORDS = st.sampled_from(["tea", "rain", "x", "", "ü ☕", "a.b", '"memguard":{"seal":"mg1.'])
_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.just("memguard"), inner, max_size=3)
    ),
    max_leaves=8,
)
_NAMESPACE = st.sampled_from([("u",), ("u", "a"), ("u", "b"), ("u", "a", "c"), ("ua",), ("U",), ("u[a]",)])
_KEY = st.sampled_from(["k", "K", "k2", "1f1ed807-570e-66e4-8004-6dbdb7eab01e", "q'\"", "%"])
_PUT = st.builds(PutOp, _NAMESPACE, _KEY, st.dictionaries(_WORDS, _VALUE, max_size=4), st.none(), st.none())
_OP = st.one_of(
    _PUT,
    _PUT,
    st.builds(PutOp, _NAMESPACE, _KEY, st.none(), st.none(), st.none()),
    st.builds(GetOp, _NAMESPACE, _KEY, st.booleans()),
    st.builds(
        SearchOp, _NAMESPACE | st.just(()), st.none(), st.just(1000), st.just(0), st.none(), st.booleans()
    ),
    st.builds(ListNamespacesOp, st.none(), st.none() | st.integers(1, 3), st.just(100), st.just(0)),
)


def loose(answers: list[Any]) -> list[Any]:
    """Searches in the order of namespace and key."""
    return [
        [sorted(r, key=repr) if isinstance(r, list) and r and r[0][0] == "found" else r for r in results]
        for results in answers
    ]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(_OP, min_size=1, max_size=5), max_size=12))
def test_random_operations_answer_as_bare(steps: list[list[Any]]) -> None:
    """Also in memory, and with a second guard opened half-way, which must verify all that the first one wrote.

    Searches are compared as sets (a second may pass between the two), so they take all there is.
    """
    import sqlite3

    from langgraph.store.sqlite import SqliteStore

    def connect(path: Path) -> SqliteStore:
        made = SqliteStore(sqlite3.connect(path, check_same_thread=False, isolation_level=None))
        made.setup()
        return made

    with _folder() as folder:
        wanted = ran(connect(folder / "bare.db"), steps)
        half = len(steps) // 2
        uris = {"anchor": f"file:{folder / 'anchor'}", "keys": f"file:{folder / 'key.json'}"}
        quiet = {"write": dict.fromkeys(("provenance", "scope", "sanitizer", "anomaly"), "off")}
        with MemGuard.create(folder / "home", config=quiet, **uris) as mg:
            answers = ran(mg.guard(connect(folder / "g.db"), name="s"), steps[:half])
        with MemGuard.open(folder / "home", **uris) as mg:
            guarded = mg.guard(connect(folder / "g.db"), name="s")
            assert loose(answers + ran(guarded, steps[half:])) == loose(wanted)
            assert mg.audit(guarded).clean
            memory = mg.guard(InMemoryStore(), name="m")
            asked = [[op for op in ops if not isinstance(op, ListNamespacesOp)] for ops in steps]
            assert loose(ran(memory, asked)) == loose(ran(InMemoryStore(), asked))


def test_methods_and_attributes(scene: Any, index: Any) -> None:
    from langgraph.store.sqlite import SqliteStore

    store = scene.store(index=index, ttl={"default_ttl": 5.0, "refresh_on_read": False})
    assert isinstance(store, SqliteStore)
    assert store.supports_ttl is True
    assert store.ttl_config == {"default_ttl": 5.0, "refresh_on_read": False}
    assert store.index_config is store.inner.index_config
    assert store.embeddings is store.inner.embeddings
    assert store.conn is store.inner.conn
    store.setup()
    with pytest.raises(AttributeError, match="inner"):
        store._cursor  # noqa: B018
    assert unwrap(store) is store.inner
    assert not hasattr(scene.guard().guard(InMemoryStore(), name="other"), "sweep_ttl")


def test_the_wrapped_object_is_unchanged_and_readable(scene: Any) -> None:
    bare = scene.bare()
    before = dict(bare.__dict__)
    store = scene.guard().guard(bare, name="memories")
    store.put(ALICE, "a", {"text": "tea", "n": 1})
    assert bare.__dict__ == before
    found = bare.get(ALICE, "a")
    assert {k: v for k, v in found.value.items() if k != "memguard"} == {"text": "tea", "n": 1}
    assert list(found.value) == ["text", "n", "memguard"]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_refusals_are_those_of_the_bare_store(scene: Any, kind: str) -> None:
    store = scene.store() if kind == "sqlite" else scene.memory()
    for call in (
        lambda: store.put((), "k", {}),
        lambda: store.put(("a.b",), "k", {}),
        lambda: store.put(("langgraph",), "k", {}),
        lambda: store.batch([PutOp(("a.b",), "k", {})]),
        lambda: store.batch([GetOp(("a", ""), "k")]),
        lambda: store.batch([PutOp((), "k", {})]),
    ):
        with pytest.raises(InvalidNamespaceError):
            call()
    assert store.batch([]) == []


def test_a_value_that_is_no_json_is_refused_before_anything_is_stored(scene: Any) -> None:
    store = scene.store()
    with pytest.raises(orjson.JSONEncodeError):
        store.put(ALICE, "a", {"x": object()})
    with pytest.raises(orjson.JSONEncodeError):
        store.batch([PutOp(ALICE, "b", {"x": 1}), PutOp(ALICE, "c", {1: object()})])
    assert store.search(ALICE) == []
    store.put(ALICE, "a", {"x": 1})
    assert store._memguard.guard.audit(store).clean


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"memguard": "x"},
        {"memguard.seal": {"$gt": ""}},
        {"n": {"$regex": "."}},
        {"n": {"$gt') OR 1=1 --": 1}},
    ],
)
def test_filters_that_are_refused(scene: Any, kind: str, wrong: dict[str, Any]) -> None:
    store = scene.store() if kind == "sqlite" else scene.memory()
    with pytest.raises(Exception, match="MG140"):
        store.search(ALICE, filter=wrong)


@pytest.mark.parametrize("wrong", ["a b", "a') = 1 OR 1=1 --", "a\n", "ä", ""])
def test_filter_keys_that_may_not_reach_a_statement(scene: Any, wrong: str) -> None:
    with pytest.raises(Exception, match="MG140"):
        scene.store().search(ALICE, filter={wrong: 1})


def test_a_key_is_text(scene: Any) -> None:
    store = scene.store()
    with pytest.raises(Exception, match="MG155"):
        store.batch([PutOp(ALICE, 5, {"n": 1})])  # type: ignore[arg-type]
    with pytest.raises(Exception, match="MG155"):
        store.batch([GetOp(ALICE, 5)])  # type: ignore[arg-type]


def test_a_reserved_member_of_the_caller_is_left_out(scene: Any) -> None:
    store = scene.store()
    store.put(ALICE, "a", {"text": "tea", "memguard": {"label": {"trust": "system"}}})
    assert store.get(ALICE, "a").value == {"text": "tea"}
    nested = {"x": {"memguard": {"seal": "mg1.k.AAAA"}}, "y": ',"memguard":{"seal":"mg1.k.A"}}'}
    store.put(ALICE, "b", nested)
    assert store.get(ALICE, "b").value == nested


def test_an_in_memory_store_shares_no_container_with_its_callers(scene: Any) -> None:
    store, marker = scene.memory(), object()
    value = {"list": [1], "set": {1, 2}, "object": marker}
    store.put(ALICE, "a", value)
    value["list"].append(2)
    served = store.get(ALICE, "a").value
    assert served["list"] == [1]
    assert served["object"] is marker
    served["list"].append(3)
    assert store.search(ALICE)[0].value["list"] == [1]
    assert store._memguard.guard.audit(store).clean


async def test_a_cancelled_write_is_finished(scene: Any) -> None:
    async with scene.astore() as store:
        await store.aput(ALICE, "a", {"n": 0})
        task = asyncio.ensure_future(store.aput(ALICE, "a", {"n": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await store.aget(ALICE, "a")).value in ({"n": 0}, {"n": 1})
        assert (await store._memguard.guard.aaudit(store)).clean


async def test_many_tasks_at_once(scene: Any) -> None:
    async with scene.astore() as store:

        async def one(number: int) -> None:
            namespace = ("users", f"u{number % 3}")
            await store.aput(namespace, f"k{number}", {"n": number})
            assert (await store.aget(namespace, f"k{number}")).value == {"n": number}
            await store.asearch(("users",), limit=3)

        tasks: list[Awaitable[None]] = [one(number) for number in range(20)]
        await asyncio.gather(*tasks)
        assert len(await store.asearch(("users",), limit=100)) == 20
