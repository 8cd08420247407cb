"""From what a probe answered to rows of the schema ``memguard.bench/1``, scored by the integrity bench's own rules."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.bench.integrity import rows as bench_rows
from memguard.bench.integrity import score
from memguard.bench.integrity.catalogue import DRAFT, DRAFT_CASES

BENCH = "rows"


def today() -> str:
    """The day, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def _base(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sut": name,
        "table": about.get("table", "bench"),
        "claims_integrity": bool(about["claim"]),
        "guarded": False,
        "measured": False,
        "reason": "",
        "date": today(),
        "stopped": about.get("stopped", True),
        "detection_point": "read",
        "versions": {},
        "backend": about.get("backend", ""),
        "features": dict(about.get("features", {})),
        "adversary_holds": list(about.get("holds", ["the store"])),
        "api": about.get("api", ""),
        "harness": "",
        "network": "",
        "witness": "",
        "cells": {},
        "controls": {},
        "evaluable": False,
        "metric": None,
        "strict_metric": None,
        "groups": {},
        "strict_groups": {},
        "level": score.NOT_EVALUABLE,
        "strict_level": score.NOT_EVALUABLE,
        "accepted": None,
        "strict_accepted": None,
    }


def _closed(row: dict[str, Any]) -> dict[str, Any]:
    row.pop("digest", None)
    row["digest"] = bench_rows.digest(row)
    return row


def unmeasured(
    name: str, about: Mapping[str, Any], kind: str, version: str | None, why: str = ""
) -> dict[str, Any]:
    """A row that gives its reason, and what the index of packages said today where a name was looked up."""
    row = _base(name, about)
    reason = why or about["reason"]
    if kind:
        row["looked_up"] = {"index": kind, "name": about[kind], "newest": version}
        if version and "not on the package index" in reason:
            reason = f"on the package index now as {about[kind]} {version}; no adapter is written here yet"
    row["reason"] = f"not measured: {reason}"
    return _closed(row)


def cell(case: str, found: Mapping[str, Any], about: Mapping[str, Any], point: str) -> dict[str, Any]:
    """One cell. A refusal that is not one of the package's documented answers is a stray error, strictly read."""
    outcome = found["outcome"]
    landed = outcome not in ("astray", "failed") or found.get("step") == "reading"
    if outcome == "na":
        verdict, strict, detail = "N/A", "N/A", found["reason"]
    elif outcome == "astray":
        verdict = strict = "ERROR"
        detail = "the edit did not land: control C3 of the harness"
    elif outcome == "failed":
        verdict, strict = ("REJECTED" if landed and point == "read" else "ERROR"), "ERROR"
        detail = f"{found['error']} at {found['step']}"
    elif outcome == "served":
        verdict = strict = "ACCEPTED"
        detail = "served without a signal" if point == "read" else "the audit found nothing"
    else:
        verdict = "REPORTED" if point == "audit" else "REJECTED"
        by = found.get("by", "")
        strict = verdict if by in about.get("answers", []) else "ERROR"
        detail = f"{'named by' if point == 'audit' else 'refused by'} {by or 'the read path'}"
    script = f"python .ci/rows/probe.py --paths .ci/rows/adapters --adapter {about['adapter']} --case {case}"
    return {
        "verdict": verdict,
        "strict_verdict": strict,
        "detail": detail,
        "landed": landed,
        "script": script,
    }


def row(name: str, about: Mapping[str, Any], answer: Mapping[str, Any], harness: str) -> dict[str, Any]:
    """A row measured by the reference implementation's adapters and edits."""
    if "broken" in answer:
        made = unmeasured(name, about, "", None, answer["broken"])
        made["versions"] = dict(answer.get("versions", {}))
        return _closed(made)
    made = _base(name, about)
    point = answer["point"]
    cells = {case: cell(case, answer["cells"][case], about, point) for case in DRAFT}
    served = answer.get("service", "")
    made |= {
        "measured": True,
        "detection_point": point,
        "versions": {k: v for k, v in answer["versions"].items()},
        "backend": f"{made['backend']} ({served})" if served else made["backend"],
        "harness": f"{harness}, Python {answer['python']}",
        "network": "none" if answer["network_cut"] else "not cut on this machine",
        "cells": cells,
    }
    return _scored(made, answer["controls"], point)


