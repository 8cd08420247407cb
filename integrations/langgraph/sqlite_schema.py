"""That a SQLite database is laid out as LangGraph lays it out, and that its indexes tell the truth.

Someone who holds the file need not edit a row to hide one. A view under a table's name shows everything to
the first look and less to the second; a trigger or a unique index deletes one row while another is written;
an index whose entries are wrong answers a search that uses it and not a scan that does not; a key declared
in descending order gives the oldest rows for the newest. So nothing may stand on the tables that the
framework does not make, and what it makes must read as it makes it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from memguard.effects import Call, Operation
from memguard.errors import TamperedError

_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master"
Run = Callable[[str], Any]


class Layout(NamedTuple):
    """What a framework makes: the texts of its tables (every version's) and of its named indexes."""

    tables: dict[str, frozenset[str]]
    indexes: dict[str, str]


def layout(makers: Iterable[Callable[[sqlite3.Connection], object]], tables: Sequence[str]) -> Layout:
    """The layout that a framework makes, seen on empty databases in memory.

    Args:
        makers: each sets up one database, as one version of the framework does.
    """
    texts: dict[str, set[str]] = {name: set() for name in tables}
    indexes: dict[str, str] = {}
    for make in makers:
        with closing(sqlite3.connect(":memory:", check_same_thread=False)) as conn:
            make(conn)
            for kind, name, table, sql in conn.execute(_MASTER):
                if kind == "table" and name in texts:
                    texts[name].add(_plain(sql))
                elif kind == "index" and table in texts and sql is not None:
                    indexes[name] = _plain(sql)
    return Layout({name: frozenset(found) for name, found in texts.items()}, indexes)


def _plain(sql: object) -> str:
    """A statement without comments and differences of space and case."""
    text = re.sub(r"--[^\n]*", " ", str(sql)).replace("IF NOT EXISTS", " ")
    return re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", text)).strip().lower()


class Schema:
    """Looks at one database, as often as something in it changed."""

    def __init__(self, expected: Layout) -> None:
        self._expected = expected
        self._seen: object = None
        self._indexes_seen: object = None

    def check(self, run: Run, hint: object) -> Operation[None]:
        """Look again, unless ``hint`` says that nobody changed the database since.

        Raises:
            TamperedError: case ``schema``.
        """
        if hint is not None and hint == self._seen:
            return
        master = yield Call(run, _MASTER)
        found = self._indexes(master)
        # What an index holds can be bent at rest, or by rewriting the schema; both are seen here once.
        state = (tuple(map(tuple, master)), (yield Call(run, "PRAGMA schema_version"))[0][0])
        if state != self._indexes_seen:
            for table, name in found:
                yield from _truthful(run, table, name)
            self._indexes_seen = state
        self._seen = hint

    def _indexes(self, master: Sequence[Any]) -> list[tuple[str, str]]:
        """The whole indexes of the tables, once everything that stands there is the framework's own."""
        found = []
        for kind, name, table, sql in master:
            if (
                str(table).lower() not in self._expected.tables
                and str(name).lower() not in self._expected.tables
            ):
                continue
            if kind == "table":
                if _plain(sql) not in self._expected.tables.get(name, ()):
                    raise _crooked(f"table {name} is not laid out as LangGraph lays it out")
            elif kind != "index":
                raise _crooked(f"a {kind} {name!r} stands on table {table}")
            elif sql is None:
                found.append((table, name))
            elif self._expected.indexes.get(name) != _plain(sql):
                raise _crooked(f"index {name!r} on table {table} is not one of LangGraph's")
            elif not re.search(r"\bwhere\b", _plain(sql)):  # a partial index answers no read of ours
                found.append((table, name))
        return found


def _truthful(run: Run, table: str, name: str) -> Operation[None]:
    """That an index has exactly the entries of its table's rows."""
    columns = [str(row[2]) for row in (yield Call(run, f"PRAGMA index_info({_quoted(name)})"))]
    if not columns or "None" in columns:
        raise _crooked(f"index {name!r} is over an expression")
    rows, index, named = _quoted(table), _quoted(name), [_quoted(column) for column in columns]
    # One walk over the rows, each with a search for its entry: as many entries as rows, and every row has its own.
    own = " AND ".join(f"entry.{column} IS main.{column}" for column in (*named, "rowid"))
    entry = f"SELECT 1 FROM {rows} AS entry INDEXED BY {index} WHERE {own}"  # noqa: S608 - names from sqlite_master, quoted
    entries = f"SELECT rowid, {', '.join(named)} FROM {rows} INDEXED BY {index}"  # noqa: S608
    walked = yield Call(run, f"SELECT count(*), total(EXISTS ({entry})) FROM {rows} AS main NOT INDEXED")  # noqa: S608
    counted = yield Call(run, f"SELECT count(*) FROM ({entries})")  # noqa: S608
    if not walked[0][0] == walked[0][1] == counted[0][0]:
        raise _crooked(f"index {name!r} does not say what table {table} holds")


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _crooked(what: str) -> TamperedError:
    return TamperedError(
        "the database does not show its rows as they are.",
        case="schema",
        record=what,
        code="MG406",
        why="A view, a trigger, an index or another layout can show one thing to a check and another to a read.",
        do="Drop what is not LangGraph's (DROP INDEX, DROP TRIGGER, REINDEX); then memguard audit STORE.",
    )
