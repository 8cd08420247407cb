"""One connection to PostgreSQL, as memguard's backends use it: by libpq, typed errors, nothing secret in a message.

Statements go through ``psycopg.pq`` in the simple protocol: one round trip for several of them, and no text of the
server's (it may quote a row) nor of the address ever reaches an error. psycopg is imported when a connection is made.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from memguard.errors import AnchorError, ConfigError, UnsupportedError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

#: Parameters of ours in an address; every other one is libpq's.
OURS = ("schema", "patience")
#: Seconds that a lock is waited for.
PATIENCE = 30.0
#: What libpq is told where the address does not say it. A standby that takes no writes is no anchor, and a network
#: that swallows packets must not hold a program for longer than half a minute.
_DEFAULTS = {
    "connect_timeout": "10",
    "target_session_attrs": "read-write",
    "application_name": "memguard",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# The server notices a host that went away within half a minute too, and gives its locks to others. What an
# administrator asked for beyond "on" (a standby that must have it) is left as it is.
_SETTINGS = """SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET bytea_output = 'hex';
SET statement_timeout = '30s'; SET search_path = pg_catalog; SET client_min_messages = 'error';
SET default_transaction_isolation = 'read committed';
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
SELECT pg_backend_pid(), extract(epoch FROM pg_postmaster_start_time())::text"""
_UNREACHABLE = (
    ("refused", "Nothing listens there."),
    ("timeout", "It did not answer in time."),
    ("timed out", "It did not answer in time."),
    ("translate host", "Its host name is not known."),
    ("password", "It did not accept who asked."),
    ("authentication", "It did not accept who asked."),
    ("pg_hba", "It did not accept who asked."),
    ("does not exist", "Its database or role does not exist."),
    ("starting up", "It is starting up."),
    ("shutting down", "It is shutting down."),
    ("recovery", "It is recovering."),
    ("too many", "It has no connection left."),
    ("certificate", "Its certificate was not accepted."),
)


class Address:
    """A URI taken apart: ``//user@host:port/database?schema=NAME&patience=SECONDS&libpq's parameters``.

    Args:
        rest: what follows the scheme and its colon.

    Attributes:
        uri: the whole, fit to be shown.
        schema: where memguard's own tables are; quoted: as SQL writes it.
        patience: seconds that a lock is waited for.

    Raises:
        ConfigError: MG526, it holds a password, or a parameter of ours is wrong.
    """

    def __init__(self, rest: str) -> None:
        base, _, query = rest.partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        who, at, _ = base.removeprefix("//").partition("/")[0].rpartition("@")
        if (at and ":" in who) or "password" in given or "sslpassword" in given:
            raise ConfigError(
                "the address of a PostgreSQL server holds a password.",
                code="MG526",
                where="postgresql:",
                why="Addresses are written to memguard.toml and shown in reports.",
                do="Leave it out: PGPASSWORD, ~/.pgpass (PGPASSFILE) or a service file give it to the driver.",
            )
        if not base.startswith("//"):
            raise ConfigError("an address of a PostgreSQL server begins with postgresql://", code="MG526")
        self.schema = given.pop("schema", "memguard")
        self.uri = f"postgresql:{rest}"
        patience = given.pop("patience", str(PATIENCE))
        if not re.fullmatch("[a-z_][a-z0-9_]{0,47}", self.schema) or self.schema.startswith("pg_"):
            raise ConfigError(
                "the schema in the address of a PostgreSQL server cannot be used.",
                code="MG526",
                do="Use lower-case letters, digits and _, at most 48, not beginning with pg_ or a digit.",
            )
        if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", patience):
            raise ConfigError(
                "patience in the address of a PostgreSQL server is seconds, 0 to 9999.", code="MG526"
            )
        self.quoted, self.patience = f'"{self.schema}"', float(patience)
        pairs = {**_DEFAULTS, **given}
        self.conninfo = f"postgresql:{base}?" + "&".join(
            f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items()
        )


class Link:
    """One connection. Not locked: its owner is. Made when first used, and again after :meth:`drop`.

    Attributes:
        serial: counts connections: what was locked on an earlier one is not locked any more.
        started: when the server was started, as text: names this life of it. Empty before the first connection.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.serial, self.started, self.backend = 0, "", ""
        self._conn: PGconn | None = None
        self._pid = os.getpid()
        #: Set once it is closed for good.
        self.refusal: AnchorError | None = None

    @property
    def open(self) -> bool:
        """Whether there is a connection, so far as this side knows."""
        return self._conn is not None and self._pid == os.getpid()

    def run(self, sql: str, doing: str = "use") -> list[list[tuple[bytes | None, ...]]]:
        """Send statements; the rows of each. All of it is one transaction unless it says otherwise.

        Raises:
            AnchorError: MG520 to MG525 and MG529. After MG520 and MG521 there is no connection any more; after MG521
                it is not known whether the statements were carried out.
        """
        conn = self._conn if self.open else self._connect()
        assert conn is not None
        ok = _status()
        answers: list[list[tuple[bytes | None, ...]]] = []
        failure: AnchorError | None = None
        try:
            conn.send_query(sql.encode())
            while (result := _next(conn)) is not None:
                if result.status in ok:
                    answers.append(_rows(result))
                elif failure is None:
                    failure = self._refused(result, doing)
        except _psycopg_error():
            failure = self._broken(doing)
        if failure is not None:
            if failure.code == "MG521" or conn.status != 0:  # the server ended it, with or without a word
                self.drop()
                raise failure if failure.code == "MG521" else self._broken(doing)
            if conn.transaction_status != 0:
                with suppress(_psycopg_error()):
                    conn.exec_(b"ROLLBACK")
            raise failure
        return answers

    def drop(self) -> None:
        """Close the connection; the next use makes another. A connection of a parent process is left to it."""
        conn, self._conn = self._conn, None
        if conn is not None:
            if self._pid == os.getpid():
                conn.finish()
            else:
                _abandoned.append(conn)

    def _connect(self) -> PGconn:
        self.drop()
        if self.refusal is not None:
            raise again(self.refusal)
        pq = driver()
        conn = pq.PGconn.connect(self.address.conninfo.encode())
        if conn.status != pq.ConnStatus.OK:
            said = (conn.error_message or b"").decode("utf-8", "replace").lower()
            conn.finish()
            if "read-only" in said or "not in recovery" in said or "hot standby" in said:
                raise _standby(self.address.uri)
            why = next((words for sign, words in _UNREACHABLE if sign in said), "The driver gives no cause.")
            raise AnchorError(
                "the PostgreSQL server cannot be reached.",
                case="anchor",
                code="MG520",
                record=self.address.uri,
                why=why,
                do="Check address, network and server; nothing was changed, and the call can be made again.",
            )
        self._conn, self._pid = conn, os.getpid()
        self.serial += 1
        backend, started = self.run(_SETTINGS, "begin with")[-1][0]
        self.backend, self.started = (backend or b"").decode(), (started or b"").decode()
        return conn

    def _broken(self, doing: str) -> AnchorError:
        return AnchorError(
            f"the connection to the PostgreSQL server was lost while memguard went to {doing} it.",
            case="anchor",
            code="MG521",
            record=self.address.uri,
            why="Whether the server carried the last statement out is not known here.",
            do="Call again: what happened is looked up first. If it goes on, check the server and the network.",
        )

    def _refused(self, result: PGresult, doing: str) -> AnchorError:
        """What the server said, by its SQLSTATE alone."""
        state = (result.error_field(ord("C")) or b"").decode("ascii", "replace")
        where = self.address.uri
        if state[:2] in ("57", "08") and state not in ("57014",):
            return self._broken(doing)
        if state in ("25006", "25P02"):
            return _standby(where)
        if state == "42501":
            return AnchorError(
                f"this role may not {doing} memguard's tables in PostgreSQL.",
                case="anchor",
                code="MG525",
                record=where,
                why="The server says: permission denied.",
                do="GRANT what docs/postgresql.md lists to the role in the address.",
            )
        if state in ("42P01", "3F000"):
            return missing(where)
        made = AnchorError(
            f"PostgreSQL would not {doing} memguard's tables.",
            case="anchor",
            code="MG529",
            record=where,
            why=f"The server says SQLSTATE {state}.",
            do="Look the state up in PostgreSQL's manual; 53100 is a full disk, 57014 a statement that took too long.",
        )
        made.state = state  # type: ignore[attr-defined]
        return made


