"""Whether a match is an order, or is talked about: quoted, reported as an attack, or forbidden.

Each check looks at a bounded stretch around the match, so a text costs linear time. A quotation alone excuses
nothing, and neither does the word "attack" before a colon: the order would stand as plain as without it.
"""

from __future__ import annotations

import re

from memguard.guards.normal import fold
from memguard.guards.rules.rule import Rule

#: Outside a quotation, a word that says it is talked about and not said.
MENTION = re.compile(
    r"\b(?:says?|said|wrote|writes?|writing|reads?|phrases?|example|e\.g|such as|called|"
    r"quotes?|quoted|attacks?|"
    r"attackers?|injections?|jailbreaks?|phishing|malicious|lesson|slide|training|tutorial|security|detects?|"
    r"blocks?|filters?|payloads?|strings?|means|title|chapter|song|article|paper|message was|"
    r"poisoning|refused?|"
    r"test case|input|sample|saying|claims?|claimed|suspicious|headline|subject line|warns?|scam|spam|words)\b"
)
QUOTATION = re.compile(r'"[^"]{2,400}"|(?<!\w)\'[^\']{2,400}\'(?!\w)')

#: Who attacks: a sentence that has one before the match reports it. Not before a colon (see the module).
_ATTACK = re.compile(
    r"\b(?:attack(?:s|ers?|ed|ing)?|adversar(?:y|ies|ial)|injections?|phishing|phish|"
    r"malicious|scam(?:s|mers?)?|fraud(?:ster)?s?|"
    r"spoofed|jailbreaks?|poison(?:ed|ing)?|suspicious|hidden text|exploit(?:s|ed)?|social "
    r"engineering|untrusted|hackers?|"
    r"red[- ]team\w{0,4}|nobody (?:will|would|should)|no one (?:will|would|should)|beware|"
    r"watch out|spam(?:mers?)?)\b"
    # the same words elsewhere
    + fold(
        r"|\b(?:ataques?|atacantes?|estafas?|attaques?|attaquants?|arnaques?|angriffe?|angreifer|"
        r"betrug\w{0,4}|attacc\w{1,4}|truff\w{1,3}|"
        r"golpes?|aanval\w{0,3}|oplicht\w{1,4}|atak\w{0,3}|oszust\w{1,3}|saldır\w{1,6}|"
        r"dolandır\w{1,6}|inyección|injektion|iniezione|injeção)\b"
        r"|атак|мошенн|фишинг|злоумышл|攻击|钓鱼|诈骗|注入|攻撃|詐欺|フィッシング|インジェクション|공격|피싱|사기|هجوم|احتيال|"
        r"تصيد|हमल|धोखाधड़ी|फ़िशिंग"
    )
)
_AFTER = re.compile(
    r"\b(?:is (?:a |an )?(?:classic |typical |common |known )?(?:attack|prompt injection|"
    r"injection|jailbreak|scam|phishing|"
    r"red flag)|(?:was|were|is|are|must be|should be|got) (?:blocked|refused|rejected|"
    r"reported|filtered|caught|a scam|"
    r"an attack|false|fake)|do not (?:follow|obey|comply|believe)|don't (?:follow|obey|comply|fall for))\b"
)
_STOPS = (". ", "! ", "? ", "; ", "。", "।")
_NEAR = 120


def excused(copy: str, match: re.Match[str], rule: Rule) -> bool:
    """Whether the match does not count."""
    start, end = match.span()
    begin = _sentence_start(copy, start)
    before = copy[begin:start]
    if rule.excuse is not None and before and rule.excuse.search(before):
        return True
    reported = _ATTACK.search(before) if before else None
    if reported is not None and ":" not in before[reported.end() :]:
        return True
    return quoted(copy, start, end)


def quoted(copy: str, start: int, end: int) -> bool:
    """Whether the span stands in a quotation, and the text near the quotation talks about it."""
    if '"' not in copy and "'" not in copy:
        return False
    # A quotation is at most 400 characters, so one that holds the match starts at most that far before it.
    for quotation in QUOTATION.finditer(copy, max(0, start - 420), min(len(copy), end + 420)):
        if quotation.start() <= start and end <= quotation.end() + 1:
            before = copy[max(0, quotation.start() - _NEAR) : quotation.start()]
            after = copy[quotation.end() : quotation.end() + _NEAR]
            around = before + " " + after
            return any(sign.search(around) for sign in (MENTION, _ATTACK)) or bool(_AFTER.search(after))
    return False


def talks_about_attacks(copy: str) -> bool:
    """Whether the text quotes or names attacks: a statistical score means less there."""
    return _ATTACK.search(copy) is not None or (
        ('"' in copy or "'" in copy)
        and QUOTATION.search(copy) is not None
        and MENTION.search(copy) is not None
    )


def _sentence_start(copy: str, position: int) -> int:
    low = max(0, position - 2 * _NEAR)
    return max([low, *(copy.rfind(stop, low, position) + len(stop) for stop in _STOPS if stop in copy)])
