"""Eight writers in four processes on one PostgreSQL server, which holds the store, its anchor, locks and notes.

``python crash_postgres.py --seed S --operations N --kills K --stops P`` prints a report as JSON. A random process is
ended by SIGKILL now and then and replaced; now and then the server is stopped without a word (SIGQUIT) and started
again. What was acknowledged must be served as written, what was not is there whole or not at all, no check may
fail, and whoever went on from the same checkpoint as another must have said so before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_model as model
import psycopg
from crash_child import FOLDER, HARVEST, INTEGRITY, Child
from langgraph.checkpoint.postgres import PostgresSaver

import memguard.anchorlog
import memguard.engine
import memguard.integrations.langgraph.guard  # everything a child needs is loaded before it is forked
from memguard.bench.suts.postgres_server import PostgresServer
from memguard.engine import MemGuard
from memguard.errors import IntegrityError, UnsupportedError
from memguard.events import ForkRecorded, ReadRefused, RecoveryRun

STORE = "ck"
PROCESSES, WRITERS = 4, 8
#: Threads that everybody writes, beside one for each writer.
SHARED = ("shared0", "shared1")
#: What a writer may be told when the server is away or took its lock from it: no word about the store.
AWAY = ("MG520", "MG521", "MG522", "MG523", "MG527")
#: Seconds that a writer goes on trying to reach the server.
PATIENCE = 60.0
Tell = Callable[[dict[str, Any]], None]


@dataclass
class Place:
    """Where everything of a run is: two hosts' homes with one configuration, and the server's address."""

    folder: Path
    uri: str

    def create(self) -> None:
        config = {"integrity": INTEGRITY, "write": {"sanitizer": "off", "anomaly": "off"}}
        home = self.folder / "host0"
        with psycopg.connect(self.uri, autocommit=True) as conn:
            PostgresSaver(conn).setup()
        MemGuard.create(home, anchor=self.uri, keys=f"file:{self.folder / 'key.json'}", config=config).close()
        for host in range(1, PROCESSES):  # as configuration management would bring it to other machines
            shutil.copytree(
                home, self.folder / f"host{host}", ignore=shutil.ignore_patterns("locks", "state*")
            )

    def open(self, host: int) -> MemGuard:
        memguard.anchorlog.HARVEST = HARVEST
        return MemGuard.open(self.folder / f"host{host}")


@contextmanager
def saver_of(place: Place, guard: MemGuard) -> Iterator[Any]:
    """The guarded saver on a connection of its own."""
    with psycopg.connect(place.uri, autocommit=True, prepare_threshold=0) as conn:
        conn.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
        yield guard.guard(PostgresSaver(conn), name=STORE)


@dataclass
class Writer:
    """What one of the eight did, by its own word, whichever processes it lived in."""

    acked: list[model.Op] = field(default_factory=list)
    loose: list[model.Op] = field(default_factory=list)
    pending: model.Op | None = None


class Talk:
    """One pipe for two threads: a line is written whole."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._mutex = tell, threading.Lock()

    def __call__(self, **said: Any) -> None:
        with self._mutex:
            self._tell({"say": said})


def works(place: Place, host: int, seed: int, life: int, counts: dict[int, int]) -> Child:
    """A process with its writers; ``counts``: how many operations each has still to do."""

    def body(tell: Tell) -> None:
        say = Talk(tell)
        guard: list[MemGuard] = []
        until = time.monotonic() + PATIENCE
        while not guard:
            try:
                guard.append(place.open(host))
            except Exception as error:
                if not _away(error) or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        mg = guard[0]
        mg.events.subscribe(lambda event: _overheard(event, say))
        wrong: list[str] = []

        def work(writer: int, count: int) -> None:
            try:
                write(place, mg, writer, random.Random(seed * 1000 + life * 10 + writer), life, count, say)
            except BaseException as error:
                wrong.append(f"writer {writer}: {error!r} {error}")

        threads = [threading.Thread(target=work, args=pair) for pair in counts.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            say(failed="; ".join(wrong)[:3000])
        with suppress(Exception):
            mg.close()

    return Child(body)


def _overheard(event: object, say: Talk) -> None:
    if isinstance(event, ForkRecorded):
        say(fork=event.record)
    elif isinstance(event, RecoveryRun):
        say(recovery=event.outcome)
    elif isinstance(event, ReadRefused) and event.code not in AWAY:
        say(alarm=f"{event.code} {event.record}")


def _away(error: BaseException) -> bool:
    """Whether it says that the server was away, and nothing about what is stored."""
    if isinstance(error, IntegrityError):
        return error.code in AWAY
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | UnsupportedError)