class Session(Link):
    """The connection on which a process holds locks, and on which everything runs that needs them.

    A lock of PostgreSQL belongs to its connection. What is executed on that connection is executed while the lock
    is held or not at all: the server itself keeps a writer out whose lock went to somebody else. So after a lost
    connection nothing may go on as if on the old one: there is no new connection before every lock of the
    old one was given back by its holder, who learns of the loss by what fails.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.io = threading.RLock()
        self._names: dict[str, threading.Lock] = {}
        #: What this process holds, and on which connection.
        self._held: dict[str, int] = {}

    def run(self, sql: str, doing: str = "use") -> list[list[tuple[bytes | None, ...]]]:
        """As :meth:`Link.run`, for one thread at a time.

        Raises:
            AnchorError: MG527, the connection on which a lock was taken is lost.
        """
        with self.io:
            self._own()
            if self._orphaned():
                raise self.fenced()
            return super().run(sql, doing)

    def holds(self, name: str) -> bool:
        """Whether a lock is held on the connection as it is, so far as this side knows."""
        return self.open and self._held.get(name) == self.serial

    def take(self, name: str, *, also: str = "") -> list[list[tuple[bytes | None, ...]]] | None:
        """Try for a lock; the answers of ``also``, executed once it is held, or None if another has it.

        Raises:
            AnchorError: the server is not there, or will not.
        """
        with self.io:
            self._own()
            if not self._names.setdefault(name, threading.Lock()).acquire(False):
                return None
            got = False
            try:
                if self._orphaned():
                    return None  # one who still has to notice that the connection is gone
                sql = f"SELECT pg_try_advisory_lock({self._key(name)}); {also}"
                again = self.open and not self._held
                try:
                    answers = super().run(sql, "lock")
                except AnchorError as error:
                    if error.code != "MG521" or not again:
                        raise
                    answers = super().run(sql, "lock")  # it had been idle, and its server was started again
                got = answers[0][0][0] == b"t"
                if got:
                    self._held[name] = self.serial
                return answers[1:] if got else None
            finally:
                if not got:
                    self._names[name].release()

    def give(self, name: str, *, first: str = "") -> None:
        """Give a lock back, after ``first`` in the same round trip.

        Never fails: with the connection lost the lock is gone, and what was to be done is done or is looked up later.
        """
        with self.io:
            self._own()
            if self.holds(name):
                try:
                    super().run(f"{first}; SELECT pg_advisory_unlock({self._key(name)})", "unlock")
                except AnchorError:
                    self.drop()  # whatever of it was carried out: the lock must not stay
            if self._held.pop(name, None) is not None:
                self._names[name].release()

    def fenced(self) -> AnchorError:
        """The error for a writer whose lock may be another's by now."""
        return AnchorError(
            "a lock in PostgreSQL was lost while it was held.",
            case="anchor",
            code="MG527",
            record=self.address.uri,
            why="Its connection ended, and another writer may hold it now: this one may not go on.",
            do="Call again: what it had begun is finished or undone first. If it goes on, check the server.",
        )

    def _own(self) -> None:
        """In a forked child: locks and connection are the parent's."""
        if self._pid != os.getpid():
            self.drop()
            self._names, self._held, self._pid = {}, {}, os.getpid()

    def _orphaned(self) -> bool:
        return any(serial != self.serial or not self.open for serial in self._held.values())

    def _key(self, name: str) -> int:
        return lock_key(self.address.schema, name)


