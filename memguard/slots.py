"""What a text says is so, as slots: whose attribute, of which kind, with which value. No model.

Two texts contradict each other where both fill the same slot and no value of the one fits any of the other.
Distance of embeddings does not find that ("lives in Berlin" is nearer to "lives in Munich" than to a
paraphrase), so this looks at few forms of sentence and only at values that can be compared: accounts, e-mail
addresses, links, telephone numbers, dates, times, numbers with the same unit, and short names for attributes that
have one value at a time. It is built to be silent when in doubt.

Pure functions, linear in the text: sentences and repeats are bounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memguard.slotvalues import compatible, value_of

#: Characters of a text, and sentences of it, that are looked at.
MAX_CHARS, MAX_SENTENCES = 4_000, 60

# Not behind a title, which ends in a full stop of its own.
_SENTENCE = re.compile(r"(?<=[.!?;])(?<!\bdr\.)(?<!\bmr\.)(?<!\bms\.)(?<!\bmrs\.)\s+|[\n\r]+")
_ADVERB = r"(?: (?:now|currently|actually|always|still|since|today|as of [\w -]{1,20}?))?"
_VALUE = r" ?(?P<value>.{1,100})"
# What stands between a subject and its value; the subject is the words before it.
_CHANGED = re.compile(
    r"(?: (?:has|have|was|were|is|are|been|just)){0,3} (?:changed|moved|updated|switched|set|reset|renamed)"
    rf"(?: over)?(?: from .{{1,60}}?)? to{_VALUE}"
)
_IS = re.compile(rf"(?: (?:is|are|will be|has become)\b| ?[:=] ){_ADVERB}{_VALUE}")
#: "X is paid to B", and "pay X to B": the value must be an account.
_PAID = re.compile(
    r" (?:is|are|must be|should be|will be|to be|gets?)(?: now| always)? "
    rf"(?:paid|sent|wired|transferred|remitted|settled)(?: (?:in)?to| via)(?: the)?{_VALUE}"
)
_PAY = re.compile(
    r"\b(?:pay|send|wire|transfer|remit|settle) (?P<subject>[^,;:]{1,120}?) (?:in)?to (?P<value>.{1,100})"
)
#: Verbs with one value at a time, present tense only: what was so may have been so.
_VERBS = (
    (re.compile(rf" (?:lives?|resides?|is living|am living){_ADVERB} (?:in|at){_VALUE}"), "lives"),
    (re.compile(rf" (?:works?|is employed){_ADVERB} (?:at|for|by){_VALUE}"), "works"),
    (re.compile(rf" (?:was|were) born (?:on|in){_VALUE}"), "born"),
    (re.compile(rf" (?:is|are) married to{_VALUE}"), "spouse"),
)
_SUBJECT_WORD = re.compile(r"[\w'’&@./-]{1,40}")
_SUBJECT_WORDS = 8

#: Attributes that have one value at a time, so that two names for one contradict each other.
_ATTRIBUTES = frozenset(
    "name surname nickname username address city town country hometown birthplace employer company bank doctor "
    "dentist landlord supplier vendor manager boss spouse wife husband partner capital ceo owner timezone server "
    "host database branch region currency airline hotel insurer broker lawyer accountant school university "
    "nationality language recipient beneficiary approver contact lives works born".split()
)
_SAME = {
    "iban": "account", "acct": "account", "bank account": "account", "payee account": "account",
    "telephone": "phone", "mobile": "phone", "cell": "phone", "cellphone": "phone",
    "e-mail": "email", "mail": "email", "dob": "birthday", "birthdate": "birthday",
    "due": "deadline", "website": "site", "homepage": "site", "url": "site", "link": "site", "wallet": "account",
}  # fmt: skip
_DROPPED = frozenset(
    "the a an my our your user users i me we mine of for to at in on by from and number no details detail new old "
    "current latest correct actual official preferred main primary own updated now also please note that remember "
    "user's confirmed confirms says said".split()
)
#: Beside an account these words name the same thing.
_PAYMENT = frozenset(
    "payment payments invoice invoices bank transfer transfers payout payouts refund refunds all every any future "
    "money fund funds supplier vendor billing remittance pay".split()
)
# Who or what they mean is outside the sentence.
_ELSEWHERE = frozenset(
    "he she they it this these those there who what which his her their its him them one someone everyone "
    "everything nothing something here".split()
)
#: A line without one of these says nothing that can be compared; most lines have none.
_WORTH = re.compile(
    r"\d|@|://|\b(?:live|lives|living|reside|resides|work|works|employed|born|married|"
    + "|".join(sorted(_ATTRIBUTES))
    + r"|site|website|url|link|homepage)\b"
)
_QUESTION = re.compile(r"\?\s*$|^(?:what|who|where|when|which|how|is|are|does|do|if)\b")
_NOT = re.compile(r"^(?:not|no longer|never|n't|neither)\b")
_VERSION = re.compile(r"[-_.:/ ]?(?:v\d{1,3}|new|old|latest|current|updated|copy|final)$")


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing that is said to be so: the words that name it, the kind of its value, and the value."""

    about: frozenset[str]
    kind: str
    value: tuple[Any, ...]


