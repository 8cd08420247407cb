"""The quarantine's two tables in ``home/state.db``, and why an edit of them is found.

``quarantine``      one row an entry: what may be seen of it, and its sealed bytes until they are purged.
``quarantine_log``  one row an act: kept, released, dropped, undone, purged. Rows are only ever added.

An entry's state is what the log says last. Every row is tagged; an act's tag covers the tag before it, and an
entry's tag is bound by the act that kept it; how many acts there are, and the last one's tag, is a head in the
anchor's log. So an entry that was edited, removed, or put back after it was dropped is found by whoever looks
next. Acts beyond the head are those of a writer that was killed between its commit and its head: their tags
hold, and the next writer counts them.
"""

from __future__ import annotations

import hmac
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memguard.anchorlog import AnchorLog
from memguard.errors import IntegrityError, RollbackError, TamperedError, UnknownKeyError
from memguard.integrity.canonical import frame
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord, Note
from memguard.integrity.mac import same
from memguard.ledger import columns
from memguard.ports import KeyRing
from memguard.statedb import State, state_at

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS quarantine (
    seq INTEGER PRIMARY KEY, store TEXT NOT NULL, context TEXT NOT NULL, code TEXT NOT NULL, rule TEXT NOT NULL,
    guard TEXT NOT NULL, source TEXT NOT NULL, trust TEXT NOT NULL, score TEXT NOT NULL, time TEXT NOT NULL,
    place TEXT NOT NULL, "like" TEXT NOT NULL, content TEXT NOT NULL, body TEXT NOT NULL, public TEXT NOT NULL,
    digest TEXT NOT NULL, size INTEGER NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL, sealed BLOB)""",
    """CREATE TABLE IF NOT EXISTS quarantine_log (
    seq INTEGER PRIMARY KEY, entry INTEGER NOT NULL, verb TEXT NOT NULL, time TEXT NOT NULL, "by" TEXT NOT NULL,
    note TEXT NOT NULL, bound TEXT NOT NULL, prev TEXT NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL)""",
)
_ENTRIES = (
    'SELECT seq, store, context, code, rule, guard, source, trust, score, time, place, "like", content, body, public, '
    "digest, size, kid, tag, sealed IS NOT NULL FROM quarantine"
)
_ACTS_FROM = (
    'SELECT seq, entry, verb, time, "by", note, bound, prev, kid, tag FROM quarantine_log WHERE seq >= ?'
)
#: Acts after which an entry has no content.
_EMPTYING = ("purge", "expire", "lost")
_NEVER: tuple[object, int] = (None, -1)
#: The store name and context of the tables' head in the log; no store of a user can be called so.
PLACE = ("@quarantine", "quarantine")


class Row(NamedTuple):
    """An entry's columns, as text but for the numbers that SQLite keeps as they are."""

    seq: int
    store: str
    context: str
    code: str
    rule: str
    guard: str
    source: str
    trust: str
    score: str
    time: str
    place: str
    like: str
    content: str
    body: str
    public: str
    digest: str
    size: int


class Act(NamedTuple):
    """One line of the log. ``entry`` is 0 for an act on none."""

    seq: int
    entry: int
    verb: str
    time: str
    by: str
    note: str
    bound: str = ""
    prev: str = ""