def lock_key(schema: str, name: str) -> int:
    """The 64-bit number of a lock: PostgreSQL's advisory locks have no names."""
    import hashlib

    said = b"memguard/lock/1\0" + schema.encode() + b"\0" + name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(said).digest()[:8], "big", signed=True)


def literal(value: bytes | str) -> str:
    """Bytes or text as SQL writes it. Text must hold no NUL."""
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    return "'" + value.replace("'", "''") + "'"


def unhex(value: bytes | None) -> bytes:
    """The bytes of a bytea column."""
    return bytes.fromhex((value or b"\\x")[2:].decode("ascii"))


def again(known: AnchorError) -> AnchorError:
    """A refusal, to be raised once more."""
    return AnchorError(
        known.what, case=known.case, record=known.record, code=known.code, why=known.why, do=known.do
    )


def missing(where: str) -> AnchorError:
    """There is no anchor of that name."""
    return AnchorError(
        "Could not find the anchor.",
        case="anchor",
        record=where,
        why="The database holds no log of heads in that schema.",
        do="Check the address; bring the database back; `memguard anchor recover` if it is lost.",
    )


def driver() -> Any:
    """psycopg's libpq wrapper.

    Raises:
        UnsupportedError: MG133, it is not installed.
    """
    try:
        from psycopg import pq
    except ImportError as error:
        raise UnsupportedError(
            "the PostgreSQL backends need psycopg, which is not installed",
            code="MG133",
            do="pip install 'memguard-middleware[postgres]'",
        ) from error
    return pq


def _standby(where: str) -> AnchorError:
    return AnchorError(
        "the PostgreSQL server takes no writes.",
        case="anchor",
        code="MG523",
        record=where,
        why="It is a standby, or its transactions are read-only.",
        do="Name the primary, or all servers of the cluster: postgresql://user@a,b/db?target_session_attrs=read-write",
    )


def _status() -> tuple[int, ...]:
    exec_status = driver().ExecStatus
    return (exec_status.COMMAND_OK, exec_status.TUPLES_OK, exec_status.EMPTY_QUERY)


def _psycopg_error() -> type[Exception]:
    from psycopg import Error

    return Error


def _next(conn: PGconn) -> PGresult | None:
    """The next result. Waited for at the socket: libpq's own wait would keep every other thread from running."""
    while conn.is_busy():
        waiting = select.poll()
        waiting.register(conn.socket, select.POLLIN)
        waiting.poll()
        conn.consume_input()
    return conn.get_result()


def _rows(result: PGresult) -> list[tuple[bytes | None, ...]]:
    columns: Sequence[int] = range(result.nfields)
    rows: Iterable[int] = range(result.ntuples)
    return [tuple([result.get_value(row, column) for column in columns]) for row in rows]


#: Connections inherited by a fork. Kept: closing one here would end its parent's session.
_abandoned: list[Any] = []

__all__ = [
    "Address",
    "Link",
    "Session",
    "again",
    "driver",
    "literal",
    "lock_key",
    "missing",
    "unhex",
]
