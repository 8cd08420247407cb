"""What a lexical rule is: a row of a table, and the check that its pattern costs linear time.

A pattern is matched against the normalised copy (:mod:`memguard.guards.normal`: lower case, single blanks,
letters without marks) and has bounded repeats only. Letters with marks may be written in a pattern as they
are spelt: they are folded like the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from memguard.decision import Disposition
from memguard.guards.normal import fold

#: "Never …", "do not …": what follows is forbidden and not ordered.
NEGATED = (
    r"\b(?:never|do not|don't|does not|doesn't|did not|didn't|must not|mustn't|should not|"
    r"shouldn't|cannot|can't|"
    r"could not|couldn't|will not|won't|would not|refuse to|refused to|nobody|no one|avoid|forbidden|"
    r"not allowed|instead of)\b(?! (?:hesitate|worry|forget|fail|be afraid|bother|wait|stop|"
    r"need|have|mind|only))"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: one thing that a memory says and that memories of honest users do not.

    ``reason`` is what a person reads, ``score`` how sure the rule is, in [0, 1]. ``words`` are literals of
    which one must occur in the copy before the pattern is tried, and so must one of ``also`` where there are
    such. ``unless`` is looked for in the sentence before a match and excuses it. With ``named``, the pattern's
    groups must be names where they stand: written with a capital or a digit, or an address.
    ``must`` and ``must_not`` are texts that the whole sanitizer is tested with.
    """

    code: str
    name: str
    reason: str
    disposition: Disposition
    score: float
    words: tuple[str, ...]
    pattern: str
    must: tuple[str, ...]
    must_not: tuple[str, ...]
    unless: str = NEGATED
    named: bool = False
    language: str = "en"
    also: tuple[str, ...] = ()
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    excuse: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(fold(self.pattern)))
        object.__setattr__(self, "excuse", re.compile(fold(self.unless)) if self.unless else None)
        object.__setattr__(self, "words", tuple(fold(word) for word in self.words))
        object.__setattr__(self, "also", tuple(fold(word) for word in self.also))


#: No repeat may turn more often than this.
MAX_REPEAT = 400
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", ops.MAX_REPEAT))


def faults(pattern: str) -> list[str]:
    """Why matching this pattern might not be linear: unbounded repeats, repeats inside repeats, references
    back. Empty if it is safe.

    Raises:
        re.error: it is no regular expression.
    """
    found: list[str] = []
    _walk(parser.parse(pattern), False, found)
    return found


def _walk(pattern: Any, inside: bool, found: list[str]) -> None:
    for op, value in pattern:
        if op in _REPEATS:
            low, high, body = value
            if high is ops.MAXREPEAT or high > MAX_REPEAT:
                found.append(f"it has a repeat without a bound of at most {MAX_REPEAT}")
            varies = high != low and high > 1
            if varies and inside:
                found.append("it has a repeat inside a repeat")
            first = next(iter(body), (None, None))
            # "( word){0,8}" walks one way only: each turn starts with a blank that the inner repeat lacks.
            _walk(body, varies and not (first[0] is ops.LITERAL and first[1] == ord(" ")), found)
        elif op is ops.SUBPATTERN:
            _walk(value[3], inside, found)
        elif op is ops.BRANCH:
            for branch in value[1]:
                _walk(branch, inside, found)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            _walk(value[1], inside, found)
        elif op in (ops.GROUPREF, ops.GROUPREF_EXISTS):
            found.append("it refers back to a group")
