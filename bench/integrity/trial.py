"""One case on one SUT: what leads up to it, the edit, control C3, the restart and the reading."""

from __future__ import annotations

import os

from memguard.bench.integrity import seeding, verdict
from memguard.bench.integrity.catalogue import Case
from memguard.bench.integrity.edits import steps
from memguard.bench.integrity.edits.raw import Raw
from memguard.bench.integrity.edits.scene import MARKER, Inexpressible, Kind
from memguard.bench.integrity.lab import READ, Lab, Signals, genuine_operation, kind_of, read
from memguard.bench.integrity.landed import Landing
from memguard.bench.integrity.verdict import Observation
from memguard.bench.suts.protocol import Record, Sut, View, view_of


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
    genuine = {c: view_of(sut, c) for c in READ}
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
        if alive and not all(getattr(step, "live", isinstance(step, steps.Sql)) for step in edit):
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
