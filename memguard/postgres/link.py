"""One connection by libpq: several statements in one round trip, typed errors, nothing secret in a message.

Statements go through ``psycopg.pq``. No text of the server's (it may quote a row) nor of the driver's ever reaches an
error: only SQLSTATEs, and words of ours for why a server could not be reached.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memguard.errors import AnchorError, UnsupportedError
from memguard.postgres.address import Address

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Rows = list[tuple[bytes | None, ...]]
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

    def run(self, sql: str, doing: str = "use") -> list[Rows]:
        """Send statements; the rows of each. All of it is one transaction unless it says otherwise.

        Raises:
            AnchorError: MG520 to MG525 and MG529. After MG520 and MG521 there is no connection any more; after MG521
                it is not known whether the statements were carried out.
        """
        return [_rows(result) for result in self._exchange(lambda conn: conn.send_query(sql.encode()), doing)]

    def ask(self, sql: str, values: Sequence[bytes | None], doing: str = "use") -> PGresult:
        """One statement with parameters ``$1``, ``$2``… in text form; the whole result. Raises as :meth:`run`."""
        return self._exchange(lambda conn: conn.send_query_params(sql.encode(), values), doing)[-1]

    def _exchange(self, send: Callable[[PGconn], None], doing: str) -> list[PGresult]:
        conn = self._conn if self.open else self._connect()
        assert conn is not None
        ok = _status()
        answers: list[PGresult] = []
        failure: AnchorError | None = None
        try:
            send(conn)
            while (result := _next(conn)) is not None:
                if result.status in ok:
                    answers.append(result)
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
        conn: PGconn = pq.PGconn.connect(self.address.conninfo.encode())
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
        try:
            backend, started = Link.run(self, _SETTINGS, "begin with")[-1][0]
        except BaseException:
            self.drop()
            raise
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
