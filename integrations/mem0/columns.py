"""What SQLite makes of a value on its way into a column of Mem0's database.

A column has an affinity: the text ``20240501`` in a DATETIME column comes back as a number. A row is sealed in the form
in which it will be read, so its values go through columns of the same types first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from memguard.errors import UnsupportedError

#: Columns that Mem0 does not declare as TEXT.
TYPES = {"created_at": "DATETIME", "updated_at": "DATETIME", "is_deleted": "INTEGER"}
#: Members of a memory's payload that its history repeats.
REPEATED = ("created_at", "updated_at", "actor_id", "role")


def read_back(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns as a row that was written with them gives them back.

    Raises:
        UnsupportedError: MG542, one holds a value that no column takes.
    """
    names = list(columns)
    declared = ", ".join(f"{name} {TYPES.get(name, 'TEXT')}" for name in names)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE line ({declared})")
        try:
            marks = ", ".join("?" * len(names))
            db.execute(f"INSERT INTO line VALUES ({marks})", list(columns.values()))  # noqa: S608 - marks only
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise _unkept(type(error).__name__) from None
        (found,) = db.execute("SELECT * FROM line").fetchall()
    return dict(zip(names, found, strict=True))


def check(payload: Mapping[str, Any]) -> None:
    """That a memory's history will take what it repeats of the memory, before either is written.

    Raises:
        UnsupportedError: MG542.
    """
    repeated = {name: payload[name] for name in REPEATED if payload.get(name) is not None}
    if repeated:
        read_back(repeated)


def _unkept(why: str) -> UnsupportedError:
    return UnsupportedError(
        "the history of a memory cannot keep one of its values.",
        code="MG542",
        why=f"SQLite takes text and numbers of 64 bits in created_at, updated_at, actor_id and role ({why}).",
        do="Use text or numbers there.",
    )
