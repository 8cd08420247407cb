"""The PostgreSQL anchor: one log of heads for the guards of several hosts, and the locks that they share.

Tables in a schema of memguard's own: ``anchor`` (one row: which log, which epoch, how long it is), ``record`` (the
records, each under the place in the log at which it ends) and ``note`` (what each store's writer is about to do).
Every append is one transaction that is durable when it returns. There is no append that is visible and may still be
lost: if the server crashed then, everybody who had read it would see a log that went back in time. So ``sync`` finds
nothing left to do, and lag mode saves nothing here.

The lock is one of the session's (an advisory lock), and an append is executed on the very connection that holds it:
:class:`memguard.postgres.Session` says why that fences.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from secrets import token_hex

from memguard.anchors.failures import damaged, misuse, rolled_back, within_limit
from memguard.anchors.lease import Held, Lease, pauses
from memguard.errors import AnchorError
from memguard.ports import Cursor
from memguard.postgres import Address, Link, Session, again, literal, missing, unhex
from memguard.postgres.link import Rows

FORMAT = 1
#: What a record takes in the log's length beside its payload, so that one of no bytes has a place too.
OVERHEAD = 24
#: Bytes of records that one statement brings to the server.
_BATCH = 4 << 20
_LOCK = "log"


class PostgresAnchor:
    """An anchor in one schema of a database. Make one with :meth:`create` or :meth:`open`.

    Cursor offsets are lengths of the log in bytes, from zero after each compaction. Threads may share one object;
    after a fork the child makes connections of its own. It makes two: one for locks and whatever needs them, one for
    reading. A connection that is lost is made again, and what was seen before is compared with what is there.
    """

    def __init__(self, address: Address) -> None:
        self.address, self.uri, self.syncs = address, address.uri, 0
        self.session, self._reader = Session(address), Link(address)
        self._reading = threading.Lock()
        #: The end of the log as it was when the lock was taken: while that is held it is nobody else's to move.
        self._now: Cursor | None = None
        self._seen: Cursor | None = None
        self._fresh: tuple[int, Cursor] | None = None
        self._owned, self._leases = False, dict[str, Lease]()
        self._id, self._life = "", ("", bytes(16))
        row = self._look(f"SELECT format, log_id, epoch, last FROM {address.quoted}.anchor", "open")[0]  # noqa: S608
        if not row:
            raise missing(self.uri)
        if row[0][0] != str(FORMAT).encode():
            raise AnchorError(
                "the anchor's tables are of another version.",
                case="anchor",
                code="MG524",
                record=self.uri,
                why=f"This program reads format {FORMAT}.",
                do="Use the version of memguard that made them, or a newer one.",
            )
        self._id = (row[0][1] or b"").decode()
        if row[0][3] == b"0":
            self._seen = self._place([(row[0][2], row[0][3], row[0][1])])

    @classmethod
    def create(cls, rest: str) -> PostgresAnchor:
        """Make a new, empty log, and the schema if it is not there.

        Args:
            rest: the address after the scheme's colon.

        Raises:
            ConfigError: MG526. AnchorError: there is a log already, or it cannot be made.
        """
        address = Address(rest)
        link, s = Link(address), address.quoted
        try:
            link.run(
                f"""BEGIN; CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE {s}.anchor (one boolean PRIMARY KEY DEFAULT true CHECK (one), format integer NOT NULL,
  log_id text NOT NULL, epoch bigint NOT NULL, last bigint NOT NULL);
