"""Six processes on one store: two write one thread, three their own, one of them deletes, one reads everything.

``python crash_race.py --seed S --operations N [--kills K]`` prints a report as JSON. With kills, a random
worker is ended by SIGKILL now and then and replaced, while the others go on.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_model as model
import crash_mutations
from crash_child import FOLDER, Child, Setting, create, open_saver

from memguard.errors import IntegrityError
from memguard.events import ForkRecorded, ReadRefused
from memguard.testing.crashpoints import Points

SHARED = "shared"
#: A worker pauses this long between operations, at most (seconds): others get their turn.
PAUSE = 0.004


@dataclass
class Worker:
    """One seat of the race; several processes may sit on it one after the other.

    Attributes:
        ops: acknowledged, in the order of this seat.
        loose: at most one operation for each process that was killed: there or not.
    """

    seat: int
    child: Child
    ops: list[model.Op] = field(default_factory=list)
    loose: list[model.Op] = field(default_factory=list)
    processes: int = 1
    said: list[dict[str, Any]] = field(default_factory=list)


def writer(
    folder: Path, setting: Setting, seat: int, seed: int, count: int, operations: int, known: model.State
) -> Child:
    """Seats 0 and 1 share a thread, 2 to 4 have their own, and 4 deletes its own now and then."""
    thread = SHARED if seat < 2 else f"own{seat}"

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        rng, state, forks = random.Random(seed), known, [0]
        opened = open_saver(folder, setting, Points())
        opened.guard.events.subscribe(
            lambda event: forks.__setitem__(0, forks[0] + isinstance(event, ForkRecorded))
        )
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        for number in range(operations):
            newest = model.look(opened.saver.get_tuple(config))
            kinds = ["put", "put", "put_writes"] + (
                ["delete_thread"] if seat == 4 and rng.random() < 0.2 else []
            )
            op = model.draw(state, rng, count + number, kind=rng.choice(kinds), writer=seat + 1)
            op = {**op, "thread": thread, **({"ns": ""} if "ns" in op else {})}
            if op["op"] == "put":
                time.sleep(
                    rng.uniform(0, PAUSE)
                )  # the other writer of this thread may go on from it meanwhile
                op["id"], op["parent"] = (
                    model.identifier(count + number, seat + 1, rng),
                    newest[0] if newest else None,
                )
            elif op["op"] == "put_writes":
                op["id"] = newest[0] if newest else model.identifier(count + number, seat + 1, rng)
                op["task"] = f"seat{seat}-{count + number}"
            tell({"begin": op})
            model.perform(opened.saver, op)
            tell({"done": True})
            time.sleep(rng.uniform(0, PAUSE))
        tell({"forks": forks[0]})
        opened.close()

    return Child(body)


def reader(folder: Path, setting: Setting, until: Path) -> Child:
    """Reads and lists everything until a file appears: nothing may be refused."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, setting, Points())
        refused: list[str] = []
        opened.guard.events.subscribe(
            lambda e: refused.append(e.code) if isinstance(e, ReadRefused) else None
        )
        looks = 0
        while not until.exists():
            for thread in (SHARED, "own2", "own3", "own4"):
                config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
                newest = opened.saver.get_tuple(config)
                listed = [f.config["configurable"]["checkpoint_id"] for f in opened.saver.list(config)]
                if newest is not None and thread != "own4":  # nothing goes away where nothing is deleted
                    assert newest.config["configurable"]["checkpoint_id"] in listed, (
                        "the newest is not listed"
                    )
                looks += 1
            for _ in opened.saver.list(None):
                pass
            time.sleep(PAUSE)
        tell({"looks": looks, "refused": refused})
        opened.close()

    return Child(body)


