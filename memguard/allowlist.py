"""Texts that an operator has allowed: what a guard holds against them does not count.

An entry is a keyed hash of the normalised text (so that case, width and invisible characters do not matter), with
a reason, an author and a day on which it ends. The text itself is not kept, and nobody without the key can tell
which texts are allowed or try guesses.

The table is in ``home/state.db``, which a store's adversary may hold. Rows are only ever added: an entry, or the
end of one. Every row is tagged with its number, and the number of rows with a digest over all tags is a head in
the anchor's log. So an entry can neither be slipped in, brought back after its removal, nor taken out unnoticed.
A row beyond the head is what an interrupted program left: it counts for nothing, and the next writer removes it.
While all rows are tagged anew after a rotation, the head names both digests: that of a program that is killed
in between is as good as the other, since they say the same.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from memguard.anchorlog import AnchorLog
from memguard.errors import ConfigError, IntegrityError, RollbackError, TamperedError, UnknownKeyError
from memguard.guards.normal import normalise
from memguard.integrity.canonical import frame
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord, Note
from memguard.integrity.mac import same
from memguard.ledger import columns
from memguard.ports import KeyRing
from memguard.statedb import State, state_at

_SCHEMA = """CREATE TABLE IF NOT EXISTS allowed (
    seq INTEGER PRIMARY KEY, verb TEXT NOT NULL, mark TEXT NOT NULL, mark_kid TEXT NOT NULL, reason TEXT NOT NULL,
    author TEXT NOT NULL, time TEXT NOT NULL, expires TEXT NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL)"""
_ROWS = "SELECT seq, verb, mark, mark_kid, reason, author, time, expires, kid, tag FROM allowed ORDER BY seq"
#: The store name and context of the table's head in the log; no store of a user can be called so.
PLACE = ("@allow", "allow")
PURPOSE = "allow"
#: Characters of a reason and of an author.
MAX_REASON, MAX_AUTHOR = 500, 100
#: Entries that may be in force at once.
MAX_ENTRIES = 10_000
#: Hex digits of a mark that name an entry.
SHORT = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """One allowed text.

    Args:
        mark: keyed hash of the normalised text, 64 hex digits.
        key: id of the key it is made with.
        reason: why it is allowed.
        author: who allowed it.
        added: seconds since the epoch.
        expires: seconds since the epoch; None: never.
    """

    mark: str
    key: str
    reason: str
    author: str
    added: float
    expires: float | None = None

    @property
    def id(self) -> str:
        """The start of the mark, by which commands name the entry."""
        return self.mark[:SHORT]


class AllowList:
    """The table. Threads and processes may share it.

    Args:
        database: path of ``home/state.db``, or where else the home's tables are.
        keys: the ring; marks and tags are made under subkeys of purpose ``allow``.
        log: the anchor's log, which holds the head.
    """

    def __init__(self, database: Path | State, keys: KeyRing, log: AnchorLog) -> None:
        self._state, self._keys, self._log, self._mutex = state_at(database), keys, log, threading.Lock()
        self._conn = self._state.connect(_SCHEMA)
        self._checked: object = None
        self._entries: dict[str, Entry] = {}

    def allowed(self, content: str, now: float | None = None) -> Entry | None:
        """The entry that allows a text; None if there is none, or it has expired.

        Args:
            content: the text as it would be stored.
            now: seconds since the epoch; default the clock's.

        Raises:
            IntegrityError: MG255, the table was edited. Nothing may count as allowed then.
        """
        with self._mutex:
            self._look()
            kids = {entry.key for entry in self._entries.values()}
            if not kids:
                return None
            copy, moment = normalise(content), time.time() if now is None else now
            for kid in kids:
                try:
                    entry = self._entries.get(self._mark(copy, kid))
                except UnknownKeyError:  # its key was destroyed: the entry can match nothing any more
                    continue
                if entry is not None and state_of(entry, moment) == "in force":
                    return entry
        return None

    def entries(self) -> tuple[Entry, ...]:
        """Every entry that was not removed, expired ones too, in the order in which they were added.

        Raises:
            IntegrityError: MG255, the table was edited.
        """
        with self._mutex:
            self._look()
            return tuple(self._entries.values())

    def add(self, content: str, *, reason: str, author: str, expires: float | None = None) -> Entry:
        """Allow a text. Adding it again replaces reason, author and expiry.

        Raises:
            ConfigError: MG254, the text is blank, or reason, author or expiry cannot be used.
            IntegrityError: MG255, the table was edited; or the anchor failed.
        """
        copy = normalise(content)
        if not copy:
            _unusable("a blank text cannot be allowed", "Give the text as it would be stored.")
        _line("reason", reason, MAX_REASON)
        _line("author", author, MAX_AUTHOR)
        now = time.time()
        if expires is not None and not now < expires < 1e11:
            _unusable("the entry would have expired already", "Give a day in the future.")
        kid = self._keys.current
        entry = Entry(self._mark(copy, kid), kid, reason, author, now, expires)
        with self._mutex:
            self._append("add", entry)
        return entry

    def remove(self, ident: str, *, reason: str, author: str) -> Entry:
        """End the entry whose mark begins with ``ident`` (at least 8 hex digits).

        Raises:
            ConfigError: MG254, no entry or more than one begins so, or reason or author cannot be used.
            IntegrityError: MG255, the table was edited; or the anchor failed.
        """
        _line("reason", reason, MAX_REASON)
        _line("author", author, MAX_AUTHOR)
        with self._mutex:
            self._look()
            found = [entry for mark, entry in self._entries.items() if mark.startswith(ident)]
            if len(ident) < 8 or len(found) != 1:
                _unusable(
                    f"{len(found)} entries begin with {ident[:64]!r}", "memguard allow list prints the ids."
                )
            entry = found[0]
            self._append("remove", Entry(entry.mark, entry.key, reason, author, time.time()))
            return entry

    def discard(self, *, reason: str, author: str) -> int:
        """Give up every entry, also where the table was edited; a signed note in the anchor's log says so.

        Returns:
            How many rows were removed.
        """
        _line("reason", reason, MAX_REASON)
        _line("author", author, MAX_AUTHOR)
        with self._mutex, self._locked(), columns.readable(_unreadable):
            self._log.refresh()
            known, _ = self._head()
            rows: int = self._conn.execute("DELETE FROM allowed").rowcount
            before = known.generation if known else 0
            details = {"reason": reason, "by": author, "records": rows, "time": time.time()}
            head = Head(PLACE[1], generation=before + 1, chain=_digest([]))
            record = HeadRecord(PLACE[0], "discard", time.time(), self._keys.current, head, None)
            self._log.write([Note(PLACE[0], "discard", details), record], sync=True, expect=[(PLACE, before)])
            return rows

    def rekey(self) -> None:
        """After a rotation: tags and head under the current key. Marks keep theirs, since the texts are not here;
        an entry whose key is destroyed matches nothing any more."""
        known = self._log.head(PLACE)
        if known is None or (known[0] == self._keys.current and not known[1].horizon):
            return
        with self._mutex:
            self._append(None, None)

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            self._conn.close()

    def _append(self, verb: str | None, entry: Entry | None) -> None:
        """Add a row and have the anchor count it, durably; without a row, tag all rows anew."""
        with self._locked(), columns.readable(_unreadable):
            self._sound()
            if (
                verb == "add"
                and entry
                and entry.mark not in self._entries
                and len(self._entries) >= MAX_ENTRIES
            ):
                _unusable(f"{MAX_ENTRIES} texts are allowed already", "Remove what is no longer needed.")
            kid, (known, count) = self._keys.current, self._head()
            if verb and entry:
                until = "" if entry.expires is None else repr(entry.expires)
                named = (entry.mark, entry.key, entry.reason, entry.author)
                rows = self._inserted(count, (count + 1, verb, *named, repr(entry.added), until, kid))
            else:
                rows = self._tagged_anew(known, count, kid)
            before = known.generation if known else 0
            head = Head(PLACE[1], generation=before + 1, cells=len(rows), chain=_digest(rows))
            self._note(verb or "rekey", head, known)

    def _inserted(self, count: int, row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The rows with a new one; what stood beyond the head is gone."""
        with self._conn.transaction():
            self._conn.execute("DELETE FROM allowed WHERE seq > ?", (count,))
            self._conn.execute("INSERT INTO allowed VALUES (?,?,?,?,?,?,?,?,?,?)", (*row, self._tag(row)))
            rows: list[tuple[Any, ...]] = self._conn.execute(_ROWS).fetchall()
            if len(rows) != count + 1 or rows[-1][:9] != row:
                raise _edited(TamperedError, count + 1)  # a trigger in between
        return rows

    def _tagged_anew(self, known: Head | None, count: int, kid: str) -> list[tuple[Any, ...]]:
        """The rows under a key. The head names both ends before they change: a killed rotation is no alarm."""
        rows = [(*row[:8], kid, self._tag((*row[:8], kid))) for row in self._counted(count)]
        if known is not None:
            self._note("rekey", known._replace(horizon=_digest(rows)), known)
        with self._conn.transaction():
            self._conn.execute("DELETE FROM allowed WHERE seq > ?", (count,))
            update = "UPDATE allowed SET kid = ?, tag = ? WHERE seq = ?"
            self._conn.executemany(update, [(row[8], row[9], row[0]) for row in rows])
        return rows

    def _note(self, operation: str, head: Head, known: Head | None) -> None:
        record = HeadRecord(PLACE[0], operation, time.time(), self._keys.current, head, None)
        before = known.generation if known else 0
        self._log.write([record], sync=True, expect=[(PLACE, before)])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock of all writers of the table, in any process."""
        lock = self._state.lock("@allow")
        lock.acquire(self)
        try:
            yield
        finally:
            lock.release()

    def _head(self) -> tuple[Head | None, int]:
        known = self._log.head(PLACE)
        return (known[1], known[1].cells) if known else (None, 0)

    def _look(self) -> None:
        """:meth:`_sound`; a second time with writers kept out, since one may be between its rows and its head."""
        with columns.readable(_unreadable):
            try:
                self._sound()
            except IntegrityError:
                with self._locked():
                    self._sound()

    def _sound(self) -> None:
        """That the rows are those that the anchor counted; again whenever either changed."""
        self._log.refresh()
        head, count = self._head()
        state = (self._conn.version(), head)
        if self._checked == state:
            return
        rows = self._counted(count)
        if len(rows) < count:
            raise _edited(RollbackError, count - len(rows))
        for row in rows:
            if not same(self._tag(row[:9]), row[9]):
                raise _edited(TamperedError, row[0])
        if head is not None and _digest(rows) not in (head.chain, head.horizon):
            raise _edited(RollbackError, count)
        entries: dict[str, Entry] = {}
        for _, verb, mark, mark_kid, reason, author, added, expires, _, _ in rows:
            entries.pop(mark, None)
            if verb == "add":
                until = float(expires) if expires else None
                entries[mark] = Entry(mark, mark_kid, reason, author, float(added), until)
        self._entries, self._checked = entries, state

    def _counted(self, count: int) -> list[tuple[Any, ...]]:
        """The rows up to a number. One whose number is none has no place among them: its tag says so."""
        rows = self._conn.execute(_ROWS).fetchall()
        return [row for row in rows if not isinstance(row[0], int) or row[0] <= count]

    def _mark(self, copy: str, kid: str) -> str:
        message = frame(b"memguard/allow/1", copy.encode("utf-8", "surrogatepass"))
        return hmac.digest(self._keys.subkey(PURPOSE, kid), message, "sha256").hex()

    def _tag(self, row: tuple[Any, ...]) -> str:
        """The tag of a row's first nine columns, under the key that the ninth names."""
        message = frame(
            b"memguard/allow-row/1", *(str(part).encode("utf-8", "surrogatepass") for part in row)
        )
        return hmac.digest(self._keys.subkey(PURPOSE, str(row[8])), message, "sha256").hex()


