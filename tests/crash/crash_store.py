"""Kills of a process that works on a guarded SqliteStore: puts, replacements and deletes of items.

``python crash_store.py --count N --seed S`` prints a report as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash_mutations
from crash_child import FOLDER, Child, create, die
from langgraph.store.sqlite import SqliteStore

from memguard.engine import MemGuard
from memguard.testing.crashpoints import Points, TappedConnection

POINTS = (
    "slot.write.before", "slot.write.torn", "slot.write.after", "store.statement", "head.before", "log.write.before",
    "log.write.torn", "log.write.after", "log.sync.before", "log.sync.after", "head.after", "intent.before",
    "intent.after",
)  # fmt: skip
SPACES, KEYS = (("users", "alice"), ("users", "bob")), ("k0", "k1", "k2")
Items = dict[str, Any]


def open_store(folder: Path, points: Points) -> tuple[MemGuard, Any]:
    """The home of a folder with its guarded store."""
    guard = MemGuard.open(
        folder / "home", anchor=f"file:{folder / 'anchor'}", keys=f"file:{folder / 'key.json'}"
    )
    conn = sqlite3.connect(
        str(folder / "items.db"), factory=TappedConnection, check_same_thread=False, isolation_level=None
    )
    conn.points = points
    bare = SqliteStore(conn)
    bare.setup()
    return guard, guard.guard(bare, name="items")


def name(space: tuple[str, ...], key: str) -> str:
    """An item's name in the model."""
    return f"{'/'.join(space)}:{key}"


def apply(items: Items, op: list[Any]) -> Items:
    """The items after an operation: [name, value or None]."""
    after = {**items, op[0]: op[1]}
    return {k: v for k, v in after.items() if v is not None}


def read(store: Any) -> Items:
    """All items, by get and by search, which must agree."""
    found: Items = {}
    for space in SPACES:
        for key in KEYS:
            item = store.get(space, key)
            if item is not None:
                found[name(space, key)] = item.value["v"]
        listed = {name(space, item.key): item.value["v"] for item in store.search(space, limit=50)}
        assert listed == {k: v for k, v in found.items() if k.startswith("/".join(space))}, (
            "search differs from get"
        )
    return found


def kill(folder: Path, items: Items, point: str, rng: random.Random) -> tuple[Items, str]:
    """Work until killed at a point, then look: the items found, and what went wrong."""
    seed, nth = rng.randrange(1 << 30), rng.randint(1, 4) if not point.startswith("intent") else 1

    def work(tell: Callable[[dict[str, Any]], None]) -> None:
        points, own = Points(), random.Random(seed)
        points.install()
        _, store = open_store(folder, points)
        for number in range(200):
            space, key = own.choice(SPACES), own.choice(KEYS)
            value = None if own.random() < 0.2 else f"value {number} {own.random()}"
            if number == 2:
                points.arm(point, die, nth=nth)
            tell({"begin": {"item": [name(space, key), value]}})
            if value is None:
                store.delete(space, key)
            else:
                store.put(space, key, {"v": value})
            tell({"done": True})

    run = Child(work).result()
    if run.error or not run.killed:
        return items, f"{point}: the worker ended by itself: {run.error[-600:]}"
    for op in run.done:
        items = apply(items, op["item"])
    allowed = [items] if run.pending is None else [items, apply(items, run.pending["item"])]

    def look(tell: Callable[[dict[str, Any]], None]) -> None:
        guard, store = open_store(folder, Points())
        found = read(store)
        assert found in allowed, f"found {sorted(found)}, allowed {[sorted(a) for a in allowed]}"
        report = guard.audit(store)
        assert report.clean, [f.as_dict() for f in report.findings]
        store.put(SPACES[0], "k0", {"v": "after"})
        found = {**found, name(SPACES[0], "k0"): "after"}
        assert read(store) == found, "a further write is not served"
        tell({"found": found})

    after = Child(look).result()
    if after.error or after.said is None:
        return items, f"{point}: {after.error[-600:]}"
    return after.said["found"], ""


def _home() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="memguard-items-", dir=FOLDER))
    create(folder)
    return folder


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=len(POINTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutation", default="")
    given = parser.parse_args()
    if given.mutation:
        crash_mutations.apply(given.mutation)
    began, rng, failures, landed = time.monotonic(), random.Random(given.seed), [], Counter[str]()
    folder, items = _home(), Items()
    for number in range(given.count):
        point = POINTS[number % len(POINTS)]
        items, wrong = kill(folder, items, point, rng)
        landed[point] += not wrong
        failures += [wrong] if wrong else []
        if wrong or number % 5 == 4:
            shutil.rmtree(folder, ignore_errors=True)
            folder, items = _home(), Items()
    shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began, 1)
    kills = sum(landed.values())
    print(
        json.dumps(
            {"kills": kills, "landed": landed, "operations": kills, "failures": failures, "seconds": seconds}
        )
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