def run(seed: int, operations: int, kills: int) -> dict[str, Any]:
    """One race: what went wrong, and what went on."""
    began, rng, failures = time.monotonic(), random.Random(seed), []
    folder = Path(tempfile.mkdtemp(prefix="memguard-race-", dir=FOLDER))
    setting, stop = Setting(), folder / "stop"
    killed = forks = 0
    try:
        create(folder)
        looking = reader(folder, setting, stop)
        workers = [Worker(s, writer(folder, setting, s, seed * 31 + s, 1, operations, {})) for s in range(5)]
        for number in range(kills):
            time.sleep(rng.uniform(0.05, 0.3))
            worker = workers[number % 5]
            worker.child.kill()
            killed += _collect(worker, failures)
            state: model.State = {}
            for op in worker.ops:
                state = model.apply(state, op)
            again = worker.processes * 10_000
            own = seed * 31 + worker.seat + again
            worker.child = writer(folder, setting, worker.seat, own, again, operations, state)
            worker.processes += 1
        for worker in workers:
            _collect(worker, failures)
            forks += sum(said.get("forks", 0) for said in worker.said)
        stop.touch()
        saw = looking.result()
        if saw.error or saw.said is None or saw.said["refused"]:
            failures.append(f"the reader: {saw.error or saw.said}"[:900])
        failures += _after(folder, setting, workers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "operations": sum(len(w.ops) for w in workers),
        "processes": sum(w.processes for w in workers) + 1,
        "kills": killed,
        "forks": forks,
        "looks": saw.said["looks"] if saw.said else 0,
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def _collect(worker: Worker, failures: list[str]) -> int:
    """Take in what a process of this seat did; 1 if it was killed."""
    run = worker.child.result()
    worker.ops += run.done
    if run.said:
        worker.said.append(run.said)
    if run.error:
        failures.append(f"seat {worker.seat}: {run.error}"[-900:])
    if run.killed and run.pending:
        worker.loose.append(run.pending)
        worker.ops.append({**run.pending, "loose": True})
    return int(run.killed)


def _after(folder: Path, setting: Setting, workers: list[Worker]) -> list[str]:
    """Every acknowledged write is served with its content, loose ones wholly or not at all, and the audit is clean."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, setting, Points())
        wrong: list[str] = []
        for thread in (SHARED, "own2", "own3", "own4"):
            config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
            try:
                served = {item[0]: item for item in map(model.look, opened.saver.list(config))}  # type: ignore[index]
            except IntegrityError as error:
                wrong.append(f"{thread}: {error}")
                continue
            seats = [w for w in workers if any(op["thread"] == thread for op in w.ops)]
            wrong += _missing(thread, [op for w in seats for op in w.ops], served)
        report = opened.guard.audit(opened.saver)
        wrong += [f"audit: {found.as_dict()}" for found in report.findings]
        tell({"wrong": wrong})
        opened.close()

    found = Child(body).result()
    return [found.error[-900:]] if found.error else list(found.said["wrong"])


def _missing(thread: str, ops: list[model.Op], served: dict[str, Any]) -> list[str]:
    """What acknowledged operations say that is not served, and the other way round.

    Writers of one thread choose ids and tasks of their own, so that their order does not matter; a thread that is
    deleted has one writer, so that its order is known.
    """
    states: list[model.State] = [{}]
    for op in ops:
        bare = {k: v for k, v in op.items() if k != "loose"}
        after = [model.apply(state, bare) for state in states]
        states = after if not op.get("loose") else [*states, *(s for s in after if s not in states)]
    wants = [{item[0]: item for item in model.expected(state, f"{thread}|")} for state in states]
    if served in wants:
        return []
    best = min(wants, key=lambda want: sum(served.get(k) != want.get(k) for k in {*served, *want}))
    wrong = [k for k in sorted({*served, *best}) if served.get(k) != best.get(k)]
    return [f"{thread}: {len(wrong)} checkpoints are not as acknowledged, {wrong[:3]}"]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=25)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--mutation", default="")
    given = parser.parse_args()
    if given.mutation:
        crash_mutations.apply(given.mutation)
    found = run(given.seed, given.operations, given.kills)
    print(json.dumps(found, indent=1))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