def _scored(made: dict[str, Any], held: Mapping[str, Any], point: str) -> dict[str, Any]:
    cells = made["cells"]
    astray = [case for case in cells if not cells[case]["landed"]]
    tried = [case for case in cells if cells[case]["verdict"] != "N/A"]
    made["controls"] = {
        **held,
        "C3": {
            "ok": not astray,
            "detail": f"{len(tried) - len(astray)} of {len(tried)} edits landed",
            "failed": astray,
        },
    }
    failed = [name for name in ("C1", "C2") if not held[name]["ok"]]
    if failed:
        made["reason"] = f"not evaluable: {failed[0]} {held[failed[0]]['detail']}"
        return _closed(made)
    made["evaluable"] = True
    for prefix, key in (("", "verdict"), ("strict_", "strict_verdict")):
        made[f"{prefix}metric"] = score.metric(cells, point, key)
        made[f"{prefix}groups"] = score.groups(cells, point, key)
        made[f"{prefix}level"] = score.level(cells, key)
        made[f"{prefix}accepted"] = sum(c[key] == "ACCEPTED" for c in cells.values())
    return _closed(made)


def own(name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """A row of our own bench, from what ours.py answered."""
    guarded = "+memguard" in name
    if "broken" in answer:
        return unmeasured(name, {"claim": guarded}, "", None, answer["broken"])
    found = answer["about"]
    about = {"claim": guarded, "holds": found["adversary_holds"], "backend": found["backend"]}
    row = _base(name, {**about, "features": found["features"]})
    keys = ("verdict", "strict_verdict", "detail", "landed", "script")
    row |= {
        "guarded": guarded,
        "measured": True,
        "versions": found["versions"],
        "harness": f"memguard bench, suite {answer['tool']['suite']}, Python {answer['environment']['python']}",
        "network": "not used",
        "witness": found["witness"],
        "api": "the system's own calls, every read path of it",
        "cells": {case: {key: answer["cells"][case][key] for key in keys} for case in DRAFT},
    }
    return _scored(row, answer["controls"], "read")


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of an earlier result, by name."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {row["sut"]: row for row in document["rows"]}


def short(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    if not row["measured"]:
        return str(row["reason"])
    letters = {"ACCEPTED": "A", "REJECTED": "R", "REPORTED": "P", "N/A": "-", "ERROR": "E"}
    return (
        "".join(letters[row["cells"][case]["strict_verdict"]] for case in DRAFT) + f" {row['strict_level']}"
    )


def document(rows: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], date: str) -> dict[str, Any]:
    """The result file, closed by a manifest of its rows' digests."""
    config = {
        "bench": BENCH,
        "harness": plan["harness"],
        "rows": [*plan["rows"], *plan["features"]],
        "suts": plan["bench"]["suts"],
        "cases": list(DRAFT),
    }
    listed = {row["sut"]: row["digest"] for row in rows}
    return {
        "schema": bench_rows.SCHEMA,
        "bench": BENCH,
        "environment": bench_rows.environment(),
        "tool": bench_rows.tool(),
        "config": config,
        "config_digest": bench_rows.digest(config),
        "date": date,
        "command": " ".join(["python", ".ci/rows/measure.py", *sys.argv[1:]]),
        "cases": {c.id: {"title": c.title, "edit": c.plain, "pass": c.passes} for c in DRAFT_CASES},
        "rules": {k: v for k, v in score.RULES.items() if k != "accepted"},
        "rows": [dict(row) for row in rows],
        "manifest": {"rows": listed, "digest": bench_rows.digest(listed)},
    }
