"""That a SQLite database shows its tables as they are: no view, trigger or stunted index in between.

Someone who holds the file need not edit a row to hide one. A view under the table's name can show
everything to the first look and less to the second; an index with entries missing answers a search
that uses it and not a scan that does not. Pure, but for the statements that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memguard.errors import TamperedError

MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def check(master: Sequence[Any], tables: Sequence[str]) -> None:
    """That every table is a plain table with nothing attached that acts on its own.

    Raises:
        TamperedError: case ``schema``.
    """
    for kind, name, table, sql in master:
        if name in tables and (kind != "table" or str(sql).upper().startswith("CREATE VIRTUAL")):
            raise _crooked(f"{name} is not a plain table")
        if kind == "trigger" and table in tables:
            raise _crooked(f"a trigger stands on {table}")


def counts(master: Sequence[Any], tables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """For each whole index: its table, its name, and a statement that counts its entries and the table's rows."""
    for kind, name, table, sql in master:
        if kind == "index" and table in tables and " WHERE " not in f"{sql} ".upper():
            index, rows = _quoted(name), _quoted(table)
            yield (
                table,
                name,
                f"SELECT (SELECT count(*) FROM {rows} INDEXED BY {index}), (SELECT count(*) FROM {rows} NOT INDEXED)",  # noqa: S608
            )


def compare(table: str, name: str, found: Sequence[Any]) -> None:
    """That an index has an entry for every row.

    Raises:
        TamperedError: case ``schema``.
    """
    entries, rows = found
    if entries != rows:
        raise _crooked(f"index {name} has {entries} entries for {rows} rows of {table}")


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _crooked(what: str) -> TamperedError:
    return TamperedError(
        "the database does not show its rows as they are.",
        case="schema",
        record=what,
        code="MG406",
        why="A view, a trigger or a damaged index can show one thing to a check and another to a read.",
        do="Remove what was added, or REINDEX; then memguard audit STORE.",
    )
