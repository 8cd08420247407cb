"""A guarded Memory answers what a bare one answers, for everything that Mem0 documents."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from mem0 import AsyncMemory, Memory

from memguard.bench.suts.mem0_offline import close, config

PROVIDERS = ("qdrant", "faiss", "chroma", "pgvector")
Make = World = Any

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")


def told(value: Any, names: dict[str, str]) -> Any:
    """A result with identifiers numbered in the order in which they come, and moments left out."""
    if isinstance(value, dict):
        return {key: told(part, names) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [told(part, names) for part in value]
    if isinstance(value, str):
        value = _ID.sub(lambda m: names.setdefault(m[0], f"id-{len(names)}"), value)
        return _TIME.sub("TIME", value)
    if isinstance(value, float):
        return round(value, 6)
    return value


def ordered(answer: dict[str, Any]) -> list[Any]:
    """Stores list in an order of their own."""
    return sorted(answer["results"], key=lambda item: item["memory"])


def life(memory: Any, provider: str) -> list[Any]:
    """Mem0's documented calls, one after another; what each answers."""
    said: list[Any] = []
    say = said.append
    owner = {"user_id": "alice"}
    say(memory.add("I like tennis on sundays", **owner))
    say(
        memory.add(
            [
                {"role": "user", "content": "I'm planning to watch a movie tonight"},
                {"role": "assistant", "content": "How about a thriller?"},
                {"role": "user", "content": "I prefer comedies"},
            ],
            **owner,
            metadata={"category": "movies", "year": 2026, "rating": 4.5},
        )
    )
    raw = memory.add(
        [
            {"role": "system", "content": "be nice"},
            {"role": "user", "content": "My name is Bo", "name": "bo"},
            {"role": "assistant", "content": "Hello Bo"},
        ],
        **owner,
        agent_id="helper",
        run_id="r1",
        infer=False,
    )
    say(raw)
    say(memory.add("I like tennis on sundays", **owner))  # known already: Mem0 leaves it out
    say(memory.search("tennis on sundays", filters=owner))
    say(memory.search("thriller movie", filters=owner, top_k=2, threshold=0.0))
    say(memory.search("Bo", filters={**owner, "agent_id": "helper"}, explain=True))
    if provider != "faiss":
        say(ordered(memory.search("comedies", filters={**owner, "category": "movies"}, threshold=0.0)))
        say(ordered(memory.search("comedies", filters={**owner, "year": {"gte": 2026}}, threshold=0.0)))
        say(
            ordered(
                memory.search(
                    "Bo", filters={**owner, "OR": [{"role": "user"}, {"role": "assistant"}]}, threshold=0.0
                )
            )
        )
    say(ordered(memory.get_all(filters=owner)))
    say(len(memory.get_all(filters=owner, top_k=2)["results"]))
    first = raw["results"][0]["id"]
    say(memory.get(first))
    say(memory.update(first, text="My name is Bob"))
    say(memory.update(first, metadata={"verified": True}))
    say(memory.update(first, expiration_date="2001-01-01"))
    say(ordered(memory.get_all(filters=owner)))
    say(ordered(memory.get_all(filters=owner, show_expired=True)))
    say(memory.get(first))
    say(memory.history(first))
    say(memory.delete(raw["results"][1]["id"]))
    say(memory.get(raw["results"][1]["id"]))
    say(memory.history(raw["results"][1]["id"]))
    for call in (
        lambda: memory.delete(raw["results"][1]["id"]),
        lambda: memory.update(raw["results"][1]["id"], text="x"),
        lambda: memory.search("", filters=owner),
        lambda: memory.search("x", user_id="alice"),
        lambda: memory.get_all(filters=owner, top_k=-1),
        lambda: memory.add(7, **owner),
    ):
        with pytest.raises(Exception) as raised:
            call()
        say([type(raised.value).__name__, str(raised.value)])
    memory.add("the office is in Oslo", user_id="bob", infer=False)
    say(memory.delete_all(user_id="alice"))
    say([memory.get_all(filters=owner), ordered(memory.get_all(filters={"user_id": "bob"}))])
    say(memory.reset())
    say(memory.get_all(filters={"user_id": "bob"}))
    say(memory.history(first))
    say(memory.add("after the reset", user_id="bob", infer=False))
    say(memory.get_all(filters={"user_id": "bob"}))
    return said


class Sync:
    """The methods of an AsyncMemory, called from a loop of their own each."""

    def __init__(self, memory: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._memory, self._loop = memory, loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._memory, name)
        return lambda *args, **options: self._loop.run_until_complete(method(*args, **options))


def bare_life(provider: str, folder: Path, uri: str | None, *, asynchronous: bool = False) -> list[Any]:
    memory = (AsyncMemory if asynchronous else Memory).from_config(config(provider, folder, uri))
    loop = asyncio.new_event_loop()
    try:
        return life(Sync(memory, loop) if asynchronous else memory, provider)
    finally:
        loop.close()
        close(memory)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_documented_call_answers_as_the_bare_memory_does(
    provider: str, make: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue("new_database")() if provider == "pgvector" else None
    wanted = bare_life(provider, tmp_path / "bare", uri)
    found = life(make(provider).memory, provider)
    mine, theirs = {}, {}
    assert [told(v, mine) for v in found] == [told(v, theirs) for v in wanted]


@pytest.mark.parametrize("provider", ["qdrant", "faiss"])
def test_and_asynchronously(provider: str, make: Make, tmp_path: Path) -> None:
    wanted = bare_life(provider, tmp_path / "bare", None, asynchronous=True)
    world = make(provider, asynchronous=True)
    loop = asyncio.new_event_loop()
    try:
        found = life(Sync(world.memory, loop), provider)
    finally:
        loop.close()
    mine, theirs = {}, {}
    assert [told(v, mine) for v in found] == [told(v, theirs) for v in wanted]


def test_the_prompt_of_an_extraction_is_the_bare_ones(make: Make, tmp_path: Path) -> None:
    from memguard.bench.suts.mem0_offline import Facts

    model = Facts(prompts=[])
    memory = Memory.from_config(config("qdrant", tmp_path / "bare", None, model))
    world = make("qdrant")
    for each in (memory, world.memory):
        each.add("I like tennis", user_id="alice")
        each.add([{"role": "user", "content": "I like jam"}, {"role": "assistant", "content": "noted"}],
                 user_id="alice")  # fmt: skip
    close(memory)
    assert len(model.prompts) == 2
    assert world.model.prompts == model.prompts


def test_the_wrapped_object_and_its_type(world: World) -> None:
    assert isinstance(world.memory, Memory)
    assert world.memory.inner is world.bare
    assert world.memory.config is world.bare.config
    assert world.memory.embedding_model is world.bare.embedding_model
    with pytest.raises(AttributeError):
        _ = world.memory.nonsense
    assert type(world.bare.vector_store).__module__.startswith("mem0.")


def test_it_can_be_taken_off_again(world: World) -> None:
    made = world.memory.add("the office is in Oslo", user_id="alice", infer=False)["results"][0]
    found = world.bare.get(made["id"])
    assert found["memory"] == "the office is in Oslo"
    assert world.bare.history(made["id"])[0]["new_memory"] == "the office is in Oslo"
