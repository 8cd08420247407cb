"""What is known of the values under channel versions, so that a put need not ask the store what it will show.

PostgresSaver stores a value under (channel, version) once and never replaces it, and a checkpoint shows whatever
stands there. A put must therefore know of every version it names whether a value stands under it, and which. That
follows from the checkpoints that this process read and verified, or wrote; a version that the saver has just drawn
by chance (53 random bits) is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memguard.integrations.langgraph.postgres_rows import Blob

Pair = tuple[str, str]
#: Pairs of (channel, version) that are remembered of one context, and contexts: about 300 bytes a pair.
PAIRS, CONTEXTS = 512, 1024
#: ``get_next_version`` of the saver: a number, and a random fraction.
_DRAWN = re.compile(r"\d{32}\.0\.\d{14,}\Z")


def drawn(version: object) -> bool:
    """Whether a version was drawn by the saver, so that no value can stand under it yet."""
    return isinstance(version, str) and _DRAWN.match(version) is not None


class Book:
    """The values of one context, as of one horizon: deletions take values away."""

    __slots__ = ("_known", "horizon")

    def __init__(self, horizon: bytes) -> None:
        self.horizon = horizon
        self._known: dict[Pair, Blob | None] = {}

    def __contains__(self, pair: object) -> bool:
        return pair in self._known

    def get(self, pair: Pair) -> Blob | None:
        """What stands under a channel's version: None if nothing does."""
        return self._known.get(pair)

    def learn(self, found: Mapping[Pair, Blob | None]) -> None:
        """Note what a true checkpoint says. What was learned first goes first."""
        known = self._known
        known.update(found)
        while len(known) > PAIRS:
            known.pop(next(iter(known)), None)

    def missing(self, wanted: Iterable[Pair]) -> list[Pair]:
        """Those of which nothing is known."""
        return [pair for pair in wanted if pair not in self._known]


class Books:
    """The books of one store."""

    def __init__(self) -> None:
        self._books: dict[str, Book] = {}

    def of(self, context: str, horizon: bytes) -> Book:
        """The book of a context; a new one where something was deleted since."""
        book = self._books.get(context)
        if book is None or book.horizon != horizon:
            book = self._books[context] = Book(horizon)
            if len(self._books) > CONTEXTS:
                self._books.pop(next(iter(self._books)), None)
        return book

    def forget(self) -> None:
        """Something was deleted by this process."""
        self._books.clear()