CREATE TABLE {s}.record (place bigint PRIMARY KEY, payload bytea NOT NULL);
CREATE TABLE {s}.note (store text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
INSERT INTO {s}.anchor VALUES (true, {FORMAT}, {literal(token_hex(16))}, 1, 0); COMMIT""",  # noqa: S608
                "create",
            )
        except AnchorError as error:
            if getattr(error, "state", "") in ("42P07", "23505"):
                raise misuse(
                    "There is an anchor already.",
                    address.uri,
                    "Open it, or name another schema: ?schema=NAME.",
                ) from None
            raise
        finally:
            link.drop()
        return cls(address)

    @classmethod
    def open(cls, rest: str) -> PostgresAnchor:
        """Open an existing log.

        Raises:
            ConfigError: MG526. AnchorError: MG411 missing, MG520 unreachable, MG523 read-only, MG524 another format.
        """
        return cls(Address(rest))

    def __repr__(self) -> str:
        return f"PostgresAnchor({self.uri!r})"

    # -- what several hosts share --------------------------------------------------------------------------

    def lease(self, store: str) -> Lease:
        """The lock of a store among all writers on all hosts, which is also the place of its note."""
        made = self._leases.get(store)
        if made is None:
            made = self._leases[store] = Lease(self.session, store, self._where, self._told)
        return made

    def _told(self, rows: Rows | None) -> None:
        """Where the log ended a moment ago, when this thread took a lease: it asks that next."""
        self._fresh = None if rows is None else (threading.get_ident(), self._place(rows))

    def lock(self, name: str) -> Held:
        """The lock of something else that all hosts share."""
        return Held(self.session, name)

    def life(self) -> bytes:
        """Sixteen bytes that name this life of the server: they change when it crashes, restarts or fails over.

        What takes the place of the machine's boot: a note that was not durable may be lost with a life.
        """
        started = self.session.started or self._reader.started
        if self._life[0] != started:
            said = f"memguard/life/1 {self._id} {started}"
            self._life = (started, sha256(said.encode()).digest()[:16])
        return self._life[1]

    # -- the port --------------------------------------------------------------------------------------------

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the exclusive lock.

        Raises:
            AnchorError: MG522, another writer held it for longer than the address' patience; MG520 and on.
        """
        for _ in pauses(self.address, blocking):
            self._usable()
            answers = self.session.take(_LOCK, also=self._where)
            if answers is not None:
                try:
                    self._now = self._place(answers[0])
                except BaseException:
                    self.session.give(_LOCK)
                    raise
                self._owned = True
                return True
        return False

    def release(self) -> None:
        """Give the lock back."""
        self._must_hold("release")
        self._owned, self._now, self._fresh = False, None, None
        self.session.give(_LOCK)

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """Records after ``since``; the port's contract."""
        start = "0"
        if since is not None:
            known = f"CASE WHEN epoch = {since.epoch} THEN {since.offset} ELSE 0 END"
            start = f"(SELECT {known} FROM {self._schema}.anchor)"  # noqa: S608
        sql = f"""BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._where};
SELECT place, payload FROM {self._schema}.record WHERE place > {start} ORDER BY place; COMMIT"""  # noqa: S608
        _, where, rows, _ = self._look(sql, "read")
        now = self._place(where)
        whole = since is None or since.epoch < now.epoch
        if since is not None and not whole and (since.epoch, since.offset) > (now.epoch, now.offset):
            raise rolled_back(
                self.uri, f"It is at {now.epoch}/{now.offset}; {since.epoch}/{since.offset} was seen."
            )
        at = 0 if since is None or whole else since.offset
        records = []
        for place, payload in rows:
            record = unhex(payload)
            at += len(record) + OVERHEAD
            if int(place or 0) != at:
                raise damaged(self.uri, "Records are missing from the table, or there are too many.")
            records.append(record)
        if at != now.offset:
            raise damaged(self.uri, "Records are missing from the table, or there are too many.")
        self._seen = now
        return records, now, whole and since is not None

    def changed(self, since: Cursor) -> bool:
        """Whether :meth:`read` would answer anything new: one row, or nothing at all while the lock is held."""
        now, fresh = self._now, self._fresh
        if now is not None and self.session.holds(_LOCK):
            return now != since
        if fresh is not None and fresh[0] == threading.get_ident():
            self._fresh = None
            return fresh[1] != since
        return self._place(self._look(self._where, "read")[0]) != since

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """Append under the lock, in one durable transaction whether ``sync`` or not."""
        self._usable()
        now = self._must_hold("append")
        within_limit(records, self.uri)
        places, at = [], now.offset
        for record in records:
            at += len(record) + OVERHEAD
            places.append(f"({at}, {literal(record)})")
        if records:
            sql = f"""WITH moved AS (UPDATE {self._schema}.anchor SET last = {at} WHERE {self._still(now)} RETURNING 1)
INSERT INTO {self._schema}.record SELECT v.* FROM moved, (VALUES {", ".join(places)}) AS v RETURNING 1"""  # noqa: S608
            if len(self.session.run(sql, "append to")[0]) != len(records):
                raise _escaped(self.uri)
        seen, self._now = self._seen == now, Cursor(now.epoch, at)
        if seen:
            self._seen = self._now
        self.syncs += sync
        return self._now

    def sync(self) -> None:
        """Nothing is left to do: every append is durable."""
        self._usable()
        self.syncs += 1

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """Replace the log in one durable transaction, under the lock."""
        self._usable()
        now = self._must_hold("compact")
        kept = tuple(records)
        within_limit(kept, self.uri)
        if self._seen != now:
            raise misuse("The log holds records that were not read.", self.uri, "Read to its end first.")
        at, session = 0, self.session
        with session.io, self._undone():
            moved = f"UPDATE {self._schema}.anchor SET epoch = epoch + 1 WHERE {self._still(now)} RETURNING 1"  # noqa: S608
            if not session.run(f"BEGIN; {moved}", "compact")[1]:
                raise _escaped(self.uri)
            session.run(f"DELETE FROM {self._schema}.record", "compact")  # noqa: S608
            for batch in _batches(kept):
                places = []
                for record in batch:
                    at += len(record) + OVERHEAD
                    places.append(f"({at}, {literal(record)})")
                session.run(f"INSERT INTO {self._schema}.record VALUES {', '.join(places)}", "compact")  # noqa: S608
            session.run(f"UPDATE {self._schema}.anchor SET last = {at}; COMMIT", "compact")  # noqa: S608
        self._now = self._seen = Cursor(now.epoch + 1, at)
        self.syncs += 1
        return self._now

    def close(self) -> None:
        """Release both connections, and so whatever is locked on them. Idempotent."""
        closed = misuse("The anchor is closed.", self.uri, "Open it again.")
        self._owned, self._now = False, None
        with self.session.io:
            self.session.refusal = self.session.refusal or closed
            self.session.drop()
        with self._reading:
            self._reader.refusal = self.session.refusal
            self._reader.drop()

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _schema(self) -> str:
        return self.address.quoted

    @property
    def _where(self) -> str:
        return f"SELECT epoch, last, log_id FROM {self._schema}.anchor"  # noqa: S608

    def _still(self, now: Cursor) -> str:
        """That the log is where it was when the lock was taken, and this the session that took it.

        A pooler that gives each transaction another session would make locks of no worth: it is found here.
        """
        return (
            f"log_id = {literal(self._id)} AND epoch = {now.epoch} AND last = {now.offset} "
            f"AND pg_backend_pid() = {self.session.backend}"
        )

    def _look(self, sql: str, doing: str) -> list[list[tuple[bytes | None, ...]]]:
        """Read on the connection for reading; once more where it had been lost, since reading changes nothing."""
        self._usable()
        with self._reading:
            again = self._reader.open
            try:
                return self._reader.run(sql, doing)
            except AnchorError as error:
                if error.code != "MG521" or not again:
                    raise
                return self._reader.run(sql, doing)

    def _place(self, rows: Sequence[tuple[bytes | None, ...]]) -> Cursor:
        if len(rows) != 1 or rows[0][2] != self._id.encode():
            raise rolled_back(self.uri, "Another log stands in its place.")
        return Cursor(int(rows[0][0] or 0), int(rows[0][1] or 0))

    @contextmanager
    def _undone(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(AnchorError):
                self.session.run("ROLLBACK")
            raise

    def _usable(self) -> None:
        if self.session.refusal is not None:
            raise again(self.session.refusal)

    def _must_hold(self, doing: str) -> Cursor:
        self._usable()
        if not self._owned or self._now is None:
            raise misuse(f"Refused to {doing} without the anchor's lock.", self.uri, "Call acquire() first.")
        return self._now


def _batches(records: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch, size = list[bytes](), 0
    for record in records:
        batch.append(record)
        size += len(record)
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _escaped(where: str) -> AnchorError:
    return AnchorError(
        "the anchor's log was moved while its lock was held.",
        case="anchor",
        code="MG528",
        record=where,
        why="Another program wrote it without the lock, or a pooler changed the session under way.",
        do="Connect to the server itself or through a pooler that pools sessions; see who else may write the schema.",
    )
