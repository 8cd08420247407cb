"""The sanitizer: does a memory give orders, hide text, or pose as somebody it is not?

It matches the rules of :mod:`memguard.guards.rules` against a normalised copy; what it decides is the
most severe of what matched. A match inside a quotation that the text around it talks about is no order
and does not count.

Limits (``[guards.limits]``): ``max_chars`` characters are looked at, the first half from the start and the
rest from the end; what is longer is flagged, because nobody has read its middle. ``max_evidence`` pieces of
evidence are kept. Patterns have bounded repeats, so time is linear in the characters looked at.

Codes MG203 to MG213 are the rules; MG230 is text in invisible characters, MG290 more text than the limit,
MG291 text that is not valid Unicode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.guard import GuardContext, Stage
from memguard.guards.normal import hidden_spans, normalise, place
from memguard.guards.rules import MENTION, QUOTATION, RULES, Rule
from memguard.record import Record
from memguard.settings import Config

HIDDEN, TOO_LONG, NOT_UNICODE = "MG230", "MG290", "MG291"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: evidence, and what it calls for."""

    disposition: Disposition
    evidence: Evidence


class Sanitizer:
    """Lexical rules over one record at a time. Keeps no state, so results do not depend on order."""

    name = "sanitizer"
    stages = (Stage.WRITE,)

    def __init__(
        self, rules: tuple[Rule, ...] = RULES, *, max_chars: int = 100_000, max_evidence: int = 20
    ) -> None:
        self._rules = rules
        self._max_chars = max_chars
        self._max_evidence = max_evidence

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard with a configuration's limits."""
        limits = config.guards.limits
        return cls(max_chars=limits.max_chars, max_evidence=limits.max_evidence)

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        """What the rules say about the record's text."""
        findings = list(self.findings(record.content))
        if not findings:
            return Decision(guard=self.name)
        worst = max(findings, key=lambda f: (f.disposition.rank, f.evidence.score))
        return Decision(
            worst.disposition,
            worst.evidence.reason,
            worst.evidence.rule,
            evidence=tuple(finding.evidence for finding in findings[: self._max_evidence]),
            score=worst.evidence.score,
            guard=self.name,
        )

    def findings(self, content: str) -> Iterator[Finding]:
        """Everything found, rule by rule, the first match of each."""
        if len(content) > self._max_chars:
            half = self._max_chars // 2
            windows = [(0, content[:half]), (len(content) - half, content[-half:])]
            yield _finding(Disposition.FLAG, TOO_LONG, "longer than the sanitizer reads", None, 0.5)
        else:
            windows = [(0, content)]
        for offset, text in windows:
            yield from self._window(text, offset)

    def _window(self, text: str, offset: int) -> Iterator[Finding]:
        hidden = hidden_spans(text)
        for start, end in hidden[:1]:
            span = (start + offset, end + offset)
            yield _finding(Disposition.QUARANTINE, HIDDEN, "text in characters that nobody sees", span, 0.95)
        if not text.isascii() and (bad := _SURROGATE.search(text)):
            span = (bad.start() + offset, bad.end() + offset)
            yield _finding(Disposition.FLAG, NOT_UNICODE, "text that is not valid Unicode", span, 0.5)
        copy = normalise(text)
        for rule in self._rules:
            if not any(word in copy for word in rule.words):
                continue
            match = next((m for m in rule.compiled.finditer(copy) if not _talked_about(copy, m)), None)
            if match is None:
                continue
            start, end = place(text, *match.span())
            # Nobody writes an order in invisible characters by accident.
            unseen = any(a < end and start < b for a, b in hidden)
            yield _finding(
                Disposition.REJECT if unseen else rule.disposition,
                rule.code,
                rule.reason,
                (start + offset, end + offset),
                rule.score,
            )


def _finding(
    disposition: Disposition, code: str, reason: str, span: tuple[int, int] | None, score: float
) -> Finding:
    return Finding(disposition, Evidence(code, reason, span, score))


def _talked_about(copy: str, match: re.Match[str]) -> bool:
    """Whether the match stands in a quotation, and the text near the quotation talks about it."""
    # A quotation is at most 400 characters, so one that holds the match starts at most that far before it.
    begin, end = max(0, match.start() - 420), min(len(copy), match.end() + 420)
    for quoted in QUOTATION.finditer(copy, begin, end):
        if quoted.start() <= match.start() and match.end() <= quoted.end():
            around = (
                copy[max(0, quoted.start() - 120) : quoted.start()]
                + " "
                + copy[quoted.end() : quoted.end() + 120]
            )
            return MENTION.search(around) is not None
    return False
