"""A logistic regression over hashed features, fitted in plain Python, so that a seed gives the same bytes anywhere.

Stochastic gradient descent with a rate that falls to zero and L2 decay after each pass (Bottou, 2012). Sources
differ a hundredfold in size: one of ``n`` windows counts as the square root of ``n``, and both labels count alike.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memguard.guards.normal import normalise
from memguard.guards.statistical import Scorer, windows

#: Windows of one honest text that are trained on; of a planted one the first, since nobody knows where the rest turns.
HONEST_WINDOWS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How to fit. ``min_count``: windows in which a feature must occur."""

    epochs: int = 12
    rate: float = 0.5
    decay: float = 5e-5
    min_count: int = 2
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """The windows of one source that are trained on."""

    planted: bool
    windows: tuple[frozenset[int], ...]
    factor: float = 1.0


def sample(texts: Sequence[str], planted: bool, factor: float = 1.0) -> Sample:
    """A source's training windows."""
    most = 1 if planted else HONEST_WINDOWS
    found = [list(windows(normalise(text)))[:most] for text in texts]
    return Sample(planted, tuple(window for each in found for window in each), factor)


def fit(samples: Mapping[str, Sample], plan: Plan) -> Scorer:
    """Weights from samples, quantised to 8 bits; thresholds are left at 1."""
    counts = Counter(f for s in samples.values() for window in s.windows for f in window)
    vocabulary = sorted(f for f, count in counts.items() if count >= plan.min_count)
    index = {feature: at for at, feature in enumerate(vocabulary)}
    rows = _rows(samples, index)
    weights, bias, draw = [0.0] * len(vocabulary), 0.0, random.Random(plan.seed)
    for epoch in range(plan.epochs):
        draw.shuffle(rows)
        rate = plan.rate * (1 - epoch / plan.epochs)
        for ids, scale, label, importance in rows:
            z = bias + scale * sum(map(weights.__getitem__, ids))
            slope = importance * (1 / (1 + math.exp(-max(-30.0, min(30.0, z)))) - label)
            slope = max(-3.0, min(3.0, slope))
            bias -= 0.1 * rate * slope
            step = rate * slope * scale
            for at in ids:
                weights[at] -= step
        keep = 1 - plan.decay * rate * len(rows)
        weights = [weight * keep for weight in weights]
    return _quantised(dict(zip(vocabulary, weights, strict=True)), bias)


def _rows(
    samples: Mapping[str, Sample], index: Mapping[int, int]
) -> list[tuple[list[int], float, int, float]]:
    """(feature numbers, 1/sqrt of all features, label, importance) of every window."""
    share = {name: s.factor * math.sqrt(len(s.windows)) for name, s in samples.items() if s.windows}
    whole = {
        label: sum(v for n, v in share.items() if samples[n].planted is label) for label in (True, False)
    }
    total = sum(len(s.windows) for s in samples.values())
    rows = []
    for name in sorted(share):
        s = samples[name]
        importance = share[name] / whole[s.planted] / len(s.windows) * total / 2
        for window in s.windows:
            ids = [index[f] for f in sorted(window) if f in index]
            rows.append((ids, 1 / math.sqrt(len(window)), int(s.planted), importance))
    return rows


def _quantised(weights: Mapping[int, float], bias: float) -> Scorer:
    largest = max((abs(weight) for weight in weights.values()), default=1.0) or 1.0
    scale = float(f"{largest / 127:.6g}")
    small = {feature: max(-127, min(127, round(weight / scale))) for feature, weight in weights.items()}
    kept = {feature: weight for feature, weight in small.items() if weight}
    return Scorer(kept, bias=float(f"{bias:.6g}"), scale=scale, flag=1.0, quarantine=1.0)
