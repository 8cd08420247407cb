"""Recalled text: whether a new record came out of one that is trusted less, and who else says the same.

What a guarded store holds below user trust is remembered as keyed digests of its passages, per owner and
bounded. When the same words are written again under another source (an assistant that quotes a web page, a
user's name on a pasted text), the new record is derived from the old one, whatever it is declared to be.

Short phrases are everybody's: a passage counts from ``min_words`` words on, a whole record from half of that.
Digests go into ``home/state.db`` too, so that other processes know them. Whoever may write the home can make
the guard forget those (never what this process saw); nothing there can raise trust.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import unicodedata
from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final, NamedTuple

from memguard.context import current_principal
from memguard.integrity.canonical import frame
from memguard.ports import KeyRing
from memguard.recalled import Digests
from memguard.record import INHERITED, Lineage, Parent, Provenance, Record, Scope, Source, Trust, inherited
from memguard.settings import Config
from memguard.sources import Sources
from memguard.statedb import State

#: Words of a shingle.
WIDTH: Final = 5
#: So much of a record counts as all of it, wherever it stands in a longer one.
_NEARLY: Final = 0.8
#: Characters of a text that are looked at.
LONGEST: Final = 100_000
#: Characters of one that is kept as read, and shingles that are held in all: each takes some hundred bytes.
_KEPT, _HELD = 20_000, 1_000_000
#: Owners whose agreement is remembered, and statements of each.
_STATEMENTS: Final = 4096
#: Witnesses of a statement, parents of a record, holders of a shingle, and texts lately read, that are kept.
_WITNESSES, _PARENTS, _SHARED, _TEXTS = 64, 16, 31, 512
# Scripts without spaces are read letter by letter; everything else by runs of letters and digits.
_WORD: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\\W_]+"
)
_PLAIN: Final = re.compile("[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """The words of a text, so that two spellings of one text give the same: width, case and signs are gone."""
    text = text[:LONGEST]
    if text.isascii():
        return _PLAIN.findall(text.lower())
    text = unicodedata.normalize("NFKC", text)
    if not text.isprintable():
        text = "".join([c for c in text if unicodedata.category(c) != "Cf"])
    return _WORD.findall(text.casefold())


@dataclass(slots=True, eq=False)
class _Known:
    parent: Parent
    #: Where that record was from: it may be gone when somebody asks what came out of it.
    origins: tuple[Parent, ...]
    #: Whose own word it is; empty for what came out of another record, which is nobody's.
    source: str
    #: Hashes of its shingles, keyed by the process and never kept beyond it; none until it is worth to have them.
    shingles: tuple[int, ...] = ()


@dataclass(slots=True)
class _Run:
    places: list[int]
    row: int = 0
    longest: int = 0

    def add(self, at: int) -> None:
        """One more shingle, in the order of the text."""
        self.row = self.row + 1 if self.places and self.places[-1] == at - 1 else 1
        self.longest = max(self.longest, self.row)
        self.places.append(at)

    @property
    def total(self) -> int:
        """Shingles in common."""
        return len(self.places)


class _Text(NamedTuple):
    """What is compared of a text: a digest of the whole, and its shingles in order."""

    whole: bytes
    shingles: tuple[int, ...]


_UNREAD: Final = _Text(b"", ())


class Recall:
    """The memory of one home for text that it holds. Threads may share it.

    Args:
        keys: digests are keyed, so that nobody can look a text up in them.
        path: ``state.db``, or where else the home's tables are; None keeps nothing for other processes.
        config: ``[guards.recall]`` and ``[guards.corroboration]`` say what is remembered.
        below: what is trusted less than this is remembered.
    """

    def __init__(
        self,
        keys: KeyRing,
        path: str | os.PathLike[str] | State | None,
        config: Config,
        *,
        below: Trust = Trust.USER,
    ) -> None:
        self._key = keys.subkey("recall", keys.ids[0])
        self._sources = Sources(config)
        self._settings, self._below = config.guards.recall, below
        policy = config.guards.corroboration
        self._agreeing = policy.sources > 0 and bool(config.attested or policy.among == "declared")
        self._mutex = threading.Lock()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        #: Shingle, keyed with its owner, to the records that hold it.
        self._holders: dict[int, _Known | tuple[_Known, ...]] = {}
        #: Those that hold shingles, the ones that were noted longest ago first, and how many they hold together.
        self._deep: dict[_Known, None] = {}
        self._count = 0
        #: Digest of a statement to who said it: source to provenance.
        self._said: OrderedDict[bytes, dict[str, Provenance]] = OrderedDict()
        self._digests = Digests(path, self._key, self._settings.stored)
        self._texts: dict[tuple[str, Scope], _Text | None] = {}

    # -- asking ------------------------------------------------------------------------------------

    def attached(self, record: Record) -> Record:
        """The record as the write chain must see it: with what it came out of as further parents.

        ``data["recalled"]`` names those, ``data["repeated"]`` says that it is such a record once more, and
        ``data["agreeing"]`` has the provenance of others that say the same.
        A source that signs speaks for itself, whoever said it before.
        """
        who = record.source
        signed = who.signature is not None and self._sources.registry.of(who.kind, who.id) is not None
        level = Trust.SYSTEM if record.source.kind == "summary" else self._sources.trust_of(record.source)
        if level is Trust.UNTRUSTED or self._idle():
            return record
        texts = self._read(record)
        if not texts:
            return record
        data: dict[str, Any] = {}
        found, repeated = ((), False) if signed else self._sources_of(texts, str(record.source), level)
        if repeated:
            data["repeated"] = True
        if found:
            data["recalled"] = found
            known = {parent.id for parent in record.lineage.parents if parent.trust is not None}
            extra = [parent for parent in found if parent.id not in known]
            record = replace(record, lineage=Lineage.of(*record.lineage.parents, *extra))
        if self._agreeing and (said := self._said.get(texts[0].whole)):
            data["agreeing"] = tuple(said.values())
        return replace(record, data={**record.data, **data}) if data else record

    def _idle(self) -> bool:
        """Whether nothing is known that a text could have come out of, here or in another process."""
        if self._known or self._said:
            return False
        with self._mutex:
            return self._digests.empty()

    def _sources_of(
        self, texts: tuple[_Text, ...], source: str, level: Trust
    ) -> tuple[tuple[Parent, ...], bool]:
        """The records below its own level that this text came out of, and whether it is one of them whole.

        Whoever says it again does not have it from himself.
        """
        found: dict[str, _Known] = {}
        repeated = False
        with self._mutex:
            for text in texts:
                holders, whole = self._found(text, source)
                repeated = repeated or whole
                for holder in holders:
                    before = found.get(holder.parent.id, holder)
                    found[holder.parent.id] = min(before, holder, key=lambda h: _level(h.parent).rank)
        lower = [holder for holder in found.values() if _level(holder.parent) < level]
        least_first = sorted(lower, key=lambda h: (_level(h.parent).rank, h.parent.id))[:_PARENTS]
        parents = {holder.parent.id: holder.parent for holder in least_first}
        origins: dict[str, Parent] = {}
        for origin in (origin for holder in least_first for origin in holder.origins):
            if origin.id not in parents:
                origins.setdefault(origin.id, origin)
        return (*parents.values(), *list(origins.values())[:INHERITED]), repeated

    def _found(self, text: _Text, source: str) -> tuple[list[_Known], bool]:
        """The same for one owner's text, whatever their level."""
        found: dict[str, _Known] = {}
        least, share = max(1, self._settings.min_words - WIDTH + 1), self._settings.share
        known = self._known.get(text.whole)
        if known is not None and known.source != source:
            found[known.parent.id] = known
        common = self._holders.keys() & text.shingles
        if len(common) >= least:
            runs = self._runs(text.shingles, common, source)
            passages = {holder: run for holder, run in runs.items() if run.longest >= least}
            for holder, run in passages.items():
                mine, its = share * len(text.shingles), _NEARLY * len(holder.shingles)
                if run.total >= min(mine, its):
                    found.setdefault(holder.parent.id, holder)
            # Several records, none of which is the large part alone.
            covered = len({at for run in passages.values() for at in run.places})
            if not found and covered >= share * len(text.shingles):
                found = {holder.parent.id: holder for holder in passages}
        stored = None
        if known is None and not found and (stored := self._digests.find(text.whole, source)) is not None:
            found[stored.id] = _Known(stored, (), "")  # digests of other processes name the record alone
        return list(found.values()), known is not None or stored is not None

    def _runs(self, shingles: tuple[int, ...], common: set[int], source: str) -> dict[_Known, _Run]:
        """For each record of another source, which of the shingles it holds, and how many of them in a row."""
        runs: dict[_Known, _Run] = {}
        for at, shingle in enumerate(shingles):
            if shingle in common:
                held = self._holders[shingle]
                for holder in held if isinstance(held, tuple) else (held,):
                    if holder.source != source:
                        runs.setdefault(holder, _Run([])).add(at)
        return runs

    # -- noting ------------------------------------------------------------------------------------

    def note(self, record: Record, trust: Trust, *, stored: bool = False) -> None:
        """Remember what was stored or served at this level; with ``stored``, for other processes too."""
        if trust >= self._below and not self._agreeing:
            return
        texts = self._read(record)
        if not texts:
            return
        if trust >= Trust.TOOL and self._agreeing and not record.lineage:
            self._agree(texts[0].whole, record.source, trust)  # what was derived is nobody's own word
        if trust >= self._below:
            return
        # What is merely stored is known as a whole; its passages once it is served, or if it is worth nothing.
        deep = not stored or trust < Trust.UNKNOWN
        with self._mutex:
            for text in texts:
                self._enter(text, record, trust, deep=deep, stored=stored)

    def _enter(self, text: _Text, record: Record, trust: Trust, *, deep: bool, stored: bool) -> None:
        entry = self._known.get(text.whole)
        if entry is None or (entry.parent.trust or Trust.UNKNOWN) > trust:
            self._forget(text.whole)
            said = Provenance(record.source, record.lineage, trust)
            parent, *origins = inherited(said, key=record.key)
            # Who said what another one had said first may say it again, and it is not theirs then either.
            own = "" if record.lineage else str(record.source)
            entry = self._known[text.whole] = _Known(parent, tuple(origins), own)
            while len(self._known) > self._settings.records:
                self._forget(next(iter(self._known)))
            if stored and trust < Trust.UNKNOWN:
                self._digests.keep(text.whole, parent, entry.source)
        else:
            self._known.move_to_end(text.whole)
        if entry.shingles:
            self._deep[entry] = self._deep.pop(entry)
        elif deep:
            self._hold(entry, text.shingles)

    def _hold(self, entry: _Known, shingles: tuple[int, ...]) -> None:
        entry.shingles, holders = tuple(set(shingles)), self._holders
        if not entry.shingles:
            return
        self._deep[entry] = None
        self._count += len(entry.shingles)
        while self._count > _HELD and len(self._deep) > 1:
            self._drop(next(iter(self._deep)))
        for shingle in entry.shingles:
            held = holders.setdefault(shingle, entry)
            if held is not entry:
                others = held if isinstance(held, tuple) else (held,)
                holders[shingle] = (*others[-_SHARED:], entry)

    def _forget(self, whole: bytes) -> None:
        entry = self._known.pop(whole, None)
        if entry is not None and entry in self._deep:
            self._drop(entry)

    def _drop(self, entry: _Known) -> None:
        """Hold its passages no longer."""
        del self._deep[entry]
        self._count -= len(entry.shingles)
        holders = self._holders
        for shingle in entry.shingles:
            held = holders.get(shingle)
            if held is entry:
                del holders[shingle]
            elif isinstance(held, tuple):
                left = tuple(holder for holder in held if holder is not entry)
                if left:
                    holders[shingle] = left
                else:
                    del holders[shingle]
        entry.shingles = ()

    def _agree(self, whole: bytes, source: Source, trust: Trust) -> None:
        with self._mutex:
            said = self._said.pop(whole, {})
            if len(said) < _WITNESSES:
                said = {**said, str(source): Provenance(Source(source.kind, source.id), trust=trust)}
            self._said[whole] = said
            while len(self._said) > _STATEMENTS:
                self._said.popitem(last=False)

    def _read(self, record: Record) -> tuple[_Text, ...]:
        """What is compared of a record, for each whose it is: its place's owner, and the principal in force.

        A run stores in places that say whose they are and in others that do not, and copies between them.
        """
        who = current_principal()
        if who is None or who.scope == record.scope:
            text = self._text(record.content, record.scope)
            return () if text is None else (text,)
        both = self._text(record.content, record.scope), self._text(record.content, who.scope)
        return tuple(text for text in both if text is not None)

    def _text(self, content: str, scope: Scope) -> _Text | None:
        """What is compared of a text; None for one that is too short. Kept, because texts come again."""
        place = (content, scope)
        known = self._texts.get(place, _UNREAD)
        if known is not _UNREAD:
            return known
        words = words_of(content)
        made: _Text | None = None
        if len(words) * 2 >= self._settings.min_words:
            owner = _owner(scope)
            said = frame(owner, " ".join(words).encode("utf-8", "surrogatepass"))
            whole = hashlib.blake2b(said, key=self._key, digest_size=16, person=b"whole").digest()
            of_owner = repeat(hash(owner))
            runs = zip(of_owner, words, words[1:], words[2:], words[3:], words[4:])  # noqa: B905 - the shortest ends it
            made = _Text(whole, tuple(map(hash, runs)))
        if len(self._texts) >= _TEXTS:
            self._texts.clear()
        if len(content) <= _KEPT:
            self._texts[place] = made
        return made

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            self._digests.close()


def _level(parent: Parent) -> Trust:
    return parent.trust or Trust.UNKNOWN


def _owner(scope: Scope) -> bytes:
    return frame(
        *(
            b"" if part is None else b"=" + part.encode("utf-8", "surrogatepass")
            for part in (scope.tenant, scope.user)
        )
    )
