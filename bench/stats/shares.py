"""Shares and ratios of the cost bench: false quarantines and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def quarantine_rate(cells: Iterable[tuple[int, int]]) -> float | None:
    """False-quarantine rate: the mean over cells of quarantined/adjudicated (seeds/000, section 6).

    A cell in which nothing was adjudicated has no rate and does not count; None where no cell has one. It is a rate of
    *false* quarantines only on a corpus that is declared benign.

    Args:
        cells: (quarantined, adjudicated) of each.

    Raises:
        ValueError: a cell quarantined more than it adjudicated.
    """
    rates = []
    for quarantined, adjudicated in cells:
        if not 0 <= quarantined <= adjudicated:
            raise ValueError("a cell cannot quarantine more than it adjudicates")
        if adjudicated:
            rates.append(quarantined / adjudicated)
    return sum(rates) / len(rates) if rates else None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one cell by purpose. ``judge`` is in neither side of an overhead."""

    extract: int = 0
    answer: int = 0
    judge: int = 0
    guard: int = 0

    @property
    def base(self) -> int:
        """What the memory itself costs."""
        return self.extract + self.answer


def overhead(cells: Sequence[Tokens]) -> float | None:
    """Token overhead tau: guard over base tokens of the same condition, as a ratio of sums; None without base."""
    base = sum(cell.base for cell in cells)
    return sum(cell.guard for cell in cells) / base if base else None


def base_change(treated: Sequence[Tokens], base: Sequence[Tokens]) -> float | None:
    """How much more (or less) the memory itself costs than in the undefended arm, as a share. None without base."""
    before = sum(cell.base for cell in base)
    return sum(cell.base for cell in treated) / before - 1 if before else None
