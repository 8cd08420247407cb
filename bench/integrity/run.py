"""Run the bench: one worker process per SUT, cells appended as they finish, rows made from the cells at the end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from memguard.bench.integrity import rows, verdict
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case
from memguard.bench.report.rundir import RunDir
from memguard.bench.suts import names

CONTROLS = ("C1", "C2", "C4")
Progress = Callable[[str], None]


def _quiet(_: str) -> None:
    return None


def points(name: str, alive: bool) -> tuple[str, ...]:
    """The rows of one SUT: ``read``, ``audit`` where there is an audit, ``alive`` on request.

    The rungs of the ladder are there to show what each mechanism adds at read; they have no audit row.
    """
    spec = names.parse(name)
    return ("read", *(("audit",) if spec.guarded and not spec.rung else ()), *(("alive",) if alive else ()))


def cell_ids(name: str, alive: bool) -> list[str]:
    """Every cell of one SUT's rows, in the order in which they are run."""
    found = [f"{name}|about"]
    for point in points(name, alive):
        found += [f"{name}|{point}|{case}" for case in (*CONTROLS, *BY_ID)]
    return found


def measure(name: str, run: Path, seed: int, alive: bool, say: Progress = _quiet) -> None:
    """Run every unfinished cell of one SUT. The SUT's folder lies in a temporary place and is removed again."""
    folder = RunDir(run)
    done = folder.cells()
    todo = [c for c in cell_ids(name, alive) if c not in done]
    if not todo:
        return
    # LangGraph warns on stderr when it decodes the payload of X20; the cell says it better.
    logging.getLogger("langgraph").addHandler(logging.NullHandler())
    if "MEMGUARD_LOG" not in os.environ:
        # Hundreds of refusals are what is being measured; the table says them, a terminal need not.
        guard = logging.getLogger("memguard")
        guard.handlers = [handler for handler in guard.handlers if isinstance(handler, logging.NullHandler)]
    base = Path(tempfile.mkdtemp(prefix="memguard-bench-"))
    try:
        lab = Lab(name, base, seed)
        broken: Exception | None = None
        try:
            lab.prepare()
        except Exception as error:  # noqa: BLE001 - a SUT that cannot even be seeded gets a row that says so
            broken = error
        for at, cell_id in enumerate(todo):
            value = _cell(lab, cell_id, broken)
            folder.append(name, cell_id, value)
            if at % 25 == 0 or at == len(todo) - 1:
                say(f"{name}: {at + 1} of {len(todo)} cells")
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _cell(lab: Lab, cell_id: str, broken: Exception | None) -> Any:
    _, point, *rest = cell_id.split("|")
    if point == "about":
        return rows.describe(names.build(lab.name, lab.cell))
    what = rest[0]
    if what in CONTROLS:
        if broken is not None:
            return {"ok": False, "detail": f"seeding failed with {verdict.failure(broken)}"}
        return run_control(lab, what, "audit" if point == "audit" else "read")
    if broken is not None:
        return rows.failed_cell(broken)
    detection = "audit" if point == "audit" else "read"
    try:
        return rows.cell(run_case(lab, BY_ID[what], detection, alive=point == "alive"), detection)
    except Exception as error:  # noqa: BLE001 - the bench's own fault: an error cell, never a verdict
        return rows.failed_cell(error)


def _worker_start() -> None:
    """Ctrl-C is the parent's business: it ends the workers, who tidy up and whose finished cells are kept."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def _say_stderr(message: str) -> None:
    sys.stderr.write(f"  {message}\n")
    sys.stderr.flush()


def run_all(
    suts: Sequence[str],
    run: Path,
    seed: int,
    *,
    alive: bool = False,
    quiet: bool = False,
    jobs: int | None = None,
) -> None:
    """Measure every SUT. KeyboardInterrupt goes through, with the finished cells kept."""
    say = _quiet if quiet else _say_stderr
    # One more than processors: a worker often waits, for the clock of a store or for a view of X46.
    workers = min(jobs or (os.cpu_count() or 1) + 1, len(suts))
    if workers <= 1:
        for name in suts:
            measure(name, run, seed, alive, say)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_worker_start)
    try:
        # The slow ones first: a store's seeding waits for the clock.
        order = sorted(suts, key=lambda name: ("store" not in name, name))
        waiting = {pool.submit(measure, name, run, seed, alive, say): name for name in order}
        for future in as_completed(waiting):
            future.result()
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def assemble(suts: Sequence[str], run: Path, alive: bool) -> list[dict[str, Any]]:
    """The rows of a finished run, from its cells alone."""
    found = RunDir(run).cells()
    made = []
    for name in suts:
        about = found[f"{name}|about"]
        for point in points(name, alive):
            held = {c: found[f"{name}|{point}|{c}"] for c in CONTROLS}
            cells = {c.id: found[f"{name}|{point}|{c.id}"] for c in CASES}
            detection = "audit" if point == "audit" else "read"
            made.append(rows.row(about, detection, cells, held, stopped=point != "alive"))
    return made
