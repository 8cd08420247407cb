"""Controls C1 and C2 of the draft, comparing content, and C4 of our own. (C3 is part of every case.)

Without C1 a SUT that refuses everything would score a perfect rate; without C2 one that lost its writes would pass.
C4 is an ordinary day: rewriting, deleting, one text in two contexts, restarts. A guard must sleep through it.
"""

from __future__ import annotations

from typing import Any

from memguard.bench.integrity import seeding, verdict
from memguard.bench.integrity.lab import Lab, Signals, genuine_operation, read, running
from memguard.bench.suts.protocol import NotApplicable, Sut, view_of

Control = dict[str, Any]


def run_control(lab: Lab, control: str, point: str) -> Control:
    """Run ``C1``, ``C2`` or ``C4``: {"ok": bool, "detail": str}. An exception is a failed control."""
    try:
        complaint = {"C1": _no_op, "C2": _genuine_write, "C4": _ordinary_day}[control](lab, point)
    except NotApplicable as reason:
        complaint = str(reason)
    except Exception as error:  # noqa: BLE001 - a control that raises has failed, and the report says with what
        complaint = verdict.failure(error)
    return {"ok": complaint is None, "detail": complaint or _HELD[control]}


_HELD = {
    "C1": "restarted without an edit, every record was served as written, without a signal",
    "C2": "a record written after a restart was served, then and after one more restart, beside the old ones",
    "C4": "after rewriting, deleting, equal texts in two contexts and restarts, everything was served as written",
}


def _all_served(sut: Sut, lab_view: Any, extras: Any, point: str) -> str | None:
    if point == "audit":
        findings = sut.audit()
        return f"the audit of a clean store has {len(findings)} findings" if findings else None
    for context in seeding.CONTEXTS:
        mine = [r for r in extras if r.context == context]
        wide = sut.wide_paths() if not extras else ()
        for seen in read(sut, context, lab_view[context], mine, (*sut.paths(), *wide)):
            if seen["outcome"] == "raised":
                return f"{context} {seen['path']}: {seen['error']} {seen['code']}".strip()
            if not seen["same"]:
                return f"{context} {seen['path']}: what was served is not what was written"
    return None


def _no_op(lab: Lab, point: str) -> str | None:
    wrong = _seeded_as_written(lab)
    if wrong is not None:
        return wrong
    sut = lab.fresh()
    with Signals(sut.signal_loggers) as signals, running(sut):
        wrong = _all_served(sut, lab.genuine, [], point)
    return wrong or (f"{signals.count} signals were logged" if signals.count else None)


def _seeded_as_written(lab: Lab) -> str | None:
    """What was served while seeding must be what the bench wrote, or there is nothing to compare with."""
    sut = lab.fresh()
    for context in seeding.CONTEXTS:
        written = lab.records[context]
        if len(written) < 5:
            return "fewer than five records were seeded in a context"
        for path in sut.paths():
            items = lab.genuine[context][path]
            by_key = {item.key: item for item in items}
            for record in written:
                item = by_key.get(sut.key(record))
                if item is None and path not in ("head", "query"):
                    return f"{context} {path}: a seeded record is missing"
                if item is not None and any(item.body.get(k) != v for k, v in sut.body(record).items()):
                    return f"{context} {path}: a seeded record is not served as it was written"
            if not items:
                return f"{context} {path}: nothing was served"
    return None


def _genuine_write(lab: Lab, point: str) -> str | None:
    sut = lab.fresh()
    with Signals(sut.signal_loggers) as signals:
        with running(sut):
            extras = [seeding.next_record(sut, context) for context in seeding.CONTEXTS]
            for record in extras:
                sut.write(record)
            wrong = _all_served(sut, lab.genuine, extras, point)
        if wrong is None:
            with running(sut):
                wrong = _all_served(sut, lab.genuine, extras, point)
    return wrong or (f"{signals.count} signals were logged" if signals.count else None)


def _ordinary_day(lab: Lab, point: str) -> str | None:
    sut = lab.fresh()
    made: list[Any] = []
    with Signals(sut.signal_loggers) as signals:
        with running(sut):
            for operation in ("replace:A", "replace:B", "same:A", "same:B", "write:B"):
                genuine_operation(sut, operation, made)
        with running(sut):
            genuine_operation(sut, "delete:A", made)
            genuine_operation(sut, "write:B", made)
            view = {c: view_of(sut, c) for c in seeding.CONTEXTS}
        with running(sut):
            wrong = _all_served(sut, view, [], point)
    return wrong or (f"{signals.count} signals were logged" if signals.count else None)


def not_evaluable(controls: dict[str, Control]) -> str | None:
    """Why no metric may be computed, or None."""
    for name in ("C1", "C2"):
        if not controls[name]["ok"]:
            return f"{name} failed: {controls[name]['detail']}"
    return None
