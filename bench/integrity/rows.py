"""Cells, rows and the result document: plain JSON values, one digest per row, a manifest over the digests."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rfc8785

from memguard.bench.integrity import controls, score, verdict
from memguard.bench.integrity.cases import CASES
from memguard.bench.integrity.catalogue import SUITE
from memguard.bench.integrity.edits.steps import EditFailed
from memguard.bench.integrity.trial import Outcome
from memguard.bench.suts.protocol import ANCHOR, HOME, STORE, Sut

SCHEMA = "memguard.bench/1"
BENCH = "integrity"
_WORDS = {
    STORE: "the store",
    HOME: "the guard's folder",
    ANCHOR: "the anchor",
}


def digest(value: Any) -> str:
    """SHA-256, in hex, of the RFC 8785 form."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def cell(out: Outcome, point: str) -> dict[str, Any]:
    """The published form of one case's outcome."""
    base = {
        "script": out.script,
        "landed": out.not_landed is None,
        "evidence": out.evidence,
        "signals": out.signals,
    }
    base |= {"collateral": verdict.collateral(out.collateral), "payload_ran": out.payload_ran}
    if out.reason is not None:
        word, strict, text = verdict.NA, verdict.NA, out.reason
    elif out.not_landed is not None:
        word = strict = verdict.ERROR
        text = f"the edit did not land: {out.not_landed}"
    else:
        word = verdict.draft(out.evidence, out.signals, point)
        strict = verdict.strict(out.evidence, out.signals, point, out.payload_ran)
        text = verdict.detail(out.evidence, out.signals, out.payload_ran)
    return {"verdict": word, "strict_verdict": strict, "detail": text, **base}


def failed_cell(error: BaseException) -> dict[str, Any]:
    """The cell of a case that the bench itself could not run: an error, with no verdict about the SUT."""
    out = Outcome()
    said = f": {error}" if isinstance(error, EditFailed) else ""
    out.not_landed = f"the bench failed with {verdict.failure(error)}{said[:120]}"
    return cell(out, "read")


def holds(sut: Sut) -> list[str]:
    """What the adversary holds, in words."""
    words = [_WORDS[folder] for folder in sut.adversary_holds]
    beside = sut.keeps_head and sut.anchor_folder.startswith(f"{HOME}/")
    return [f"{w} with the anchor in it" if beside and w == _WORDS[HOME] else w for w in words]


def witness(sut: Sut) -> str:
    """Where the head is witnessed, by the positions W0-W4."""
    folder = sut.anchor_folder if sut.keeps_head else None
    if folder is None or folder.split("/")[0] in sut.adversary_holds:
        return "W0 none: nothing that the adversary does not hold"
    return "W1 another volume (a folder that the adversary does not hold)"


def describe(sut: Sut) -> dict[str, Any]:
    """The fields of a row that say what was measured."""
    return {
        "sut": sut.name,
        "guarded": sut.guarded,
        "versions": sut.versions(),
        "backend": sut.backend(),
        "features": sut.features(),
        "adversary_holds": holds(sut),
        "witness": witness(sut),
    }


def row(
    about: Mapping[str, Any],
    point: str,
    cells: Mapping[str, Mapping[str, Any]],
    held: Mapping[str, controls.Control],
    *,
    stopped: bool,
) -> dict[str, Any]:
    """One row: what was measured, every cell, the controls, the scores, and the digest over all of it."""
    not_landed = [c for c, found in cells.items() if not found["landed"]]
    tried = [c for c, found in cells.items() if found["verdict"] != verdict.NA]
    c3 = {
        "ok": not not_landed,
        "detail": f"{len(tried) - len(not_landed)} of {len(tried)} edits changed exactly what their case intends",
        "failed": not_landed,
    }
    why = controls.not_evaluable(dict(held))
    scored = why is None
    made: dict[str, Any] = {
        **about,
        "stopped": stopped,
        "detection_point": point,
        "cells": {c: dict(cells[c]) for c in cells},
        "controls": {"C1": held["C1"], "C2": held["C2"], "C3": c3, "C4": held["C4"]},
        "evaluable": scored,
        "metric": score.metric(cells, point, "verdict") if scored else None,
        "strict_metric": score.metric(cells, point, "strict_verdict") if scored else None,
        "groups": score.groups(cells, point, "verdict") if scored else {},
        "strict_groups": score.groups(cells, point, "strict_verdict") if scored else {},
        "level": score.level(cells, "verdict") if scored else score.NOT_EVALUABLE,
        "strict_level": score.level(cells, "strict_verdict") if scored else score.NOT_EVALUABLE,
        "accepted": _count(cells, "verdict") if scored else None,
        "strict_accepted": _count(cells, "strict_verdict") if scored else None,
        "reason": why or "",
    }
    made["digest"] = digest(made)
    return made


def _count(cells: Mapping[str, Mapping[str, Any]], key: str) -> int:
    return sum(found[key] == verdict.ACCEPTED for found in cells.values())


def row_id(made: Mapping[str, Any]) -> str:
    """What a row is called in the manifest."""
    return f"{made['sut']} {made['detection_point']}" + ("" if made["stopped"] else " alive")


def environment() -> dict[str, Any]:
    """What the run stood on."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "cpus": os.cpu_count(),
    }


def tool() -> dict[str, str]:
    """The revision of this tool: package version, suite, and the commit if it runs from a checkout."""
    made = {
        "name": "memguard bench",
        "version": importlib.metadata.version("memguard-middleware"),
        "suite": SUITE,
    }
    folder = Path(__file__).resolve().parent
    try:
        ask = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=10)
    except OSError:
        return made
    return {**made, "commit": done.stdout.strip()} if done.returncode == 0 else made


def configuration(suts: Sequence[str], seed: int, alive: bool) -> dict[str, Any]:
    """What decides the outcome of a run; its digest goes into the result and names the run."""
    cases = [case.id for case in CASES]
    return {"bench": BENCH, "suite": SUITE, "suts": list(suts), "seed": seed, "alive": alive, "cases": cases}


def document(config: Mapping[str, Any], made: Sequence[Mapping[str, Any]], date: str) -> dict[str, Any]:
    """The result file, closed by a manifest of its rows' digests."""
    listed = {row_id(r): r["digest"] for r in made}
    return {
        "schema": SCHEMA,
        "bench": BENCH,
        "environment": environment(),
        "tool": tool(),
        "config": dict(config),
        "config_digest": digest(dict(config)),
        "date": date,
        "command": " ".join(["memguard", *sys.argv[1:]]) if sys.argv else "",
        "cases": {c.id: {"title": c.title, "edit": c.plain, "pass": c.passes} for c in CASES},
        "rules": score.RULES,
        "rows": [dict(r) for r in made],
        "manifest": {"rows": listed, "digest": digest(listed)},
    }