def state_of(entry: Entry, now: float | None = None) -> str:
    """``in force`` or ``expired``, at a moment in seconds since the epoch (default: now)."""
    moment = time.time() if now is None else now
    return "in force" if entry.expires is None or moment < entry.expires else "expired"


def _digest(rows: list[tuple[Any, ...]]) -> bytes:
    return hashlib.sha256("".join(str(row[9]) for row in rows).encode()).digest()


def _line(name: str, text: str, longest: int) -> None:
    if not text.strip() or len(text) > longest or not text.isprintable():
        _unusable(f"the {name} cannot be used", f"One line of 1 to {longest} characters.")


def _unusable(what: str, do: str) -> NoReturn:
    raise ConfigError(what, code="MG254", do=do)


def _unreadable(name: str) -> IntegrityError:
    return IntegrityError(
        "the allow-list cannot be read or written.",
        case="state",
        record="allowed in state.db",
        code="MG255",
        why=f"The cause given is {name}.",
        do="Check home/state.db, its permissions and the space on its volume; until then nothing counts as allowed.",
    )


def _edited(kind: type[TamperedError] | type[RollbackError], number: int) -> TamperedError | RollbackError:
    what = "was edited" if kind is TamperedError else "does not hold the rows that the anchor counts"
    return kind(
        f"the allow-list {what}.",
        case="state",
        record=f"allowed in state.db ({number})",
        code="MG255",
        why="Its rows do not match their tags or the head.",
        do="Restore state.db, or memguard allow remove --all --reason TEXT; until then nothing counts as allowed.",
    )
