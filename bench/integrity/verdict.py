"""From what was observed to a verdict, in two readings. Pure functions of the evidence that a result file carries.

The draft's reading: an error or an empty answer is REJECTED; served with a signal is REPORTED; else ACCEPTED.

The strict reading: a refusal counts only if its error is an integrity error that this SUT documents, and only if no
read path served anything but the genuine records. Anything edited, missing or extra that reached the reader is
ACCEPTED, whatever else happened; any other exception is an ERROR, which is no pass.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.bench.suts.protocol import SELECTIVE, Item, Record, Refusal, Sut

REJECTED, REPORTED, ACCEPTED = "REJECTED", "REPORTED", "ACCEPTED"
NA, ERROR = "N/A", "ERROR"
VERDICTS = (REJECTED, REPORTED, ACCEPTED, NA, ERROR)

#: One observation: context, path, outcome ``served`` | ``raised`` | ``findings`` | ``clean``, and its details.
Observation = dict[str, Any]


def failure(error: BaseException) -> str:
    """An exception in the words of a report: its class and code and, for a foreign one, where it was raised."""
    code = getattr(error, "code", "")
    if isinstance(code, str) and code:
        return f"{type(error).__name__} {code}"
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
        if frames
        else type(error).__name__
    )


def served(context: str, path: str, items: int, same: bool, empty: bool) -> Observation:
    """Something was served. ``same``: exactly the genuine records. ``empty``: nothing, where there was something."""
    return {
        "context": context,
        "path": path,
        "outcome": "served",
        "items": items,
        "same": same,
        "empty": empty,
    }


def raised(context: str, path: str, refusal: Refusal) -> Observation:
    """The SUT raised."""
    return {
        "context": context,
        "path": path,
        "outcome": "raised",
        "error": refusal.error,
        "code": refusal.code,
        "case": refusal.case,
        "integrity": refusal.integrity,
    }


def audited(findings: int) -> Observation:
    """The audit command answered."""
    return {
        "context": "*",
        "path": "audit",
        "outcome": "findings" if findings else "clean",
        "items": findings,
    }


def draft(evidence: Sequence[Mapping[str, Any]], signals: int, point: str) -> str:
    """The draft's verdict (seeds/001 section 7)."""
    if point == "audit":
        seen = any(o["outcome"] in ("findings", "raised") for o in evidence)
        return REPORTED if seen else ACCEPTED
    everywhere = any(o["outcome"] == "raised" and o["context"] == "*" for o in evidence)
    contexts = {o["context"] for o in evidence} - {"*"}
    if everywhere or (contexts and all(_refused(evidence, c) for c in contexts)):
        return REJECTED
    return REPORTED if signals else ACCEPTED


def _refused(evidence: Sequence[Mapping[str, Any]], context: str) -> bool:
    mine = [o for o in evidence if o["context"] == context]
    return any(o["outcome"] == "raised" for o in mine) or all(o.get("empty") for o in mine)


def strict(evidence: Sequence[Mapping[str, Any]], signals: int, point: str, payload_ran: bool) -> str:
    """The strict verdict."""
    if payload_ran or any(o["outcome"] == "served" and not o["same"] for o in evidence):
        return ACCEPTED
    if any(o["outcome"] == "raised" and not o["integrity"] for o in evidence):
        return ERROR
    refused = any(o["outcome"] == "raised" for o in evidence)
    if point == "audit":
        return REPORTED if refused or any(o["outcome"] == "findings" for o in evidence) else ACCEPTED
    if refused:
        return REJECTED
    return REPORTED if signals else ACCEPTED


def collateral(evidence: Sequence[Mapping[str, Any]]) -> str:
    """What happened to contexts that the edit did not touch: ``served``, ``refused``, ``changed`` or ``none``."""
    if not evidence:
        return "none"
    if any(o["outcome"] == "served" and not o["same"] for o in evidence):
        return "changed"
    return "refused" if any(o["outcome"] == "raised" for o in evidence) else "served"


def detail(evidence: Sequence[Mapping[str, Any]], signals: int, payload_ran: bool) -> str:
    """The evidence in one line: no content, no path of a machine, the same words for the same outcome."""
    said: dict[tuple[str, str], list[str]] = {}
    for o in evidence:
        if o["outcome"] == "raised":
            what = f"{o['error']} {o['code']}".strip() + (
                "" if o["integrity"] else ", no integrity error of this SUT"
            )
        elif o["outcome"] == "served":
            what = "served " + (
                "the genuine records"
                if o["same"]
                else "nothing"
                if o["empty"]
                else "other than the genuine records"
            )
        else:
            what = f"{o['items']} findings" if o["items"] else "clean"
        said.setdefault((o["context"], what), []).append(o["path"])
    parts = ["the code in the record ran"] if payload_ran else []
    for (context, what), paths in said.items():
        where = ", ".join(paths) if context == "*" else f"{context} ({', '.join(paths)})"
        parts.append(f"{where}: {what}")
    if signals:
        parts.append(f"{signals} signals logged")
    return "; ".join(parts)


def same(
    sut: Sut, path: str, found: Sequence[Item], genuine: Sequence[Item], extras: Sequence[Record]
) -> bool:
    """Whether a path served exactly the genuine records, and each record written since (``extras``) as written."""
    wanted = {sut.key(record): record for record in extras}
    if path == "head" and extras:
        return len(found) == 1 and _is(sut, found[0], extras[-1])
    if path in SELECTIVE and extras:
        old = {item.key: item for item in genuine}
        return all(_is(sut, i, wanted[i.key]) if i.key in wanted else i == old.get(i.key) for i in found)
    new = {item.key: item for item in found if item.key in wanted}
    rest = [item for item in found if item.key not in wanted]
    return rest == list(genuine) and all(k in new and _is(sut, new[k], r) for k, r in wanted.items())


def _is(sut: Sut, item: Item, record: Record) -> bool:
    body = sut.body(record)
    return item.key == sut.key(record) and all(item.body.get(k) == v for k, v in body.items())
