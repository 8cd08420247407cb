"""Identities: wildcards and missing ones are refused, and what is another owner's is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memguard import ConfigError, ScopeError, principal
from memguard.integrations.mem0.owners import Owner, checked_filters, given, picks

World = Any
BAD = [
    "*",
    "",
    "   ",
    "a*",
    "%",
    None,
    True,
    {"ne": "x"},
    {"gt": "a"},
    [],
    {"in": []},
    {"in": ["a", "*"]},
    ["*"],
    1.5,
]


@pytest.mark.parametrize("value", BAD)
def test_a_filter_names_owners_or_is_refused(value: Any) -> None:
    with pytest.raises(ScopeError):
        checked_filters({"user_id": value})
    with pytest.raises(ScopeError):
        checked_filters({"user_id": "alice", "run_id": value})


@pytest.mark.parametrize("filters", [None, {}, {"category": "x"}, {"AND": [{"user_id": "alice"}]}])
def test_a_filter_without_an_identity_is_refused(filters: Any) -> None:
    with pytest.raises(ScopeError):
        checked_filters(filters)


@pytest.mark.parametrize("word", ["AND", "OR", "NOT", "$or", "$not", "$and"])
def test_an_identity_inside_an_operator_is_refused(word: str) -> None:
    """Mem0 lets it replace the identity that stands beside it."""
    with pytest.raises(ScopeError, match="MG541"):
        checked_filters({"user_id": "alice", word: [{"category": "x"}, {"user_id": "bob"}]})
    with pytest.raises(ScopeError, match="MG541"):
        checked_filters({"user_id": "alice", "OR": [{"AND": [{"agent_id": "b"}]}]})


def test_what_mem0_takes_is_taken() -> None:
    assert checked_filters({"user_id": 42})["user_id"] == "42"
    assert checked_filters({"user_id": " alice "})["user_id"] == "alice"
    assert checked_filters({"user_id": {"in": ["a", "b"]}, "OR": [{"x": 1}]}) == {
        "user_id": {"in": ["a", "b"]}, "OR": [{"x": 1}]}  # fmt: skip
    assert given({"user_id": 42, "agent_id": None}) == Owner("42")
    pick = picks({"user_id": {"in": ["a", "b"]}, "agent_id": "x", "category": "c"})
    assert [pick(Owner("a", "x")), pick(Owner("b", "x", "r")), pick(Owner("a")), pick(Owner("c", "x"))] == [
        True, True, False, False]  # fmt: skip


@pytest.mark.parametrize("value", ["*", "", "  ", None])
def test_every_method_refuses_a_wildcard_or_missing_identity(make: Any, value: Any) -> None:
    """mem0#6738: user_id="*" read everybody's memories."""
    world = make("qdrant")
    world.memory.add("one red apple", user_id="alice", infer=False)
    m = world.memory
    calls = (
        lambda: m.add("x", user_id=value),
        lambda: m.add("x", user_id=value, infer=False),
        lambda: m.search("apple", filters={"user_id": value}),
        lambda: m.get_all(filters={"user_id": value}),
        lambda: m.delete_all(user_id=value),
        lambda: m.delete_all(),
        lambda: m.add("x"),
    )
    for call in calls:
        with pytest.raises(ScopeError):
            call()
    assert len(m.get_all(filters={"user_id": "alice"})["results"]) == 1
    assert world.model.prompts == []


async def test_and_asynchronously(make: Any) -> None:
    world = make("qdrant", asynchronous=True)
    for call in (
        world.memory.add("x", user_id="*"),
        world.memory.search("x", filters={"user_id": "*"}),
        world.memory.get_all(filters={"user_id": ""}),
        world.memory.delete_all(user_id=" "),
    ):
        with pytest.raises(ScopeError):
            await call


