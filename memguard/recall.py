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
import hmac
import os
import re
import sqlite3
import threading
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memguard.integrity.canonical import frame
from memguard.ports import KeyRing
from memguard.record import Lineage, Parent, Provenance, Record, Scope, Source, Trust
from memguard.settings import Guards

#: Words of a shingle.
WIDTH: Final = 5
#: Characters of a text that are looked at.
LONGEST: Final = 20_000
#: Owners whose agreement is remembered, and statements of each.
_STATEMENTS: Final = 4096
# Scripts without spaces are read letter by letter; everything else by runs of letters and digits.
_WORD: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]|[^\\W_]+"
)
_SCHEMA: Final = """CREATE TABLE IF NOT EXISTS recalled (digest BLOB PRIMARY KEY, record TEXT NOT NULL,
    trust TEXT NOT NULL, source BLOB NOT NULL, tag BLOB NOT NULL) WITHOUT ROWID"""
_FIND: Final = "SELECT record, trust, source, tag FROM recalled WHERE digest = ?"
_KEEP: Final = "INSERT OR REPLACE INTO recalled VALUES (?, ?, ?, ?, ?)"
_DROP: Final = "DELETE FROM recalled WHERE digest IN (SELECT digest FROM recalled ORDER BY digest LIMIT ?)"
_BATCH: Final = 256


def words_of(text: str) -> list[str]:
    """The words of a text, so that two spellings of one text give the same: width, case and signs are gone."""
    text = text[:LONGEST]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join([c for c in text if unicodedata.category(c) != "Cf"])
    return _WORD.findall(text.casefold())


@dataclass(slots=True)
class _Known:
    parent: Parent
    source: str
    shingles: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Counts:
    """What passed: records looked at, those that came out of another one, and those that repeated one whole."""

    records: int = 0
    recalled: int = 0
    repeated: int = 0


