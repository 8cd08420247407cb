"""What the tables of the languages of the Latin script share: the form of a row, and parts of patterns."""

from __future__ import annotations

#: code, language, literals of which one must occur, pattern, one text that must match
Row = tuple[str, str, tuple[str, ...], str, str]
GAP = r"[^.!?]{0,60}"
FAR = r"[^!?]{0,80}?"
ACCOUNT = r"(?:\biban\b|\b[a-z]{2}\d{2}(?: ?[a-z\d]{4}){2,8}\b|\b\d[\d -]{6,34}\d\b|\b0x[\da-f]{8,64})"
KEY = r"(?:\bapi\b|\btokens?\b|\bpin\b)"
