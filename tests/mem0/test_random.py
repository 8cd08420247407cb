"""Genuine work of every kind, at random, against a model: everything is served as written, and nothing is alarmed.

``MEMGUARD_MEM0_OPERATIONS`` (default 300) says how many operations, ``MEMGUARD_MEM0_PROVIDER`` on which store.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from memguard import source

World = Any
OPERATIONS = int(os.environ.get("MEMGUARD_MEM0_OPERATIONS", "300"))
WHO = ("alice", "bob", "carol")
WORDS = ("red", "green", "apple", "plum", "tennis", "office", "Oslo", "jam", "Tuesday", "tea")


class Model:
    """What ought to be there: owner -> identifier -> text, and how many changes each memory has seen."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, str]] = {who: {} for who in WHO}
        self.changes: dict[str, int] = {}

    def check(self, world: World, who: str) -> None:
        found = world.memory.get_all(filters={"user_id": who}, top_k=10_000)["results"]
        assert {item["id"]: item["memory"] for item in found} == self.held[who]

    def check_history(self, world: World, id: str) -> None:
        assert len(world.memory.history(id)) == self.changes[id]


def step(world: World, model: Model, rng: random.Random, n: int) -> str:
    who = rng.choice(WHO)
    mine = model.held[who]
    text = f"{' '.join(rng.sample(WORDS, 4))} {n}"
    what = rng.choices(
        (
            "raw",
            "infer",
            "again",
            "update",
            "about",
            "delete",
            "all",
            "reset",
            "restart",
            "search",
            "get",
            "history",
        ),
        (20, 14, 4, 14, 5, 12, 1, 0.5, 1.5, 10, 8, 6),
    )[0]
    if what == "raw":
        batch = [
            {"role": rng.choice(("user", "assistant")), "content": f"{text}.{k}"}
            for k in range(rng.randint(1, 3))
        ]
        out = world.memory.add(batch, user_id=who, infer=False, metadata={"n": n, "part": rng.random()})
        for made in out["results"]:
            mine[made["id"]] = made["memory"]
            model.changes[made["id"]] = 1
        assert len(out["results"]) == len(batch)
    elif what in ("infer", "again"):
        said = rng.choice(list(mine.values())) if what == "again" and mine else text
        out = world.memory.add([{"role": "user", "content": said}], user_id=who)
        for made in out["results"]:
            mine[made["id"]] = made["memory"]
            model.changes[made["id"]] = 1
    elif what in ("update", "about") and mine:
        id = rng.choice(list(mine))
        with source("user"):
            if what == "update":
                world.memory.update(id, text=text)
                mine[id] = text
            else:
                world.memory.update(id, metadata={"seen": n})
        model.changes[id] += 1
    elif what == "delete" and mine:
        id = rng.choice(list(mine))
        world.memory.delete(id)
        del mine[id]
        model.changes[id] += 1
    elif what == "all":
        world.memory.delete_all(user_id=who)
        for id in mine:
            model.changes[id] += 1
        mine.clear()
    elif what == "reset":
        world.memory.reset()
        model.held, model.changes = {each: {} for each in WHO}, {}
    elif what == "restart":
        world.restart()
    elif what == "search":
        found = world.memory.search(text, filters={"user_id": who}, threshold=0.0)["results"]
        assert all(model.held[who][item["id"]] == item["memory"] for item in found)
        assert len(found) >= min(len(mine), 1)
    elif what == "get" and mine:
        id = rng.choice(list(mine))
        assert world.memory.get(id)["memory"] == mine[id]
    elif what == "history" and model.changes:
        model.check_history(world, rng.choice(list(model.changes)))
    return what


def test_random_work_raises_no_alarm(make: Any) -> None:
    provider = os.environ.get("MEMGUARD_MEM0_PROVIDER", "qdrant")
    world = make(provider, home={"config": {"write": {"anomaly": "off"}, "read": {"reranker": "off"}}})
    refused: list[Any] = []
    model, rng, done = Model(), random.Random(7), dict[str, int]()
    for n in range(OPERATIONS):
        what = step(world, model, rng, n)
        done[what] = done.get(what, 0) + 1
        if n % 50 == 49:
            for who in WHO:
                model.check(world, who)
    assert not refused
    world.restart()
    for who in WHO:
        model.check(world, who)
    for id in rng.sample(list(model.changes), min(40, len(model.changes))):
        model.check_history(world, id)
    report = world.mg.audit(world.memory)
    assert report.clean, report.findings
    assert report.records > 0
    assert set(done) >= {"raw", "infer", "update", "delete", "search"}


@pytest.mark.parametrize("provider", ["faiss", "chroma", "pgvector"])
def test_a_short_day_on_each_other_store(make: Any, provider: str) -> None:
    world = make(provider, home={"config": {"write": {"anomaly": "off"}, "read": {"reranker": "off"}}})
    model, rng = Model(), random.Random(11)
    for n in range(60):
        step(world, model, rng, n)
    world.restart()
    for who in WHO:
        model.check(world, who)
    assert world.mg.audit(world.memory).clean


async def test_many_tasks_at_once(make: Any) -> None:
    import asyncio

    world = make("qdrant", asynchronous=True)

    async def one(who: str) -> None:
        made = []
        for n in range(6):
            out = await world.memory.add(f"{who} note {n}", user_id=who, infer=n % 2 == 0)
            made += [item["id"] for item in out["results"]]
        await world.memory.update(made[0], text=f"{who} note of another kind")
        await world.memory.delete(made[1])
        await world.memory.search("note", filters={"user_id": who})
        assert len((await world.memory.get_all(filters={"user_id": who}))["results"]) == len(made) - 1

    await asyncio.gather(*(one(f"user{n}") for n in range(4)))
    await world.memory.delete_all(user_id="user0")
    assert (await world.memory.get_all(filters={"user_id": "user0"}))["results"] == []
    assert world.mg.audit(world.memory).clean


def test_many_threads_at_once(make: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    world = make("qdrant")

    def one(n: int) -> int:
        who = f"user{n % 3}"
        for k in range(4):
            world.memory.add(f"note {n} {k}", user_id=who, infer=k % 2 == 0)
        return len(world.memory.get_all(filters={"user_id": who}, top_k=100)["results"])

    with ThreadPoolExecutor(6) as pool:
        assert all(found >= 4 for found in pool.map(one, range(6)))
    assert sum(
        len(world.memory.get_all(filters={"user_id": f"user{n}"}, top_k=100)["results"]) for n in range(3)
    ) == 24  # fmt: skip
    assert world.mg.audit(world.memory).clean
