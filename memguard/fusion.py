"""Rank fusion: the store's order of relevance with the words of the question. Pure.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009) of two orders of the same candidates: the store's, and BM25
over their texts. A score is ``1/(C + rank)`` in each, summed; ties go to the more trusted record, then to the store's
order.

Words are cheap to plant: a record below the act level never rises by them. Its place in the second order is at best
its place in the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from memguard.lexical import Bm25
from memguard.record import Trust

#: Smaller weighs the first places more. 10 suits windows of some dozens; the paper's 60 is for whole result lists.
C = 10


def fused(query: str, texts: Sequence[str], trusts: Sequence[Trust], level: Trust) -> list[int]:
    """Places of the candidates in their new order.

    Args:
        texts, trusts: of the candidates, in the store's order.
        level: from which trust on a record may rise by its words.
    """
    count = len(texts)
    index = Bm25([(str(at), text) for at, text in enumerate(texts)])
    by_words = [int(key) for key, _ in index.ranked(query, count)]
    rank = dict(zip(by_words, range(count), strict=False))
    last = len(
        by_words
    )  # what shares no word with the question comes behind all that do, in the store's order

    def score(at: int) -> float:
        words = rank.get(at, last + at)
        if trusts[at] < level:
            words = max(words, at)
        return 1 / (C + at) + 1 / (C + words)

    return sorted(range(count), key=lambda at: (-score(at), -trusts[at].rank, at))
