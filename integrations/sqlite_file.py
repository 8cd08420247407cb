"""What kinds of stores share that lie in one SQLite file and are opened by the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memguard.integrations.local import local

#: ``PRAGMA synchronous``: 2 is FULL, 3 is EXTRA. NORMAL loses acknowledged commits at a power cut.
FULL = 2


def database(uri: str) -> Path:
    """The file behind ``sqlite:PATH`` (relative to the working directory).

    Raises:
        ConfigError: MG151, another scheme, or no such file.
    """
    return local(uri, "sqlite", "database", "agent.db")


def copied(path: Path, folder: Path) -> str:
    """A consistent copy of the database in ``folder``, sidecars folded in; its URI."""
    target = folder / "copy.db"
    with (
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    return f"sqlite:{target}"


def replaced(path: Path, table: str, column: str, where: tuple[str, str], old: str, new: str) -> bool:
    """Replace text in the rows of one key, as somebody with a SQL shell would; whether exactly one row changed."""
    with closing(sqlite3.connect(path)) as connection, connection:
        done = connection.execute(
            f"UPDATE {table} SET {column} = replace({column}, ?, ?) "  # noqa: S608 - constants of the callers
            f'WHERE "{where[0]}" = ? AND instr({column}, ?) > 0',
            (old, new, where[1], old),
        )
        return done.rowcount == 1