def write(
    place: Place, mg: MemGuard, writer: int, rng: random.Random, life: int, count: int, say: Talk
) -> None:
    """One writer: opens a saver, works, and opens another when the server was away."""
    done, number, until = 0, life * 1_000_000, time.monotonic() + PATIENCE
    while done < count:
        try:
            with saver_of(place, mg) as saver:
                while done < count:
                    number += 1
                    op = draw(saver, writer, number, rng)
                    say(begin=op, writer=writer)
                    model.perform(saver, op)
                    say(done=True, writer=writer)
                    done, until = done + 1, time.monotonic() + PATIENCE
        except Exception as error:
            if not _away(error) or time.monotonic() > until:
                raise
            say(doubt=type(error).__name__, writer=writer)
            time.sleep(rng.uniform(0.02, 0.1))


def draw(saver: Any, writer: int, number: int, rng: random.Random) -> model.Op:
    """The next operation: on a thread that all share, or on the writer's own, or a short life of a new thread."""
    own = f"own{writer}"
    thread = rng.choice((*SHARED, own)) if rng.random() < 0.95 else f"brief{writer}-{number}"
    newest = model.look(saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}))
    value = "".join(rng.choice("abcdefgh") for _ in range(rng.choice((3, 40, 900))))
    base = {"thread": thread, "ns": "", "writer": writer}
    if newest is not None and rng.random() < 0.35:
        writes = [[f"c{at}", [value, at]] for at in range(rng.randint(1, 3))]
        task = f"w{writer}-{number}"
        return {"op": "put_writes", **base, "id": newest[0], "task": task, "path": "", "writes": writes}
    parent = newest[0] if newest else None
    key = model.identifier(int(time.time() * 1000) & 0xFFFFFFFF, writer + 1, rng)
    return {"op": "put", **base, "id": key, "parent": parent, "value": value, "step": number}


def run(seed: int, operations: int, kills: int, stops: int) -> dict[str, Any]:
    """One run: what went wrong, and what went on."""
    began, rng = time.monotonic(), random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="memguard-postgres-", dir=FOLDER))
    heard: dict[str, Any] = {"recoveries": {}, "forks": set(), "failures": [], "doubts": 0, "processes": 0}
    writers = [Writer() for _ in range(WRITERS)]
    with PostgresServer(durable=True) as server:
        place = Place(folder, server.database())
        try:
            place.create()
            landed = _schedule(place, server, rng, writers, heard, operations, kills, stops)
            heard["failures"] += _after(place, writers, heard)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    acked = [op for writer in writers for op in writer.acked]
    return {
        "operations": len(acked),
        "in_doubt": sum(len(writer.loose) for writer in writers),
        "processes": heard["processes"],
        **landed,
        "forks": len(heard["forks"]),
        "recoveries": heard["recoveries"],
        "checkpoints": heard.get("checkpoints", 0),
        "failures": heard["failures"],
        "seconds": round(time.monotonic() - began, 1),
    }


