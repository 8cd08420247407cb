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
from typing import Any

from memguard.guards.decoding import decoded
from memguard.guards.normal import normalise
from memguard.guards.statistical import LEAST_FEATURES, STEM, Scorer, windows, words

#: Windows of one honest text that are trained on; of a planted one the first, since nobody knows where the rest turns.
HONEST_WINDOWS = 3
#: Stems at the start of a text that tell its template.
OPENING = 3


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
    """The windows of one source that are trained on, and for each the template that it came from."""

    planted: bool
    windows: tuple[frozenset[int], ...]
    templates: tuple[tuple[Any, int], ...]
    factor: float = 1.0


def sample(
    texts: Sequence[str], planted: bool, factor: float = 1.0, templates: Sequence[object] = ()
) -> Sample:
    """A source's training windows.

    Args:
        templates: which template each text was made of; where that is not known, texts that begin with the same
            three stems are taken to be of one.
    """
    most = 1 if planted else HONEST_WINDOWS
    found, origin = [], []
    for number, text in enumerate(texts):
        if planted and next(decoded(text), None) is not None:
            continue  # what is wrong with it is inside, and what is around it is anybody's
        copy = normalise(text)
        mine = list(windows(copy))[:most]
        found += mine
        template = templates[number] if templates else tuple(word[:STEM] for word in words(copy)[:OPENING])
        origin += [(template, part) for part in range(len(mine))]
    return Sample(planted, tuple(found), tuple(origin), factor)


def fit(samples: Mapping[str, Sample], plan: Plan) -> Scorer:
    """Weights from samples, quantised to 8 bits; thresholds are left at 1."""
    counts = _counts(samples)
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


def _counts(samples: Mapping[str, Sample]) -> Counter[int]:
    """In how many templates each feature occurs: ten texts of one template say it once."""
    counts: Counter[int] = Counter()
    for s in samples.values():
        by: dict[object, set[int]] = {}
        for window, template in zip(s.windows, s.templates, strict=True):
            by.setdefault(template, set()).update(window)
        for found in by.values():
            counts.update(found)
    return counts


def _rows(
    samples: Mapping[str, Sample], index: Mapping[int, int]
) -> list[tuple[list[int], float, int, float]]:
    """(feature numbers, 1/sqrt of all features, label, importance) of every window."""
    share = {name: s.factor * math.sqrt(len(set(s.templates))) for name, s in samples.items() if s.windows}
    whole = {
        label: sum(v for n, v in share.items() if samples[n].planted is label) for label in (True, False)
    }
    total = sum(len(s.windows) for s in samples.values())
    rows = []
    for name in sorted(share):
        s = samples[name]
        copies = Counter(s.templates)
        importance = share[name] / whole[s.planted] / len(copies) * total / 2
        for window, template in zip(s.windows, s.templates, strict=True):
            ids = [index[f] for f in sorted(window) if f in index]
            scale = 1 / math.sqrt(max(len(window), LEAST_FEATURES))
            rows.append((ids, scale, int(s.planted), importance / copies[template]))
    return rows


def _quantised(weights: Mapping[int, float], bias: float) -> Scorer:
    largest = max((abs(weight) for weight in weights.values()), default=1.0) or 1.0
    scale = float(f"{largest / 127:.6g}")
    small = {feature: max(-127, min(127, round(weight / scale))) for feature, weight in weights.items()}
    kept = {feature: weight for feature, weight in small.items() if weight}
    return Scorer(kept, bias=float(f"{bias:.6g}"), scale=scale, flag=1.0, quarantine=1.0)