def plain(text: str) -> str:
    """The text for comparing: compatibility forms, lower case, without invisible characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        return folded
    return "".join(c for c in folded if unicodedata.category(c) != "Cf")


def slots_of(text: str) -> tuple[Slot, ...]:
    """What the text says is so. Questions, negations and subjects that stand elsewhere say nothing."""
    found: dict[Slot, None] = {}
    for sentence in _SENTENCE.split(plain(text[:MAX_CHARS]))[:MAX_SENTENCES]:
        line = re.sub(r"\s+", " ", sentence).strip(" -*•>|")[:400]
        if _WORTH.search(line) and not _QUESTION.search(line):
            found.update(dict.fromkeys(_said(line)))
    return tuple(found)


def field_slots(key: str, fields: Mapping[str, Any]) -> tuple[Slot, ...]:
    """Slots of a structured value: its short scalar members, under its key without a word for a version.

    Keys with a number are members of a series ("turn-7") or mean nothing (a UUID), and are no name of one thing.
    """
    stem = _VERSION.sub("", plain(key)) or plain(key)
    if not stem or any(char.isdigit() for char in stem):
        return ()
    found = []
    for name, value in list(fields.items())[:50]:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            continue
        text = plain(str(value))[:100]
        kind = value_of(
            text, names=any(word in _ATTRIBUTES for word in re.split(r"[\W_]+", plain(str(name))))
        )
        if kind is not None:
            found.append(Slot(frozenset((f"key {stem}", f"field {plain(str(name))}")), *kind))
    return tuple(found)


def contradiction(left: Iterable[Slot], right: Sequence[Slot]) -> Slot | None:
    """The first slot of ``left`` that ``right`` fills otherwise, None if there is none."""
    for slot in left:
        others = [s for s in right if s.about == slot.about and s.kind == slot.kind]
        if others and not any(compatible(slot.kind, slot.value, other.value) for other in others):
            return slot
    return None


def _said(line: str) -> Iterator[Slot]:
    for pattern, verb in _VERBS:
        yield from _first(pattern, line, verb)
    yield from _first(_PAID, line, "account", only="account")
    if match := _PAY.search(line):
        yield from _slot(match["subject"], match["value"], "account", only="account")
    yield from _first(_CHANGED, line) or _first(_IS, line)


def _first(pattern: re.Pattern[str], line: str, verb: str = "", only: str = "") -> tuple[Slot, ...]:
    match = pattern.search(line, 1)
    if match is None:
        return ()
    words: list[str] = []
    for word in reversed(line[max(0, match.start() - 41 * _SUBJECT_WORDS) : match.start()].split(" ")):
        if len(words) == _SUBJECT_WORDS or not _SUBJECT_WORD.fullmatch(word):
            break
        words.append(word)
    return tuple(_slot(" ".join(reversed(words)), match["value"], verb, only)) if words else ()


def _slot(subject: str, value: str, verb: str = "", only: str = "") -> Iterator[Slot]:
    said = value.strip()
    if _NOT.match(said):
        return
    about = _about(subject, verb)
    if about is None:
        return
    found = value_of(said, names=bool(about & _ATTRIBUTES))
    if found is None or (only and found[0] != only):
        return
    if found[0] == "account":
        about = frozenset(word for word in about if word not in _PAYMENT) | {"account"}
    yield Slot(about, *found)


def _about(subject: str, verb: str) -> frozenset[str] | None:
    """The words that name what is spoken of; None if it stands elsewhere, or if nothing is left."""
    words: list[str] = []
    for raw in re.split(r"[ ,]+", subject):
        word = re.sub(r"(?:'s|’s|s'|s’)$", "", raw.strip("'’.-"))
        if word in _ELSEWHERE:
            return None
        if word and word not in _DROPPED:
            words.append(_SAME.get(word, word))
    if verb and verb not in words:
        words.append(verb)
    return frozenset(words) if words else None
