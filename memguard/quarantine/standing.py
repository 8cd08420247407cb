"""What the acts of the log make of the entries: their states, counted as they change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from memguard.quarantine.book import Act, Row, Tables
from memguard.quarantine.entry import DROPPED, PURGED, RELEASED, WAITING, Entry
from memguard.record import Trust

#: What an act makes of an entry. ``again`` counts; anything else leaves it as it is.
_BECOMES = {
    "keep": WAITING,
    "undo": WAITING,
    "release": RELEASED,
    "drop": DROPPED,
    "purge": PURGED,
    "expire": PURGED,
}


class Standing:
    """Follows the tables: only acts that are new since the last look are applied.

    Attributes:
        entries: every entry by number, ``like`` not filled in.
        waiting: number of the waiting entry of a body's digest.
        count, size: entries with content and their sealed bytes, by trust.
        likes: entries by the digest of their text.
    """

    def __init__(self) -> None:
        self._epoch, self._done = -1, 0
        self.entries: dict[int, Entry] = {}
        self.waiting: dict[str, int] = {}
        self.count: Counter[Trust] = Counter()
        self.size: Counter[Trust] = Counter()
        self.likes: Counter[str] = Counter()

    def follow(self, tables: Tables) -> None:
        """Take in what the checked tables hold."""
        if tables.epoch != self._epoch:
            self.__init__()  # type: ignore[misc]
            self._epoch = tables.epoch
        for act in tables.acts[self._done :]:
            row = tables.entries.get(act.entry)
            if row is not None:
                self._apply(act, row)
        self._done = len(tables.acts)

    def _apply(self, act: Act, row: Row) -> None:
        entry = self.entries.get(act.entry)
        if entry is None:
            entry = _entry_of(row)
            self.likes[row.like] += 1
            self.count[entry.trust] += 1
            self.size[entry.trust] += row.size
        if act.verb == "again":
            self.entries[act.entry] = replace(entry, times=entry.times + 1)
            return
        state = _BECOMES.get(act.verb, entry.state)
        if state == PURGED and entry.state != PURGED:
            self.count[entry.trust] -= 1
            self.size[entry.trust] -= row.size
        if state == WAITING:
            self.waiting[row.body] = act.entry
        elif self.waiting.get(row.body) == act.entry:
            del self.waiting[row.body]
        withdrawn = float(act.time) if act.verb == "undo" and entry.state == RELEASED else entry.withdrawn
        self.entries[act.entry] = replace(
            entry,
            state=state,
            withdrawn=withdrawn,
            changed=float(act.time),
            by=act.by,
            note=act.note,
            size=0 if state == PURGED else row.size,
        )


def _entry_of(row: Row) -> Entry:
    return Entry(
        name_of(row.seq),
        row.store,
        row.context,
        row.code,
        row.rule,
        row.guard,
        row.source,
        Trust(row.trust),
        float(row.score),
        float(row.time),
    )


def name_of(seq: int) -> str:
    """The id of an entry by its number."""
    return f"q-{seq:04d}"


def number(id: str) -> int:
    """The number of an entry by its id; -1 for what is no id."""
    text = id.strip().removeprefix("q-")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else -1
