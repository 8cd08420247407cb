"""Benign utility difference (BUD), its intervals and its tests.

BUD is the mean over conversations of the mean paired difference of a conversation's items, in percentage points:
each conversation weighs the same (seeds/000, section 6). Positive means that the defended arm did better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb
from typing import Literal

import numpy as np

from memguard.bench.stats.grades import Pair, by_conversation

#: Resamples of a bootstrap, and the share of them in each tail of a 95 % interval.
RESAMPLES = 10_000
_TAIL = 2.5
#: What two sums may differ by and count as the same.
_TOLERANCE = 1e-12

Strata = Literal["items", "conversations"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % percentile interval, in percentage points.

    Attributes:
        low, high: its ends; None where it is degenerate.
        degenerate: no item differs between the arms, so that resampling shows nothing: then ``bound`` is the largest
            difference that n items without one still allow, 3/n (the rule of three).
    """

    low: float | None
    high: float | None
    seed: int
    resamples: int = RESAMPLES
    degenerate: bool = False
    bound: float | None = None

    @property
    def resolution(self) -> float:
        """Half the interval's width, or its bound: differences smaller than this cannot be told from none."""
        if self.low is None or self.high is None:
            return float("inf") if self.bound is None else self.bound
        return (self.high - self.low) / 2


def bud(found: Sequence[Pair]) -> float | None:
    """BUD in percentage points; None without a pair. Of replicate means it is the replicate-mean BUD."""
    deltas = conversation_deltas(found)
    return float(100 * sum(deltas.values(), Fraction(0)) / len(deltas)) if deltas else None


def conversation_deltas(found: Sequence[Pair]) -> dict[str, Fraction]:
    """The mean difference of each conversation, exact."""
    return {
        name: sum((pair.delta for pair in held), Fraction(0)) / len(held)
        for name, held in by_conversation(found).items()
    }


def bootstrap(
    found: Sequence[Pair], *, seed: int, resamples: int = RESAMPLES, over: Strata = "items"
) -> Interval | None:
    """A percentile bootstrap of BUD; None without a pair.

    Args:
        over: ``items`` resamples the items within each conversation and takes the conversations as fixed;
            ``conversations`` resamples conversations first, and then items within them.
    """
    groups = list(by_conversation(found).values())
    if not groups:
        return None
    if not any(pair.delta for pair in found):
        bound = 100 * 3 / len(found)
        return Interval(None, None, seed, resamples, degenerate=True, bound=min(100.0, bound))
    rng = np.random.default_rng(seed)
    if over == "items":
        means = np.stack([_resampled(rng, held, resamples) for held in groups]).mean(axis=0)
    else:
        count = len(groups)
        chosen = rng.integers(0, count, size=(resamples, count))
        # A conversation that is drawn twice is resampled twice, independently.
        means = np.zeros(resamples)
        for place in range(count):
            drawn = np.stack([_resampled(rng, held, resamples) for held in groups])
            means += drawn[chosen[:, place], np.arange(resamples)]
        means /= count
    low, high = np.percentile(100 * means, [_TAIL, 100 - _TAIL])
    return Interval(float(low), float(high), seed, resamples)


def _resampled(rng: np.random.Generator, held: Sequence[Pair], resamples: int) -> np.ndarray:
    """Means of resamples of one conversation. Items with the same difference are exchangeable, so counts suffice."""
    values: dict[Fraction, int] = {}
    for pair in held:
        values[pair.delta] = values.get(pair.delta, 0) + 1
    shares = np.array([count / len(held) for count in values.values()])
    counts = rng.multinomial(len(held), shares / shares.sum(), size=resamples)
    means: np.ndarray = counts @ np.array([float(value) for value in values]) / len(held)
    return means


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact two-sided McNemar test (1947) over pooled items: discordant counts and p."""

    better: int
    worse: int
    p: float

    @property
    def discordant(self) -> int:
        """Items whose verdict differs."""
        return self.better + self.worse


def mcnemar(found: Sequence[Pair]) -> McNemar:
    """p = min(1, 2 sum_{i<=min} C(n,i) / 2^n) with n discordant items; 1 with none.

    It pools items over conversations, so its sign can differ from BUD's. For majority verdicts only.
    """
    better = sum(pair.delta > 0 for pair in found)
    worse = sum(pair.delta < 0 for pair in found)
    n, least = better + worse, min(better, worse)
    if not n:
        return McNemar(0, 0, 1.0)
    tail = Fraction(2 * sum(comb(n, i) for i in range(least + 1)), 2**n)
    return McNemar(better, worse, float(min(Fraction(1), tail)))


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Exact sign-flip test over conversations: p, and the smallest p that so many conversations can show."""

    p: float
    floor: float
    conversations: int


def sign_flip(deltas: Sequence[Fraction | float]) -> SignFlip | None:
    """All 2^C assignments of signs; p is the share whose mean is at least as far from zero as the observed one.

    The floor is 2^(1+z) / 2^C, where z conversations have exactly zero difference (1 if all have). None without any.
    """
    count = len(deltas)
    if not count:
        return None
    values = [float(delta) for delta in deltas]
    observed = abs(sum(values)) - _TOLERANCE
    extreme = sum(
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True))) >= observed
        for signs in product((1, -1), repeat=count)
    )
    zeros = sum(abs(value) <= _TOLERANCE for value in values)
    return SignFlip(extreme / 2**count, min(1.0, 2 ** (1 + zeros) / 2**count), count)


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for several comparisons (Holm, 1979), in the order given."""
    ranked = sorted(range(len(values)), key=lambda at: values[at])
    adjusted, reached = [0.0] * len(values), 0.0
    for rank, at in enumerate(ranked):
        reached = max(reached, min(1.0, (len(values) - rank) * values[at]))
        adjusted[at] = reached
    return adjusted
