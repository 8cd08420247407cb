"""Matching the table: which rules a text meets, each with its first match that counts.

Few rules have anything to say about a text, so most are ruled out by their words, without looking for each:
words that start with a letter of the Latin, Greek, Cyrillic, Arabic or Devanagari script are found by the first
letters of the words of the text; others (signs, scripts without blanks) are looked for one by one, and only
where the text has such characters at all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from memguard.guards.rules.context import excused
from memguard.guards.rules.rule import Rule

_WORD = re.compile(r"\w+")
#: Letters of the first word of a literal that the index knows it by; a shorter one is known by all its letters, and
#: found where a word of the text starts with them.
_LONG, _SHORT = 4, 3
#: Scripts that are written without blanks, or whose words carry endings in front: kana, Han, Hangul, Arabic.
_UNSPACED = re.compile("[\u0600-\u06ff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")


class Table:
    """Rules ready for matching, in the order given."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._always = tuple(n for n, rule in enumerate(rules) if not rule.words)
        index: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self._signs: list[tuple[str, int]] = []
        self._unspaced: list[tuple[str, int]] = []
        for number, rule in enumerate(rules):
            for word in rule.words:
                first = _WORD.match(word)
                if _UNSPACED.search(word):
                    self._unspaced.append((word, number))
                elif first is None:
                    self._signs.append((word, number))
                else:
                    index[first.group()[:_LONG]].append((word, number))
        self._index = dict(index)

    def matches(
        self, copy: str, written: Callable[[int, int], str] | None = None
    ) -> Iterator[tuple[Rule, re.Match[str]]]:
        """Every rule with its first match in the copy that is not excused.

        Args:
            copy: the normalised text.
            written: how a span of the copy stands in the text, to tell names by their capitals; None where that
                is not known, and everything counts as a name.
        """
        for number in self._candidates(copy):
            rule = self._rules[number]
            if rule.also and not any(word in copy for word in rule.also):
                continue
            for match in rule.compiled.finditer(copy):
                if rule.named and written is not None and not _named(match, written):
                    continue
                if not excused(copy, match, rule):
                    yield rule, match
                    break

    def _candidates(self, copy: str) -> list[int]:
        """The rules of which a word occurs, in the order of the table."""
        words = set(_WORD.findall(copy))
        starts = {word[:_LONG] for word in words}
        starts.update([word[:_SHORT] for word in words])
        found = set(self._always)
        for start in starts & self._index.keys():
            for word, number in self._index[start]:
                if number not in found and word in copy:
                    found.add(number)
        for word, number in self._signs:
            if number not in found and word in copy:
                found.add(number)
        if not copy.isascii() and _UNSPACED.search(copy):
            for word, number in self._unspaced:
                if number not in found and word in copy:
                    found.add(number)
        return sorted(found)


def _named(match: re.Match[str], written: Callable[[int, int], str]) -> bool:
    """Whether a group that must be a name is one: a capital or a digit in it, or a dot inside."""
    for group, value in match.groupdict().items():
        if value is not None:
            name = written(*match.span(group))
            return any(c.isupper() or c.isdigit() for c in name) or "." in name.rstrip(".")
    return False
