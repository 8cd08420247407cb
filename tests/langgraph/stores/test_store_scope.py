"""Tenancy of stores, fail-closed (V09 V10 V25 V31 V37): other owners' items are not there, in any way of asking."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from memguard import ConfigError, RejectedError, ScopeError, principal, source
from memguard.events import ReadDecided, WriteDecided

BOTH = {"tenant": "namespace.0", "user": "namespace.1"}
MAPPED: dict[str, Any] = {
    "stores": {"memories": {"kind": "langgraph-sqlite-store", "uri": "sqlite:x", "scope": BOTH}}
}
ALICE, BOB = ("acme", "alice"), ("acme", "bob")
#: Owners that a pattern, a prefix or a folding backend takes for alice.
NEAR = ["alice2", "alic", "Alice", "a%", "al_ce", "alíce"]


def as_(user: str, tenant: str = "acme") -> Any:
    return principal(tenant=tenant, user=user)


@pytest.fixture
def mapped(new_scene: Any) -> Any:
    scene = new_scene(MAPPED)
    store = scene.store()
    for user in ("alice", "bob", *NEAR):
        with as_(user):
            store.put(("acme", user), "k", {"text": f"secret of {user}", "n": 1})
            store.put(("acme", user, "notes"), "n", {"text": f"note of {user}", "n": 2})
    with as_("alice", "other"):
        store.put(("other", "alice"), "k", {"text": "secret of the other alice"})
    scene.guarded = store
    return scene


def told(scene: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    scene.mg.events.subscribe(lambda event: found.append(event) if isinstance(event, kind) else None)
    return found


# -- ids of others answer like missing ids (V31) ---------------------------------------------------------


FOREIGN = [BOB, ("acme", "alice2"), ("other", "alice"), ("acme", "Alice"), ("acme", "nobody-at-all")]


@pytest.mark.parametrize("namespace", FOREIGN)
@pytest.mark.parametrize(
    "key", ["k", "missing", "n", "7e7a3c8e-0000-4000-8000-000000000000", "7", "k' OR '1'='1"]
)
def test_an_id_of_another_owner_answers_like_a_missing_one(mapped: Any, namespace: Any, key: str) -> None:
    store = mapped.guarded
    with as_("alice"):
        assert store.get(namespace, key) == store.get(ALICE, "missing") is None
        assert store.search(namespace) == store.search((*ALICE, "missing")) == []
        assert store.search(namespace, query="secret", filter={"n": 1}) == []
        assert store.delete(namespace, key) is store.delete(ALICE, "missing") is None
        assert (
            store.list_namespaces(prefix=namespace) == store.list_namespaces(prefix=(*ALICE, "missing")) == []
        )
    rows = mapped.sql("SELECT count(*) FROM store")
    assert rows == [(2 * (2 + len(NEAR)) + 1,)], "nothing of another owner was deleted"


@pytest.mark.parametrize("namespace", FOREIGN)
@pytest.mark.parametrize("key", ["k", "missing"])
def test_a_put_for_another_owner_is_refused_whether_or_not_something_is_there(
    mapped: Any, namespace: Any, key: str
) -> None:
    with as_("alice"):
        with pytest.raises(ScopeError) as caught:
            mapped.guarded.put(namespace, key, {"text": "x"})
        with pytest.raises(ScopeError):
            mapped.guarded.batch([PutOp(ALICE, "k", {"text": "mine"}), PutOp(namespace, key, {"text": "x"})])
        assert mapped.guarded.get(ALICE, "k").value["text"] == "secret of alice", (
            "nothing of the batch was done"
        )
    assert caught.value.code == "MG220"
    assert "secret" not in str(caught.value)
    assert namespace[-1] not in str(caught.value)


def test_a_batch_mixes_what_is_there_and_what_is_not(mapped: Any) -> None:
    with as_("alice"):
        found = mapped.guarded.batch(
            [
                GetOp(BOB, "k"),
                GetOp(ALICE, "k"),
                SearchOp(BOB),
                SearchOp(("acme",)),
                PutOp(BOB, "k", None),
                ListNamespacesOp(),
                GetOp(ALICE, "missing"),
            ]
        )
    assert found[0] is found[4] is found[6] is None
    assert found[1].value["text"] == "secret of alice"
    assert found[2] == []
    assert {item.namespace for item in found[3]} == {ALICE, (*ALICE, "notes")}
    assert found[5] == [ALICE, (*ALICE, "notes")]
    with as_("bob"):
        assert mapped.guarded.get(BOB, "k").value["text"] == "secret of bob"


# -- searches and lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [(), ("acme",), ALICE])
def test_a_search_finds_the_owners_and_stops_at_them(mapped: Any, prefix: Any) -> None:
    with as_("alice"):
        found = mapped.guarded.search(prefix, limit=100)
        assert sorted(item.value["text"] for item in found) == ["note of alice", "secret of alice"]
        assert len(mapped.guarded.search(prefix, limit=1)) == 1
        assert len(mapped.guarded.search(prefix, offset=1)) == 1
        assert mapped.guarded.search(prefix, filter={"n": {"$gt": 1}})[0].key == "n"
    for user in NEAR:
        with as_(user):
            assert {i.namespace[1] for i in mapped.guarded.search(prefix[:1], limit=100)} == {user}


def test_a_list_shows_the_owners_namespaces_whatever_is_asked(mapped: Any) -> None:
    store = mapped.guarded
    with as_("alice"):
        both = [ALICE, (*ALICE, "notes")]
        assert store.list_namespaces() == both
        assert store.list_namespaces(limit=1) == both[:1]
        assert store.list_namespaces(offset=1) == both[1:]
        assert store.list_namespaces(max_depth=2) == [ALICE]
        assert store.list_namespaces(max_depth=1) == [("acme",)]
        assert store.list_namespaces(prefix=("*", "*")) == both
        assert store.list_namespaces(prefix=("acme", "*"), suffix=("notes",)) == both[1:]
        assert store.list_namespaces(suffix=("bob",)) == []
        assert store.list_namespaces(prefix=("other",)) == []
    with as_("nobody"):
        assert store.list_namespaces() == []


def test_a_search_that_could_not_be_bound_is_refused(new_scene: Any) -> None:
    scene = new_scene({})
    store = scene.mg_store = scene.guard().guard(scene.bare(), name="memories", scope={"user": "namespace.1"})
    with principal(user="alice"):
        store.put(("memories", "alice"), "k", {"text": "x"})
        assert len(store.search(("memories",))) == 1
        with pytest.raises(ScopeError) as caught:
            store.search(())
        assert store.list_namespaces() == [("memories", "alice")]
    assert caught.value.code == "MG223"


# -- who asks (V25, V37) -----------------------------------------------------------------------------------


EVERY: list[Any] = [
    GetOp(ALICE, "k"),
    SearchOp(ALICE),
    SearchOp(()),
    ListNamespacesOp(),
    PutOp(ALICE, "new", {"text": "x"}),
    PutOp(ALICE, "k", None),
]


@pytest.mark.parametrize("op", EVERY)
def test_without_a_principal_nothing_is_served_or_stored(mapped: Any, op: Any) -> None:
    for who in (nullcontext(), principal(tenant="acme"), principal(user="alice")):
        with who, pytest.raises(ScopeError) as caught:
            mapped.guarded.batch([op])
        assert caught.value.code == "MG222"
    with as_("alice"):
        assert mapped.guarded.get(ALICE, "k") is not None


@pytest.mark.parametrize("name", ["", " ", "*", "%", None, 7, "a*", "\x00"])
def test_an_identity_that_names_no_one_is_refused(mapped: Any, name: Any) -> None:
    for arguments in ({"tenant": "acme", "user": name}, {"tenant": name, "user": "alice"}):
        with pytest.raises(ScopeError), principal(**arguments):
            mapped.guarded.search(())


@pytest.mark.parametrize(
    "namespace", [("acme", "*"), ("*", "alice"), ("acme", "%"), ("acme",), ("acme", " ")]
)
def test_a_namespace_that_names_no_one_is_refused(mapped: Any, namespace: Any) -> None:
    with as_("alice"):
        for op in (GetOp(namespace, "k"), PutOp(namespace, "k", {"text": "x"}), PutOp(namespace, "k", None)):
            with pytest.raises(ScopeError) as caught:
                mapped.guarded.batch([op])
            assert caught.value.code == "MG221"


# -- recalled text, by owner (V26) -----------------------------------------------------------------------------


PAGE = "The warranty of the Nordwind boiler ended in May, and a visit of the service costs ninety euros now."


@pytest.mark.parametrize("served", ["search", "get"])
def test_what_an_owner_was_served_does_not_rise_when_it_is_written_again(new_scene: Any, served: str) -> None:
    scene = new_scene(MAPPED)
    store = scene.store()
    with as_("alice"), source("web:https://evil.example"):
        store.put(ALICE, "page", {"text": PAGE})
    scene.close()
    store = scene.store()
    with as_("alice"):
        assert store.search(()) if served == "search" else store.get(ALICE, "page")
    trusts = {}
    for user in ("alice", "bob"):
        with as_(user), source("assistant"):
            store.put(("acme", user), "note", {"text": f"Noted on Monday. {PAGE}"})
            trusts[user] = str(scene.mg.label(store.get(("acme", user), "note")).trust)
    assert trusts == {"alice": "untrusted", "bob": "user"}, "bob has it from elsewhere"


# -- filters (V09) -----------------------------------------------------------------------------------------


BAD_KEYS = ["n') OR 1=1 --", "a b", "$or", "$where", "", ".n", "n\x00", "n;", 'n"', "n'", "a[0]", 7, None]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_filter_keys_that_are_not_plain_are_refused(mapped: Any, key: Any) -> None:
    with as_("alice"), pytest.raises(ScopeError) as caught:
        mapped.guarded.search((), filter={key: 1})
    assert caught.value.code == "MG224"


@pytest.mark.parametrize("operator", ["$or", "$where", "$regex", "$in", "$EQ"])
def test_operators_that_are_not_known_are_refused(mapped: Any, operator: str) -> None:
    with as_("alice"), pytest.raises(ScopeError) as caught:
        mapped.guarded.search((), filter={"n": {operator: 1}})
    assert caught.value.code == "MG224"


@pytest.mark.parametrize("value", ["*", "%", "_", "' OR '1'='1", "secret of bob", "secret of %", None, ""])
def test_filter_values_stay_literal(mapped: Any, value: Any) -> None:
    with as_("alice"):
        assert mapped.guarded.search((), filter={"text": value}) == []
        mapped.guarded.put(ALICE, "odd", {"text": value, "n": 9})
        (found,) = mapped.guarded.search((), filter={"text": value, "n": 9})
        assert (found.key, found.namespace) == ("odd", ALICE)


# -- whatever the backend does (V10) -------------------------------------------------------------------------


class Leaky(InMemoryStore):
    """A backend that compares namespaces as joined text and ignores filters, as releases of real ones did."""

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        return [self._answer(op) for op in ops]

    def _answer(self, op: Any) -> Any:
        if isinstance(op, PutOp | GetOp):
            return super().batch([op])[0]
        everything = [item for items in self._data.values() for item in items.values()]
        if isinstance(op, SearchOp):
            prefix = ".".join(op.namespace_prefix)
            hits = [i for i in everything if ".".join(i.namespace).startswith(prefix)]
            return [
                SearchItem(i.namespace, i.key, i.value, i.created_at, i.updated_at, None)
                for i in hits[op.offset : op.offset + op.limit]
            ]
        return list(self._data)[op.offset : op.offset + op.limit]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return self.batch(ops)


def test_a_backend_that_leaks_is_looked_over(new_scene: Any) -> None:
    scene = new_scene({"integrity": {"mode": "off"}})
    bare = Leaky()
    store = scene.guard().guard(bare, name="memories", scope=BOTH)
    for user in ("alice", "alice2", "bob"):
        with as_(user):
            store.put(("acme", user), "k", {"text": user})
    assert len(bare.search(("acme", "alice"))) == 2, "it does leak"
    seen = told(scene, ReadDecided)
    with as_("alice"):
        assert [item.value["text"] for item in store.search(("acme",))] == ["alice"]
        assert store.list_namespaces() == [ALICE]
        assert store.list_namespaces(max_depth=1) == [("acme",)]
        assert store.get(ALICE, "k").namespace == ALICE
    with as_("alice2"):
        assert [item.value["text"] for item in store.search(("acme",))] == ["alice2"]
    assert {event.decision.code for event in seen} == {"MG220"}
    assert not any("alice" in json.dumps(event.as_dict()) for event in seen)


# -- asynchronous, in memory, and by configuration -----------------------------------------------------------


async def test_the_asynchronous_store_is_bound_alike(new_scene: Any) -> None:
    scene = new_scene(MAPPED)
    async with scene.astore() as store:
        for user in ("alice", "bob", "alice2"):
            with as_(user):
                await store.aput(("acme", user), "k", {"text": user})
        with as_("alice"):
            assert await store.aget(BOB, "k") is None
            assert [i.value["text"] for i in await store.asearch(("acme",))] == ["alice"]
            assert await store.asearch(BOB) == []
            assert await store.alist_namespaces() == [ALICE]
            await store.adelete(BOB, "k")
            with pytest.raises(ScopeError):
                await store.aput(BOB, "k", {"text": "x"})
        with as_("bob"):
            assert (await store.aget(BOB, "k")).value == {"text": "bob"}
        with pytest.raises(ScopeError):
            await store.aget(ALICE, "k")
        with pytest.raises(ScopeError):
            await store.asearch(())


def test_a_store_in_memory_is_bound_alike(new_scene: Any) -> None:
    scene = new_scene(MAPPED)
    store = scene.memory()
    for user in ("alice", "bob", "alice2"):
        with as_(user):
            store.put(("acme", user), "k", {"text": user})
    with as_("alice"):
        assert store.get(BOB, "k") is None
        assert [item.value["text"] for item in store.search(("acme",))] == ["alice"]
        assert store.list_namespaces() == [ALICE]


def test_without_a_map_a_principal_restricts_nothing(new_scene: Any) -> None:
    scene = new_scene({})
    store = scene.store()
    store.put(BOB, "k", {"text": "x"})
    with as_("alice"):
        assert store.get(BOB, "k").value == {"text": "x"}
        assert len(store.search(())) == 1


def test_observing_serves_and_says_what_it_would_have_done(new_scene: Any) -> None:
    scene = new_scene({**MAPPED, "read": {"scope": "observe"}, "write": {"scope": "observe"}})
    store = scene.store()
    reads, writes = told(scene, ReadDecided), told(scene, WriteDecided)
    store.put(BOB, "k", {"text": "x"})
    with as_("alice"):
        assert store.get(BOB, "k").value == {"text": "x"}
        assert len(store.search(BOB)) == 1
        assert store.list_namespaces() == [BOB]
    assert {(e.decision.disposition, e.decision.would) for e in reads} == {("allow", "quarantine")}
    assert {(e.decision.disposition, e.decision.would) for e in writes} == {("allow", "reject")}


def test_off_is_off(new_scene: Any) -> None:
    scene = new_scene({**MAPPED, "read": {"scope": "off"}, "write": {"scope": "off"}})
    store = scene.store()
    store.put(BOB, "k", {"text": "x"})
    assert store.get(BOB, "k").value == {"text": "x"}


def test_a_map_that_a_store_cannot_have_guards_nothing(new_scene: Any) -> None:
    scene = new_scene({})
    for places in ({"user": "thread"}, {"user": "metadata.user"}, {"user": "nowhere"}):
        with pytest.raises(ConfigError) as caught:
            scene.guard().guard(scene.bare(), name="memories", scope=places)
        assert caught.value.code == "MG225"


def test_a_match_condition_of_a_caller_keeps_its_meaning(mapped: Any) -> None:
    condition = MatchCondition(match_type="suffix", path=("*", "notes"))
    with as_("alice"):
        (found,) = mapped.guarded.batch([ListNamespacesOp(match_conditions=(condition,))])
    assert found == [(*ALICE, "notes")]


def test_the_refusal_is_no_rejection_of_content() -> None:
    assert not issubclass(ScopeError, RejectedError)
