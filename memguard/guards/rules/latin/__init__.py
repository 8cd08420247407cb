"""The rules in languages of the Latin script. Each row says the mechanism, the language, and how it is said there.

Patterns may carry their marks; they are folded like the text. ``must_not`` of the whole table is tested together
with the honest texts of the evaluation set.
"""

from __future__ import annotations

from memguard.guards.rules.latin import dutch, french, german, italian, polish, portuguese, spanish, turkish
from memguard.guards.rules.latin.words import Row

__all__ = ["ROWS", "Row"]

ROWS: tuple[Row, ...] = (
    *spanish.ROWS,
    *french.ROWS,
    *german.ROWS,
    *italian.ROWS,
    *portuguese.ROWS,
    *dutch.ROWS,
    *polish.ROWS,
    *turkish.ROWS,
)
