"""BM25 over the memories of one conversation (Robertson and Zaragoza, 2009, with the idf that is never negative)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

K1, B = 1.2, 0.75
_WORD = re.compile(r"\w+")


class Bm25:
    """An index of texts by key.

    Args:
        texts: (key, text), in the order that breaks ties.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        held = [(key, _words(text)) for key, text in texts]
        self._keys = [key for key, _ in held]
        lengths = [len(words) for _, words in held]
        mean = sum(lengths) / len(lengths) if lengths else 0.0
        postings: dict[str, list[tuple[int, float]]] = {}
        for at, (_, words) in enumerate(held):
            norm = K1 * (1 - B + B * lengths[at] / mean) if mean else K1
            for word, count in Counter(words).items():
                postings.setdefault(word, []).append((at, count * (K1 + 1) / (count + norm)))
        size = len(held)
        self._postings = {
            word: [
                (at, math.log(1 + (size - len(found) + 0.5) / (len(found) + 0.5)) * part)
                for at, part in found
            ]
            for word, found in postings.items()
        }

    def ranked(self, query: str, limit: int) -> list[tuple[str, float]]:
        """The best keys with their scores, ties by age; keys that share no word with the query are left out."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(_words(query)):
            for at, part in self._postings.get(word, ()):
                scores[at] = scores.get(at, 0.0) + part
        best = sorted(scores, key=lambda at: (-scores[at], at))[:limit]
        return [(self._keys[at], scores[at]) for at in best]


def _words(text: str) -> Sequence[str]:
    return _WORD.findall(text.lower())
