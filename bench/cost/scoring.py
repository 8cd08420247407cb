"""What the retrieval mode grades: all evidence among the first k, recall, and nDCG over evidence ids."""

from __future__ import annotations

import math
from collections.abc import Sequence


def hit(served: Sequence[str], evidence: Sequence[str]) -> bool:
    """Whether all evidence is among what was served."""
    return set(evidence) <= set(served)


def recall(served: Sequence[str], evidence: Sequence[str]) -> float:
    """Share of the evidence that was served, in [0, 1]."""
    wanted = set(evidence)
    return len(wanted & set(served)) / len(wanted)


def ndcg(served: Sequence[str], evidence: Sequence[str]) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen, 2002), binary, in [0, 1]; the ideal answer
    begins with the evidence, as far as it is as long as what was asked for."""
    wanted = set(evidence)
    seen: set[str] = set()
    gain = 0.0
    for rank, key in enumerate(served):
        if key in wanted and key not in seen:
            gain += 1 / math.log2(rank + 2)
            seen.add(key)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(len(wanted)))
    return gain / ideal
