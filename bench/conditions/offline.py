"""Stand-ins for the two defences that ask a model. Other mechanisms, so other names; their figures are theirs alone."""

from __future__ import annotations

from collections.abc import Sequence

from memguard.bench.conditions.protocol import Hit, Passing, Written
from memguard.embedders.hashing import cosine
from memguard.ports import Embedder
from memguard.slots import contradiction, slots_of

#: A candidate that is less like the recent turns than this is taken for inconsistent with them.
LEAST_LIKENESS = 0.02
#: A memory whose similarity is below this share of the best one's is taken for a poor match.
LEAST_SHARE = 0.6
CONTEXT_TURNS = 10


class AnomalyOffline(Passing):
    """Quarantines what is unlike every recent turn, by the embedder."""

    name = "anomaly-offline"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def write(self, text: str, source: str, recent: Sequence[str]) -> Written:
        """Kept where there is nothing to compare with."""
        if not recent:
            return Written(text)
        own, *others = self._embedder.embed([text, *recent[-CONTEXT_TURNS:]])
        return Written(text if max(cosine(own, other) for other in others) >= LEAST_LIKENESS else None)


class RerankOffline(Passing):
    """Takes out what is far less similar to the question than the best memory, or contradicts a better one."""

    name = "rerank-offline"

    def read(self, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], int]:
        """What is left; nothing is fetched in its place, as in seeds/000."""
        best = max((hit.score for hit in hits), default=0.0)
        kept: list[Hit] = []
        for hit in hits:
            said = slots_of(hit.text)
            if hit.score < LEAST_SHARE * best or any(contradiction(said, slots_of(k.text)) for k in kept):
                continue
            kept.append(hit)
        return kept, len(hits)
