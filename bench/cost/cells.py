"""One cell: a condition on a conversation, once. What is measured is kept item by item; figures are made from cells.

A cell is written once, under a key over everything that made it, and never changed. A report is a pure function of the
cells of a run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["retrieval", "llm"]
Subset = Literal["core", "adversarial"]
Stage = Literal["none", "write", "read", "both"]
#: Where each condition intercepts (seeds/000, section 3).
STAGES: Mapping[str, Stage] = {
    "none": "none",
    "a/a": "none",
    "sanitize": "write",
    "provenance": "write",
    "anomaly": "write",
    "anomaly-offline": "write",
    "rerank": "read",
    "rerank-offline": "read",
    "stacked": "both",
    "stacked-offline": "both",
    "observe": "both",
    "balanced": "both",
    "strict": "both",
    "balanced-fused": "both",
}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Item(_Frozen):
    """One question in one cell.

    Attributes:
        grade: whether it was answered, by the mode's own measure; None where that could not be graded, which is
            never a zero.
        why: why there is no grade.
        recall, ndcg: of the evidence among what was served, in [0, 1]; None without evidence or outside retrieval.
        served, withheld: ids of memories in the order of the answer, and of those that a read took out.
        gold_withheld: a memory of its evidence was withheld, at the write or at the read.
        answer, judged: what the reader and the judge said (llm mode only; the run's folder is the user's own).
    """

    id: str
    subset: Subset
    category: str
    grade: bool | None
    why: str = ""
    recall: float | None = None
    ndcg: float | None = None
    served: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    gold_withheld: bool = False
    answer: str | None = None
    judged: str | None = None


class Decisions(_Frozen):
    """What was adjudicated and quarantined. Rewrites and flags withhold nothing and are counted apart."""

    write_seen: int = 0
    write_quarantined: int = 0
    write_rewritten: int = 0
    write_flagged: int = 0
    read_seen: int = 0
    read_quarantined: int = 0
    would_read: int = 0
    nonsense: int = 0
    #: Ids of memories that were ever quarantined.
    distinct: tuple[str, ...] = ()


class Decided(_Frozen):
    """One decision that withheld, changed or flagged a memory: where, which, what, by which code."""

    stage: Literal["write", "read"]
    memory: str
    question: str = ""
    disposition: str
    code: str = ""
    guard: str = ""


class Cell(_Frozen):
    """A finished cell.

    Attributes:
        key: see :func:`key_of`.
        memories: how many are in the store.
        tokens: by purpose: extract, answer, judge, and ``guard:NAME`` for each guard; offline there are none.
        seconds: wall time, for the progress line; no figure is made from it.
    """

    key: str
    condition: str
    conversation: str
    replicate: int
    mode: Mode
    memories: int
    items: tuple[Item, ...]
    decisions: Decisions
    log: tuple[Decided, ...] = ()
    tokens: dict[str, int] = Field(default_factory=dict)
    unattributed: int = 0
    seconds: float = 0.0


def key_of(parts: Mapping[str, Any]) -> str:
    """The content key of a cell: SHA-256 over data, code, configuration, seed, condition, conversation, replicate."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def conversations_of(cells: Iterable[Cell]) -> list[str]:
    """Conversations in order of first mention."""
    return list(dict.fromkeys(cell.conversation for cell in cells))