def test_a_foreign_identifier_answers_as_one_that_is_missing(make: Any) -> None:
    """renfield#169: whoever guessed an identifier could read, change and delete."""
    world = make("qdrant")
    missing = "00000000-0000-4000-8000-000000000000"
    with principal(user="alice"):
        id = world.memory.add("one red apple", user_id="alice", infer=False)["results"][0]["id"]
        assert world.memory.get(id)["memory"] == "one red apple"
    with principal(user="bob"):
        assert world.memory.get(id) == world.memory.get(missing) is None
        assert world.memory.history(id) == world.memory.history(missing) == []
        for name, args in (("update", {"text": "x"}), ("update", {"metadata": {"a": 1}}), ("delete", {})):
            said = []
            for each in (id, missing):
                with pytest.raises(ValueError) as raised:
                    getattr(world.memory, name)(each, **args)
                said.append(str(raised.value).replace(each, "ID"))
            assert said[0] == said[1]
    with principal(user="alice"):
        assert world.memory.get(id)["memory"] == "one red apple"
        assert len(world.memory.history(id)) == 1


def test_a_principal_is_bound_to_their_own(make: Any) -> None:
    world = make("qdrant")
    for who in ("alice", "bob"):
        with principal(user=who):
            world.memory.add(f"apple of {who}", user_id=who, infer=False)
            world.memory.add(f"plum of {who}", user_id=who, agent_id="helper", infer=False)
    with principal(user="bob"):
        for call in (lambda: world.memory.add("x", user_id="alice"), lambda: world.memory.add("x", agent_id="a"),
                     world.memory.reset):  # fmt: skip
            with pytest.raises(ScopeError):
                call()
        assert world.memory.get_all(filters={"user_id": "alice"}) == {"results": []}
        assert world.memory.search("apple", filters={"user_id": "alice"}) == {"results": []}
        assert [i["memory"] for i in world.memory.get_all(filters={"agent_id": "helper"})["results"]] == [
            "plum of bob"
        ]
        found = world.memory.search("apple", filters={"user_id": {"in": ["alice", "bob"]}})["results"]
        assert {i["user_id"] for i in found} == {"bob"}
        world.memory.delete_all(agent_id="helper")
        world.memory.delete_all(user_id="alice")
    assert len(world.memory.get_all(filters={"user_id": "alice"})["results"]) == 2
    assert len(world.memory.get_all(filters={"user_id": "bob"})["results"]) == 1


def test_with_a_scope_map_nothing_goes_without_a_principal(make: Any) -> None:
    world = make("qdrant", scope={"user": "user_id", "tenant": "agent_id"})
    with pytest.raises(ScopeError):
        world.memory.add("x", user_id="alice", agent_id="acme")
    with principal(user="alice"), pytest.raises(ScopeError):
        world.memory.get_all(filters={"user_id": "alice"})
    with principal(user="alice", tenant="acme"):
        world.memory.add("one red apple", user_id="alice", agent_id="acme", infer=False)
        (found,) = world.memory.get_all(filters={"user_id": "alice"})["results"]
    with principal(user="alice", tenant="other"):
        assert world.memory.get(found["id"]) is None


def test_a_scope_map_of_something_else_is_refused(make: Any) -> None:
    for scope in ({"user": "metadata.owner"}, {"user": "namespace.0"}):
        with pytest.raises(ConfigError, match="MG225"):
            make("qdrant", scope=scope)


def test_principals_follow_tasks(make: Any) -> None:
    world = make("qdrant", asynchronous=True)

    async def one(who: str) -> list[str]:
        with principal(user=who):
            for n in range(3):
                await world.memory.add(f"note {n} of {who}", user_id=who, infer=n % 2 == 0)
            found = await world.memory.get_all(filters={"user_id": who})
            return sorted(item["memory"] for item in found["results"])

    async def every() -> list[list[str]]:
        return await asyncio.gather(*(one(who) for who in ("alice", "bob", "carol")))

    found = asyncio.run(every())
    assert found == [[f"note {n} of {who}" for n in range(3)] for who in ("alice", "bob", "carol")]
