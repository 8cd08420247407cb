"""The hashing embedder: words and character n-grams, each on an axis by its hash. No model, no numpy.

Vectors are deterministic across processes, machines and versions of Python: the hash is CRC-32 over UTF-8,
never ``hash()``. Rare words cannot be weighted without having seen other texts, so the common words of a
language are given less weight by a short list; repeated features count by 1 + ln(count).
The method is feature hashing with a signed hash (Weinberger et al., 2009).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from zlib import crc32

from memguard.errors import ConfigError

_WORD = re.compile(r"\w+")
#: Words that say little about what an English text is about.
_COMMON = frozenset(
    "a about am an and any are as at be been but by can could d did do does for from get got had has have he "
    "her hers him his how i if in into is it its just like ll m me my no not now of oh ok on or our out re s she "
    "so some t than that the their them then there these they this to too up us ve very was we were what when "
    "where which who why will with would yeah yes you your".split()
)
_COMMON_WEIGHT = 0.1
#: Weights of whole words, pairs of neighbouring words, and character n-grams of a word.
_WORD_WEIGHT, _PAIR_WEIGHT, _GRAM_WEIGHT = 1.0, 0.4, 0.25
_GRAMS = 4


class Hashing:
    """Texts to unit vectors of ``dim`` numbers; a text without a word gives the zero vector.

    Args:
        dim: numbers per vector, 16 to 65,536.
        max_chars: characters of a text that are looked at, from its start.

    Raises:
        ConfigError: MG104, a dimension out of range.
    """

    name = "hashing"

    def __init__(self, dim: int = 512, *, max_chars: int = 20_000) -> None:
        if not 16 <= dim <= 65_536:
            raise ConfigError(
                f"an embedding has 16 to 65536 numbers, not {dim}", code="MG104", do="Choose a dimension."
            )
        self.dim = dim
        self._max_chars = max_chars

    @classmethod
    def open(cls) -> Hashing:
        """The embedder in its default form."""
        return cls()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = [0.0] * self.dim
        for feature, weight in _features(text[: self._max_chars]).items():
            # Two bits of one hash: where it falls, and on which side, so that collisions cancel on average.
            code = crc32(feature.encode("utf-8", "surrogatepass"))
            vector[(code >> 1) % self.dim] += weight if code & 1 else -weight
        length = math.sqrt(sum(x * x for x in vector))
        return [x / length for x in vector] if length else vector


def _features(text: str) -> dict[str, float]:
    """What the text is made of, with weights."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    counts: dict[str, int] = {}
    weights: dict[str, float] = {}

    def add(feature: str, weight: float) -> None:
        counts[feature] = counts.get(feature, 0) + 1
        weights[feature] = weight

    for at, word in enumerate(words):
        common = word in _COMMON
        add(word, _COMMON_WEIGHT if common else _WORD_WEIGHT)
        if at and not (common and words[at - 1] in _COMMON):
            add(f"{words[at - 1]} {word}", _PAIR_WEIGHT * (0.25 if common else 1.0))
        if not common:
            edged = f"<{word}>"
            for start in range(len(edged) - _GRAMS + 1):
                add(edged[start : start + _GRAMS], _GRAM_WEIGHT)
    return {feature: weight * (1.0 + math.log(counts[feature])) for feature, weight in weights.items()}


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Cosine similarity in [-1, 1]; 0 where either is the zero vector.

    Raises:
        ValueError: the vectors are of different length.
    """
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    norm = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return dot / norm if norm else 0.0
