"""Grades of one condition, replicate by replicate, and what is made of them: verdicts, means, pairs.

An item is (conversation, question). A grade is True, False or None; None is "not graded", which is never a zero.
The definitions are those of seeds/000, sections 4 and 6, with their edge cases stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from memguard.errors import ConfigError

Item = tuple[str, str]
#: Grades of one item, one for each replicate in order.
Grades = Mapping[Item, Sequence[bool | None]]
#: Graded replicates that an item needs for a verdict, of every three.
_LEAST = Fraction(2, 3)


def verdict(grades: Sequence[bool | None]) -> bool | None:
    """Strict majority of the graded replicates: a tie is wrong. None where fewer than two in three are graded."""
    held = [grade for grade in grades if grade is not None]
    if not held or len(held) < _LEAST * len(grades):
        return None
    return 2 * sum(held) > len(held)


def mean(grades: Sequence[bool | None]) -> Fraction | None:
    """Share of graded replicates that are right. None as in :func:`verdict`."""
    held = [grade for grade in grades if grade is not None]
    if not held or len(held) < _LEAST * len(grades):
        return None
    return Fraction(sum(held), len(held))


def check_replicates(count: int, *, force: bool = False) -> None:
    """Refuse a number of replicates that a majority cannot decide.

    Raises:
        ConfigError: MG101, it is even and not forced, or below one.
    """
    if count < 1 or (count % 2 == 0 and not force):
        raise ConfigError(
            f"{count} replicates have no majority.",
            code="MG101",
            why="With an even number a tie is possible, and a tie counts as wrong: the verdict leans down.",
            do="Take an odd number, or force it and read the replicate means only.",
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """One item in both arms."""

    conversation: str
    question: str
    base: Fraction
    treated: Fraction

    @property
    def delta(self) -> Fraction:
        """Treated minus base, in [-1, 1]."""
        return self.treated - self.base


def pairs(base: Grades, treated: Grades, *, means: bool = False) -> list[Pair]:
    """Items that are graded in both arms, in the order of ``base``.

    Args:
        means: replicate means instead of majority verdicts.
    """
    made: list[Pair] = []
    for item, grades in base.items():
        if item not in treated:
            continue
        both: list[Fraction] = []
        for given in (grades, treated[item]):
            said = mean(given) if means else verdict(given)
            if said is not None:
                both.append(Fraction(said))
        if len(both) == 2:
            made.append(Pair(*item, *both))
    return made


def by_conversation(found: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Pairs by conversation, in order of first mention."""
    groups: dict[str, list[Pair]] = {}
    for pair in found:
        groups.setdefault(pair.conversation, []).append(pair)
    return groups
