"""``memguard bench verify``: recount a result file from its evidence alone.

Nothing here imports the code that made the file: canonical form, verdicts, counts, groups and levels are written a
second time, from the rules that the file states. A file is rejected on named grounds, each with the row and cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Every ground on which a file is rejected, and what it means.
GROUNDS: dict[str, str] = {
    "unreadable": "the file is not JSON, or not an object",
    "schema_mismatch": "the file is of another schema or bench",
    "missing_field": "a required field is absent",
    "config_digest_mismatch": "the configuration does not have the digest that the file states",
    "manifest_mismatch": "the manifest does not list exactly the rows of the file with their digests",
    "digest_mismatch": "a row does not have the digest that it states",
    "missing_row": "a system of the configuration has no row",
    "missing_case": "a row lacks a case of the configuration, or one of T1-T9",
    "unknown_case": "a row has a case that the configuration does not name",
    "unknown_verdict": "a verdict is none of the five words",
    "verdict_mismatch": "a verdict does not follow from the cell's evidence",
    "detection_point_mismatch": "a verdict that its row's detection point cannot give",
    "missing_reason": "an N/A cell, or a row that is not evaluable, gives no reason",
    "missing_script": "a cell with a verdict does not carry the edit's script",
    "control_mismatch": "a control is absent, or C3 disagrees with the cells",
    "not_evaluable_scored": "a row whose C1 or C2 failed carries a metric or a level",
    "count_mismatch": "a metric or a count is not what the cells give",
    "group_mismatch": "a group's rate is not what the cells give",
    "level_mismatch": "a level is not what the cells give",
}
_WORDS = {"REJECTED", "REPORTED", "ACCEPTED", "N/A", "ERROR"}
_T = [f"T{n}" for n in range(1, 10)]
_ROW = (
    "sut guarded versions backend features adversary_holds stopped detection_point cells controls metric "
    "strict_metric groups strict_groups level strict_level accepted strict_accepted witness digest"
).split()
_CELL = "verdict strict_verdict detail script landed evidence signals payload_ran".split()


@dataclass(frozen=True, slots=True)
class Rejection:
    """One ground on which a file is rejected, and where."""

    ground: str
    where: str

    def __str__(self) -> str:
        return f"{self.ground}: {self.where} ({GROUNDS[self.ground]})"


@dataclass(frozen=True, slots=True)
class Recount:
    """The outcome: how much was recomputed, and what is wrong."""

    rows: int
    cells: int
    numbers: int
    rejections: tuple[Rejection, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.rejections


def canonical(value: Any) -> bytes:
    """RFC 8785 for the values of a result file: ASCII member names, whole numbers and short fractions."""
    return json.dumps(_numbers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    return [_numbers(v) for v in value] if isinstance(value, list) else value


def sha256(value: Any) -> str:
    """Digest of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def verify(path: Path) -> Recount:
    """Recount a result file, or the ``result.json`` of a run folder."""
    file = path / "result.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Recount(0, 0, 0, (Rejection("unreadable", file.name),))
    if not isinstance(found, dict):
        return Recount(0, 0, 0, (Rejection("unreadable", file.name),))
    count = _Counter()
    wrong = tuple(_document(found, count))
    return Recount(count.rows, count.cells, count.numbers, wrong)


class _Counter:
    rows = cells = numbers = 0


def _document(found: Mapping[str, Any], count: _Counter) -> Iterator[Rejection]:
    if found.get("schema") != "memguard.bench/1" or found.get("bench") != "integrity":
        yield Rejection("schema_mismatch", f"{found.get('schema')} {found.get('bench')}")
        return
    for name in ("config", "config_digest", "date", "tool", "environment", "rules", "rows", "manifest"):
        if name not in found:
            yield Rejection("missing_field", name)
    config, made = found.get("config") or {}, found.get("rows") or []
    if sha256(config) != found.get("config_digest"):
        yield Rejection("config_digest_mismatch", "config")
    listed = (found.get("manifest") or {}).get("rows") or {}
    names = [_row_name(r) for r in made]
    if (
        len(set(names)) != len(names)
        or listed != {_row_name(r): r.get("digest") for r in made}
        or sha256(listed) != (found.get("manifest") or {}).get("digest")
    ):
        yield Rejection("manifest_mismatch", "manifest")
    for sut in config.get("suts") or []:
        if f"{sut} read" not in names:
            yield Rejection("missing_row", str(sut))
    for row in made:
        count.rows += 1
        yield from _row(row, list(config.get("cases") or []), count)


def _row_name(row: Mapping[str, Any]) -> str:
    return f"{row.get('sut')} {row.get('detection_point')}" + ("" if row.get("stopped") else " alive")


def _row(row: Mapping[str, Any], cases: list[str], count: _Counter) -> Iterator[Rejection]:
    name = _row_name(row)
    absent = [f for f in _ROW if f not in row]
    if absent:
        yield Rejection("missing_field", f"{name}: {', '.join(absent)}")
        return
    count.numbers += 1
    if sha256({k: v for k, v in row.items() if k != "digest"}) != row["digest"]:
        yield Rejection("digest_mismatch", name)
    cells = row["cells"]
    missing = [c for c in dict.fromkeys([*_T, *cases]) if c not in cells]
    for case in missing:
        yield Rejection("missing_case", f"{name} {case}")
    for case in cells:
        if case not in cases:
            yield Rejection("unknown_case", f"{name} {case}")
    before = count.cells
    for case, cell in cells.items():
        count.cells += 1
        yield from _cell(f"{name} {case}", cell, row["detection_point"])
    if missing or count.cells == before or any(f not in cell for cell in cells.values() for f in _CELL):
        return
    yield from _controls(row, name)
    yield from _scores(row, name, count)


