"""One SUT on the bench: seeded once, copied fresh for every case, worked with and read."""

from __future__ import annotations

import copy
import hashlib
import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memguard.bench.integrity import seeding, verdict
from memguard.bench.integrity.edits import saver_cases, store_cases
from memguard.bench.integrity.edits.scene import COPY, Kind, Scene
from memguard.bench.integrity.verdict import Observation
from memguard.bench.suts import names
from memguard.bench.suts.protocol import ANCHOR, HOME, STORE, Item, Record, Sut, View, view_of
from memguard.errors import ConfigError

KINDS: dict[str, Kind] = {k.name: k for k in (saver_cases.KIND, store_cases.KIND)}
#: Every context that is read: the seeded ones, and one that nobody has written to.
READ = ("A", "B", "C")


class Signals(logging.Handler):
    """Counts what a SUT logs on its documented channels, at WARNING or above."""

    def __init__(self, loggers: Sequence[str]) -> None:
        super().__init__(logging.WARNING)
        self._loggers = [logging.getLogger(name) for name in loggers]
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.count += 1

    def __enter__(self) -> Signals:
        for logger in self._loggers:
            logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self._loggers:
            logger.removeHandler(self)


class Lab:
    """The bench's hands on one SUT.

    Args:
        name: the SUT's name.
        base: an empty folder of this lab's own; paths under it stay the same for all cases.
        seed: number from which the records follow.
        build: makes the SUT in a folder; by default the published SUT of that name.
    """

    def __init__(self, name: str, base: Path, seed: int, build: Any = None) -> None:
        self.name, self.seed = name, seed
        self.cell, self._seeded = base / "cell", base / "seeded"
        self._build = build or (lambda cell: names.build(name, cell))
        self.records: dict[str, list[Record]] = {}
        self.genuine: dict[str, View] = {}

    def prepare(self) -> None:
        """Seed the SUT through its own write path and keep a stopped copy. Whatever the SUT raises, goes through."""
        for folder in (self.cell, self._seeded):
            shutil.rmtree(folder, ignore_errors=True)
        self.cell.mkdir(parents=True)
        sut = self._build(self.cell)
        sut.setup()
        with running(sut):
            seeding.seed(sut, self.seed)
            self.genuine = {c: view_of(sut, c) for c in READ}
        self.records = sut.records
        shutil.copytree(self.cell, self._seeded)

    def fresh(self) -> Sut:
        """A new SUT object over a fresh copy of the seeded folder; not started."""
        shutil.rmtree(self.cell, ignore_errors=True)
        shutil.copytree(self._seeded, self.cell)
        sut: Sut = self._build(self.cell)
        sut.records = copy.deepcopy(self.records)
        return sut

    def scene(self, sut: Sut) -> Scene:
        """The adversary's side of the cell as it stands."""
        return Scene(
            cell=self.cell,
            holds=sut.adversary_holds,
            owners=seeding.OWNERS,
            texts={c: [r.text for r in found] for c, found in sut.records.items()},
            guarded=sut.guarded,
            anchor=sut.anchor_folder if sut.keeps_head else None,
        )

    def take_copy(self) -> None:
        """The adversary copies every folder there is to copy (what they may put back is another matter)."""
        shutil.rmtree(self.cell / COPY, ignore_errors=True)
        for folder in (STORE, HOME, ANCHOR):
            if (self.cell / folder).exists():
                shutil.copytree(self.cell / folder, self.cell / COPY / folder)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every file of the cell except the adversary's copy."""
        files = [
            p for p in self.cell.rglob("*") if p.is_file() and COPY not in p.relative_to(self.cell).parts[:1]
        ]
        return {
            p.relative_to(self.cell).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
        }


def kind_of(sut: Sut) -> Kind:
    """The adversary's edits for a SUT: those it brings along, or the bench's own for its kind of store.

    Raises:
        ConfigError: there are none.
    """
    kind: Kind | None = sut.edits or KINDS.get(sut.kind)
    if kind is None:
        raise ConfigError(
            f'no edits are written for stores of the kind "{sut.kind}"',
            do="give the SUT an `edits` of its own: a memguard.bench.integrity.edits.scene.Kind",
        )
    return kind


@contextmanager
def running(sut: Sut) -> Iterator[Sut]:
    """The SUT between start and stop; stopped after a failed start too."""
    try:
        sut.start()
        yield sut
    finally:
        sut.stop()


def genuine_operation(sut: Sut, operation: str, made: list[Record]) -> Record | None:
    """One operation through the SUT's own interface, such as ``write:A``; answers the record it added, if any."""
    verb, _, context = operation.partition(":")
    if verb == "delete":
        sut.delete(context)
    elif verb == "replace":
        sut.replace(context)
    elif verb == "sister":
        sut.sister(context)
    elif verb == "sweep":
        sut.sweep()
    elif verb == "touch":
        view_of(sut, context)
    elif verb == "wait":
        time.sleep(float(context))
    elif verb == "again":
        record = made[-1]
        sut.records[context].remove(record)
        sut.write(record)
    else:
        text = "yes, that is approved" if verb == "same" else None
        record = seeding.next_record(sut, context, text)
        sut.write(record)
        return record
    return None


def read(
    sut: Sut, context: str, genuine: View, extras: Sequence[Record], paths: Sequence[str] | None
) -> list[Observation]:
    """Read a context path by path, and compare each with the genuine records."""
    found: list[Observation] = []
    for path in paths or sut.paths():
        try:
            items: list[Item] = sut.read(context, path)
        except Exception as error:  # noqa: BLE001 - as above
            found.append(verdict.raised(context, path, sut.refusal(error)))
            continue
        expected = genuine[path]
        equal = verdict.same(sut, path, items, expected, extras)
        empty = not items and bool(expected or extras)
        found.append(verdict.served(context, path, len(items), equal, empty))
    return found
