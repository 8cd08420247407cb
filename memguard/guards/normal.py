"""A copy of a text for matching: what a model would read, whatever characters it is spelt with.

Character by character: compatibility forms are decomposed (full-width, ligatures, styled letters), marks
and invisible characters dropped, the tag block turned back into the ASCII it hides, letters lowered,
quotation marks made one; then white space is collapsed. The original is what is stored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_QUOTES = {**dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f", '"')}
_QUOTES.update(dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a`\u00b4", "'"))
_DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
_DROPPED = ("Mn", "Me", "Cf")
#: Entries kept per process: the characters of living scripts, and a bound for hostile input.
_CACHE = 20_000


class _Table(dict[int, str]):
    """Code point to its copy, computed when first met."""

    def __missing__(self, code: int) -> str:
        copy = _copy_of(chr(code))
        if len(self) < _CACHE:
            self[code] = copy
        return copy


def _copy_of(char: str) -> str:
    code = ord(char)
    if 0xE0020 <= code <= 0xE007E:
        return chr(code - 0xE0000).lower()
    if char in _QUOTES:
        return _QUOTES[char]
    if char in _DASHES:
        return "-"
    kept = []
    for part in unicodedata.normalize("NFKD", char):
        category = unicodedata.category(part)
        if category in _DROPPED or 0xFE00 <= ord(part) <= 0xFE0F:
            continue
        kept.append(" " if category in ("Cc", "Cs") else part)
    return "".join(kept).casefold()


_TABLE = _Table()


def fold(pattern: str) -> str:
    """A pattern or literal with its letters outside ASCII folded like the copy; white space is kept."""
    return pattern if pattern.isascii() else "".join(c if c.isascii() else _TABLE[ord(c)] for c in pattern)


def normalise(text: str) -> str:
    """The copy. Linear; any string is accepted, lone surrogates and NULs too."""
    return " ".join(text.translate(_TABLE).split())


def place(text: str, start: int, end: int) -> tuple[int, int]:
    """The span of ``text`` whose copy is ``normalise(text)[start:end]``.

    Walks the text once; only called where a rule matched. A span of the copy that is only a blank has no
    width in the text.
    """
    begin: int | None = None
    last = 0
    for position, index in enumerate(_origins(text)):
        if position >= end:
            break
        if index is not None:
            last = index + 1
            if begin is None and position >= start:
                begin = index
    return (last if begin is None else begin, last)


def _origins(text: str) -> Iterator[int | None]:
    """For every character of the copy, the index it comes from; None for a blank between words."""
    pending = started = False
    for index, char in enumerate(text):
        for part in _TABLE[ord(char)]:
            if part.isspace():
                pending = started
                continue
            if pending:
                yield None
            pending, started = False, True
            yield index


#: A flag of a land that is written in tag characters, such as Scotland's: the one honest use of the block.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f")
_TAGS = re.compile("[\U000e0020-\U000e007e]{3,}")


def hidden_spans(text: str) -> list[tuple[int, int]]:
    """Where text is written in the invisible tag block, emoji flags aside."""
    if text.isascii():
        return []
    flags = [match.span() for match in _FLAG.finditer(text)]
    return [
        match.span()
        for match in _TAGS.finditer(text)
        if not any(start <= match.start() < end for start, end in flags)
    ]
