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

from memguard.attested import Registry, folded
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
            is_user = source.kind == "user"
            marks = (
                {f"user {folded(source.id)}"} if is_user else {f"site {site}" for site in sites_of(source.id)}
            )
            if entry is not None:
                marks.add(f"key {entry.public_key}")
            if not marks & taken:
                taken |= marks
                count += 1
        return count


def sites_of(ident: str) -> set[str]:
    """The sites that an id may be of: of a URL the last two labels of its host; of any other id its first word, and
    those labels if it reads like a host."""
    text = unicodedata.normalize("NFKC", ident).casefold()
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        host = ""
    labels = [label for label in host.split(".") if label]
    found = {".".join(labels[-2:])} if "://" in text or len(labels) > 1 else set()
    if "://" not in text:
        found.add(next((word for word in _FIRST.split(text) if word), ""))
    return found
