"""What ``make bench`` ends in: both results in five lines, for somebody who sees them for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memguard.bench.integrity.table import base_of
from memguard.bench.overhead.cost import BUSY, QUIET_HMAC_US

Document = Mapping[str, Any]
_NAMES = {
    "langgraph-sqlite-saver": "SqliteSaver",
    "langgraph-async-sqlite-saver": "AsyncSqliteSaver",
    "langgraph-sqlite-store": "SqliteStore",
}
#: whose call -> (word, operation, sizes to take the row of, best first)
_CALLS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "saver": (
        ("put", "put", ("50 msg", "1 msg")),
        ("get", "get_tuple(head)", ("50 msg", "1 msg")),
        ("graph turn", "graph turn", ()),
    ),
    "store": (("put", "store put", ()), ("get", "store get", ()), ("search", "store search top-10", ())),
}


def lines(integrity: Document | None, overhead: Document | None) -> list[str]:
    """Five lines (one less or more where other systems were chosen), 110 columns at most."""
    out = [
        "In short. Metric: share of nine edits refused, 0 to 1. Level: L0 none, L4 all, old copies put back too."
    ]
    if integrity is None:
        out.append("integrity: no result")
    else:
        made = [r for r in integrity["rows"] if r["stopped"] and r["detection_point"] == "read"]
        for base in dict.fromkeys(base_of(row["sut"]) for row in made):
            rows = {row["sut"]: row for row in made if base_of(row["sut"]) == base}
            pair = (("bare", rows.get(base)), ("guarded", rows.get(f"{base}+memguard")))
            parts = [f"{word} {_verdict(row)}" for word, row in pair if row is not None]
            if parts:
                out.append(f"{_NAMES.get(base, base)}: {'; '.join(parts)}")
    return out + (["overhead: no result"] if not overhead or not overhead["rows"] else _cost(overhead))


def _verdict(row: Document) -> str:
    if not row["evaluable"]:
        return "NOT EVALUABLE, no number counts"
    of = sum(cell["verdict"] != "N/A" for cell in row["cells"].values())
    level = str(row["strict_level"]).split(" ")[0]
    return f"{row['strict_metric']:.2f} {level}, {row['strict_accepted']} of {of} edits served"


def _cost(overhead: Document) -> list[str]:
    strict = [r for r in overhead["rows"] if r["mode"] == "strict" and r["guards"] == "off" and r["ratio"]]
    parts = []
    for whose, calls in _CALLS.items():
        found = []
        for word, operation, sizes in calls:
            rows = {r["size"]: r for r in strict if r["operation"] == operation}
            row = next((rows[size] for size in sizes if size in rows), next(iter(rows.values()), None))
            if row is not None:
                found.append(f"{word} {row['ratio']:.1f}")
        parts += [f"{whose} {', '.join(found)}"] if found else []
    first = overhead["rows"][0]
    if first["hmac_us"] > BUSY * QUIET_HMAC_US:
        note = (
            f"MEASURED ON A BUSY MACHINE (one HMAC {first['hmac_us']:.1f} us, quiet {QUIET_HMAC_US}): "
            "repeat it when nothing else runs."
        )
    else:
        note = (
            f"Ratios belong to this disk: one sync {first['sync_us']:,.0f} us, "
            f"one bare commit {first['commit_us']:,.0f} us."
        )
    return [f"Time of a guarded call, bare = 1: {'; '.join(parts) or 'not measured'}.", note]
