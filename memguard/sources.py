"""What a source is worth by policy: its registration's level if it signs, else the longest pattern that matches it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from memguard.attested import Registry, folded, level_of
from memguard.record import Source, Trust
from memguard.settings import Config


class Sources:
    """The levels of one configuration. Immutable; threads may share it."""

    def __init__(self, config: Config) -> None:
        self.registry = Registry(config.attested)
        levels = config.sources
        # Of the wildcards only "*" is meant: "[" and "?" occur in URLs.
        self._rules = [
            (p.replace("[", "[[]").replace("?", "[?]"), p, Trust(levels[p]))
            for p in sorted(levels, key=lambda p: (-len(p), p))
        ]
        self._alike = [(folded(literal), level) for literal, _, level in self._rules]
        self._level = lru_cache(maxsize=4096)(self._of)

    def trust_of(self, source: Source) -> Trust:
        """The level of what a source says. Whether it said it is another question."""
        return self._level(source.kind, source.id)

    def _of(self, kind: str, ident: str) -> Trust:
        entry = self.registry.of(kind, ident)
        if entry is not None:
            return level_of(entry)
        text = f"{kind}:{ident}"
        found = next(
            (level for rule, pattern, level in self._rules if pattern == text or fnmatchcase(text, rule)),
            Trust.UNKNOWN,
        )
        # A name that looks like one that is trusted less is worth no more than that one.
        plain = folded(text)
        alike = next((level for rule, level in self._alike if fnmatchcase(plain, rule)), found)
        return min(found, alike)
