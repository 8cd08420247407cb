"""Stores that memguard does not know, guarded through their own ``batch``; one has the prefix bugs of old releases."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from memguard import RollbackError, TamperedError, UnsupportedError
from memguard.integrations.langgraph.store_items import listed, matches, under

ALICE, DOOR = ("users", "alice"), ("users", "alicedoor")


class JsonStore(BaseStore):
    """A store of somebody else: JSON text in a dict, and prefixes compared as text (as V10 found in several)."""

    supports_ttl = False

    def __init__(self, index: Any = None) -> None:
        self.rows: dict[tuple[str, str], list[Any]] = {}
        self.index_config = index

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        answers: list[Any] = []
        for op in ops:
            if isinstance(op, PutOp):
                if op.value is None:
                    self.rows.pop((".".join(op.namespace), op.key), None)
                else:
                    now = datetime.now(UTC)
                    self.rows[".".join(op.namespace), op.key] = [json.dumps(op.value), now, now]
                answers.append(None)
            elif isinstance(op, GetOp):
                row = self.rows.get((".".join(op.namespace), op.key))
                answers.append(row and self._item(Item, ".".join(op.namespace), op.key, row))
            elif isinstance(op, SearchOp):
                text = ".".join(op.namespace_prefix)
                found = [
                    self._item(SearchItem, ns, k, row)
                    for (ns, k), row in self.rows.items()
                    if ns.startswith(text)
                ]
                found = [f for f in found if all(f.value.get(k) == v for k, v in (op.filter or {}).items())]
                answers.append(found[op.offset : op.offset + op.limit])
            elif isinstance(op, ListNamespacesOp):
                names = sorted({tuple(ns.split(".")) for ns, _ in self.rows})
                for condition in op.match_conditions or ():
                    text = ".".join(condition.path)
                    names = [ns for ns in names if ".".join(ns).startswith(text)]
                answers.append(names[op.offset : op.offset + op.limit])
        return answers

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return self.batch(ops)

    @staticmethod
    def _item(kind: Any, namespace: str, key: str, row: Any) -> Any:
        text, created, updated = row
        ns = tuple(namespace.split("."))
        return kind(namespace=ns, key=key, value=json.loads(text), created_at=created, updated_at=updated)


@pytest.fixture
def store(scene: Any) -> Any:
    made = scene.guard().guard(JsonStore(), name="theirs")
    made.put(ALICE, "a", {"text": "tea", "n": 1, "list": (1, 2)})
    made.put(ALICE, "b", {"text": "rain", "n": 2})
    made.put(DOOR, "a", {"text": "not alice", "n": 1})
    return made


def test_only_what_lies_under_the_prefix_is_served(store: Any) -> None:
    """V10."""
    assert {item.key for item in store.inner.search(ALICE)} == {"a", "b"}
    assert len(store.inner.search(ALICE)) == 3
    assert [(item.namespace, item.key) for item in store.search(ALICE)] == [(ALICE, "a"), (ALICE, "b")]
    assert store.search(ALICE, filter={"n": 1})[0].value == {"text": "tea", "n": 1, "list": [1, 2]}
    assert store.list_namespaces(prefix=ALICE) == [ALICE]
    assert store.list_namespaces() == [ALICE, DOOR]


async def test_reads_and_writes(store: Any, scene: Any) -> None:
    assert (await store.aget(ALICE, "a")).value["text"] == "tea"
    await store.adelete(ALICE, "a")
    assert store.get(ALICE, "a") is None
    await store.aput(ALICE, "b", {"text": "snow"})
    assert [item.value["text"] for item in await store.asearch(ALICE)] == ["snow"]
    assert scene.mg.audit(store).clean
    with pytest.raises(TypeError):
        store.put(ALICE, "c", {"x": object()})
    assert scene.mg.audit(store).clean


def test_edits_are_refused(store: Any) -> None:
    row = store.inner.rows["users.alice", "a"]
    row[0] = row[0].replace("tea", "gin")
    with pytest.raises(TamperedError):
        store.get(ALICE, "a")
    row[0] = row[0].replace("gin", "tea")
    del store.inner.rows["users.alice", "b"]
    with pytest.raises(RollbackError):
        store.search(ALICE)
    assert store.get(DOOR, "a").value["n"] == 1


def test_a_timestamp_is_bound(store: Any) -> None:
    store.inner.rows["users.alice", "a"][1] = datetime(2001, 1, 1, tzinfo=UTC)
    with pytest.raises(TamperedError):
        store.get(ALICE, "a")


@pytest.mark.parametrize("fields", [None, ["$"], ["*"], ["text", "*.deep"]])
def test_whole_values_that_would_embed_the_seal_are_refused(scene: Any, index: Any, fields: Any) -> None:
    config = {**index, **({"fields": fields} if fields else {})}
    with pytest.raises(UnsupportedError, match="MG157"):
        scene.guard().guard(JsonStore(config), name="theirs")


def test_named_fields_are_let_through(scene: Any, index: Any) -> None:
    scene.guard().guard(JsonStore({**index, "fields": ["text", "tags[*]"]}), name="theirs")


def test_a_subclass_that_reads_for_itself_is_not_taken_for_what_it_extends(scene: Any) -> None:
    class Counting(InMemoryStore):
        calls = 0

        def batch(self, ops: Any) -> Any:
            type(self).calls += 1
            return super().batch(ops)

    class Named(SqliteStore):
        pass

    mg = scene.guard()
    counting = mg.guard(Counting(), name="counting")
    counting.put(ALICE, "a", {"n": 1})
    assert counting.get(ALICE, "a").value == {"n": 1}
    assert Counting.calls > 1
    bare = scene.bare()
    named = mg.guard(Named(bare.conn), name="named")
    named.put(ALICE, "a", {"n": 1})
    assert named._memguard.rows.__class__.__name__ == "SqliteStoreCare"


def test_an_operation_that_is_not_known_is_refused(store: Any) -> None:
    with pytest.raises(UnsupportedError, match="MG130"):
        store.batch([("get", ALICE, "a")])


@pytest.mark.parametrize(
    ("namespace", "condition", "wanted"),
    [
        (("a", "b"), MatchCondition("prefix", ("a",)), True),
        (("ab",), MatchCondition("prefix", ("a",)), False),
        (("a", "b", "c"), MatchCondition("prefix", ("a", "*", "c")), True),
        (("a",), MatchCondition("prefix", ("a", "*")), False),
        (("a", "b"), MatchCondition("suffix", ("b",)), True),
        (("a", "ab"), MatchCondition("suffix", ("b",)), False),
        (("a",), MatchCondition("suffix", ()), True),
    ],
)
def test_conditions(namespace: Any, condition: MatchCondition, wanted: bool) -> None:
    assert matches(namespace, condition) is wanted
    assert listed(namespace, ListNamespacesOp(match_conditions=(condition,))) is wanted


def test_prefixes() -> None:
    assert under(("a", "b"), ())
    assert under(("a", "b"), ("a", "b"))
    assert not under(("a",), ("a", "b"))
    assert not under(("ab",), ("a",))