def _schedule(
    place: Place,
    server: PostgresServer,
    rng: random.Random,
    writers: list[Writer],
    heard: dict[str, Any],
    operations: int,
    kills: int,
    stops: int,
) -> dict[str, int]:
    """Start processes, end some of them and the server at random moments, and start them again until all is done."""
    share = operations // WRITERS
    seats: dict[int, tuple[Child, threading.Thread]] = {}
    lives = [0] * PROCESSES
    landed = {"kills": 0, "stops": 0}

    def begin(seat: int) -> None:
        mine = range(seat * WRITERS // PROCESSES, (seat + 1) * WRITERS // PROCESSES)
        left = {w: share - len(writers[w].acked) for w in mine if share > len(writers[w].acked)}
        if not left:
            return
        lives[seat] += 1
        heard["processes"] += 1
        child = works(place, seat, rng.randrange(1 << 30), lives[seat], left)
        thread = threading.Thread(target=_listen, args=(child, writers, heard))
        thread.start()
        seats[seat] = (child, thread)

    def end(seat: int) -> None:
        child, thread = seats.pop(seat)
        thread.join()
        if os.WIFSIGNALED(child.status):  # type: ignore[attr-defined]
            landed["kills"] += 1
        for w in range(seat * WRITERS // PROCESSES, (seat + 1) * WRITERS // PROCESSES):
            _in_doubt(writers[w])

    for seat in range(PROCESSES):
        begin(seat)
    # Spread over the run: one every so many acknowledged operations.
    acts = ["kill"] * kills + ["stop"] * stops
    rng.shuffle(acts)
    total = share * WRITERS
    due = sorted(rng.uniform(0.05, 0.9) * total for _ in acts)
    while seats:
        for seat in list(seats):
            if not seats[seat][1].is_alive():
                end(seat)
                if not heard["failures"]:
                    begin(seat)
        count = sum(len(writer.acked) for writer in writers)
        if acts and seats and count >= due[len(due) - len(acts)]:
            time.sleep(rng.uniform(0, 0.05))
            if acts.pop() == "kill":
                seat = rng.choice(list(seats))
                seats[seat][0].kill()
                end(seat)
                begin(seat)
            else:
                server.stop(signal.SIGQUIT)
                time.sleep(rng.uniform(0, 0.3))
                server.start()
                landed["stops"] += 1
        time.sleep(0.005)
    return landed


def _in_doubt(writer: Writer) -> None:
    if writer.pending is not None:
        writer.loose.append(writer.pending)
        writer.pending = None


def _listen(child: Child, writers: list[Writer], heard: dict[str, Any]) -> None:
    """Take in what a process says, while it works."""
    for said in child.messages():
        if "error" in said:
            heard["failures"].append(str(said["error"])[-1500:])
            continue
        said = said["say"]
        if "begin" in said:
            writers[said["writer"]].pending = said["begin"]
        elif "done" in said:
            writer = writers[said["writer"]]
            assert writer.pending is not None
            writer.acked.append(writer.pending)
            writer.pending = None
        elif "doubt" in said:
            _in_doubt(writers[said["writer"]])
            heard["doubts"] += 1
        elif "fork" in said:
            heard["forks"].add(said["fork"])
        elif "recovery" in said:
            heard["recoveries"][said["recovery"]] = heard["recoveries"].get(said["recovery"], 0) + 1
        elif "alarm" in said:
            heard["failures"].append(f"alarm: {said['alarm']}")
        elif "failed" in said:
            heard["failures"].append(said["failed"])


def _after(place: Place, writers: list[Writer], heard: dict[str, Any]) -> list[str]:
    """A process that saw nothing of it reads everything and compares."""
    acked = [op for writer in writers for op in writer.acked]
    loose = [op for writer in writers for op in writer.loose]
    forks = heard["forks"]

    def body(tell: Tell) -> None:
        mg, wrong, checkpoints = place.open(0), list[str](), 0
        with saver_of(place, mg) as saver:
            for thread in sorted({op["thread"] for op in (*acked, *loose)}):
                try:
                    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
                    served = {found[0]: found for found in map(model.look, saver.list(config))}  # type: ignore[index]
                except IntegrityError as error:
                    wrong.append(f"{thread}: {error}")
                    continue
                checkpoints += len(served)
                ours = [[op for op in ops if op["thread"] == thread] for ops in (acked, loose)]
                wrong += _differs(thread, *ours, served)
                wrong += _unrecorded(thread, served, forks)
            report = mg.audit(saver)
            wrong += [f"audit: {found.as_dict()}" for found in report.findings]
        mg.close()
        tell({"wrong": wrong[:20], "checkpoints": checkpoints})

    child = Child(body)
    answers = list(child.messages())
    for answer in answers:
        if "error" in answer:
            return [str(answer["error"])[-1500:]]
        heard["checkpoints"] = answer["checkpoints"]
        return list(answer["wrong"])
    return ["the process that looks at the end said nothing"]


def _differs(thread: str, acked: list[model.Op], loose: list[model.Op], served: dict[str, Any]) -> list[str]:
    """What is served against what was said. Every id and every task is used once, so order does not matter."""
    wrong: list[str] = []
    puts = {op["id"]: op for op in (*acked, *loose) if op["op"] == "put"}
    sure = {op["id"] for op in acked if op["op"] == "put"}
    tasks = {op["task"]: op for op in (*acked, *loose) if op["op"] == "put_writes"}
    wrong += [f"{thread}: acknowledged and not served: {key}" for key in sorted(sure - served.keys())[:5]]
    found: dict[str, list[Any]] = {}
    for key, (_, parent, value, step, writes) in served.items():
        op = puts.get(key)
        if op is None or [op["parent"], op["value"], op["step"]] != [parent, value, step]:
            wrong.append(f"{thread}: served otherwise than written: {key}")
        for task, channel, said in writes:
            found.setdefault(task, []).append([key, channel, said])
    for task, rows in found.items():
        op = tasks.get(task)
        if op is None or sorted(rows) != sorted([op["id"], c, v] for c, v in op["writes"]):
            wrong.append(f"{thread}: pending writes otherwise than written, or half: {task}")
    missing = [op["task"] for op in acked if op["op"] == "put_writes" and op["task"] not in found]
    wrong += [f"{thread}: acknowledged writes not served: {task}" for task in missing[:5]]
    return wrong


def _unrecorded(thread: str, served: dict[str, Any], forks: set[str]) -> list[str]:
    """Of several checkpoints that go on from one, all but the first must have been said to be a fork."""
    children: dict[str, list[str]] = {}
    for key, found in served.items():
        children.setdefault(str(found[1]), []).append(key)
    wrong = []
    for parent, keys in children.items():
        silent = [key for key in keys if not any(key in record for record in forks)]
        if len(silent) > 1:
            wrong.append(f"{thread}: {len(silent)} checkpoints go on from {parent}, and no fork was recorded")
    return wrong


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--stops", type=int, default=1)
    given = parser.parse_args()
    found = run(given.seed, given.operations, given.kills, given.stops)
    print(json.dumps(found, indent=1))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
