"""Processes that work on a guarded saver until they are killed, and the one that looks at what is left.

Everything is forked from a process that has imported what it needs and opened nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import crash_model as model
from langgraph.checkpoint.sqlite import SqliteSaver

import memguard.anchorlog
import memguard.engine
import memguard.integrations.langgraph.guard  # everything a child needs is loaded before it is forked
from memguard.engine import MemGuard
from memguard.testing.crashpoints import Points

STORE = "ck"
#: Compact and harvest often, so that schedules of a few operations meet both.
INTEGRITY = {"compact_bytes": 4096}
HARVEST = 6
#: Where homes are made: None is the system's folder for temporary files.
FOLDER = os.environ.get("MEMGUARD_CRASH_FOLDER") or None
#: A schedule that never reaches its point is an error, not an endless run.
LONGEST = 400


@dataclass
class Setting:
    """How stores are opened: what a test varies."""

    sync: str = "strict"
    lag_ops: int = 4
    boot: int = 0
    row_by_row: bool = False

    def overrides(self) -> dict[str, Any]:
        # The time limit of lag mode is out of the way: only counts decide, so that runs can be repeated.
        return {"sync": self.sync, "lag_ops": self.lag_ops, "lag_ms": 600_000}


@dataclass
class Opened:
    """An open home with its guarded saver."""

    guard: MemGuard
    saver: Any
    conn: Any

    def close(self) -> None:
        self.guard.close()
        self.conn.close()


def create(folder: Path) -> None:
    """A new home in a folder, with its anchor and key beside it."""
    MemGuard.create(
        folder / "home",
        anchor=f"file:{folder / 'anchor'}",
        keys=f"file:{folder / 'key.json'}",
        config={"integrity": INTEGRITY},
    ).close()


def open_saver(folder: Path, setting: Setting, points: Points) -> Opened:
    """The home of a folder, opened as a new process opens it."""
    memguard.anchorlog.HARVEST = HARVEST
    boot = setting.boot.to_bytes(16, "big")
    memguard.engine.boot_id = lambda: boot  # type: ignore[assignment]
    guard = MemGuard.open(
        folder / "home", anchor=f"file:{folder / 'anchor'}", keys=f"file:{folder / 'key.json'}"
    )
    conn = points.connect(str(folder / "store.db"), row_by_row=setting.row_by_row)
    saver = guard.guard(SqliteSaver(conn), name=STORE, **setting.overrides())
    return Opened(guard, saver, conn)


def die(point: str) -> NoReturn:
    """As a power button for one process: nothing is flushed, closed or unlocked."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(point)  # never reached


@dataclass
class Run:
    """What a child did, by its own word before it died.

    Attributes:
        done: acknowledged operations, in order.
        pending: the operation that had begun and was not acknowledged.
        status: as ``waitpid`` gives it; error: what it said if it failed by itself.
    """

    done: list[model.Op] = field(default_factory=list)
    pending: model.Op | None = None
    status: int = 0
    error: str = ""
    said: Any = None

    @property
    def killed(self) -> bool:
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL


class Child:
    """A forked process and the pipe on which it reports."""

    def __init__(self, work: Callable[[Callable[[dict[str, Any]], None]], None]) -> None:
        self._read, write = os.pipe()
        self.status = 0
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)

            def tell(message: dict[str, Any]) -> None:
                os.write(
                    write, json.dumps(message).encode() + b"\n"
                )  # a pipe keeps what a killed writer wrote

            code = 0
            try:
                work(tell)
            except BaseException as error:
                tell(
                    {"error": f"{error!r} {error}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"}
                )
                code = 1
            os._exit(code)  # no handler of the parent's, and no close that was not asked for
        os.close(write)

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        os.kill(self.pid, signal.SIGKILL)

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it says, as it says it, until its end; ``status`` is then as ``waitpid`` gives it."""
        with os.fdopen(self._read, "rb") as pipe:
            for line in pipe:
                yield json.loads(line)
        self.status = os.waitpid(self.pid, 0)[1]

    def result(self) -> Run:
        """Wait for its end."""
        run = Run()
        for message in self.messages():
            if "begin" in message:
                run.pending = message["begin"]
            elif "done" in message:
                assert run.pending is not None
                run.done.append(run.pending)
                run.pending = None
            elif "error" in message:
                run.error = message["error"]
            else:
                run.said = message
        run.status = self.status
        return run


def work(
    folder: Path,
    setting: Setting,
    state: model.State,
    seed: int,
    start: int,
    arm: tuple[str, str | None, int] | None,
    operations: int,
) -> Child:
    """A child that works along a seeded schedule; ``arm``: (point, kind of operation, nth) at which it dies."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        points, rng, held = Points(), random.Random(seed), state
        points.install()
        opened = open_saver(folder, setting, points)
        for number in range(operations):
            kind = arm[1] if arm and arm[1] and number > 3 and rng.random() < 0.5 else None
            op = model.draw(held, rng, start + number, kind=kind)
            if number == 3 and arm:
                points.arm(arm[0], die, scope=arm[1], nth=arm[2])
            tell({"begin": op})
            points.scope = op["op"]
            model.perform(opened.saver, op)
            points.scope = ""
            tell({"done": True})
            held = model.apply(held, op)

    return Child(body)


def inspect(folder: Path, setting: Setting, candidates: list[model.State], seed: int, start: int) -> Child:
    """A child that opens what is left, reads all of it, and works on.

    It says which candidate it found, and what it then wrote, by index and operations.

    Args:
        candidates: the states that the promises allow.
    """

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        points, rng = Points(), random.Random(seed)
        opened = open_saver(folder, setting, points)
        seen = model.observed(opened.saver, model.places_of(*candidates))
        fits = [index for index, state in enumerate(candidates) if model.shows(state, seen)]
        assert fits, (
            f"what is served is none of {len(candidates)} allowed states: {_differs(candidates, seen)}"
        )
        report = opened.guard.audit(opened.saver)
        assert report.clean, f"audit: {[f.as_dict() for f in report.findings]}"
        states = [candidates[index] for index in fits]
        written = []
        for place in model.places_of(*candidates):
            thread, ns = place.split("|")
            for kind in ("put", "put_writes"):
                op = model.draw(states[0], rng, start + len(written), kind=kind)
                op = {**op, "thread": thread, "ns": ns, "id": model.identifier(start + len(written), 1, rng)}
                if kind == "put_writes":
                    op["id"] = written[-1]["id"]
                else:
                    mains = expected_ids(states[0], place)
                    op["parent"] = mains[0] if mains else None
                model.perform(opened.saver, op)
                written.append(op)
        for op in written:
            states = [model.apply(state, op) for state in states]
        seen = model.observed(opened.saver, model.places_of(*states))
        assert any(model.shows(state, seen) for state in states), "further writes are not served as written"
        report = opened.guard.audit(opened.saver)
        assert report.clean, f"audit after further writes: {[f.as_dict() for f in report.findings]}"
        if rng.random() < 0.5:
            opened.close()
        tell({"fits": fits, "written": written})

    return Child(body)


def expected_ids(state: model.State, place: str) -> list[str]:
    """Ids of the checkpoints of a context, newest first."""
    return [item[0] for item in model.expected(state, place)]


def _differs(candidates: list[model.State], seen: dict[str, Any]) -> str:
    parts = []
    for index, state in enumerate(candidates):
        for place, items in seen.items():
            want = model.expected(state, place)
            if want != items:
                missing = [i[0] for i in want if i not in items]
                extra = [i[0] for i in items if i not in want]
                parts.append(f"{index}: {place} lacks {missing} has {extra}")
    return "; ".join(parts)[:600]
