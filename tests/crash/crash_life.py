"""Lives of a home: work, be killed, be looked at, work on; and the list of points at which to kill.

``python crash_life.py named|random --count N --seed S ...`` prints a report as JSON:
``{"kills": N, "landed": {"scope/point": n}, "failures": [...]}``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_model as model
import crash_mutations
from crash_child import FOLDER, LONGEST, Setting, create, inspect, work

#: Points of an ordinary write, of a durable announcement, of a delete, of compaction, of the harvest.
ORDINARY = (
    "slot.write.before", "slot.write.torn", "slot.write.after", "store.statement", "store.commit.before",
    "store.commit.after", "head.before", "log.write.before", "log.write.torn", "log.write.after",
    "log.sync.before", "log.sync.after", "head.after",
)  # fmt: skip
DELETE = (
    "intent.before", "log.write.before", "log.write.torn", "log.write.after", "log.sync.before", "log.sync.after",
    "intent.after", "store.statement", "store.commit.before", "store.commit.after", "head.before", "head.after",
)  # fmt: skip
COMPACTION = (
    "new.write.before", "new.write.after", "new.sync.before", "new.sync.after", "compact.rename.before",
    "compact.rename.after", "compact.folder.before", "compact.folder.after", "compact.supersede.before",
    "compact.supersede.after",
)  # fmt: skip
HARVESTING = ("ledger.before", "ledger.mid", "ledger.after")
FIRST = ("intent.before", "intent.after", "log.reserve.before", "log.reserve.after")
#: (point, kind of operation or None, highest n of "the n-th time").
TARGETS: tuple[tuple[str, str | None, int], ...] = (
    *((p, "put", 5) for p in ORDINARY),
    *((p, "put_writes", 5) for p in ORDINARY),
    *((p, "delete_thread", 3) for p in DELETE),
    *((p, None, 2) for p in COMPACTION),
    *((p, None, 2) for p in HARVESTING),
    *((p, "put", 2) for p in FIRST[:2]),
    *((p, "put_writes", 1) for p in FIRST[:2]),
    *((p, None, 1) for p in FIRST[2:]),
)
#: Points at which a recovery itself is killed.
RECOVERING = ("head.before", "log.write.before", "log.write.torn", "log.write.after", "log.sync.before",
              "log.sync.after", "head.after", "log.cut.before", "log.cut.after", "store.commit.before",
              "store.commit.after")  # fmt: skip
#: Kills in one life.
LIFE = 6


@dataclass
class Report:
    """What a run of lives came to."""

    kills: int = 0
    recoveries_killed: int = 0
    operations: int = 0
    adopted: int = 0
    undone: int = 0
    landed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "landed": dict(sorted(self.landed.items()))}


class Life:
    """One home and what it ought to hold.

    Args:
        boots: how many reopenings happen under a new boot id: 0 none, 1 every one.
    """

    def __init__(self, folder: Path, seed: int, setting: Setting, boots: float, report: Report) -> None:
        self.folder, self.rng, self.setting = folder, random.Random(seed), setting
        self.boots, self.report = boots, report
        self.states: list[model.State] = [{}]
        self.count = 1
        create(folder)

    def kill(self, target: tuple[str, str | None, int] | None) -> None:
        """Work until killed at a target (None: at a random time), then look."""
        before = self.states
        seed = self.rng.randrange(1 << 30)
        arm = (target[0], target[1], self.rng.randint(1, target[2])) if target else None
        child = work(self.folder, self.setting, before[0], seed, self.count, arm, LONGEST)
        if target is None:
            time.sleep(self.rng.uniform(0.02, 0.4))
            child.kill()
        run = child.result()
        name = f"{target[1] or 'any'}/{target[0]}" if target else "random"
        self.count += LONGEST + 1
        self.report.operations += len(run.done)
        if run.error or not run.killed:
            why = run.error[-900:] or "point never reached"
            raise Failure(f"{name}: the worker ended by itself ({run.status}): {why}")
        self.report.kills += 1
        self.report.landed[name] += 1
        for op in run.done:
            before = [model.apply(state, op) for state in before]
        after = [model.apply(state, run.pending) for state in before] if run.pending else before
        if self.rng.random() < self.boots:
            self.setting.boot += 1
        self._look(name, before, after, bool(run.pending))

    def _look(self, name: str, before: list[model.State], after: list[model.State], pending: bool) -> None:
        candidates = [*before, *(state for state in after if state not in before)]
        if self.rng.random() < 0.3:  # the recovery is killed too
            arm = (self.rng.choice(RECOVERING), None, 1)
            run = reopen_and_die(self, candidates, arm)
            if run.error:
                raise Failure(f"{name}: then {arm[0]} of its recovery: {run.error}")
            self.report.recoveries_killed += run.killed
            name += f", recovery killed at {arm[0]}" if run.killed else ""
        run = inspect(self.folder, self.setting, candidates, self.rng.randrange(1 << 30), self.count).result()
        self.count += 100
        if run.error or run.said is None:
            raise Failure(f"{name}: {run.error[-900:] or 'the inspector died'}")
        fits = [candidates[index] for index in run.said["fits"]]
        if pending and len(candidates) > len(before):
            self.report.adopted += all(state not in before for state in fits)
            self.report.undone += all(state in before for state in fits)
        for op in run.said["written"]:
            fits = [model.apply(state, op) for state in fits]
        self.states = fits


class Failure(Exception):
    """A promise was broken."""


def reopen_and_die(life: Life, candidates: list[model.State], arm: tuple[str, str | None, int]) -> Any:
    """Open, read all, be killed on the way if the point is reached."""
    from crash_child import Child, die, open_saver

    from memguard.testing.crashpoints import Points

    def body(tell: Any) -> None:
        points = Points()
        points.install()
        points.arm(arm[0], die)
        opened = open_saver(life.folder, life.setting, points)
        seen = model.observed(opened.saver, model.places_of(*candidates))
        assert any(model.shows(state, seen) for state in candidates), "what is served is not what was written"

    return Child(body).result()


def targets(count: int, seed: int) -> list[tuple[str, str | None, int]]:
    """``count`` targets, every one of :data:`TARGETS` as often as the others, in seeded order."""
    chosen: list[tuple[str, str | None, int]] = []
    rng = random.Random(seed)
    while len(chosen) < count:
        chosen += rng.sample(TARGETS, len(TARGETS))
    return chosen[:count]


def run(mode: str, count: int, seed: int, setting: Setting, boots: float, *, stop: bool = False) -> Report:
    """So many kills, in lives of :data:`LIFE`."""
    report, began = Report(), time.monotonic()
    todo: list[tuple[str, str | None, int] | None] = (
        list(targets(count, seed)) if mode == "named" else [None] * count
    )
    for first in range(0, count, LIFE):
        folder = Path(tempfile.mkdtemp(prefix="memguard-crash-", dir=FOLDER))
        life_seed = seed * 100_003 + first
        try:
            own = Setting(setting.sync, setting.lag_ops, 0, setting.row_by_row)
            life = Life(folder, life_seed, own, boots, report)
            for target in todo[first : first + LIFE]:
                life.kill(target)
        except Failure as failure:
            report.failures.append(f"seed {seed}, life {first // LIFE}: {failure}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if stop and report.failures:
            break
    report.seconds = round(time.monotonic() - began, 1)
    return report


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("named", "random"))
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sync", default="strict")
    parser.add_argument("--boots", type=float, default=0.0)
    parser.add_argument("--mutation", default="")
    parser.add_argument("--stop", action="store_true")
    given = parser.parse_args()
    if given.mutation:
        crash_mutations.apply(given.mutation)
    report = run(given.mode, given.count, given.seed, Setting(given.sync), given.boots, stop=given.stop)
    print(json.dumps(report.as_dict(), indent=1))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
