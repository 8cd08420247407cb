"""Exact intervals of a share (Clopper and Pearson, 1934), without a library."""

from __future__ import annotations

import math
from collections.abc import Callable


def clopper_pearson(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """(low, high) of a share of ``count`` in ``n``; of zero in ``n`` the high end is about 3.7 / n at 95 %.

    Raises:
        ValueError: not 0 <= count <= n, n is 0, or the level is not between 0 and 1.
    """
    if not (0 <= count <= n and n and 0 < level < 1):
        raise ValueError("an interval needs 0 <= count <= n, n > 0 and a level between 0 and 1")
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else _root(lambda p: 1 - _at_most(count - 1, n, p) < tail)
    high = 1.0 if count == n else _root(lambda p: _at_most(count, n, p) > tail)
    return low, high


def _root(below: Callable[[float], bool]) -> float:
    """Where ``below`` turns from true to false, by halving [0, 1] sixty times."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def _at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) of a binomial variable."""
    if p <= 0 or p >= 1:
        return 1.0 if p <= 0 or k >= n else 0.0
    whole = math.lgamma(n + 1)
    log, log_not = math.log(p), math.log1p(-p)
    terms = (
        whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log + (n - i) * log_not
        for i in range(k + 1)
    )
    return min(1.0, math.fsum(math.exp(term) for term in terms))
