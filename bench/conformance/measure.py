"""Run every case on one subject, bare and guarded, and make the rows of the schema that the integrity bench writes."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.bench.conformance.subject import Factory
from memguard.bench.conformance.sut import SubjectSut
from memguard.bench.integrity import rows, seeding, verdict
from memguard.bench.integrity.cases import CASES
from memguard.bench.integrity.catalogue import Case
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import READ, Lab, kind_of, running
from memguard.bench.integrity.trial import Outcome, run_case
from memguard.bench.suts.protocol import view_of

CONTROLS = ("C1", "C2", "C4")
SEED = 0


class LiveLab(Lab):
    """A lab for a store that lives in its process: every case seeds a new one, and edits it while it runs."""

    def __init__(self, name: str, base: Path, build: Callable[[Path], SubjectSut]) -> None:
        super().__init__(name, base, SEED, build)
        self._subject = build
        self._last: SubjectSut | None = None

    def prepare(self) -> None:
        """Seed once, so that a store which cannot be seeded says so before any case."""
        self.fresh()

    def fresh(self) -> SubjectSut:
        """A new store, seeded and running."""
        self.close()
        shutil.rmtree(self.cell, ignore_errors=True)
        self.cell.mkdir(parents=True)
        sut = self._subject(self.cell)
        self._last = sut
        sut.setup()
        with running(sut):
            seeding.seed(sut, self.seed)
            self.genuine = {c: view_of(sut, c) for c in READ}
        self.records = {c: list(found) for c, found in sut.records.items()}
        return sut

    def take_copy(self) -> None:
        """What the adversary copies is the records."""
        if self._last is not None:
            self._last.copied = self._last.raw_records()

    def close(self) -> None:
        """End the last store."""
        last, self._last = self._last, None
        if last is not None:
            last.end()


def measure(factory: Factory, *, guarded: bool, cases: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of one subject in one configuration: at read and, where the store has an audit of its own, at audit.

    Args:
        factory: makes the subject for a folder.
        guarded: behind memguard.
        cases: only these; the others become N/A with that reason. Default all.

    Raises:
        Exception: whatever the subject raises when it is described. What it raises when it runs is in the rows.
    """
    base = Path(tempfile.mkdtemp(prefix="memguard-conformance-"))
    try:
        return _rows(factory, guarded, cases, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _rows(factory: Factory, guarded: bool, cases: Sequence[str], base: Path) -> list[dict[str, Any]]:
    def build(cell: Path) -> SubjectSut:
        return SubjectSut(cell, factory, guarded)

    sut = build(base / "cell")
    live = sut.subject.in_process
    lab = LiveLab(sut.name, base, build) if live else Lab(sut.name, base, SEED, build)
    broken: Exception | None = None
    try:
        lab.prepare()
        with running(lab.fresh()) as opened:
            # The guard's audit is measured by `memguard bench integrity`; here only the store's own is of interest.
            audited = opened.has_audit and not live and not guarded
    except Exception as error:  # noqa: BLE001 - a store that cannot even be seeded gets rows that say so
        broken, audited = error, False
    about = rows.describe(sut)
    found = []
    for point in ("read", "audit") if audited else ("read",):
        cells = {case.id: _cell(lab, case, point, cases, broken, live) for case in CASES}
        held = {name: _control(lab, name, point, broken) for name in CONTROLS}
        found.append(rows.row(about, point, cells, held, stopped=not live))
    if isinstance(lab, LiveLab):
        lab.close()
    return found


def _control(lab: Lab, name: str, point: str, broken: Exception | None) -> dict[str, Any]:
    if broken is not None:
        return {"ok": False, "detail": f"seeding failed with {verdict.failure(broken)}"}
    return run_control(lab, name, point)


def _cell(
    lab: Lab, case: Case, point: str, cases: Sequence[str], broken: Exception | None, live: bool
) -> dict[str, Any]:
    if broken is not None:
        return rows.failed_cell(broken)
    out = Outcome()
    if cases and case.id not in cases:
        out.reason = "not asked for"
        return rows.cell(out, point)
    try:
        # What cannot be expressed is not led up to: some lead-ups cannot be expressed either.
        out.reason = kind_of(lab._build(lab.cell)).why_not.get(case.id)
        if out.reason is not None:
            return rows.cell(out, point)
        return rows.cell(run_case(lab, case, point, alive=live), point)
    except Exception as error:  # noqa: BLE001 - the bench's own fault: an error cell, never a verdict
        return rows.failed_cell(error)


def document(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A result like those of the integrity bench: ``memguard bench verify`` recounts it."""
    names = list(dict.fromkeys(row["sut"] for row in made))
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = rows.document(rows.configuration(names, SEED, False), made, date)
    return {**found, "kit": "memguard conformance", "command": "memguard conformance run"}
