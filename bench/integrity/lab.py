"""One SUT on the bench: seeded once, copied fresh for every case, stopped, edited, restarted and read."""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memguard.bench.integrity import seeding, verdict
from memguard.bench.integrity.catalogue import Case
from memguard.bench.integrity.edits import saver_cases, sqlite_store, steps
from memguard.bench.integrity.edits.raw import Raw
from memguard.bench.integrity.edits.scene import COPY, MARKER, Inexpressible, Kind, Scene
from memguard.bench.integrity.landed import Landing
from memguard.bench.integrity.verdict import Observation
from memguard.bench.suts import names
from memguard.bench.suts.protocol import ANCHOR, HOME, STORE, Item, Record, Sut, View, view_of
from memguard.errors import ConfigError

KINDS: dict[str, Kind] = {k.name: k for k in (saver_cases.KIND, sqlite_store.KIND)}
_CONTEXTS = ("A", "B", "C")


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
            self.genuine = {c: view_of(sut, c) for c in _CONTEXTS}
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


class Outcome:
    """What one case showed, before it is written into a row."""

    def __init__(self) -> None:
        self.evidence: list[Observation] = []
        self.collateral: list[Observation] = []
        self.signals = 0
        self.payload_ran = False
        self.script = ""
        self.not_landed: str | None = None
        self.reason: str | None = None


def run_case(lab: Lab, case: Case, point: str, *, alive: bool = False) -> Outcome:
    """Run one case at one detection point (``read`` or ``audit``); ``alive`` edits under the running SUT."""
    out = Outcome()
    sut = lab.fresh()
    kind = kind_of(sut)
    os.environ.pop(MARKER, None)
    try:
        try:
            genuine, made, copied = _lead_up(lab, sut, kind, case, stay=alive)
        except Exception as error:
            if not (case.before and sut.is_integrity_error(error)):
                raise
            # A false alarm: C4 reports it. Here it only means that the edit has nothing to be made on.
            what = sut.refusal(error)
            out.reason = f"the genuine operation before the edit is refused: {what.error} {what.code}".strip()
            return out
        landing = _edit(lab, sut, kind, case, copied, out, alive)
        if landing is None:
            return out
        out.not_landed = case.landed(landing)
        if out.not_landed is None:
            _observe(sut, case, point, genuine, made, out, started=alive)
    finally:
        sut.stop()
        out.payload_ran = os.environ.pop(MARKER, None) is not None
    return out


def _lead_up(
    lab: Lab, sut: Sut, kind: Kind, case: Case, *, stay: bool
) -> tuple[dict[str, View], list[Record], list[Raw] | None]:
    """The genuine operations before the edit; the SUT is stopped at the end unless it is to ``stay``."""
    copied: list[Raw] | None = None
    operations = list(case.before)
    if operations and operations[0] == "copy":
        lab.take_copy()
        copied = kind.state(lab.cell)
        operations.pop(0)
    made: list[Record] = []
    if not operations and not stay:
        return lab.genuine, made, copied
    sut.start()
    for operation in operations:
        record = genuine_operation(sut, operation, made)
        if record is not None:
            made.append(record)
    genuine = {c: view_of(sut, c) for c in _CONTEXTS}
    if not stay:
        sut.stop()
    return genuine, made, copied


def _edit(
    lab: Lab, sut: Sut, kind: Kind, case: Case, copied: list[Raw] | None, out: Outcome, alive: bool
) -> Landing | None:
    """Make the edit; None if this SUT cannot express it (the reason is in ``out``)."""
    scene = lab.scene(sut)
    try:
        edit = kind.steps(case.id, scene)
        if alive and not all(isinstance(step, steps.Sql) for step in edit):
            raise Inexpressible("files are not swapped under a running database")
    except Inexpressible as reason:
        out.reason = str(reason)
        return None
    out.script = steps.script(edit)
    before, files = kind.state(lab.cell), lab.digests()
    steps.run(edit, lab.cell)
    now = lab.digests()
    touched = frozenset(f for f in files.keys() | now.keys() if files.get(f) != now.get(f))
    return Landing(kind, scene, before, kind.state(lab.cell), copied, touched)


def _observe(
    sut: Sut,
    case: Case,
    point: str,
    genuine: dict[str, View],
    made: list[Record],
    out: Outcome,
    *,
    started: bool,
) -> None:
    """Restart, let the genuine program go on if the case says so, and read (or audit)."""
    extras: list[Record] = []
    with Signals(sut.signal_loggers) as signals:
        try:
            if not started:
                sut.start()
        except Exception as error:  # noqa: BLE001 - whatever a SUT raises is what is measured
            out.evidence.append(verdict.raised("*", "open", sut.refusal(error)))
            return
        for operation in case.after:
            try:
                record = genuine_operation(sut, operation, made)
                extras += [record] if record is not None else []
            except Exception as error:  # noqa: BLE001 - as above
                context = operation.partition(":")[2] or "*"
                out.evidence.append(verdict.raised(context, operation, sut.refusal(error)))
        if point == "audit":
            out.evidence.append(_audit(sut))
        else:
            paths = case.paths_for(sut.kind)
            for context in case.contexts:
                mine = [r for r in extras if r.context == context]
                out.evidence += read(sut, context, genuine[context], mine, paths)
            for context in [c for c in seeding.CONTEXTS if c not in case.contexts]:
                mine = [r for r in extras if r.context == context]
                out.collateral += read(sut, context, genuine[context], mine, None)
        out.signals = signals.count


def _audit(sut: Sut) -> Observation:
    try:
        return verdict.audited(len(sut.audit()))
    except Exception as error:  # noqa: BLE001 - as above
        return verdict.raised("*", "audit", sut.refusal(error))


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