class Recall:
    """The memory of one home for text that it holds. Threads may share it.

    Args:
        keys: digests are keyed, so that nobody can look a text up in them.
        path: ``state.db``; None keeps nothing for other processes.
        settings: ``[guards]`` of the configuration.
        below: what is trusted less than this is remembered.
    """

    def __init__(
        self,
        keys: KeyRing,
        path: str | os.PathLike[str] | None,
        settings: Guards,
        *,
        below: Trust = Trust.USER,
    ) -> None:
        self._key = keys.subkey("recall", keys.ids[0])
        self._settings, self._below = settings.recall, below
        self._agreeing = settings.corroboration.sources > 0
        self._mutex = threading.Lock()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        #: Shingle, keyed with its owner, to the records that hold it.
        self._holders: dict[bytes, list[_Known]] = {}
        #: Digest of a statement to who said it: source to provenance.
        self._said: OrderedDict[bytes, dict[str, Provenance]] = OrderedDict()
        self._path = None if path is None or not self._settings.stored else os.fspath(path)
        self._conn: sqlite3.Connection | None = None
        self._count = -1
        self.counts = Counts()

    # -- asking ------------------------------------------------------------------------------------

    def attached(self, record: Record) -> Record:
        """The record as the write chain must see it: with what it came out of as further parents.

        ``data["recalled"]`` names those, ``data["agreeing"]`` the provenance of others that say the same.
        """
        words = words_of(record.content)
        counts = self.counts
        if len(words) * 2 < self._settings.min_words:
            self.counts = replace(counts, records=counts.records + 1)
            return record
        owner = _owner(record.scope)
        found, repeated = self._sources_of(owner, words, record)
        self.counts = Counts(counts.records + 1, counts.recalled + bool(found), counts.repeated + repeated)
        data = dict(record.data)
        if found:
            data["recalled"] = found
            known = {parent.id for parent in record.lineage.parents if parent.trust is not None}
            extra = [parent for parent in found if parent.id not in known]
            record = replace(record, lineage=Lineage.of(*record.lineage.parents, *extra))
        if self._agreeing:
            with self._mutex:
                agreeing = tuple(self._said.get(self._digest(b"said", owner, words), {}).values())
            if agreeing:
                data["agreeing"] = agreeing
        return replace(record, data=data) if len(data) > len(record.data) else record

    def _sources_of(
        self, owner: bytes, words: Sequence[str], record: Record
    ) -> tuple[tuple[Parent, ...], bool]:
        """The records that this text came out of, least trusted first, and whether it is one of them whole."""
        whole, source = self._digest(b"whole", owner, words), str(record.source)
        found: dict[str, Parent] = {}
        repeated = False
        mine = self._shingles(owner, words)
        with self._mutex:
            known = self._known.get(whole)
            if known is not None:
                repeated = True
                if known.source != source:
                    found[known.parent.id] = known.parent
            hits: Counter[int] = Counter()
            holders: dict[int, _Known] = {}
            for shingle in mine:
                for holder in self._holders.get(shingle, ()):
                    if holder.source == source:
                        continue  # whoever says it again does not have it from himself
                    hits[id(holder)] += 1
                    holders[id(holder)] = holder
            least = max(1, self._settings.min_words - WIDTH + 1)
            for ident, count in hits.items():
                holder, share = holders[ident], self._settings.share
                if count >= least and (count >= share * len(mine) or count >= share * len(holder.shingles)):
                    found.setdefault(holder.parent.id, holder.parent)
            # Several records, none of which is the large part alone.
            taken = sum(1 for s in mine if any(h.source != source for h in self._holders.get(s, ())))
            if not found and taken >= least and taken >= self._settings.share * len(mine):
                for holder in holders.values():
                    found.setdefault(holder.parent.id, holder.parent)
            if known is None and not found and (stored := self._stored(whole, source)) is not None:
                found[stored.id], repeated = stored, True
        return tuple(sorted(found.values(), key=lambda p: (p.trust or Trust.UNKNOWN).rank))[:16], repeated

    # -- noting ------------------------------------------------------------------------------------

    def note(self, record: Record, trust: Trust, *, stored: bool = False) -> None:
        """Remember what was stored or served at this level; with ``stored``, for other processes too."""
        words = words_of(record.content)
        if len(words) * 2 < self._settings.min_words:
            return
        owner = _owner(record.scope)
        if trust >= self._below:
            self._agree(owner, words, record, trust)
            return
        if trust > Trust.UNKNOWN:
            self._agree(owner, words, record, trust)
        parent = Parent(record.key or str(record.source), trust)
        whole = self._digest(b"whole", owner, words)
        with self._mutex:
            held = self._known.get(whole)
            if held is not None and (held.parent.trust or Trust.UNKNOWN) <= trust:
                self._known.move_to_end(whole)
                return
            self._forget(whole)
            entry = _Known(parent, str(record.source), frozenset(self._shingles(owner, words)))
            self._known[whole] = entry
            for shingle in entry.shingles:
                self._holders.setdefault(shingle, []).append(entry)
            while len(self._known) > self._settings.records:
                self._forget(next(iter(self._known)))
            if stored and trust < Trust.UNKNOWN:
                self._store(whole, entry)

    def _forget(self, key: bytes) -> None:
        entry = self._known.pop(key, None)
        if entry is None:
            return
        for shingle in entry.shingles:
            holders = self._holders[shingle]
            holders.remove(entry)
            if not holders:
                del self._holders[shingle]

    def _agree(self, owner: bytes, words: Sequence[str], record: Record, trust: Trust) -> None:
        if not self._agreeing or record.lineage:
            return  # what was derived is nobody's own word
        digest = self._digest(b"said", owner, words)
        with self._mutex:
            said = self._said.pop(digest, {})
            if len(said) < 64:
                said[str(record.source)] = Provenance(
                    Source(record.source.kind, record.source.id), trust=trust
                )
            self._said[digest] = said
            while len(self._said) > _STATEMENTS:
                self._said.popitem(last=False)

    # -- digests -----------------------------------------------------------------------------------

    def _digest(self, kind: bytes, owner: bytes, words: Sequence[str]) -> bytes:
        said = frame(kind, owner, " ".join(words).encode("utf-8", "surrogatepass"))
        return hashlib.blake2b(said, key=self._key, digest_size=16).digest()

    def _shingles(self, owner: bytes, words: Sequence[str]) -> set[bytes]:
        start = hashlib.blake2b(owner, key=self._key, digest_size=8)
        found = set()
        for at in range(len(words) - WIDTH + 1):
            digest = start.copy()
            digest.update(" ".join(words[at : at + WIDTH]).encode("utf-8", "surrogatepass"))
            found.add(digest.digest())
        return found

    # -- for other processes -----------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection | None:
        if self._conn is None and self._path is not None:
            self._conn = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=30
            )
            self._conn.execute("PRAGMA journal_mode=WAL")
            self._conn.execute("PRAGMA synchronous=NORMAL")
            self._conn.execute(_SCHEMA)
        return self._conn

    def _stored(self, digest: bytes, source: str) -> Parent | None:
        """The stored record of that text, unless the same source wrote it. A row without its tag is not there."""
        conn = self._open()
        row = conn and conn.execute(_FIND, (digest,)).fetchone()
        if not row:
            return None
        record, trust, by, tag = row
        if not hmac.compare_digest(self._tag(digest, record, trust, by), bytes(tag)):
            return None
        return None if by == self._mark(source) else Parent(record, Trust(trust))

    def _store(self, digest: bytes, entry: _Known) -> None:
        conn = self._open()
        if conn is None:
            return
        record, trust, by = entry.parent.id, str(entry.parent.trust), self._mark(entry.source)
        conn.execute(_KEEP, (digest, record, trust, by, self._tag(digest, record, trust, by)))
        if self._count < 0:
            (self._count,) = conn.execute("SELECT count(*) FROM recalled").fetchone()
        self._count += 1
        if (
            self._count > self._settings.stored
        ):  # digests have no order: the lowest are as good as any to forget
            conn.execute(_DROP, (_BATCH,))
            self._count -= _BATCH

    def _mark(self, source: str) -> bytes:
        said = source.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"source").digest()

    def _tag(self, digest: bytes, record: str, trust: str, by: bytes) -> bytes:
        said = frame(digest, record.encode("utf-8", "surrogatepass"), trust.encode(), by)
        return hashlib.blake2b(said, key=self._key, digest_size=16, person=b"row").digest()

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            if self._conn is not None:
                self._conn.close()
                self._conn = None
                self._path = None


def _owner(scope: Scope) -> bytes:
    return frame(
        *(
            b"" if part is None else b"=" + part.encode("utf-8", "surrogatepass")
            for part in (scope.tenant, scope.user)
        )
    )
