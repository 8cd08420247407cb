"""The vault: withheld writes, sealed to the review key, counted by the anchor, limited by age and number.

Why a full vault refuses and never makes room: whoever can have writes withheld could push everything before
them out by writing more. So nothing waiting is destroyed to make place for something newer; only age and an
operator end an entry. Sources of low trust may fill only a share of the places (:data:`SHARES`), so a flood
of them leaves room for what a person's own writes lose to a false alarm. A refused write raises, so its
caller knows; nothing is lost unseen.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memguard.anchorlog import AnchorLog
from memguard.decision import Decision
from memguard.errors import ConfigError, RejectedError
from memguard.events import Event, QuarantinePurged
from memguard.ports import KeyRing
from memguard.quarantine.book import PLACE, Row, Tables
from memguard.quarantine.entry import (
    DROPPED,
    PURGED,
    RELEASED,
    WAITING,
    Entry,
    Indexer,
    Kept,
    is_exact,
)
from memguard.quarantine.review import Opening, Sealing
from memguard.quarantine.standing import Standing, name_of, number
from memguard.record import FIRST_HAND, Lineage, Source, Trust, did_you_mean, text_of
from memguard.settings import Quarantine as Settings
from memguard.statedb import State

#: The share of the places that entries of a trust level and below may fill together.
SHARES: Mapping[Trust, float] = MappingProxyType(
    {Trust.UNTRUSTED: 0.5, Trust.UNKNOWN: 0.75, Trust.TOOL: 0.75, Trust.USER: 1.0, Trust.SYSTEM: 1.0}
)
_DAY = 86_400.0
#: Seconds between two looks of :meth:`Vault.keep` for entries past their age.
_LOOK = 60.0


class Vault:
    """Withheld writes of one home. Threads and processes may share it.

    Args:
        database: path of state.db, or where else the home's tables are.
        settings: the table ``[quarantine]`` of the configuration.
        emit: is told of what is destroyed.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        database: Path | State,
        keys: KeyRing,
        log: AnchorLog,
        settings: Settings,
        *,
        emit: Callable[[Event], None] = lambda event: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self._emit, self._clock = settings, emit, clock
        self._arguments = (database, keys, log, clock)
        self._made: Tables | None = None
        self._mutex = threading.Lock()
        self._sealing = Sealing(settings.review_public)
        self._standing, self._looked = Standing(), float("-inf")
        self.index = Indexer(keys, settings.max_digests)

    @property
    def tables(self) -> Tables:
        """The two tables, opened when something is first withheld or looked for."""
        with self._mutex:
            if self._made is None:
                self._made = Tables(*self._arguments)
            return self._made

    # -- keeping -----------------------------------------------------------------------------

    def keep(
        self,
        store: str,
        context: str,
        key: str,
        value: Any,
        decision: Decision,
        *,
        source: Source,
        trust: Trust,
        lineage: Lineage = FIRST_HAND,
        ttl: float | None = None,
        index: Any = None,
    ) -> str:
        """Seal a withheld write. Only the review key reads it back.

        The very same write (place, value, source) that waits already is counted there and not kept again.

        Returns:
            The entry's id.

        Raises:
            ConfigError: MG341, there is no review key to seal it to.
            RejectedError: MG345, the vault is full for this trust level; nothing is kept.
            IntegrityError: acts are missing at the end of the log, or, at first use in a process, anything is not
                as it was left. (Later edits of older entries are found by whoever looks, and stop no write.)
        """
        exact = is_exact(value)
        kept = Kept(
            value if exact else text_of(value),
            exact,
            context,
            key,
            source,
            trust,
            lineage,
            ttl,
            index if index is None or index is False else list(index),
            decision.as_dict(),
        )
        plain = kept.encode()
        sealed = self._sealing.seal(plain)
        digests = self.index.of(store, kept, plain)
        with self.tables.writing(whole=False):
            if self._clock() - self._looked > _LOOK:
                self._expire()
            standing = self._stand()
            again = standing.waiting.get(digests.body)
            if again is not None:
                self.tables.add([(again, "again", "", "")])
                return name_of(again)
            self._room(standing, len(sealed), trust)
            row = Row(
                self.tables.next,
                store,
                self.index.pseudonym(store, context),
                _plain(decision.code),
                _plain(decision.reason),
                _plain(decision.guard),
                str(source),
                str(trust),
                repr(float(decision.score)),
                repr(self._clock()),
                digests.place,
                digests.like,
                json.dumps(digests.content),
                digests.body,
                self._sealing.public or "",
                hashlib.sha256(sealed).hexdigest(),
                len(sealed),
            )
            self.tables.keep(row, sealed, "")
        return name_of(row.seq)

    def _room(self, standing: Standing, size: int, trust: Trust) -> None:
        """Refuse a write for which there is no place."""
        count = sum(n for level, n in standing.count.items() if level <= trust)
        held = sum(n for level, n in standing.size.items() if level <= trust)
        share, settings = SHARES[trust], self.settings
        if count + 1 <= settings.max_entries * share and held + size <= settings.max_bytes * share:
            return
        raise RejectedError(
            "a guard withheld a write, and the quarantine has no place for it: it was refused.",
            code="MG345",
            where="quarantine",
            why=f"{count} entries of trust {trust} and below hold {held} bytes; they may fill {share:.0%} of "
            "max_entries and max_bytes. Nothing older is destroyed to make room.",
            do="Review what waits: memguard quarantine list; drop --purge frees its place at once.",
        )

    # -- looking -----------------------------------------------------------------------------

    def entries(self, state: str | None = WAITING) -> list[Entry]:
        """What may be seen of the entries, oldest first.

        Args:
            state: waiting, released, dropped or purged; None for all.

        Raises:
            IntegrityError: the vault is not as it was left.
        """
        with self.tables.reading():
            found = list(self._states().values())
        return [entry for entry in found if state is None or entry.state == state]

    def entry(self, id: str) -> Entry:
        """One entry.

        Raises:
            ConfigError: MG347, there is none of that id.
        """
        with self.tables.reading():
            states = self._states()
        found = states.get(number(id))
        if found is None:
            near = did_you_mean(id, [e.id for e in states.values()][-20:]) if states else ""
            raise ConfigError(f"there is no quarantined entry {id[:40]!r}", code="MG347", do=near)
        return found

    def open(self, id: str, opening: Opening) -> Kept:
        """The record as it was.

        Raises:
            ConfigError: MG347, no such entry; MG348, its content was destroyed.
            UnknownKeyError: MG343, sealed to another review key.
            TamperedError: MG344, MG346.
        """
        entry = self.entry(id)
        row = self.tables.entries[number(id)]
        sealed = self.tables.sealed(row.seq)
        if entry.state == PURGED or sealed is None:
            raise ConfigError(
                f"the content of {id} was destroyed; what is left is a stub.",
                code="MG348",
                where=id,
                why=f"By {entry.by or 'age'}, {entry.note or 'no reason given'}.",
            )
        if hashlib.sha256(sealed).hexdigest() != row.digest:
            sealed = b""  # opens to nothing: the error says so
        return Kept.decode(opening.open(row.public, sealed, id), id)

    def find(
        self, *, text: str | None = None, place: tuple[str, str, str] | None = None, source: str | None = None
    ) -> list[str]:
        """Ids of entries with content, found by keyed digest or metadata, with nothing opened.

        Args:
            text: the whole text of an entry, or one whole string in it (parts of strings are not indexed).
            place: store, context id and key of the record.
            source: exactly this one.
        """
        wanted = self.index.every(text) if text is not None else set()
        places = self.index.places(*place) if place is not None else set()
        with self.tables.reading():
            states = self._states()
            rows = self.tables.entries
            return [
                entry.id
                for seq, entry in states.items()
                if entry.state != PURGED
                and (text is None or wanted & {rows[seq].like, *json.loads(rows[seq].content)})
                and (place is None or rows[seq].place in places)
                and (source is None or entry.source == source)
            ]

    def _stand(self) -> Standing:
        """Every entry as the acts left it. Only with the tables checked."""
        self._standing.follow(self.tables)
        return self._standing

    def _states(self) -> dict[int, Entry]:
        """The entries with how many say the same. Only with the tables checked."""
        standing = self._stand()
        rows, likes = self.tables.entries, standing.likes
        return {seq: replace(e, like=likes[rows[seq].like]) for seq, e in standing.entries.items()}

    # -- acting ------------------------------------------------------------------------------

    def act(
        self, ids: Iterable[str], verb: str, by: str, note: str = "", *, only: tuple[str, ...] = ()
    ) -> list[Entry]:
        """Add one act to several entries; all or none.

        Args:
            verb: release, drop, undo or purge.
            only: states that the entries must be in.

        Raises:
            ConfigError: MG347 for an unknown id, MG349 for an entry in another state.
        """
        wanted = list(dict.fromkeys(ids))
        for id in wanted:
            self.entry(id)  # says which one is unknown
        with self.tables.writing():
            states = self._states()
            for id in wanted:
                if only and states[number(id)].state not in only:
                    raise ConfigError(
                        f"{id} is {states[number(id)].state}; {verb} is for entries that are {' or '.join(only)}.",
                        code="MG349",
                        where=id,
                        do=f"memguard quarantine show {id} tells who did that and when.",
                    )
            self.tables.add([(number(id), verb, by, note) for id in wanted])
            states = self._states()
            return [states[number(id)] for id in wanted]

    def expire(self) -> int:
        """Destroy the content of entries past their age; how many. Called by every keep and every list."""
        with self.tables.writing():
            return self._expire()

    def _expire(self) -> int:
        now = self._looked = self._clock()
        late: list[tuple[int, str, str, str]] = []
        unseen: list[str] = []
        for seq, entry in self._states().items():
            if entry.state == WAITING and now - entry.time > self.settings.max_age_days * _DAY:
                late.append((seq, "expire", "", f"waited {self.settings.max_age_days:g} days"))
                unseen.append(entry.id)
            elif entry.state in (RELEASED, DROPPED) and now - entry.changed > self.settings.undo_days * _DAY:
                late.append((seq, "purge", entry.by, f"{entry.state} {self.settings.undo_days:g} days ago"))
        if late:
            self.tables.add(late)
        if unseen:
            self._emit(QuarantinePurged(tuple(unseen), "age"))
        return len(late)

    def rekey(self) -> None:
        """After a rotation: everything under the current key. Does nothing where nothing was ever withheld."""
        _, keys, log, _ = self._arguments
        known = log.head(PLACE)
        if known is not None and (known[0] != keys.current or known[1].horizon):
            self.tables.rekey()

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            made, self._made = self._made, None
        if made is not None:
            made.close()


def _plain(text: str) -> str:
    """Text that a database can hold."""
    return text.encode("utf-8", "backslashreplace").decode()
