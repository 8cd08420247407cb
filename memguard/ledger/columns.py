"""Columns of ``home/state.db``, in which whoever may write there may have left anything.

A guard's own table is read so that what does not belong there fails its tag, and what cannot be read at all is
an error of that table: never one of SQLite, whose text may quote a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memguard.errors import IntegrityError


def text(raw: bytes) -> str:
    """Text of a column, for ``text_factory``; what is no UTF-8 was not written here, and its tag will say so."""
    return raw.decode("utf-8", "surrogateescape")


@contextmanager
def readable(failed: Callable[[str], IntegrityError]) -> Iterator[None]:
    """Make the error of a table of what SQLite raises inside; ``failed`` is given the cause's name."""
    try:
        yield
    except sqlite3.Error as error:
        raise failed(getattr(error, "sqlite_errorname", None) or type(error).__name__) from None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One that is committed at the end of the block, and undone if anything fails, the commit included."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite has undone it itself, where the disk was full
            connection.execute("ROLLBACK")
        raise