def _cell(name: str, cell: Mapping[str, Any], point: str) -> Iterator[Rejection]:
    absent = [f for f in _CELL if f not in cell]
    if absent:
        yield Rejection("missing_field", f"{name}: {', '.join(absent)}")
        return
    given = (cell["verdict"], cell["strict_verdict"])
    if not set(given) <= _WORDS:
        yield Rejection("unknown_verdict", name)
        return
    if (point == "audit" and "REJECTED" in given) or point not in ("read", "audit"):
        yield Rejection("detection_point_mismatch", name)
    if "N/A" in given and not (given == ("N/A", "N/A") and cell["detail"]):
        yield Rejection("missing_reason", name)
    if "N/A" not in given and cell["landed"] and not cell["script"]:
        yield Rejection("missing_script", name)
    if "N/A" not in given and given != _recount(cell, point):
        yield Rejection("verdict_mismatch", f"{name}: evidence gives {' / '.join(_recount(cell, point))}")


def _recount(cell: Mapping[str, Any], point: str) -> tuple[str, str]:
    """The two verdicts that a cell's evidence gives."""
    if not cell["landed"]:
        return ("ERROR", "ERROR")
    seen, signals = cell["evidence"], cell["signals"] > 0
    errors = [o for o in seen if o["outcome"] == "raised"]
    wrong = [o for o in seen if o["outcome"] == "served" and o["same"] is not True]
    noticed = bool(errors) or any(o["outcome"] == "findings" for o in seen)
    stray = any(o["integrity"] is not True for o in errors)
    if point == "audit":
        first = "REPORTED" if noticed else "ACCEPTED"
    else:
        by_context: dict[str, list[Any]] = {}
        for o in seen:
            by_context.setdefault(o["context"], []).append(o)
        refused = {
            c: any(o["outcome"] == "raised" for o in group) or all(o.get("empty") is True for o in group)
            for c, group in by_context.items()
            if c != "*"
        }
        whole = any(o["context"] == "*" for o in errors) or (bool(refused) and all(refused.values()))
        first = "REJECTED" if whole else "REPORTED" if signals else "ACCEPTED"
    if wrong or cell["payload_ran"]:
        return (first, "ACCEPTED")
    if stray:
        return (first, "ERROR")
    if point == "audit":
        return (first, "REPORTED" if noticed else "ACCEPTED")
    return (first, "REJECTED" if errors else "REPORTED" if signals else "ACCEPTED")


def _controls(row: Mapping[str, Any], name: str) -> Iterator[Rejection]:
    held = row["controls"]
    if any(c not in held or "ok" not in held[c] for c in ("C1", "C2", "C3")):
        yield Rejection("control_mismatch", f"{name}: C1, C2 and C3 must be stated")
        return
    astray = [c for c, cell in row["cells"].items() if not cell["landed"]]
    if held["C3"]["ok"] != (not astray) or held["C3"].get("failed") != astray:
        yield Rejection("control_mismatch", f"{name} C3")
    if not (held["C1"]["ok"] and held["C2"]["ok"]):
        scored = [row[k] for k in ("metric", "strict_metric", "accepted", "strict_accepted")]
        levels = {row["level"], row["strict_level"]}
        if (
            any(v is not None for v in scored)
            or row["groups"]
            or row["strict_groups"]
            or levels != {"not evaluable"}
        ):
            yield Rejection("not_evaluable_scored", name)
        if not row.get("reason"):
            yield Rejection("missing_reason", name)


def _scores(row: Mapping[str, Any], name: str, count: _Counter) -> Iterator[Rejection]:
    held = row["controls"]
    if not all(held.get(c, {}).get("ok") for c in ("C1", "C2")):
        return
    credit = {"REJECTED": 1.0, "REPORTED": 0.5 if row["detection_point"] == "audit" else 1.0}
    for prefix, key in (("", "verdict"), ("strict_", "strict_verdict")):
        cells = row["cells"]
        counted = {c: cells[c][key] for c in _T if cells[c]["verdict"] != "N/A" and cells[c]["landed"]}

        def rate(cases: list[str], of: Mapping[str, str] = counted) -> float | None:
            points = [credit.get(of[c], 0.0) for c in cases if c in of]
            return round(sum(points) / len(points), 4) if points else None

        count.numbers += 6
        if rate(_T) != row[f"{prefix}metric"]:
            yield Rejection("count_mismatch", f"{name} {prefix}metric: cells give {rate(_T)}")
        accepted = sum(cell[key] == "ACCEPTED" for cell in cells.values())
        if accepted != row[f"{prefix}accepted"]:
            yield Rejection("count_mismatch", f"{name} {prefix}accepted: cells give {accepted}")
        wanted = {"T1-T5": rate(_T[:5]), "T6-T8": rate(_T[5:8]), "T9": rate(_T[8:])}
        if wanted != row[f"{prefix}groups"]:
            yield Rejection("group_mismatch", f"{name} {prefix}groups")
        if _level(cells, key) != row[f"{prefix}level"]:
            yield Rejection("level_mismatch", f"{name} {prefix}level: cells give {_level(cells, key)}")


def _level(cells: Mapping[str, Mapping[str, Any]], key: str) -> str:
    best, skipped = 0, []
    for number, need in enumerate(("T1 T3 T5", "T2 T4 T7", "T6 T8", "T9"), start=1):
        here = [c for c in need.split() if cells[c]["verdict"] != "N/A"]
        if not here or not all(cells[c][key] == "REJECTED" for c in here):
            break
        best = number
        skipped += [c for c in need.split() if c not in here]
    return f"L{best}" + (f" ({','.join(sorted(skipped))} n/a)" if skipped else "")