class Tables:
    """Both tables, read and checked as a whole, and added to under a lock that all processes share.

    Args:
        place: path of state.db, or where else the home's tables are.
    """

    def __init__(
        self, place: Path | State, keys: KeyRing, log: AnchorLog, clock: Callable[[], float] = time.time
    ) -> None:
        self._state, self._keys, self._log, self._clock = state_at(place), keys, log, clock
        self._mutex = threading.RLock()
        # In full: what is withheld is nowhere else. And what is purged is overwritten, not only let go.
        self._conn = self._state.connect(*_SCHEMA, secure_delete=True)
        #: The state of the file, and the count, of the last look at everything and of the last one at what is new.
        self._checked: tuple[object, int] = _NEVER
        self._followed: tuple[object, int] = _NEVER
        self._tags: list[str] = []
        self.entries: dict[int, Row] = {}
        self.acts: list[Act] = []
        #: Changes whenever the tables were read anew; between, ``acts`` only grows.
        self.epoch = 0

    # -- reading -----------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Both tables as they stand, checked; ``entries`` and ``acts`` hold still inside.

        Raises:
            IntegrityError: an entry or an act is missing, was changed or was put back (case ``state``, MG346).
        """
        with self._mutex:
            try:
                with _readable():
                    self._sound()
            except IntegrityError:
                # A writer may be between its commit and its head: look again with writers kept out.
                with self._locked(), _readable():
                    self._sound()
            yield

    @contextmanager
    def writing(self, *, whole: bool = True) -> Iterator[None]:
        """As :meth:`reading`, with every other writer kept out; :meth:`add` and :meth:`keep` are legal inside.

        Args:
            whole: check everything. Without it only what is new, and that the end of the log is the one that the
                anchor knows: what a write costs then does not grow with what was withheld before.
        """
        with self._mutex, self._locked():
            with _readable():
                if whole or self.epoch == 0 or not self._follow():
                    self._sound()
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._state.lock("@quarantine")
        lock.acquire(self)
        try:
            yield
        finally:
            lock.release()

    def sealed(self, seq: int) -> bytes | None:
        """The sealed bytes of an entry, None once they were purged."""
        with self._mutex, _readable():
            found = self._conn.execute("SELECT sealed FROM quarantine WHERE seq = ?", (seq,)).fetchone()
        if found is None or found[0] is None:
            return None
        return found[0] if isinstance(found[0], bytes) else b""  # what is no bytes opens to nothing

    def _version(self) -> object:
        return self._conn.version()

    def _count(self) -> tuple[int, tuple[bytes, bytes]]:
        """How many acts the anchor knows, and what the tag of the last of them may be."""
        self._log.refresh()
        known = self._log.head(PLACE)
        return (known[1].generation, (known[1].chain, known[1].horizon)) if known else (0, (b"", b""))

    def _sound(self) -> None:
        """Check everything, unless nobody else changed the file since the last time."""
        (count, ends), version = self._count(), self._version()
        if self._checked == (version, count):
            return
        entries = self._conn.execute(f"{_ENTRIES} ORDER BY seq").fetchall()
        acts = self._conn.execute(f"{_ACTS_FROM} ORDER BY seq", (0,)).fetchall()
        if len(acts) < count:
            raise _lost(count - len(acts))
        tags = self._chained(acts, 0, "")
        if count and bytes.fromhex(tags[count - 1]) not in ends:
            raise _changed(f"act {count} of quarantine_log")
        bound = {act[1]: act[6] for act in acts if act[2] == "keep"}
        purged = {act[1] for act in acts if act[2] in _EMPTYING}
        found: dict[int, Row] = {}
        for row in entries:
            found[row[0]] = self._proved(row, bound.get(row[0]), row[0] in purged)
        missing = [seq for seq in bound if seq not in found and bound[seq]]
        if missing:
            raise _lost(len(missing))
        self.entries, self.acts, self._tags = found, [Act(*row[:-2]) for row in acts], tags
        self.epoch += 1
        self._checked = self._followed = (version, count)

    def _follow(self) -> bool:
        """Take in what others added since the last look, checked; False if it is not simply more of the same."""
        (count, ends), version = self._count(), self._version()
        if (version, count) in (self._checked, self._followed):
            return True
        known = len(self.acts)
        rows = self._conn.execute(f"{_ACTS_FROM} ORDER BY seq", (max(known, 1),)).fetchall()
        if known and (not rows or rows.pop(0)[-1] != self._tags[-1]):
            return False
        try:
            tags = [*self._tags, *self._chained(rows, known, self._tags[-1] if known else "")]
            if len(tags) < count or (count and bytes.fromhex(tags[count - 1]) not in ends):
                return False
            acts = [Act(*row[:-2]) for row in rows]
            purged = {act.entry for act in acts if act.verb in _EMPTYING}
            kept = {act.entry: act.bound for act in acts if act.verb == "keep"}
            found = {}
            for seq, bound in kept.items():
                row = self._conn.execute(f"{_ENTRIES} WHERE seq = ?", (seq,)).fetchone()
                if row is None:
                    return False
                found[seq] = self._proved(row, bound, seq in purged)
        except IntegrityError:
            return False
        if acts:
            self.entries.update(found)
            self.acts.extend(acts)
            self._tags = tags
        self._followed = (version, count)
        return True

    def _chained(self, rows: Sequence[Sequence[Any]], known: int, last: str) -> list[str]:
        """The tags of acts that follow one another and the one before them."""
        tags: list[str] = []
        for number, row in enumerate(rows, start=known + 1):
            act = Act(*row[:-2])
            if act.seq != number or act.prev != last or not self._holds("act", act, row[-2], row[-1]):
                raise _changed(f"act {number} of quarantine_log")
            last = str(row[-1])
            tags.append(last)
        return tags

    def _proved(self, row: Sequence[Any], bound: str | None, purged: bool) -> Row:
        """An entry whose tag holds, is the one that was kept, and that has its content unless it was purged."""
        entry, (kid, tag, full) = Row(*row[:-3]), row[-3:]
        if bound != tag or not self._holds("entry", entry, kid, tag) or bool(full) == purged:
            raise _changed(f"entry {entry.seq!r:.20}")
        return entry

    def _holds(self, kind: str, row: Sequence[Any], kid: Any, tag: Any) -> bool:
        made = self._tag(kind, row, kid) if isinstance(kid, str) else ""
        return bool(made) and same(made, tag)

    def _tag(self, kind: str, row: Sequence[Any], kid: str) -> str:
        parts = (str(part).encode("utf-8", "surrogatepass") for part in row)
        body = frame(b"memguard/quarantine/1", kind.encode(), *parts)
        return hmac.digest(self._keys.subkey("quarantine", kid), body, "sha256").hex()

    # -- writing -----------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The number that the next entry gets."""
        numbers = [*self.entries, *(act.entry for act in self.acts)]
        if any(act.verb == "lost" for act in self.acts):
            numbers.append(
                len(self.acts)
            )  # each entry had an act: no number of one that was lost comes again
        return max(numbers, default=0) + 1

    def keep(self, row: Row, sealed: bytes, by: str) -> None:
        """Add an entry and the act that kept it. Only inside :meth:`writing`."""
        kid = self._keys.current
        tag = self._tag("entry", row, kid)

        def insert() -> None:
            marks = ", ".join("?" * (len(row) + 3))
            self._conn.execute(f"INSERT INTO quarantine VALUES ({marks})", (*row, kid, tag, sealed))  # noqa: S608

        self._write(insert, [(row.seq, "keep", by, "", tag)], {row.seq: row})

    def add(self, acts: Sequence[tuple[int, str, str, str]]) -> None:
        """Add acts (entry, verb, by, note), one head for all of them; ``purge`` and ``expire`` destroy the content.

        Only inside :meth:`writing`.
        """
        purged = [entry for entry, verb, _, _ in acts if verb in ("purge", "expire")]

        def destroy() -> None:
            for seq in purged:
                self._conn.execute("UPDATE quarantine SET sealed = NULL WHERE seq = ?", (seq,))

        self._write(destroy, [(*act, "") for act in acts], {})

    def _write(
        self, change: Callable[[], None], acts: Sequence[tuple[int, str, str, str, str]], new: dict[int, Row]
    ) -> None:
        """One transaction, then one head. In memory only once both stand."""
        last, kid = self._tags[-1] if self._tags else "", self._keys.current
        whole, tags = self._checked == (self._version(), self._count()[0]), list[str]()
        made: list[Act] = []
        with _readable(), self._conn.transaction():
            change()
            for entry, verb, by, note, bound in acts:
                number = len(self.acts) + len(made) + 1
                act = Act(number, entry, verb, repr(self._clock()), by, note, bound, last)
                last = self._tag("act", act, kid)
                self._conn.execute(
                    "INSERT INTO quarantine_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*act, kid, last)
                )
                made.append(act)
                tags.append(last)
            self._landed(made, tags, new)
            self._checked = self._followed = _NEVER  # until the head stands
        self._head(len(self.acts) + len(made), last)
        self.acts.extend(made)
        self._tags.extend(tags)
        self.entries.update(new)
        self._followed = (self._version(), len(self.acts))
        if whole:
            self._checked = self._followed

    def _landed(self, acts: Sequence[Act], tags: Sequence[str], new: dict[int, Row]) -> None:
        """That the tables hold what was just written: a trigger in the database could have kept it out."""
        rows = self._conn.execute(f"{_ACTS_FROM} ORDER BY seq", (acts[0].seq,)).fetchall()
        held = [(tuple(row[:-2]), row[-1]) for row in rows] == [
            (tuple(act), tag) for act, tag in zip(acts, tags, strict=True)
        ]
        for act in acts:
            found = self._conn.execute(f"{_ENTRIES} WHERE seq = ?", (act.entry,)).fetchone()
            row = new.get(act.entry, self.entries.get(act.entry))
            held = held and found is not None and tuple(found[:-3]) == row
            held = held and (act.verb not in _EMPTYING or not found[-1])
        if not held:
            raise _changed("what was just written to the quarantine")

    def _head(self, count: int, last: str, operation: str = "quarantine") -> None:
        before, _ = self._count()
        self._note(
            operation, Head(PLACE[1], generation=count, cells=count, chain=bytes.fromhex(last)), before
        )

    def _note(self, operation: str, head: Head, before: int) -> None:
        record = HeadRecord(PLACE[0], operation, time.time(), self._keys.current, head, None)
        self._log.write([record], sync=True, expect=[(PLACE, before)])

    # -- care --------------------------------------------------------------------------------

    def rekey(self) -> None:
        """After a rotation: rows and head under the current key, so that the old one may go."""
        known = self._log.head(PLACE)
        if known is None or (known[0] == self._keys.current and not known[1].horizon):
            return
        with self.writing():
            self._rebuild(self.entries, self.acts, "rekey")

    def lost(self) -> int:
        """How many entries and acts are missing or changed."""
        with self._mutex, _readable():
            _, _, wrong = self._good()
            try:
                self._sound()
            except (IntegrityError, sqlite3.Error):
                return max(1, wrong)
            return 0

    def write_off(self, reason: str) -> int:
        """An operator gives up on what is lost: what still verifies is kept, a signed note says the rest is not.

        Returns:
            How many entries and acts were written off.
        """
        with self._mutex, self._locked(), _readable():
            entries, acts, wrong = self._good()
            details = {"reason": reason, "records": wrong, "time": time.time()}
            self._log.write([Note(PLACE[0], "accept", details)], sync=True)
            count, _ = self._count()
            by_number = {act.seq: act for act in acts}
            whole = [
                by_number.get(n, Act(n, 0, "lost", repr(time.time()), "", ""))
                for n in range(1, max([count, *by_number]) + 1)
            ]
            self._rebuild(entries, whole, "accept")
            return wrong

    def _good(self) -> tuple[dict[int, Row], list[Act], int]:
        """Entries and acts that verify by themselves, and how many do not or are missing."""
        count, _ = self._count()
        rows = self._conn.execute(f"{_ENTRIES} ORDER BY seq").fetchall()
        lines = self._conn.execute(f"{_ACTS_FROM} ORDER BY seq", (0,)).fetchall()
        acts = [Act(*line[:-2]) for line in lines if self._proves("act", Act(*line[:-2]), *line[-2:])]
        bound = {act.entry: act.bound for act in acts if act.verb == "keep"}
        entries = {
            row[0]: Row(*row[:-3])
            for row in rows
            if bound.get(row[0]) == row[-2] and self._proves("entry", Row(*row[:-3]), row[-3], row[-2])
        }
        kept = [act for act in acts if act.entry in entries or not act.entry]
        wrong = max(count, len(lines)) - len(acts) + len(rows) - len(entries)
        return entries, kept, wrong

    def _proves(self, kind: str, row: Sequence[Any], kid: Any, tag: Any) -> bool:
        try:
            return self._holds(kind, row, kid, tag)
        except UnknownKeyError:
            return False

    def _rebuild(self, entries: dict[int, Row], acts: Sequence[Act], operation: str) -> None:
        """Write both tables anew under the current key. What has no content any more and is not purged, is.

        The head of a rotation names both ends before the tables change, so a killed one is no alarm.
        """
        kid = self._keys.current
        tags = {seq: self._tag("entry", row, kid) for seq, row in entries.items()}
        odd = "" if self._conn.typed else " WHERE typeof(seq) <> 'integer'"
        there = f"SELECT seq, sealed IS NOT NULL FROM quarantine{odd.replace('<>', '=')}"  # noqa: S608 - constant
        full = dict(self._conn.execute(there).fetchall())
        purged = {act.entry for act in acts if act.verb in ("purge", "expire")}
        emptied = [seq for seq in entries if not full.get(seq) and seq not in purged]
        extra = [Act(0, seq, "purge", repr(time.time()), "", "content lost") for seq in emptied]
        made = self._linked([*acts, *extra], tags, kid)
        known = self._log.head(PLACE)
        if operation == "rekey" and known is not None and made:
            _, _, end = made[known[1].generation - 1]
            self._note(operation, known[1]._replace(horizon=bytes.fromhex(end)), known[1].generation)
        with _readable(), self._conn.transaction():
            if odd:
                self._conn.execute(f"DELETE FROM quarantine{odd}")  # noqa: S608 - constant
            gone = [(seq,) for seq in full if seq not in entries]
            self._conn.executemany("DELETE FROM quarantine WHERE seq = ?", gone)
            self._conn.executemany(
                "UPDATE quarantine SET sealed = NULL WHERE seq = ?", [(seq,) for seq in purged]
            )
            self._conn.executemany(
                "UPDATE quarantine SET kid = ?, tag = ? WHERE seq = ?",
                [(kid, tag, seq) for seq, tag in tags.items()],
            )
            self._conn.execute("DELETE FROM quarantine_log")
            self._conn.executemany(
                "INSERT INTO quarantine_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*act, by, tag) for act, by, tag in made],
            )
            self._checked = self._followed = _NEVER
        if made:
            self._head(len(made), made[-1][2], operation)

    def _linked(self, acts: Sequence[Act], tags: dict[int, str], kid: str) -> list[tuple[Act, str, str]]:
        """The acts numbered and chained under a key: each with the key's id and its tag."""
        made: list[tuple[Act, str, str]] = []
        last = ""
        for number, act in enumerate(acts, start=1):
            bound = tags.get(act.entry, "") if act.verb == "keep" else ""
            act = act._replace(seq=number, bound=bound, prev=last)
            last = self._tag("act", act, kid)
            made.append((act, kid, last))
        return made

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            self._conn.close()


def _readable() -> AbstractContextManager[None]:
    """Errors of a database that cannot be read become errors of the quarantine."""
    return columns.readable(_unreadable)


def _unreadable(name: str) -> IntegrityError:
    return IntegrityError(
        "the quarantine cannot be read or written.",
        case="state",
        record="quarantine in state.db",
        code="MG346",
        why=f"The cause given is {name}.",
        do="Check home/state.db, its permissions and the space on its volume; if it was edited, restore it.",
    )


def _lost(missing: int) -> RollbackError:
    return RollbackError(
        f"{missing} rows of the quarantine are missing from the guard's own database.",
        case="state",
        record="quarantine in state.db",
        code="MG346",
        why="The anchor counts what was withheld and what was done with it.",
        do="Restore state.db; or memguard quarantine accept --reason TEXT --apply writes them off.",
    )


def _changed(what: str) -> TamperedError:
    return TamperedError(
        "the quarantine was changed in the guard's own database.",
        case="state",
        record=f"{what} in state.db",
        code="MG346",
        why="A row does not match its tag, stands in another's place, or was put back.",
        do="Restore state.db; or memguard quarantine accept --reason TEXT --apply writes it off.",
    )
