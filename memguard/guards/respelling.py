"""Other readings of a text: what it says once letters are joined, digits are letters, or it is read backwards.

Each reading is made only where the text looks like it needs one, and is judged beside the text, never instead of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from memguard.guards.normal import normalise
from memguard.guards.vocabulary import known, segment, vocabulary

#: Characters of a text that readings are made of; orders are short, and this bounds the work.
WINDOW = 4_000

_COMMENT = re.compile(
    r"<!--.{0,200}?-->|</?[a-z][^<>]{0,60}>|\*{1,3}|__|~~|\\(?=[a-z])", re.IGNORECASE | re.DOTALL
)
_SPLIT = re.compile(
    r"(?<=\w)(?:<!--.{0,200}?-->|</?[a-z][^<>]{0,60}>|\*{1,3}|~~|\\){1,4}(?=\w)", re.IGNORECASE | re.DOTALL
)
#: Letters apart: single ones with one kind of gap, at least five of them. Two blanks or more part words.
_SPACED = re.compile(r"(?<!\S)\S(?: {1,5}\S(?!\S)){4,400}")
#: The shortest sign of either: four single letters in a row.
_APART = re.compile(r"(?<!\w)\w(?: {1,5}|[.\-*|·_])\w(?: {1,5}|[.\-*|·_])\w(?: {1,5}|[.\-*|·_])\w(?!\w)")
_CHAINED = re.compile(r"(?<!\S)\w(?:[.\-*|·_]\S){1,80}(?!\w)")
_SNAKE = re.compile(r"(?<!\w)[a-z]+(?:_[a-z0-9.@:]+){4,60}", re.IGNORECASE)
_CAMEL = re.compile(r"(?<!\w)(?:[A-Z][a-z@.:0-9]*){5,60}(?!\w)")
_CODE = re.compile(
    r"\b(?:def|class|function|func|test|fn|void|public|private|import|const|var|let)\b|[(){};=]"
)
_BETWEEN = re.compile(r" [.·|/\\*~_,;:-]{1,5} ")
_LEET = str.maketrans("013457@$!|8", "oieastasilb")
_LEET_WORD = re.compile(r"[a-z0134578@$!|]{1,24}")
_HAS_LEET = re.compile(r"[a-z][0134578@$|]|[0134578@$|][a-z]")
#: What nearly every English text has: it needs no other reading of its letters.
_ENGLISH = (" the ", " to ", " and ", " of ", " is ", " in ", " you ", " for ", " my ", " it ")
_OVERRIDE = re.compile("[\u202e\u2067](.{4,2000}?)(?:[\u202c\u2069]|$)", re.DOTALL)
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff](?:[\u200b-\u200f\u2060]?[\U0001f1e6-\U0001f1ff])+")
_ENCLOSED = re.compile("[\U0001f150-\U0001f169\U0001f170-\U0001f189]")


def readings(text: str, copy: str) -> Iterator[str]:
    """Normalised copies of the other readings of ``text``, whose own copy is ``copy``."""
    text, copy = text[:WINDOW], copy[:WINDOW]
    if "<" in text or "*" in text or "\\" in text or "~~" in text:
        joined = _SPLIT.sub("", text)
        if joined != text:
            yield normalise(joined)
        bare = _COMMENT.sub(" ", text)
        if bare != text and bare != joined:
            yield normalise(bare)
    if _APART.search(text):
        yield _CHAINED.sub(lambda m: m.group()[::2], _SPACED.sub(_join, text)).lower()
    if len(max(text.split(), key=len, default="")) >= 20 and not _CODE.search(text):
        if text.count("_") >= 4 and _SNAKE.search(text):
            yield normalise(text.replace("_", " "))
        if _CAMEL.search(text):
            yield normalise(re.sub(r"(?<=[a-z.:0-9])(?=[A-Z])", " ", text))
    if len(_BETWEEN.findall(copy)) >= 3:
        yield _BETWEEN.sub(" ", copy)
    if len(_HAS_LEET.findall(copy)) >= 3 and (plain := _unleet(copy)) is not None:
        yield plain
    if not text.isascii():
        if _REGIONAL.search(text):
            yield normalise(_REGIONAL.sub(_flags, text))
        if _ENCLOSED.search(text):
            yield normalise(_ENCLOSED.sub(_enclosed, text))
        for match in _OVERRIDE.finditer(text):
            yield normalise(match.group(1)[::-1])
    if sum(word in copy for word in _ENGLISH) < 2 and (share := known(copy)) < 0.4:
        for other in (codecs.encode(copy, "rot13"), copy[::-1]):
            if known(other) >= max(0.5, share + 0.2):
                yield other


def _join(match: re.Match[str]) -> str:
    run = match.group()
    if "  " in run:
        return " ".join(word.replace(" ", "") for word in re.split(r" {2,}", run))
    return re.sub(r"[a-z]{2,}", lambda m: segment(m.group()), run.replace(" ", "").lower())


def _unleet(copy: str) -> str | None:
    common = vocabulary()
    found = 0

    def word(match: re.Match[str]) -> str:
        nonlocal found
        token = match.group()
        if token.isalpha():
            return token
        plain = token.translate(_LEET)
        if plain not in common and (ones := [i for i, c in enumerate(token) if c == "1"]):
            # A one may be an i or an l; at most four of them are tried.
            for choice in range(1, 1 << min(4, len(ones))):
                letters = list(plain)
                for bit, index in enumerate(ones[:4]):
                    letters[index] = "l" if choice >> bit & 1 else "i"
                if "".join(letters) in common:
                    plain = "".join(letters)
                    break
        if not _HAS_LEET.search(token):
            return plain if plain in common else token  # a number, unless it spells a word
        found += plain in common
        return plain

    plain = _LEET_WORD.sub(word, copy)
    return plain if found >= 2 else None


def _flags(match: re.Match[str]) -> str:
    return "".join(chr(ord(c) - 0x1F1E6 + 97) for c in match.group() if "\U0001f1e6" <= c <= "\U0001f1ff")


def _enclosed(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr((code - 0x1F150) % 32 + 97)
