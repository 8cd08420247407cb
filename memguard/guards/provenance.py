"""Provenance: how far a record may be trusted, from where it comes and what it was made from.

The level of a source is policy (``[sources]``; the longest matching pattern wins). A derived record
is worth the minimum over its parents, and a summary has no worth of its own. On a read the stored level
is never raised: policy may have lowered the source since, and then the record follows.

Only the guard writes labels. A label that arrives inside a payload is an attempt to write one: it is
ignored, the record is worth nothing, and a flag says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.errors import UnsupportedError
from memguard.guard import Fetch, GuardContext, Stage, Steps
from memguard.record import Provenance as Declared
from memguard.record import Record, Source, Trust
from memguard.settings import Config, Level

FORGED = "MG301"
TOO_MANY = "MG302"

_FORGED = Decision(
    Disposition.FLAG,
    "the payload brings a label of its own, which only the guard may write",
    FORGED,
    evidence=(Evidence(FORGED, "a memguard label inside the payload was ignored"),),
    score=1.0,
    guard="provenance",
    trust=Trust.UNTRUSTED,
)


class Provenance:
    """Assigns trust on a write and holds it down on a read. Keeps no state."""

    name = "provenance"
    stages = (Stage.WRITE, Stage.READ)

    def __init__(self, sources: Mapping[str, Level], *, max_parents: int = 256) -> None:
        self._level = lru_cache(maxsize=4096)(_Levels(sources))
        self._max_parents = max_parents

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard with a configuration's levels and limits."""
        return cls(config.sources, max_parents=config.guards.limits.max_parents)

    def decide(self, record: Record, ctx: GuardContext) -> Decision | Steps:
        """The record's trust; asks for its parents' only if it does not have them yet."""
        if ctx.stage is Stage.READ:
            level = self.trust_of(record.source)
            # Parents were looked up when it was written; a source without own worth adds nothing now.
            known = [record.trust or Trust.UNKNOWN]
            if record.source.kind != "summary":
                known.append(level)
            return Decision(guard=self.name, trust=Trust.least(known))
        if record.data.get("claims"):
            return _FORGED
        if not record.lineage:
            return Decision(guard=self.name, trust=self.trust_of(record.source))
        return self._derived(record)

    def trust_of(self, source: Source) -> Trust:
        """The level that policy gives a source."""
        return self._level(source.kind, source.id)

    def _derived(self, record: Record) -> Generator[Fetch, Any, Decision]:
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
        if record.source.kind != "summary":
            levels.append(self.trust_of(record.source))
        trust = Trust.least(levels)
        if len(missing) > len(asked):
            limit = Evidence(TOO_MANY, "it has more parents than are looked up; the rest count as unknown")
            trust = min(trust or Trust.UNKNOWN, Trust.UNKNOWN)
            return Decision(guard=self.name, trust=trust, evidence=(limit,))
        return Decision(guard=self.name, trust=trust)


class _Levels:
    """Policy as a function of kind and id; patterns are tried longest first."""

    def __init__(self, sources: Mapping[str, Level]) -> None:
        self._rules = [(p, Trust(sources[p])) for p in sorted(sources, key=lambda p: (-len(p), p))]

    def __call__(self, kind: str, ident: str) -> Trust:
        text = f"{kind}:{ident}"
        for pattern, level in self._rules:
            # Of the wildcards only "*" is meant: "[" and "?" occur in URLs.
            if pattern == text or fnmatchcase(text, _literal(pattern)):
                return level
        return Trust.UNKNOWN


def _literal(pattern: str) -> str:
    return pattern.replace("[", "[[]").replace("?", "[?]")
