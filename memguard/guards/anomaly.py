"""Anomaly: how a new memory stands against those that its scope holds, and what a judge says of it.

Signals: it nearly repeats another one (MG261), it is far from everything the scope is about (MG262), its
source writes much faster than ever (MG263), its source is new (MG264), it contradicts what a trusted record
says (MG265), a judge model calls it poison (MG266). One of the first four alone is evidence and nothing
more: honest memories repeat, wander, come in bursts and begin somewhere. Two of drift, burst and a new
source together, from a source below user trust, are a flag; so is a contradiction by a record that is
trusted less. Only the judge, which is off by default, may withhold.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.errors import UnsupportedError
from memguard.guard import Ask, Compare, Embed, GuardContext, Stage, Standing
from memguard.judge.question import question_about, verdict_of
from memguard.record import Record, Trust, text_of
from memguard.settings import Anomaly as Settings
from memguard.settings import Config
from memguard.slots import slots_of

REPEATS, DRIFTS, BURSTS, NEW_SOURCE, CONTRADICTS, JUDGED = (
    "MG261",
    "MG262",
    "MG263",
    "MG264",
    "MG265",
    "MG266",
)


class Anomaly:
    """Statistics of a scope's own history, by embedding, and optionally a judge. Keeps no state itself."""

    name = "anomaly"
    stages = (Stage.WRITE,)

    def __init__(self, settings: Settings, *, judged: bool = False, max_chars: int = 100_000) -> None:
        self._settings, self._judged, self._max_chars = settings, judged, max_chars

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard with a configuration's thresholds; it asks the judge if one is configured."""
        return cls(
            config.guards.anomaly, judged=config.judge is not None, max_chars=config.guards.limits.max_chars
        )

    def decide(self, record: Record, ctx: GuardContext) -> Generator[Any, Any, Decision]:
        """Embed, compare, and if a judge is configured ask it."""
        text = text_of(record.content)[: self._max_chars]
        trust = record.trust or Trust.UNKNOWN
        found = (yield from self._statistics(record, text, trust, ctx)) if text.strip() else ()
        suspicious = {item.rule for item in found} & {DRIFTS, BURSTS, NEW_SOURCE}
        contradicts = any(item.rule == CONTRADICTS for item in found)
        score = max((item.score for item in found), default=0.0)
        if self._judged and text.strip():
            opinion = yield Ask(
                "anomaly", question_about(text, str(record.source)), self._settings.judge_tokens
            )
            poison, confidence = verdict_of(opinion)
            if poison and confidence >= self._settings.judge_confidence:
                judged = Evidence(JUDGED, "the judge model calls it poison", score=confidence)
                return self._answer(Disposition.QUARANTINE, judged, (*found, judged))
        below = trust < Trust.USER
        if contradicts and below:
            first = next(item for item in found if item.rule == CONTRADICTS)
            return self._answer(Disposition.FLAG, first, found)
        if len(suspicious) > 1 and below:
            worst = max((item for item in found if item.rule in suspicious), key=lambda item: item.score)
            return self._answer(Disposition.FLAG, worst, found)
        return Decision(evidence=found, score=score, guard=self.name)

    def _answer(self, what: Disposition, why: Evidence, found: tuple[Evidence, ...]) -> Decision:
        return Decision(what, why.reason, why.rule, evidence=found, score=why.score, guard=self.name)

    def _statistics(
        self, record: Record, text: str, trust: Trust, ctx: GuardContext
    ) -> Generator[Any, Any, tuple[Evidence, ...]]:
        try:
            where, trusted = (record.store, record.scope), trust >= Trust.USER
            slots = slots_of(text)
            if trusted:  # nothing that it could show would count against it
                asked = Compare(*where, None, record.source, trusted, slots, ctx.now)
                if not (yield asked).wanted:
                    return ()
            (vector,) = yield Embed((text,))
            seen: Standing = yield Compare(*where, tuple(vector), record.source, trusted, slots, ctx.now)
        except UnsupportedError:  # neither embedder nor history here: mg.check outside of a home
            return ()
        return tuple(self._signals(seen))

    def _signals(self, seen: Standing) -> Generator[Evidence]:
        limits = self._settings
        if seen.nearest is not None and seen.nearest >= limits.near_duplicate:
            yield Evidence(REPEATS, "it nearly repeats a memory of its scope", score=min(1.0, seen.nearest))
        if seen.count >= limits.warm_up:
            if seen.drift >= limits.drift:
                yield Evidence(
                    DRIFTS, "it is far from what its scope is about", score=min(1.0, seen.drift / 10)
                )
            if not seen.known_source:
                yield Evidence(NEW_SOURCE, "its source never wrote to this scope before", score=0.2)
        if seen.burst >= limits.burst and seen.burst >= 3 * seen.usual:
            yield Evidence(BURSTS, "its source writes much faster than it ever did", score=0.4)
        if seen.contradicts:
            # The slot's name is content: only that there is one is said.
            yield Evidence(CONTRADICTS, "a trusted memory says otherwise of the same thing", score=0.6)
