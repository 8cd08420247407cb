"""A guarded PostgresSaver answers as the bare one does, whatever is put: values in rows, in the frame, or nowhere."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import _DeltaSnapshot

#: Values as channels hold them: the saver keeps the first five kinds in the frame, the others in rows.
VALUES: tuple[Any, ...] = (
    None, True, 7, "text with ünïcode and \U0001f600", 2.5, 1e16, 1.5e300, 1e-7, -0.0, 10**40, "",
    [1, {"a": (1, 2)}], {"nested": {"b": b"bytes"}}, {3, 1, 2}, b"\x00\xff", HumanMessage("hi", id="m1"),
    [HumanMessage("a", id="1"), AIMessage("b", id="2")], _DeltaSnapshot([1, 2]), (), float("inf"),
)  # fmt: skip


def place(thread: str, namespace: str = "", checkpoint: str | None = None) -> Any:
    configurable = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


class Twins:
    """The same calls on a bare saver and on a guarded one; whatever comes back must be equal."""

    def __init__(self, bare: Any, guarded: Any) -> None:
        self.bare, self.guarded = bare, guarded

    def __call__(self, method: str, *args: Any, **options: Any) -> Any:
        answers = []
        for saver in (self.bare, self.guarded):
            try:
                found = getattr(saver, method)(*args, **options)
                answers.append(list(found) if method == "list" else found)
            except Exception as error:  # the bare saver's own refusals are answers too
                answers.append((type(error).__name__, getattr(error, "sqlstate", None)))
        assert repr(answers[1]) == repr(answers[0]), (method, args)
        return answers[0]


@pytest.fixture
def twins(new_scene: Any) -> Twins:
    return Twins(new_scene().bare(), new_scene().saver())


def made(number: int, values: dict[str, Any], versions: dict[str, Any], **fields: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint.update({"channel_values": values, "channel_versions": versions, **fields})  # type: ignore[typeddict-item]
    checkpoint["id"] = f"1f000000-0000-6000-8000-{number:012x}"
    checkpoint["ts"] = "2026-01-01T00:00:00+00:00"
    return checkpoint


#: Operations of a random history: ``MEMGUARD_PG_STEPS=10000`` for the long run.
STEPS = int(os.environ.get("MEMGUARD_PG_STEPS", "60"))
META: Any = {"source": "loop", "step": 1, "parents": {}}


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_kind_of_value_comes_back_as_from_the_bare_saver(twins: Twins, value: Any) -> None:
    config = twins("put", place("t"), made(1, {"c": value}, {"c": "1"}), META, {"c": "1"})
    if isinstance(config, dict):
        twins("put_writes", config, [("c", value), ("__interrupt__", value)], "task", "~p")
    twins("get_tuple", place("t"))
    twins("list", place("t"))


def test_channels_that_did_not_change_are_shown_from_where_they_were_stored(twins: Twins) -> None:
    values = {"kept": [1], "new": [1], "plain": 5}
    versions = {"kept": "1", "new": "1", "plain": "1"}
    config = twins("put", place("t"), made(1, values, versions), META, versions)
    for number in (2, 3):
        versions = {**versions, "new": str(number)}
        values = {**values, "new": [number]}
        config = twins("put", config, made(number, values, versions), META, {"new": str(number)})
        twins("get_tuple", config)
    twins("list", None)
    # One that names a version under which nothing was ever stored, and one that names none at all.
    twins("put", config, made(4, {"kept": [9], "lost": [1]}, {"kept": "1", "lost": "7"}), META, {})
    twins("put", config, made(5, {"loose": [1], "bare": 1}, {}), META, {"loose": "1"})
    twins("list", None)


def test_a_version_keeps_the_value_it_was_first_given(twins: Twins) -> None:
    config = twins("put", place("t"), made(1, {"c": [1]}, {"c": 1}), META, {"c": "1"})
    twins("put", config, made(2, {"c": [2]}, {"c": "1"}), META, {"c": "1"})
    twins("put", config, made(3, {"c": "plain"}, {"c": "1"}), META, {"c": "1"})
    twins("list", None)


def test_a_checkpoint_that_is_put_again_keeps_its_parent(twins: Twins) -> None:
    first = twins("put", place("t"), made(1, {"c": [1]}, {"c": "1"}), META, {"c": "1"})
    twins("put", first, made(2, {"c": [2]}, {"c": "2"}), META, {"c": "2"})
    twins("put", place("t"), made(2, {"c": [3]}, {"c": "3"}), {**META, "again": True}, {"c": "3"})
    assert twins("get_tuple", place("t")).parent_config == first
    twins("list", None)


def test_metadata_and_frames_survive_jsonb(twins: Twins) -> None:
    odd = {
        **META, "writes": {"gone": 1}, "nul": "a\x00b", "big": 10**30, "exp": 2e22, "deep": {"1": [{"é": None}]},
        "list": (1, 2), "float": 1.0, "zero": -0.0,
    }  # fmt: skip
    config = {**place("t"), "metadata": {"run_id": "r-1", "flag": True}}
    fields = {"versions_seen": {"n": {"c": "1"}, 5: {}}, "extra": [1.0, 2e30]}
    twins("put", config, made(1, {"c": 1}, {"c": "1"}, **fields), odd, {"c": "1"})
    twins("get_tuple", place("t"))
    twins("list", None, filter={"big": 10**30})
    twins("list", None, filter={"deep": {"1": [{"é": None}]}})
    twins("list", place("t"), filter={"nope": 1})


def test_what_the_bare_saver_refuses_is_refused_alike_and_leaves_the_thread_usable(twins: Twins) -> None:
    config = twins("put", place("t"), made(1, {"c": [1]}, {"c": "1"}), META, {"c": "1"})
    twins("put", config, made(2, {"c": "nul \x00"}, {"c": "2"}), META, {"c": "2"})
    twins("put", config, made(3, {"c": float("nan")}, {"c": "3"}), META, {"c": "3"})
    twins("put", config, made(4, {"c": [4]}, {"c": 4}), META, {"c": 4})  # a number is stored as text
    twins("put_writes", config, [("a\x00", 1)], "task")
    twins("put", config, made(5, {"c": [5]}, {"c": "5"}), META, {"c": "5"})
    assert len(twins("list", None)) == 3


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_are_equal(new_scene: Any, seed: int) -> None:
    """Forks, unchanged channels, special writes, deletions and prunes, with a new guard every now and then."""
    chance = random.Random(seed)
    bare_scene, scene = new_scene(), new_scene()
    twins = Twins(bare_scene.bare(), scene.saver())
    configs: dict[str, list[Any]] = {"a": [], "b": []}
    versions: dict[str, str] = {}
    clock = 0
    for step in range(STEPS):
        thread = chance.choice("ab")
        known, act = configs[thread], chance.random()
        if act < 0.45 or not known:
            clock += 1
            changed = chance.sample(["x", "y", "z"], chance.randint(1, 3))
            above = chance.choice(known[-3:]) if known else place(thread)
            versions = dict(twins.bare.get_tuple(above).checkpoint["channel_versions"]) if known else {}
            values = dict(twins.bare.get_tuple(above).checkpoint["channel_values"]) if known else {}
            for channel in changed:
                versions[channel] = twins.bare.get_next_version(versions.get(channel), None)
                values[channel] = chance.choice(VALUES[:17])
            checkpoint = made(0, values, versions, id=str(uuid6(clock_seq=clock)))
            checkpoint["id"] = str(uuid6(clock_seq=clock % 16384))
            new = {channel: versions[channel] for channel in changed}
            known.append(twins("put", above, checkpoint, {**META, "step": step}, new))
        elif act < 0.65:
            batch = [
                (chance.choice(["x", "__interrupt__", "__resume__"]), step)
                for _ in range(chance.randint(1, 3))
            ]
            twins("put_writes", chance.choice(known[-2:]), batch, f"task-{chance.randint(1, 2)}", "~p")
        elif act < 0.8:
            twins("get_tuple", chance.choice([place(thread), chance.choice(known)]))
        elif act < 0.9:
            twins("list", chance.choice([None, place(thread)]), limit=chance.choice([None, 1, 3]))
        elif act < 0.94:
            twins("prune", [thread], strategy=chance.choice(["keep_latest", "delete"]))
            left = {item.config["configurable"]["checkpoint_id"] for item in twins.bare.list(place(thread))}
            configs[thread] = [c for c in known if c["configurable"]["checkpoint_id"] in left]
        elif act < 0.96:
            twins("delete_thread", thread)
            configs[thread] = []
        else:
            scene.close()
            twins.guarded = scene.saver(way=chance.choice(["connection", "pool", "pipeline"]))
    twins("list", None)
    mg = scene.guard()
    assert mg.audit(mg.guard(scene.bare(), name="checkpoints")).clean


def test_prune_leaves_no_parent_where_it_deleted_it_and_takes_calls_of_subgraphs(twins: Twins) -> None:
    root = place("t")
    keys = []
    for number in range(1, 4):
        root = twins("put", root, made(number, {"c": [number]}, {"c": str(number)}), META, {"c": str(number)})
        keys.append(root["configurable"]["checkpoint_id"])
        below = {**META, "parents": {"": keys[-1]}}
        call = place("t", f"sub:{number}")
        twins("put", call, made(number, {"s": [number]}, {"s": "1"}), below, {"s": "1"})
        twins("put_writes", root, [("c", number)], "task")
    twins("prune", ["t"], strategy="keep_latest")
    found = twins("list", {"configurable": {"thread_id": "t"}})
    assert {item.config["configurable"]["checkpoint_ns"] for item in found} == {"", "sub:3"}
    kept = twins("get_tuple", place("t", ""))
    assert kept.parent_config is None
    assert kept.checkpoint["id"] == keys[-1]
    twins("put", root, made(9, {"c": [9]}, {"c": "9"}), META, {"c": "9"})
    twins("list", None)


def test_an_old_checkpoint_shows_what_its_parents_tasks_sent(twins: Twins) -> None:
    old = {"v": 3}
    first = twins("put", place("t"), made(1, {"c": [1]}, {"c": "1"}, **old), META, {"c": "1"})
    twins("put_writes", first, [("__pregel_tasks", ["send", 2]), ("c", 1)], "task-2", "~b")
    twins("put_writes", first, [("__pregel_tasks", ["send", 1])], "task-1", "~a")
    second = twins("put", first, made(2, {"c": [2]}, {"c": "2"}, **old), META, {"c": "2"})
    twins("put", second, made(3, {"c": [3]}, {"c": "3"}, **old), META, {"c": "3"})
    assert twins("get_tuple", second).checkpoint["channel_values"]["__pregel_tasks"] == [
        ["send", 1],
        ["send", 2],
    ]
    twins("list", place("t"))
