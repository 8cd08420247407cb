"""BERT's uncased word pieces: a text to the numbers of its pieces, as the model was trained on them.

A word is split greedily into the longest pieces that the vocabulary has (Schuster and Nakajima, 2012; the form of
BERT). Written here because the usual library brings a client that downloads, and the whole of it is this page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache

UNKNOWN, CLS, SEP = "[UNK]", "[CLS]", "[SEP]"
#: A longer word is unknown; splitting it would take time quadratic in its length.
_LONGEST = 100
#: Blocks whose characters are words of their own (CJK ideographs; not kana or hangul).
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """The tokenizer over a vocabulary (piece to number). Keeps no state but a cache; threads may share it."""

    def __init__(self, vocabulary: Mapping[str, int], *, longest: int) -> None:
        self._vocabulary = vocabulary
        self._longest = longest
        self._split = lru_cache(maxsize=20_000)(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Numbers of the pieces, between the marks of begin and end, ``longest`` of them at most."""
        numbers = [self._vocabulary[CLS]]
        for word in words(text):
            numbers += self._split(word)
            if len(numbers) >= self._longest:
                break
        return [*numbers[: self._longest - 1], self._vocabulary[SEP]]

    def _pieces(self, word: str) -> tuple[int, ...]:
        unknown = (self._vocabulary[UNKNOWN],)
        if len(word) > _LONGEST:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self._vocabulary:
                    found.append(self._vocabulary[piece])
                    start = end
                    break
            else:
                return unknown
        return tuple(found)


def words(text: str) -> Iterator[str]:
    """Words in lower case and without accents; punctuation and ideographs stand alone."""
    word: list[str] = []
    for char in _plain(text):
        alone = _alone(char)
        if (alone or char.isspace()) and word:
            yield "".join(word)
            word.clear()
        if alone:
            yield char
        elif not char.isspace():
            word.append(char)
    if word:
        yield "".join(word)


def _plain(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text.lower()
    kept = "".join(
        " " if char in "\t\n\r" else char for char in text if char in "\t\n\r" or not _control(char)
    )
    bare = "".join(c for c in unicodedata.normalize("NFD", kept) if unicodedata.category(c) != "Mn")
    return bare.lower()


def _control(char: str) -> bool:
    return char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Cn", "Co", "Cs")


def _alone(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char.isspace() or ord(char) < 33 or ord(char) == 127)
    code = ord(char)
    return unicodedata.category(char).startswith("P") or any(a <= code <= b for a, b in _IDEOGRAPHS)
