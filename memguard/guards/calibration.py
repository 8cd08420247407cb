"""Thresholds of the statistical tier from a deployment's own memories: arithmetic alone, no I/O.

A threshold for a share ``a`` is the least score at or above which no more than ``a`` of the memories lie. Two
things keep that from opening the gate:

 - memories may be poisoned already, so a threshold never rises by more than :data:`MOST_RAISED` logits above the
   released one, whatever is fed in and however often, and never counts a text twice;
 - a few memories cannot show that few are flagged: with none of ``n`` above a threshold, the share may still be
   ``3 / n`` (the rule of three, 95 %), so a threshold is only lowered when ``n >= 3 / a``, and by no more than
   :data:`MOST_LOWERED` logits: memories of one kind say little of the next kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from memguard.guards.statistical import Scorer

FLAG_SHARE, QUARANTINE_SHARE = 0.01, 0.001
#: Logits: the odds may grow by a factor of e, and shrink by its root.
MOST_RAISED, MOST_LOWERED = 1.0, 0.5


@dataclass(frozen=True, slots=True)
class Threshold:
    """One threshold, and why it is where it is.

    Args:
        share: the share of memories that may lie at or above it.
        released: the threshold that this version was released with.
        wanted: what the memories alone ask for.
        value: what they get.
        above: memories at or above ``value``.
        n: memories that were counted.
        note: one sentence where ``value`` is not ``wanted``, else empty.
    """

    share: float
    released: float
    wanted: float
    value: float
    above: int
    n: int
    note: str = ""

    @property
    def resolution(self) -> float:
        """The smallest share that ``n`` memories can tell from none: 1 / n; 1 without any."""
        return 1 / self.n if self.n else 1.0

    @property
    def bound(self) -> float:
        """The share that could lie above unseen when none did: 3 / n, at most 1."""
        return min(1.0, 3 / self.n) if self.n else 1.0


def thresholds(scores: Iterable[float], scorer: Scorer) -> tuple[Threshold, Threshold]:
    """(flag, quarantine) from the scores of distinct memories, beside the released thresholds of ``scorer``."""
    falling = sorted(scores, reverse=True)
    flag = _threshold(falling, FLAG_SHARE, scorer.flag)
    quarantine = _threshold(falling, QUARANTINE_SHARE, scorer.quarantine)
    if quarantine.value < flag.value:  # nothing is withheld that would not be flagged
        above = sum(score >= flag.value for score in falling)
        quarantine = Threshold(
            quarantine.share,
            scorer.quarantine,
            quarantine.wanted,
            flag.value,
            above,
            len(falling),
            "not below flag",
        )
    return flag, quarantine


def _threshold(falling: list[float], share: float, released: float) -> Threshold:
    n = len(falling)
    allowed = math.floor(share * n + 1e-9)
    wanted = just_above(falling[allowed]) if allowed < n else 0.0
    value, note = wanted, ""
    highest, lowest = raised(released, MOST_RAISED), raised(released, -MOST_LOWERED)
    if wanted > highest:
        value, note = highest, "at its bound: look at what is above it, it may be poison"
    elif wanted < released and n * share < 3:
        value, note = released, f"not lowered: that takes {math.ceil(3 / share - 1e-9)} memories"
    elif wanted < lowest:
        value, note = lowest, "lowered as far as may be"
    return Threshold(share, released, wanted, value, sum(score >= value for score in falling), n, note)


def raised(score: float, logits: float) -> float:
    """A score moved up by so many logits, or down, in four digits."""
    return round(1 / (1 + math.exp(-(math.log(score / (1 - score)) + logits))), 4)


def just_above(score: float) -> float:
    """The next number in four digits that is above a score; at most 1."""
    return min(1.0, (math.floor(score * 10_000) + 1) / 10_000)
