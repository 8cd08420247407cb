"""The sanitizer: does a memory give orders, hide text, or pose as somebody it is not?

Two tiers look at a normalised copy of the text. The lexical rules of :mod:`memguard.guards.rules` are matched
against the copy, against its other readings (letters joined, digits as letters, backwards) and against what it
holds in an encoding: a decoded text is judged like a visible one. The statistical tier scores the same texts.
The decision is the most severe finding. A match that is quoted, reported as an attack or forbidden does not count.

The statistical tier alone never withholds, however high the score: it flags. From its ``quarantine`` threshold on it
withholds what a rule flags as well. Measured on the corpora, withholding on the score alone added 1 % of one source
to what the rules withhold, and cost whole kinds of honest text that training had not seen.

A ``rewrite`` cuts the matched spans out and keeps the rest; where nothing is left, or a span has no place in
the text, it becomes a quarantine.

Limits (``[guards.limits]``): ``max_chars`` characters are looked at, the first half from the start and the
rest from the end; what is longer is flagged, because nobody has read its middle. ``max_decoded``,
``max_decode_depth`` and ``max_pieces`` bound decoding, ``max_evidence`` what is kept. Patterns have bounded
repeats, so time is linear in the characters looked at.

Modes (``[guards.sanitizer] rules``), by code: ``off`` does not look, ``observe`` reports what it would have done,
a disposition replaces the rule's own.

Codes MG203 to MG245 are the rules; MG230 is text in invisible characters, MG251 the statistical tier, MG290 more
text than the limit, MG291 text that is not valid Unicode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.guard import GuardContext, Stage
from memguard.guards.decoding import Budget, Piece, decoded
from memguard.guards.lookalikes import unmix
from memguard.guards.normal import hidden_spans, normalise, place
from memguard.guards.respelling import readings
from memguard.guards.rules import ALL, Rule
from memguard.guards.rules.context import talks_about_attacks
from memguard.guards.rules.files import read_rules
from memguard.guards.rules.table import Table
from memguard.record import Record
from memguard.settings import Config, Mode

HIDDEN, STATISTICAL, TOO_LONG, NOT_UNICODE = "MG230", "MG251", "MG290", "MG291"
#: What says nothing of what a text asks for.
_NO_RULE = frozenset({STATISTICAL, TOO_LONG, NOT_UNICODE, "MG249"})
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Cuts of one rewrite; what still matches after them is withheld instead.
_MAX_CUTS = 50


class Scorer(Protocol):
    """What the sanitizer asks of the statistical tier (:mod:`memguard.guards.statistical`)."""

    @property
    def flag(self) -> float:
        """The score from which on a text is flagged."""
        ...

    @property
    def quarantine(self) -> float:
        """The score from which on it is withheld if a rule flags it too."""
        ...

    def score(self, text: str) -> float:
        """How much a normalised text is worded like poison, in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: evidence, what it calls for, and whether that is only reported."""

    disposition: Disposition
    evidence: Evidence
    observed: bool = False


class Sanitizer:
    """Both tiers over one record at a time. Keeps no state, so results do not depend on order.

    Args:
        rules: the lexical rules, the built-in ones by default.
        statistical: the statistical tier, or None for the rules alone.
        modes: what a code may do, by code, where it differs from its rule.
        budget: the limits of decoding.
        max_chars: characters of one text that are looked at.
        max_evidence: pieces of evidence kept.
    """

    name = "sanitizer"
    stages = (Stage.WRITE,)

    def __init__(
        self,
        rules: Sequence[Rule] = ALL,
        *,
        statistical: Scorer | None = None,
        modes: Mapping[str, Mode] | None = None,
        budget: Budget | None = None,
        max_chars: int = 100_000,
        max_evidence: int = 20,
    ) -> None:
        self._modes = dict(modes or {})
        self._table = Table([rule for rule in rules if self._modes.get(rule.code) != "off"])
        self._scorer = statistical
        self._budget = budget or Budget()
        self._max_chars = max_chars
        self._max_evidence = max_evidence

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard with a configuration's rules, tiers and limits.

        Raises:
            ConfigError: MG107, a rule file or a mode of a rule is wrong.
        """
        limits, options = config.guards.limits, config.guards.sanitizer
        rules = ALL + read_rules(options.rules_files)
        modes: dict[str, Mode] = dict(options.rules)
        scorer = _scorer(config)
        if options.statistical == "observe":
            modes.setdefault(STATISTICAL, "observe")
        return cls(
            rules,
            statistical=None if modes.get(STATISTICAL) == "off" else scorer,
            modes=modes,
            budget=Budget(limits.max_decoded, limits.max_decode_depth, limits.max_pieces),
            max_chars=limits.max_chars,
            max_evidence=limits.max_evidence,
        )

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        """What both tiers say about the record's text."""
        found = self._corroborated(list(self.findings(record.content)))
        if not found:
            return Decision(guard=self.name)
        rewritten: str | None = None
        if any(f.disposition is Disposition.REWRITE for f in found):
            rewritten = self._without(record.content)
            if rewritten is None:
                found = [
                    replace(f, disposition=Disposition.QUARANTINE)
                    if f.disposition is Disposition.REWRITE
                    else f
                    for f in found
                ]
        enforced = [f for f in found if not f.observed]
        worst = max(enforced or found, key=_severity)
        does = worst.disposition if enforced else Disposition.ALLOW
        full = max(found, key=_severity).disposition
        return Decision(
            does,
            worst.evidence.reason,
            worst.evidence.rule,
            evidence=tuple(finding.evidence for finding in found[: self._max_evidence]),
            score=worst.evidence.score,
            guard=self.name,
            would=full if full.rank > does.rank else None,
            rewritten=rewritten if does is Disposition.REWRITE else None,
        )

    def findings(self, content: str) -> Iterator[Finding]:
        """Everything found, rule by rule, the first match of each."""
        if len(content) > self._max_chars:
            half = self._max_chars // 2
            windows = [(0, content[:half]), (len(content) - half, content[-half:])]
            yield from self._finding(Disposition.FLAG, TOO_LONG, "longer than the sanitizer reads", None, 0.5)
        else:
            windows = [(0, content)]
        seen: set[str] = set()
        for offset, text in windows:
            for finding in self._window(text, offset):
                if finding.evidence.rule not in seen or offset:
                    seen.add(finding.evidence.rule)
                    yield finding

    def _corroborated(self, found: list[Finding]) -> list[Finding]:
        """The findings, a score above ``quarantine`` flagging only where no enforced rule stands beside it."""
        if self._modes.get(STATISTICAL, "enforce") not in ("enforce", "observe"):
            return found  # an explicit disposition
        if any(not f.observed and f.evidence.rule not in _NO_RULE for f in found):
            return found
        return [
            replace(f, disposition=Disposition.FLAG) if f.evidence.rule == STATISTICAL else f for f in found
        ]

    def _window(self, text: str, offset: int) -> Iterator[Finding]:
        hidden = hidden_spans(text)
        for start, end in hidden[:1]:
            span = (start + offset, end + offset)
            yield from self._finding(
                Disposition.QUARANTINE, HIDDEN, "text in characters that nobody sees", span, 0.95
            )
        if not text.isascii() and (bad := _SURROGATE.search(text)):
            span = (bad.start() + offset, bad.end() + offset)
            yield from self._finding(
                Disposition.FLAG, NOT_UNICODE, "text that is not valid Unicode", span, 0.5
            )
        copy = unmix(normalise(text))
        yield from self._visible(text, copy, offset, hidden)
        for other in readings(text, copy):
            yield from self._other(unmix(other), (offset, offset + len(text)))
        for piece in decoded(text, self._budget):
            yield from self._piece(piece, offset)

    def _visible(
        self, text: str, copy: str, offset: int, hidden: Sequence[tuple[int, int]]
    ) -> Iterator[Finding]:
        for rule, match in self._table.matches(copy, _written(text)):
            start, end = place(text, *match.span())
            # Nobody writes an order in invisible characters by accident.
            unseen = any(a < end and start < b for a, b in hidden)
            yield from self._finding(
                Disposition.REJECT if unseen else rule.disposition,
                rule.code,
                rule.reason,
                (start + offset, end + offset),
                rule.score,
            )
        yield from self._scored(copy, None)

    def _piece(self, piece: Piece, offset: int) -> Iterator[Finding]:
        span = (piece.span[0] + offset, piece.span[1] + offset)
        copy = unmix(normalise(piece.text))
        yield from self._other(copy, span)
        for other in readings(piece.text, copy):
            yield from self._other(unmix(other), span)

    def _other(self, copy: str, span: tuple[int, int]) -> Iterator[Finding]:
        for rule, _ in self._table.matches(copy):
            # A part of an encoded text cannot be cut out, so it is not rewritten.
            disposition = (
                Disposition.QUARANTINE if rule.disposition is Disposition.REWRITE else rule.disposition
            )
            yield from self._finding(disposition, rule.code, rule.reason, span, rule.score)
        yield from self._scored(copy, span)

    def _scored(self, copy: str, span: tuple[int, int] | None) -> Iterator[Finding]:
        if self._scorer is None:
            return
        score = self._scorer.score(copy)
        if score < self._scorer.flag:
            return
        withhold = score >= self._scorer.quarantine
        # Lessons about attacks are worded like attacks: there the score counts one step less.
        if talks_about_attacks(copy):
            if not withhold:
                return
            withhold = False
        yield from self._finding(
            Disposition.QUARANTINE if withhold else Disposition.FLAG,
            STATISTICAL,
            "worded like memories that were planted",
            span,
            score,
        )

    def _finding(
        self,
        disposition: Disposition,
        code: str,
        reason: str,
        span: tuple[int, int] | None,
        score: float,
    ) -> Iterator[Finding]:
        """The finding as the mode of its code has it."""
        mode = self._modes.get(code, "enforce")
        if mode == "off":
            return
        if mode not in ("enforce", "observe"):
            disposition = Disposition(mode)
        yield Finding(disposition, Evidence(code, reason, span, score), mode == "observe")

    def _without(self, content: str) -> str | None:
        """The text without what the rewriting findings point at; None if that leaves nothing or has no end."""
        for _ in range(_MAX_CUTS):
            spans = sorted(
                f.evidence.span
                for f in self.findings(content)
                if f.disposition is Disposition.REWRITE and f.evidence.span is not None and not f.observed
            )
            if not spans:
                return content.strip() or None
            start, end = spans[-1]
            if start == end or end - start >= len(content):
                return None
            content = content[:start] + content[end:]
        return None


def _severity(finding: Finding) -> tuple[int, float]:
    return finding.disposition.rank, finding.evidence.score


def _written(text: str) -> Callable[[int, int], str] | None:
    """How a span of the copy is written in the text; None for a text that has no capitals."""
    if text == text.lower():
        return None
    return lambda start, end: text[slice(*place(text, start, end))]


def _scorer(config: Config) -> Scorer | None:
    """The statistical tier as configured, with the deployment's own thresholds where it was calibrated."""
    options = config.guards.sanitizer
    if options.statistical == "off":
        return None
    from memguard.guards import statistical  # its weights are read only where they are used

    scorer = statistical.load(config.guards.limits.statistical_chars)
    own = options.calibration
    return scorer if own is None else replace(scorer, flag=own.flag, quarantine=own.quarantine)
