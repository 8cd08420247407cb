"""Values that can be compared: which kind a text begins with, its canonical form, and whether two fit."""

from __future__ import annotations

import re
from typing import Any

Found = tuple[str, tuple[Any, ...]]

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_WALLET = re.compile(r"\b(?:0x[0-9a-f]{8,64}|bc1[a-z0-9]{8,62})\b")
_IBAN = re.compile(r"\b[a-z]{2}\d{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?\b")
_LINK = re.compile(r"\b(?:https?://)?((?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,12})(?:[/:][^\s]{0,200})?")
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_MONTH = re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?:,? (?P<year>\d{{4}}))?")
_MONTH_DAY = re.compile(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year>\d{{4}}))?")
_TIME = re.compile(r"\b(\d{1,2})(?::(\d{2}))? ?(am|pm|a\.m\.|p\.m\.)|\b(\d{1,2}):(\d{2})\b")
_DIGITS = re.compile(r"\b\d(?:[ -]?\d){7,29}\b")
_PHONE = re.compile(r"\+\d[\d ()-]{6,20}\d|\b\d{3}[ -]\d{3,4}(?:[ -]\d{2,4})?\b")
_NUMBER = re.compile(r"([$€£¥]?) ?(-?\d{1,15}(?:,\d{3})*(?:\.\d{1,9})?)\b ?(%|[a-z]{1,15})?")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_CUT = re.compile(
    r"[,.;:!()\"]|\b(?:and|but|because|since|which|with|until|when|where|so|or|as|who|that|if|from|near|not|for)\b"
)
_TITLE = re.compile(r"^(?:dr|mr|mrs|ms|prof)\. ?")
_ARTICLES = frozenset("the a an my our his her their mr mrs ms dr prof city of".split())
#: Where a value may begin: behind a few words such as "iban" or "the account".
_LEAD = 30


def value_of(text: str, *, names: bool) -> Found | None:
    """Kind and canonical value that a text begins with; None if it begins with none that can be compared.

    Args:
        text: in lower case.
        names: whether a short name counts.
    """
    for pattern, kind in ((_EMAIL, "email"), (_WALLET, "account"), (_IBAN, "account")):
        match = pattern.search(text, 0, 120)
        if match and match.start() <= _LEAD:
            return kind, (match[0].replace(" ", ""),)
    if (date := _date(text)) is not None:
        return "date", date
    if (match := _LINK.search(text)) and match.start() <= 10:
        return "link", (match[1].removeprefix("www."),)
    if (match := _TIME.match(text.removeprefix("at "))) is not None:
        return "time", (_minutes(match),)
    return _numeral(text) or (_name(text) if names else None)


def compatible(kind: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether two values of one kind can both be so."""
    if kind == "date":  # what one of them leaves open does not contradict
        return all(a is None or b is None or a == b for a, b in zip(left, right, strict=True))
    if kind == "name":  # "lisbon" and "lisbon portugal" fit; only what shares no word is another
        return bool(set(left) & set(right))
    if kind in ("phone", "account"):
        a, b = str(left[0]), str(right[0])
        return a.endswith(b) or b.endswith(a)
    return left == right


def _date(text: str) -> tuple[Any, ...] | None:
    head = text[:60]
    if (match := _ISO.search(head)) and match.start() <= _LEAD:
        return int(match[1]), int(match[2]), int(match[3])
    for pattern in (_DAY_MONTH, _MONTH_DAY):
        if (match := pattern.search(head)) and match.start() <= 12:
            year = int(match["year"]) if match["year"] else None
            return year, _MONTHS.index(match["month"][:3]) + 1, int(match["day"])
    return None


def _minutes(match: re.Match[str]) -> int:
    # Half days are left out: "3 pm" and "15:00" fit, and so do "3:00" and "15:00".
    hour, minute = int(match[1] or match[4]), int(match[2] or match[5] or 0)
    return (hour % 12) * 60 + minute


def _numeral(text: str) -> Found | None:
    if (match := _PHONE.search(text)) and match.start() <= 10 and "$" not in match[0]:
        digits = re.sub(r"\D", "", match[0])
        if len(digits) >= 7:
            return (
                ("phone", (digits[-7:],))
                if match[0][0] == "+" or len(digits) < 12
                else ("account", (digits,))
            )
    if (match := _DIGITS.search(text)) and match.start() <= _LEAD:
        return "account", (re.sub(r"\D", "", match[0]),)
    match = _NUMBER.match(re.sub(r"^(?:about |around |only |exactly |at least |at most )", "", text))
    if match is None:
        return None
    unit = (match[1] or match[3] or "").rstrip("s")
    return f"number {unit}", (float(match[2].replace(",", "")),)


def _name(text: str) -> Found | None:
    head = _CUT.split(_TITLE.sub("", text, count=1), maxsplit=1)[0]
    words = [w for w in _WORD.findall(head) if w not in _ARTICLES]
    return ("name", tuple(words)) if 1 <= len(words) <= 3 else None
