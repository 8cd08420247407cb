"""Where a home keeps tables of its own: ``state.db`` in its folder, or the database that holds its anchor.

Two dialects of one small port. A table's class asks :func:`state_at` for its place, gives its schema to ``connect``
and speaks SQL that both understand. On SQLite what it gets is the connection itself.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from memguard.anchors.locks import home_lock
from memguard.errors import ConfigError
from memguard.ledger import columns
from memguard.ledger.postgres import PostgresLedger
from memguard.ledger.sqlite import SqliteLedger
from memguard.ports import Ledger
from memguard.postgres.tables import PostgresTables

if TYPE_CHECKING:
    from memguard.postgres import Session

LOCAL = "state.db"


class TableLock(Protocol):
    """The lock of a table's writers in every process that shares it."""

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take it for ``owner``."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class Tables(Protocol):
    """Some tables, as their class uses them: what a ``sqlite3.Connection`` offers and two things more."""

    #: Whether a column can only hold what its type says.
    typed: bool

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """One statement; the answer has ``fetchone``, ``fetchall`` and ``rowcount``."""
        ...

    def executemany(self, sql: str, rows: Any, /) -> Any:
        """One statement for each of many rows."""
        ...

    def version(self) -> object:
        """Differs after another connection changed the tables; on PostgreSQL also after this one did."""
        ...

    def transaction(self) -> Any:
        """A context: committed at the end of the block, undone if anything fails."""
        ...

    def close(self) -> None:
        """Let go. Idempotent."""
        ...


class State(Protocol):
    """The place of a home's tables."""

    #: As errors name it.
    where: str

    def connect(
        self, *schema: str, full: bool = True, secure_delete: bool = False, busy: float = 30
    ) -> Tables:
        """Tables by their ``CREATE TABLE IF NOT EXISTS`` statements.

        Args:
            full: a commit survives a power cut.
            secure_delete: what is deleted is overwritten.
            busy: seconds that a statement waits for another program.
        """
        ...

    def ledger(self) -> Ledger:
        """The history of operations."""
        ...

    def lock(self, name: str) -> TableLock:
        """The lock of a table's writers."""
        ...


class SqliteTables(sqlite3.Connection):
    """A connection to ``state.db``."""

    typed = False

    def version(self) -> object:
        """Differs after another connection changed the file."""
        return self.execute("PRAGMA data_version").fetchone()[0]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See :func:`memguard.ledger.columns.transaction`."""
        with columns.transaction(self):
            yield


class SqliteState:
    """``state.db`` in a home."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.where = str(path)

    def connect(
        self, *schema: str, full: bool = True, secure_delete: bool = False, busy: float = 30
    ) -> Tables:
        """See :class:`State`. Raises what ``sqlite3`` raises."""
        made = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=busy, factory=SqliteTables
        )
        try:
            made.text_factory = columns.text
            made.execute("PRAGMA journal_mode=WAL")
            made.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
            if secure_delete:
                made.execute("PRAGMA secure_delete=ON")
            for statement in schema:
                made.execute(statement)
        except BaseException:
            with suppress(sqlite3.Error):
                made.close()
            raise
        return made

    def ledger(self) -> SqliteLedger:
        """The history of operations."""
        return SqliteLedger(self.path)

    def lock(self, name: str) -> TableLock:
        """A lock file in the home."""
        return home_lock(self.path.parent, f"{name}.lock")


class HasSession(Protocol):
    """An anchor in PostgreSQL, as far as its database can hold tables too."""

    session: Session

    def lock(self, name: str) -> TableLock:
        """The lock of something that all hosts share."""
        ...


class PostgresState:
    """The schema that also holds the anchor, on the anchor's own session.

    One session for all: what a killed program had sent for a table and for the log is finished, in that order, before
    its locks are free for another.
    """

    def __init__(self, anchor: HasSession) -> None:
        self._session, self._lock = anchor.session, anchor.lock
        self.where = self._session.address.uri

    def connect(
        self, *schema: str, full: bool = True, secure_delete: bool = False, busy: float = 30
    ) -> Tables:
        """See :class:`State`. Raises AnchorError. What is deleted is overwritten when the server vacuums."""
        return PostgresTables(self._session, schema)

    def ledger(self) -> PostgresLedger:
        """The history of operations, shared by all hosts."""
        return PostgresLedger(PostgresTables(self._session, [PostgresLedger.schema()]), self.where)

    def lock(self, name: str) -> TableLock:
        """A lock that all hosts share."""
        return self._lock(f"table:{name}")


def opened(home: Path, choice: str | None, anchor: object) -> State:
    """The place of a home's tables.

    Args:
        choice: ``home``, ``anchor``, or None: with the anchor where that can hold them.

    Raises:
        ConfigError: MG531, they are to be with an anchor that can hold none.
    """
    session = getattr(anchor, "session", None)
    if choice == "home" or (choice is None and session is None):
        return SqliteState(home / LOCAL)
    if session is None:
        raise ConfigError(
            'state = "anchor" needs an anchor in PostgreSQL.',
            code="MG531",
            why="Another anchor is a log and holds no tables.",
            do='Leave state out (home/state.db), or anchor = "postgresql://USER@HOST/DB".',
        )
    return PostgresState(cast(HasSession, anchor))


def state_at(place: str | os.PathLike[str] | State) -> State:
    """A path names a ``state.db``."""
    return SqliteState(place) if isinstance(place, str | os.PathLike) else place
