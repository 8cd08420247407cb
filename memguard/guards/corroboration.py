"""Corroboration: when several sources that do not hang together say the same, the record may be trusted more.

Bounded by ``[guards.corroboration]``: to a ceiling, from ``tool`` on, for sources that sign (or, if so
configured, for tools and users by name). One source that repeats itself counts once, and so do sources of one
site or one key. What was derived from something is nobody's own word and counts for nobody.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from memguard.attested import Registry
from memguard.record import Provenance, Record, Source, Trust
from memguard.settings import Corroboration

#: Kinds that can be witnesses by their declared name alone.
_BY_NAME = ("tool", "user")
_FIRST = re.compile(r"[^\w]+")


class Agreement:
    """The policy of one configuration. Keeps no state: who agrees comes with the record."""

    def __init__(self, settings: Corroboration, registry: Registry) -> None:
        self._needed, self._registry = settings.sources, registry
        self._by_name = settings.among == "declared"
        self._ceiling = Trust(settings.ceiling)

    def lifted(self, record: Record, trust: Trust) -> tuple[Trust, int] | None:
        """The higher level, and how many independent sources (its own included) agree; None for no reason to lift."""
        agreeing: Iterable[Provenance] = record.data.get("agreeing", ())
        if not agreeing or not self._needed or not self._witness(record.source, trust):
            return None
        witnesses = {str(record.source): record.source}
        for other in agreeing:
            if self._witness(other.source, other.trust or Trust.UNKNOWN):
                witnesses[str(other.source)] = other.source
        count = self._independent(witnesses)
        if count < max(2, self._needed) or trust >= self._ceiling:
            return None
        return self._ceiling, count

    def may_have_lifted(self, source: Source, level: Trust, stored: Trust) -> bool:
        """Whether a stored level above the source's own can be such a lift."""
        return bool(self._needed) and stored <= self._ceiling and self._witness(source, level)

    def _witness(self, source: Source, trust: Trust) -> bool:
        if trust < Trust.TOOL:
            return False
        registered = self._registry.of(source.kind, source.id) is not None
        return registered or (self._by_name and source.kind in _BY_NAME and bool(source.id))

    def _independent(self, witnesses: Mapping[str, Source]) -> int:
        """How many of them share neither a site nor a key. In the order of their names, so that it is one number."""
        taken: set[str] = set()
        count = 0
        for name in sorted(witnesses):
            source = witnesses[name]
            entry = self._registry.of(source.kind, source.id)
            # A user is not a site: two of them are two people.
            site = f"user {source.id}" if source.kind == "user" else f"site {site_of(source.id)}"
            marks = {site} if entry is None else {site, f"key {entry.public_key}"}
            if not marks & taken:
                taken |= marks
                count += 1
        return count


def site_of(ident: str) -> str:
    """The site of a URL (the last two labels of its host), or the first word of any other id."""
    text = unicodedata.normalize("NFKC", ident).casefold()
    if "://" in text:
        try:
            host = urlsplit(text).hostname or ""
        except ValueError:
            host = ""
        return ".".join(host.rstrip(".").split(".")[-2:])
    return _FIRST.split(text.strip(), maxsplit=1)[0]
