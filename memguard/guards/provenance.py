"""Provenance: how far a record may be trusted, from where it comes and what it was made from.

The level of a source is policy (``[sources]``; the longest matching pattern wins). A source that is registered
(``[attested]``) must sign: a label of it without a good signature is forged and worth nothing. A derived record
is worth the minimum over its parents, and a summary has no worth of its own; text that came out of a record
is derived from it, whoever writes it again. Independent sources that say the same may lift a record to a
ceiling; the same source saying it again never does. On a read the stored level is never raised: policy may have
lowered the source since, and then the record follows.

Only the guard writes labels. A label that arrives inside a payload is an attempt to write one: it is
ignored, the record is worth nothing, and a flag says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Self

from memguard.attested import REPLAYED, Verdict, level_of
from memguard.decision import Decision, Disposition, Evidence
from memguard.errors import UnsupportedError
from memguard.guard import Effect, Fetch, GuardContext, Spend, Stage, Steps
from memguard.guards.corroboration import Agreement
from memguard.record import Provenance as Declared
from memguard.record import Record, Source, Trust
from memguard.settings import Attested, Config
from memguard.sources import Sources

FORGED = "MG301"
TOO_MANY = "MG302"
#: Evidence of a record that came out of another one, and of one that others confirmed.
RECALLED, CONFIRMED = "MG310", "MG311"


def _forged(code: str, reason: str, seen: str) -> Decision:
    return Decision(
        Disposition.FLAG,
        reason,
        code,
        evidence=(Evidence(code, seen),),
        score=1.0,
        guard="provenance",
        trust=Trust.UNTRUSTED,
    )


_CLAIMED = _forged(
    FORGED,
    "the payload brings a label of its own, which only the guard may write",
    "a memguard label inside the payload was ignored",
)


class Provenance:
    """Assigns trust on a write and holds it down on a read. Keeps no state."""

    name = "provenance"
    stages = (Stage.WRITE, Stage.READ)
    #: What it says on a read follows from label, scope, validity and data alone, whatever the content.
    by_label = True

    def __init__(self, config: Config) -> None:
        self._sources = Sources(config)
        self._registry = self._sources.registry
        self._agreement = Agreement(config.guards.corroboration, self._registry)
        self._max_parents = config.guards.limits.max_parents

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard with a configuration's levels, registered sources and limits."""
        return cls(config)

    def decide(self, record: Record, ctx: GuardContext) -> Decision | Steps:
        """The record's trust; asks for its parents' only if it does not have them yet."""
        if ctx.stage is Stage.READ:
            return self._held_down(record)
        if record.data.get("claims"):
            return _CLAIMED
        entry = self._registry.of(record.source.kind, record.source.id)
        if entry is not None:
            return self._attested(record, entry, ctx)
        if not record.lineage and not record.data:
            return Decision(guard=self.name, trust=self._sources.trust_of(record.source))
        return self._judged(record, self._sources.trust_of(record.source))

    def trust_of(self, source: Source) -> Trust:
        """The level that policy gives a source."""
        return self._sources.trust_of(source)

    def _held_down(self, record: Record) -> Decision:
        """On a read: at most what was stored, and at most what its source is worth today."""
        stored = record.trust or Trust.UNKNOWN
        # Parents were looked up when it was written; a source without own worth adds nothing now.
        # What an operator said of this one record outlives what is said of its source.
        if record.source.kind == "summary" or record.data.get("granted") is True:
            return Decision(guard=self.name, trust=stored)
        return Decision(guard=self.name, trust=self.held(record.source, stored))

    def held(self, source: Source, stored: Trust) -> Trust:
        """A stored level, held down to what its source is worth today; one that others confirmed may be above that."""
        level = self.trust_of(source)
        if stored > level and self._agreement.may_have_lifted(source, level, stored):
            return stored
        return min(stored, level)

    def _attested(
        self, record: Record, entry: Attested, ctx: GuardContext
    ) -> Generator[Effect, Any, Decision]:
        verdict = self._registry.verify(record, entry, ctx.now)
        if not verdict.code:
            try:
                new = yield Spend(verdict.place, verdict.at, verdict.signature)
            except UnsupportedError:  # nobody here remembers what was used: nothing can be called new
                new = False
            if new is not True:
                verdict = Verdict(REPLAYED, "its signature was used before at this place")
        if verdict.code:
            return _forged(verdict.code, verdict.reason, "a label that its source did not sign is forged")
        return (yield from self._judged(record, level_of(entry)))

    def _judged(self, record: Record, level: Trust) -> Generator[Effect, Any, Decision]:
        """What a record of a source of this level is worth, after its parents and those who agree."""
        evidence: list[Evidence] = []
        levels = [] if record.lineage and record.source.kind == "summary" else [level]
        recalled = record.data.get("recalled", ())
        if recalled:
            levels += [parent.trust or Trust.UNKNOWN for parent in recalled]
            evidence.append(Evidence(RECALLED, "its text came out of a record that is trusted less"))
        if record.lineage:
            levels += yield from self._parents(record, evidence)
        trust = Trust.least(levels) or Trust.UNKNOWN
        if not record.lineage and (lifted := self._agreement.lifted(record, trust)) is not None:
            trust, count = lifted
            evidence.append(Evidence(CONFIRMED, f"{count} independent sources say the same"))
        return Decision(guard=self.name, trust=trust, evidence=tuple(evidence))

    def _parents(self, record: Record, evidence: list[Evidence]) -> Generator[Effect, Any, list[Trust]]:
        parents = record.lineage.parents
        levels = [parent.trust for parent in parents if parent.trust is not None]
        missing = tuple(parent.id for parent in parents if parent.trust is None)
        asked = missing[: self._max_parents]
        if asked:
            # A parent that nobody can show is of unknown origin, however its child was declared.
            try:
                found: Mapping[str, Declared] = yield Fetch(asked)
            except UnsupportedError:  # no store here to look in
                found = {}
            levels += [found[i].trust or Trust.UNKNOWN if i in found else Trust.UNKNOWN for i in asked]
        if len(missing) > len(asked):
            evidence.append(
                Evidence(TOO_MANY, "it has more parents than are looked up; the rest count as unknown")
            )
            levels.append(Trust.UNKNOWN)
        return levels
