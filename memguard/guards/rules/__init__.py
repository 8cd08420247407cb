"""The lexical rules of the sanitizer, as data.

:data:`RULES` is the table in English, one row per mechanism, by theme in the modules beside this one;
:data:`TRANSLATIONS` says the same mechanisms in other languages, under the same codes. Precision comes first: what
the rules let through is still labelled with its source, and cannot act.
"""

from __future__ import annotations

from dataclasses import replace

from memguard.guards.rules import (
    authority,
    claims,
    concealment,
    conduct,
    disclosure,
    latin,
    money,
    opinion,
    scripts,
)
from memguard.guards.rules.context import MENTION, QUOTATION
from memguard.guards.rules.rule import Rule

__all__ = ["ALL", "MENTION", "QUOTATION", "RULES", "TRANSLATIONS", "Rule"]

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            rule
            for theme in (authority, claims, disclosure, concealment, conduct, money, opinion)
            for rule in theme.RULES
        ),
        key=lambda rule: rule.code,
    )
)
_BY_CODE = {rule.code: rule for rule in RULES}

#: What is forbidden and not ordered, in front of a match. Not in front of a concealment, which says it itself.
_FORBIDDEN = {
    "es": r"\b(?:no|nunca|jamás|evita)\b",
    "fr": r"\b(?:ne|jamais|évite\w{0,2})\b|\bn'",
    "de": r"\b(?:nicht|nie|niemals|kein\w{0,2})\b",
    "it": r"\b(?:non|mai|evita)\b",
    "pt": r"\b(?:não|nunca|jamais|evite)\b",
    "nl": r"\b(?:niet|nooit|geen)\b",
    "pl": r"\b(?:nie|nigdy)\b",
    "ru": r"\b(?:не|никогда|нельзя)\b",
    "zh": "不要|别|不得|切勿|禁止|不能",
    "ar": r"\b(?:لا|لن|ألا)\b",
}
#: In front of a check that is left out, "kein" and "geen" are how that is said.
_NEGATED = (_FORBIDDEN, {k: v for k, v in _FORBIDDEN.items() if k not in ("de", "nl")})

TRANSLATIONS: tuple[Rule, ...] = tuple(
    replace(
        _BY_CODE[code],
        language=language,
        words=words,
        pattern=pattern,
        must=(must,),
        must_not=(),
        unless="" if code == "MG209" else _NEGATED[code == "MG212"].get(language, ""),
        also=(),
    )
    for code, language, words, pattern, must in latin.ROWS + scripts.ROWS
)
ALL: tuple[Rule, ...] = RULES + TRANSLATIONS
