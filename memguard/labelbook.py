"""Labels of messages that are not what their kind says: declared to come from elsewhere, or flagged.

A checkpoint's messages get their kind from their type. What differs from that is bound in the
checkpoint that brought the message first, and noted here so that it is found for a message served much
later. The table is in the guard's home, which a store's adversary may hold, and a label that is missing
would raise trust: so rows are numbered, every row is tagged with its number, and how many there are is a
head in the anchor's log. Rows are only ever added. One beyond that number is what a killed writer left, or was
put there: the next writer counts the first and removes the second, before anything is believed or tagged anew.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import marshal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memguard.anchorlog import AnchorLog
from memguard.errors import IntegrityError, RollbackError, TamperedError, UnknownKeyError
from memguard.integrity.canonical import canonical_json, frame
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord, Note
from memguard.integrity.mac import same
from memguard.labels import Label
from memguard.ledger import columns
from memguard.ports import KeyRing
from memguard.statedb import State, state_at

_SCHEMA = """CREATE TABLE IF NOT EXISTS message_labels (
    seq INTEGER PRIMARY KEY, store TEXT NOT NULL, thread TEXT NOT NULL, message TEXT NOT NULL, digest TEXT NOT NULL,
    label TEXT NOT NULL, kid TEXT NOT NULL, tag TEXT NOT NULL, UNIQUE (store, thread, message, digest))"""
_ROWS = "SELECT seq, store, thread, message, digest, label, kid, tag FROM message_labels"
_FIND = f"{_ROWS} WHERE seq > ? AND message = ? AND digest = ?"
#: Between a thread and a number, where a message of it was noted again.
_AGAIN, _PAST_AGAIN = "\x1f", "\x20"
# Both halves by the index: as one condition it looks at every row of the store.
_NOTED = """SELECT label FROM message_labels
    WHERE store = ?1 AND thread = ?2 AND message = ?3 AND digest = ?4 AND seq <= ?5
    UNION ALL SELECT label FROM message_labels
    WHERE store = ?1 AND thread > ?6 AND thread < ?7 AND message = ?3 AND digest = ?4 AND seq <= ?5"""
_INSERT = "INSERT INTO message_labels VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
#: Rows that are checked by their tags again each time, before the digest of those that need not be is made anew.
_FEW = 256
#: The store name and context of the table's head in the log; no store of a user can be called so.
PLACE = ("@labels", "labels")


def digest_of(text: str) -> str:
    """What a message says, as 32 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class LabelBook:
    """The table, by the path of ``state.db`` or in another place. Threads and processes may share it."""

    def __init__(self, place: Path | State, keys: KeyRing, log: AnchorLog) -> None:
        self._keys, self._log, self._mutex = keys, log, threading.Lock()
        self._state = state_at(place)
        # In full: only labels that lower trust stand here, and losing one to a power cut would raise it.
        self._conn = self._state.connect(_SCHEMA)
        self._checked: tuple[object, int] = (None, 0)
        #: The last rows that were found sound, as a digest, and how many: what is the same need not be checked again.
        self._proved: tuple[bytes, int] = (b"", 0)
        #: The counted rows, by message id and digest, while nothing changed.
        self._rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}

    def add(self, store: str, thread: str, labels: Iterable[tuple[str, str, Label]]) -> None:
        """Note (message id, digest, label); what is noted already stays, and is joined by what is worth less.

        Raises:
            IntegrityError: rows are missing or changed, or the anchor failed.
        """
        with self._writing():
            self._insert(
                [
                    (store, _plain(thread), _plain(m), d, canonical_json(label.as_dict()).decode())
                    for m, d, label in labels
                ]
            )

    @contextmanager
    def _writing(self, *, whole: bool = True) -> Iterator[None]:
        """With every other writer kept out, in any process, and (``whole``) every counted row checked."""
        with self._mutex:
            lock = self._state.lock("@labels")
            lock.acquire(self)
            try:
                with columns.readable(_unreadable):
                    if whole:
                        self._sound()
                    yield
            finally:
                lock.release()

    def _insert(self, places: list[tuple[str, ...]]) -> None:
        """Add what is not there yet, and have it counted."""
        added: list[tuple[Any, ...]] = []
        # Asked before: a harvest holds the log and waits for this database.
        counted = self._counted()
        with self._conn.transaction():
            last = self._settled(counted)
            for place in places:
                again = (f"{place[1]}{_AGAIN}", f"{place[1]}{_PAST_AGAIN}")
                noted = self._conn.execute(_NOTED, (*place[:4], last, *again)).fetchall()
                levels = [Label.from_dict(json.loads(label)).trust for (label,) in noted]
                if noted and min(levels) <= Label.from_dict(json.loads(place[4])).trust:
                    continue
                last += 1
                if noted:  # the same message came again and is worth less now: noted beside the first
                    place = (place[0], f"{place[1]}{_AGAIN}{last}", *place[2:])
                kid = self._keys.current
                self._conn.execute(_INSERT, (last, *place, kid, self._tag((last, *place), kid)))
                kept = self._conn.execute(f"{_ROWS} WHERE seq = ?", (last,)).fetchone()
                if (
                    kept is None or kept[1:6] != place
                ):  # a trigger in between: no label is better noted by nobody
                    raise _lost(1)
                added.append(kept)
        if last != counted:
            self._count(last, added=added)

    def _counted(self) -> int:
        known = self._log.head(PLACE)
        return known[1].generation if known else 0

    def _settled(self, counted: int) -> int:
        """The number of the last row, once those beyond the head that no writer left are gone."""
        last = counted
        for row in self._conn.execute(f"{_ROWS} WHERE seq > ? ORDER BY seq", (counted,)).fetchall():
            with suppress(TamperedError, UnknownKeyError):
                if row[0] == last + 1 and self._checked_row(row):
                    last += 1
                    continue
            self._conn.execute("DELETE FROM message_labels WHERE seq = ?", (row[0],))
        return last

    def _count(self, last: int, operation: str = "label", added: Sequence[tuple[Any, ...]] = ()) -> None:
        """Have the anchor count the rows, durably."""
        head = Head(PLACE[1], generation=last, cells=last)
        record = HeadRecord(PLACE[0], operation, time.time(), self._keys.current, head, None)
        self._log.write([record], sync=True, expect=[(PLACE, self._counted())])
        if operation == "label" and self._checked[1] == last - len(added):
            for row in added:
                self._rows.setdefault((row[3], row[4]), []).append(row)
            self._checked = (self._version(), last)
        else:
            self._checked = (None, 0)

    def find(self, message: str, digest: str) -> Label | None:
        """The label of a message; the least trusted where several threads noted one.

        Raises:
            IntegrityError: rows were removed or written without the key (case ``state``).
        """
        with self._mutex, columns.readable(_unreadable):
            self._sound()
            # Counted ones from what was checked: an index of the table could hide one, a look at all is dear.
            rows = self._rows.get((_plain(message), digest), [])
            rows = rows + self._conn.execute(_FIND, (self._checked[1], _plain(message), digest)).fetchall()
        found = [Label.from_dict(json.loads(self._checked_row(row)[5])) for row in rows]
        return min(found, key=lambda label: label.trust) if found else None

    def _version(self) -> object:
        return self._conn.version()

    def _sound(self) -> None:
        """That every counted row is there with its tag; again whenever another connection changed the file."""
        self._log.refresh()
        count, version = self._counted(), self._version()
        if self._checked == (version, count):
            return
        rows = self._conn.execute(f"{_ROWS} WHERE seq <= ? ORDER BY seq", (count,)).fetchall()
        # Everything else that writes state.db changes the version too: most of the time nothing is new here.
        digest, proved = self._proved
        same_rows = len(rows) >= proved and digest == _digest(rows[:proved])
        for row in rows[proved if same_rows else 0 :]:
            self._checked_row(row)
        if [row[0] for row in rows] != list(range(1, count + 1)):
            raise _lost(count - len(rows))
        if not same_rows or len(rows) - proved > _FEW:
            self._proved = _digest(rows), len(rows)
        self._rows = {}
        for row in rows:
            self._rows.setdefault((row[3], row[4]), []).append(row)
        self._checked = (version, count)

    def _checked_row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        *place, kid, tag = row
        if not same(self._tag(tuple(place), str(kid)), tag):
            raise TamperedError(
                "a label in the guard's own database was changed.",
                case="state",
                record=f"row {place[0]} of message_labels",
                code="MG432",
                why="Its tag does not match.",
                do="Restore state.db; or memguard anchor accept STORE --reason TEXT --apply writes it off.",
            )
        return row

    def _tag(self, place: tuple[Any, ...], kid: str) -> str:
        message = frame(b"memguard/label/1", *(str(part).encode("utf-8", "surrogatepass") for part in place))
        return hmac.digest(self._keys.subkey("label", kid), message, "sha256")[:16].hex()

    def rekey(self) -> None:
        """After a rotation: the rows and their head under the current key, so that the old one may go."""
        known = self._log.head(PLACE)
        if known is None or known[0] == self._keys.current:
            return
        with self._writing():
            kid, counted = self._keys.current, self._counted()
            with self._conn.transaction():
                last = self._settled(counted)
                for seq, *place, _, _ in self._conn.execute(f"{_ROWS} WHERE seq <= ?", (last,)).fetchall():
                    update = "UPDATE message_labels SET kid = ?, tag = ? WHERE seq = ?"
                    self._conn.execute(update, (kid, self._tag((seq, *place), kid), seq))
            self._count(last, "rekey")

    def _good(self) -> set[int]:
        """Numbers of the rows whose tag holds."""
        good = set()
        for row in self._conn.execute(_ROWS).fetchall():
            with suppress(IntegrityError):
                good.add(self._checked_row(row)[0])
        return good

    def _missing(self) -> list[int]:
        self._log.refresh()
        return sorted(set(range(1, self._counted() + 1)) - self._good())

    def lost(self) -> int:
        """How many counted labels are missing or changed."""
        with self._mutex, columns.readable(_unreadable):
            return len(self._missing())

    def write_off(self, reason: str) -> int:
        """An operator gives up on what is lost: a row that labels nothing takes each lost one's place.

        Returns:
            How many were written off; a signed note says so.
        """
        with self._writing(whole=False):
            lost = self._missing()
            details = {"reason": reason, "records": len(lost), "time": time.time()}
            self._log.write([Note(PLACE[0], "accept", details)], sync=True)
            for seq in lost:
                self._conn.execute("DELETE FROM message_labels WHERE seq = ?", (seq,))
                place = ("", "", f"lost-{seq}", "", canonical_json(Label().as_dict()).decode())
                kid = self._keys.current
                self._conn.execute(_INSERT, (seq, *place, kid, self._tag((seq, *place), kid)))
            return len(lost)

    def close(self) -> None:
        """Release the database. Idempotent."""
        with self._mutex:
            self._conn.close()


def _digest(rows: list[tuple[Any, ...]]) -> bytes:
    """Of rows as they are: version 2 writes what is equal, and of one type, as the same bytes."""
    return hashlib.sha256(marshal.dumps(rows, 2)).digest()


def _plain(text: str) -> str:
    """An id that a database can hold: a lone surrogate is spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _lost(missing: int) -> RollbackError:
    return RollbackError(
        f"{missing} labels are missing from the guard's own database.",
        case="state",
        record="message_labels in state.db",
        code="MG432",
        why="The anchor counts them; without them a message would be trusted more than it deserves.",
        do="Restore state.db; or memguard anchor accept STORE --reason TEXT --apply writes them off.",
    )


def _unreadable(name: str) -> IntegrityError:
    return IntegrityError(
        "the labels in the guard's own database cannot be read or written.",
        case="state",
        record="message_labels in state.db",
        code="MG432",
        why=f"The cause given is {name}.",
        do="Check home/state.db, its permissions and the space on its volume; if it was edited, restore it.",
    )
