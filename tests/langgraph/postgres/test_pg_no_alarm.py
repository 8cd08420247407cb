"""Mixed genuine operations on one guarded PostgresSaver: no alarm, and what it serves is what was put.

300 operations in the suite; ``MEMGUARD_PG_STEPS=10000`` runs the published number.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

STEPS = int(os.environ.get("MEMGUARD_PG_STEPS", "300"))
KINDS = {"put": 42, "writes": 18, "get": 18, "list": 12, "prune": 4, "delete": 2, "again": 3, "restart": 1}
WAYS = ("connection", "pool", "pipeline")


def place(thread: str, checkpoint: str | None = None) -> Any:
    configurable = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


class Life:
    """Four threads in a guarded saver, and what they hold: id -> (values, versions, parent)."""

    def __init__(self, scene: Any, seed: int) -> None:
        self.scene, self.saver, self.chance, self.clock = scene, scene.saver(), random.Random(seed), 0
        self.threads: dict[str, dict[str, Any]] = {name: {} for name in "abcd"}
        self.done: Counter[str] = Counter()

    def step(self, number: int) -> None:
        thread = self.chance.choice("abcd")
        (kind,) = self.chance.choices(list(KINDS), list(KINDS.values()))
        if not self.threads[thread] and kind != "restart":
            kind = "put"
        getattr(self, f"do_{kind}")(thread, number)
        self.done[kind] += 1

    def _put(self, thread: str, key: str, step: int, new: dict[str, str]) -> None:
        values, versions, parent = self.threads[thread][key]
        checkpoint: Any = empty_checkpoint()
        checkpoint.update({"v": 4, "id": key, "channel_values": values, "channel_versions": versions})
        self.saver.put(
            place(thread, parent), checkpoint, {"source": "loop", "step": step, "parents": {}}, new
        )

    def do_put(self, thread: str, number: int) -> None:
        known = self.threads[thread]
        parent = self.chance.choice(list(known)[-2:]) if known else None
        values, versions = (dict(part) for part in known[parent][:2]) if parent else ({}, {})
        new = {}
        for channel in self.chance.sample("xyz", self.chance.randint(1, 3)):
            versions[channel] = new[channel] = self.saver.get_next_version(versions.get(channel), None)
            kinds = (number, [number, "text é"], {"k": number}, None, 1.5, f"s{number}")
            values[channel] = self.chance.choice(kinds)
        self.clock += 1
        key = str(uuid6(clock_seq=self.clock % 16384))
        known[key] = (values, versions, parent)
        self._put(thread, key, number, new)

    def do_again(self, thread: str, number: int) -> None:
        self._put(thread, self.chance.choice(list(self.threads[thread])), number, {})

    def do_writes(self, thread: str, number: int) -> None:
        channel = self.chance.choice(["x", "__interrupt__", "__resume__"])
        config = place(thread, self.chance.choice(list(self.threads[thread])[-2:]))
        self.saver.put_writes(config, [(channel, number)], f"task-{self.chance.randint(1, 3)}", "~p")

    def do_get(self, thread: str, _: int) -> None:
        key = self.chance.choice(list(self.threads[thread]))
        found = self.saver.get_tuple(place(thread, key))
        assert found.checkpoint["channel_values"] == self.threads[thread][key][0]

    def do_list(self, thread: str, _: int) -> None:
        limit = self.chance.choice([None, 3])
        served = [item.checkpoint["id"] for item in self.saver.list(place(thread), limit=limit)]
        assert served == sorted(self.threads[thread], reverse=True)[:limit]

    def do_prune(self, thread: str, _: int) -> None:
        self.saver.prune([thread])
        newest = max(self.threads[thread])
        self.threads[thread] = {newest: (*self.threads[thread][newest][:2], None)}

    def do_delete(self, thread: str, _: int) -> None:
        self.saver.delete_thread(thread)
        self.threads[thread] = {}

    def do_restart(self, _thread: str, _: int) -> None:
        self.scene.close()
        self.saver = self.scene.saver(way=self.chance.choice(WAYS))


def test_no_alarm_in_mixed_genuine_operations(scene: Any) -> None:
    life = Life(scene, 7)
    for number in range(STEPS):
        life.step(number)
    assert set(life.done) == set(KINDS)
    mg = scene.guard()
    report = mg.audit(mg.guard(scene.bare(), name="checkpoints"))
    assert report.clean, report.findings
