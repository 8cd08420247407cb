"""Tables of a home in PostgreSQL, spoken to in the SQL that SQLite understands too.

What differs between the two is translated here, so that a table's class is written once: the marks of
parameters, types in a CREATE TABLE, and how one learns that others changed a table. Text is compared by its bytes
(COLLATE "C"), as in SQLite, and may hold U+0000, which PostgreSQL cannot store: it is spelt otherwise there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memguard.errors import AnchorError, IntegrityError
from memguard.postgres.session import lock_key
from memguard.postgres.sql import literal, unhex

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from memguard.postgres.session import Session

_TYPES = (
    (r"\bINTEGER\b", "bigint"),
    (r"\bBLOB\b", "bytea"),
    (r"\bREAL\b", "double precision"),
    (r"\bTEXT\b", 'text COLLATE "C"'),
    (r"\s*WITHOUT ROWID\b", ""),
)
_MARK = re.compile(r"\?(\d*)")
_MADE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
#: By type's number: int2, int4, int8, float4, float8, bool, bytea. Anything else is text.
_BOOL, _BYTEA, _WHOLE, _REAL = 16, 17, (20, 21, 23, 26), (700, 701)
_NUL, _ESCAPE = "\0", "\uf8ff"


class Answer:
    """What a statement answered: the part of a DB-API cursor that the tables use."""

    def __init__(self, rows: list[tuple[Any, ...]], count: int) -> None:
        self._rows, self.rowcount = rows, count

    def fetchone(self) -> Any:
        """The first row, or None."""
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        """Every row."""
        return self._rows


class PostgresTables:
    """Some tables in the schema of a session. Threads may share it; a transaction keeps other threads waiting.

    Everything is executed on the session that holds the locks, so that a writer who lost one cannot write either.
    Every commit is durable.

    Args:
        schema: their ``CREATE TABLE IF NOT EXISTS`` statements, as SQLite would take them.

    Raises:
        AnchorError: from every method, what the server says or that it is not there.
    """

    #: A column holds what its type says: nobody can leave a text where a number belongs.
    typed = True

    def __init__(self, session: Session, schema: Sequence[str]) -> None:
        self._held, self._closed, self._schema = session, False, session.address.quoted
        self._names: list[str] = []
        for statement in schema:
            found = _MADE.search(statement)
            if found is not None:  # views are for those who look at the file
                self._names.append(found[1])
                self._make(found[1], statement)

    def _make(self, name: str, statement: str) -> None:
        place = f"{self._schema}.{name}"
        if (
            self._session.run(f"SELECT to_regclass({literal(place)})", "look at", repeatable=True)[0][0][0]
            is not None
        ):
            return
        for pattern, ours in _TYPES:
            statement = re.sub(pattern, ours, statement)
        statement = statement.replace(name, place, 1)
        key = lock_key(self._session.address.schema, "tables")
        self._session.run(f"BEGIN; SELECT pg_advisory_xact_lock({key}); {statement}; COMMIT", "make")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Answer:
        """One statement, with ``?`` (or ``?1``) for values."""
        twice_is_once = sql.startswith("SELECT") or " ON CONFLICT" in sql
        text = _translated(sql, tuple(self._names), self._schema)
        result = self._session.ask(text, _sent(values), repeatable=twice_is_once)
        return Answer(_received(result), result.command_tuples or 0)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """One statement for each of many rows."""
        text = _translated(sql, tuple(self._names), self._schema)
        for values in rows:
            self._session.ask(text, _sent(values))

    def version(self) -> object:
        """Differs after any statement changed a row: how many rows there are, and the newest transaction among them."""
        parts = [
            f"SELECT count(*), max(xmin::text::bigint) FROM {self._schema}.{name}"  # noqa: S608
            for name in self._names
        ]
        return tuple(rows[0] for rows in self._session.run("; ".join(parts), "look at", repeatable=True))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One that is committed at the end of the block, durably, and undone if anything fails.

        Raises:
            RuntimeError: one is open already in this thread: the inner one's end would be the outer one's.
        """
        session = self._session
        with session.io:
            if session.transaction:
                raise RuntimeError("a transaction on the session of the locks is open already")
            session.run("BEGIN", repeatable=True)
            session.transaction = True
            try:
                yield
                session.run("COMMIT")
            except BaseException:
                with suppress(AnchorError):
                    session.run("ROLLBACK")
                raise
            finally:
                session.transaction = False

    def close(self) -> None:
        """Be used no more; the session goes on. Idempotent."""
        self._closed = True

    @property
    def _session(self) -> Session:
        if self._closed:
            raise IntegrityError(
                "The table is closed.", case="state", record=self._held.address.uri, do="Open it again."
            )
        return self._held


@lru_cache(maxsize=512)
def _translated(sql: str, names: tuple[str, ...], schema: str) -> str:
    count = iter(range(1, 1000))
    sql = _MARK.sub(lambda mark: f"${mark[1] or next(count)}", sql)
    for name in names:  # the session finds no table by its bare name: nobody else's can stand before ours
        sql = re.sub(rf"\b(FROM|INTO|UPDATE) {name}\b", rf"\1 {schema}.{name}", sql)
    return sql


def _sent(values: Sequence[Any]) -> list[bytes | None]:
    return [None if value is None else _text(value).encode() for value in values]


def _text(value: Any) -> str:
    if isinstance(value, str):
        if _NUL in value or _ESCAPE in value:
            return value.replace(_ESCAPE, _ESCAPE + "1").replace(_NUL, _ESCAPE + "0")
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    return repr(value)  # numbers; a boolean is none of ours


def _unescaped(raw: bytes) -> str:
    text = raw.decode()
    return text.replace(_ESCAPE + "0", _NUL).replace(_ESCAPE + "1", _ESCAPE) if _ESCAPE in text else text


def _reader(kind: int) -> Callable[[bytes], Any]:
    if kind in _WHOLE:
        return int
    if kind in _REAL:
        return float
    if kind == _BOOL:
        return b"t".__eq__
    return unhex if kind == _BYTEA else _unescaped


def _received(result: PGresult) -> list[tuple[Any, ...]]:
    readers = [_reader(result.ftype(column)) for column in range(result.nfields)]
    rows = []
    for row in range(result.ntuples):
        raw = [result.get_value(row, column) for column in range(len(readers))]
        rows.append(tuple([None if v is None else read(v) for read, v in zip(readers, raw, strict=True)]))
    return rows
