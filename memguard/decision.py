"""What a guard answers: a disposition, why, and how sure it is; and how several answers are one.

Nothing here holds memory content, except ``Decision.rewritten``, which is hidden from ``repr`` and
left out of :meth:`Decision.as_dict`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from memguard.record import Ordered, Trust

__all__ = ["Decision", "Disposition", "Evidence", "Trust", "fold"]


class Disposition(Ordered):
    """What happens to a record, mildest first."""

    ALLOW = "allow"
    FLAG = "flag"  # stored and served, trust lowered
    REWRITE = "rewrite"  # stored without the offending part
    QUARANTINE = "quarantine"  # withheld, reversible
    REJECT = "reject"  # refused; the write raises


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing a guard saw. ``reason`` is the rule's own sentence, never the text that matched."""

    rule: str
    reason: str
    #: Where, as [start, end) in characters of the record's content; None when it has no place.
    span: tuple[int, int] | None = None
    score: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        span = list(self.span) if self.span is not None else None
        return {"rule": self.rule, "reason": self.reason, "span": span, "score": self.score}


@dataclass(frozen=True, slots=True)
class Decision:
    """A guard's answer, or the fold of several.

    ``would`` is set where the answer was not enforced (an observing guard, a ceiling): it is the
    disposition that enforcing would have given. ``trust`` is the level the guard gives the record,
    None for no opinion. ``score`` is in [0, 1] and belongs to ``reason``.
    """

    disposition: Disposition = Disposition.ALLOW
    reason: str = ""
    code: str = ""
    evidence: tuple[Evidence, ...] = ()
    score: float = 0.0
    guard: str = ""
    would: Disposition | None = None
    rewritten: str | None = field(default=None, repr=False)
    trust: Trust | None = None

    @property
    def full(self) -> Disposition:
        """The disposition with everything enforced."""
        return self.disposition if self.would is None else self.would

    @property
    def flagged(self) -> bool:
        """Whether the rules say anything but allow, enforced or not."""
        return self.full is not Disposition.ALLOW

    def capped(self, ceiling: Disposition) -> Decision:
        """This decision doing at most ``ceiling``, with what it would have done in ``would``.

        A rewrite without a rewritten text cannot be carried out and becomes a flag. A trust level
        survives from flag on: a guard that only observes changes nothing about a record.
        """
        kept = min(self.disposition, ceiling)
        if kept is Disposition.REWRITE and self.rewritten is None:
            kept = Disposition.FLAG
        if kept is self.disposition:
            return self
        return replace(
            self,
            disposition=kept,
            would=self.full,
            rewritten=self.rewritten if kept is Disposition.REWRITE else None,
            trust=None if ceiling is Disposition.ALLOW else self.trust,
        )

    def for_state(self) -> Decision:
        """The decision for a part of a checkpoint, which is never dropped or altered by halves:
        reject stays, quarantine and rewrite become flags."""
        return self if self.disposition is Disposition.REJECT else self.capped(Disposition.FLAG)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; no content, not even the rewritten text."""
        return {
            "disposition": str(self.disposition),
            "would": str(self.would) if self.would is not None else None,
            "reason": self.reason,
            "code": self.code,
            "score": self.score,
            "guard": self.guard,
            "trust": str(self.trust) if self.trust is not None else None,
            "evidence": [item.as_dict() for item in self.evidence],
        }


def fold(decisions: Iterable[Decision]) -> Decision:
    """Several answers as one; the empty fold allows.

    The most severe wins with its reason, code, score and guard (among equals the higher score, then
    the earlier); evidence is kept in order; trust is the minimum; the last rewrite stands, because
    each guard sees what the one before it left. Folding in groups gives the same result.
    """
    every = tuple(decisions)
    if not every:
        return Decision()
    if len(every) == 1:
        return every[0]
    # max() keeps the first of equals.
    best = max(every, key=lambda d: (d.disposition.rank, d.score))
    full = max((d.full for d in every), key=lambda level: level.rank)
    texts = [d.rewritten for d in every if d.rewritten is not None]
    return replace(
        best,
        evidence=tuple(item for d in every for item in d.evidence),
        would=full if full is not best.disposition else None,
        rewritten=texts[-1] if texts and best.disposition is Disposition.REWRITE else None,
        trust=Trust.least(d.trust for d in every if d.trust is not None),
    )
