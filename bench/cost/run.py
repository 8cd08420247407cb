"""A run of the cost bench: which cells are missing, who measures them, and what is kept when it is interrupted.

All conditions of a conversation are one task, so that a worker embeds each text once. Every finished cell is appended
at once; an interrupted run goes on with the cells that are missing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from memguard import registry
from memguard.bench.cost.cells import Cell, key_of
from memguard.bench.cost.retrieval import Settings, measure
from memguard.bench.data.conversations import Conversation
from memguard.bench.reading.embedding import Remembering
from memguard.bench.report.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Wanted:
    """One cell that is missing."""

    condition: str
    replicate: int
    key: str

    def name(self, conversation: str) -> str:
        """The cell's id in its run: the key says what made it, the rest is for people."""
        return f"{self.condition} {conversation} {self.replicate} {self.key}"


@dataclass(frozen=True, slots=True)
class Task:
    """The missing cells of one conversation."""

    talk: Conversation
    cells: tuple[Wanted, ...]
    settings: Settings
    run: str


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 over every module of memguard, its adapters and its benches: cells of other code are other cells."""
    made = hashlib.sha256()
    packages = (import_module(name) for name in ("memguard", "memguard.integrations", "memguard.bench"))
    for root in dict.fromkeys(Path(path) for package in packages for path in package.__path__):
        for file in sorted(root.rglob("*.py")):
            made.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return made.hexdigest()


def digest_of(talk: Conversation) -> str:
    """SHA-256 of what a conversation is in this run, after it was cut."""
    return hashlib.sha256(repr(talk).encode()).hexdigest()


def tasks_of(
    talks: Sequence[Conversation],
    conditions: Sequence[str],
    replicates: int,
    settings: Settings,
    run: RunDir,
    *,
    seed: int,
) -> list[Task]:
    """What is to be measured, without what the run holds already."""
    held, made = run.cells(), []
    for talk in talks:
        about = {"data": digest_of(talk), "code": code_digest(), "config": settings.plain(), "seed": seed}
        cells = []
        for condition in conditions:
            for replicate in range(1, replicates + 1):
                key = key_of(
                    {**about, "condition": condition, "conversation": talk.id, "replicate": replicate}
                )
                wanted = Wanted(condition, replicate, key)
                if wanted.name(talk.id) not in held:
                    cells.append(wanted)
        if cells:
            made.append(Task(talk, tuple(cells), settings, str(run.path)))
    return made


def cells_of(
    run: RunDir, talks: Sequence[Conversation], conditions: Sequence[str], replicates: int
) -> list[Cell]:
    """The finished cells of these conditions and conversations, in the order in which they are reported."""
    order = {name: at for at, name in enumerate(conditions)}
    places = {talk.id: at for at, talk in enumerate(talks)}
    found = [Cell.model_validate(value) for value in run.cells().values()]
    wanted = [
        c for c in found if c.condition in order and c.conversation in places and c.replicate <= replicates
    ]
    return sorted(wanted, key=lambda c: (order[c.condition], places[c.conversation], c.replicate))


def measure_all(
    tasks: Sequence[Task], *, jobs: int, done: Callable[[str, float], None] = lambda name, seconds: None
) -> None:
    """Measure every task in local worker processes.

    Args:
        jobs: processes; 1 measures here.
        done: told of every finished cell: its name and its seconds.

    Raises:
        KeyboardInterrupt: finished cells are kept.
    """
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            for name, seconds in work(task):
                done(name, seconds)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        pending = {pool.submit(_whole, task) for task in tasks}
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                for name, seconds in future.result():
                    done(name, seconds)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _whole(task: Task) -> list[tuple[str, float]]:
    return list(work(task))


def work(task: Task) -> Iterator[tuple[str, float]]:
    """Measure the cells of a task one after the other, each appended when it is done."""
    run, embedder = RunDir(Path(task.run)), _embedder(task.settings.retriever)
    for wanted in task.cells:
        with tempfile.TemporaryDirectory(prefix="memguard-cost-") as folder:
            started = time.monotonic()
            cell = measure(
                task.talk,
                wanted.condition,
                wanted.replicate,
                key=wanted.key,
                settings=task.settings,
                embedder=embedder,
                folder=Path(folder) / "cell",
            )
        run.append(f"{os.getpid()}-{task.talk.id}", wanted.name(task.talk.id), cell.model_dump(mode="json"))
        yield wanted.name(task.talk.id), time.monotonic() - started


def _embedder(retriever: str) -> Remembering:
    """The embedder of a retriever; with BM25 the small one, for the offline stand-in that compares texts."""
    return Remembering(registry.embedders.get("hashing" if retriever == "bm25" else retriever).open())


def config_of(
    settings: Settings, conditions: Sequence[str], replicates: int, seed: int, data: Mapping[str, Any]
) -> dict[str, Any]:
    """What a run's folder is begun with."""
    return {
        "bench": "cost",
        "data": dict(data),
        "settings": settings.plain(),
        "conditions": list(conditions),
        "replicates": replicates,
        "seed": seed,
        "code": code_digest(),
    }
