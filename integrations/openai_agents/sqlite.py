"""The tables of ``SQLiteSession``, read as they are: a row that does not parse is a finding and not left out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from memguard.effects import Block, Operation
from memguard.errors import IntegrityError
from memguard.integrations.openai_agents.backends import Raw, undecodable
from memguard.integrity.canonical import frame

#: What of the session's own class this stands on; a subclass that changes one goes the general way.
PARTS = (
    "get_items",
    "add_items",
    "pop_item",
    "clear_session",
    "_insert_items",
    "_locked_connection",
    "_write_connection",
)
#: Cast, so that text which is no UTF-8 is a finding and not an error of the driver.
_COLUMNS = "id, typeof(message_data), CAST(message_data AS BLOB), quote(created_at)"
#: Rows that are named in one statement.
_CHUNK = 500


def parsed(session: str, ref: Any, kind: str, data: Any) -> tuple[Any, IntegrityError | None]:
    """The item in a row, or what is wrong with it.

    Args:
        kind: the storage class of the column, ``text``.
        data: its bytes.
    """
    try:
        item = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None, undecodable(session, ref)
    if kind != "text" or not isinstance(item, dict):
        return None, undecodable(session, ref)
    return item, None


class SqliteBackend:
    """One ``SQLiteSession``, over its own connections and under its own lock.

    Reads are statements of ours over the same connection; writes are the session's own insert, in one transaction
    with what goes.
    """

    is_async, ordered, reaches = False, False, True

    def __init__(self, session: Any) -> None:
        self.session = session
        #: Ids of the rows that were inserted last, so that reading them back does not read everything.
        self._last: list[int] = []

    @property
    def place(self) -> str | None:
        """The database file and table; None in memory."""
        path = str(self.session.db_path)
        return None if path == ":memory:" else f"{os.path.realpath(path)}#{self.session.messages_table}"

    def contexts(self) -> Operation[Sequence[str]]:
        sql = f"SELECT DISTINCT session_id FROM {self.session.messages_table}"  # noqa: S608 - the session's own name
        return [str(name) for (name,) in (yield Block(self._all, sql))]

    def rows(self, session: str) -> Operation[list[Raw]]:
        sql = f"SELECT {_COLUMNS} FROM {self.session.messages_table} WHERE session_id = ? ORDER BY id"  # noqa: S608
        found = yield Block(self._all, sql, (session,))
        return [self._raw(session, row) for row in found]

    def recent(self, session: str, count: int) -> Operation[list[Raw]]:
        ids = self._last if len(self._last) == count else []
        if not ids:
            return []
        marks = ",".join("?" * len(ids))
        sql = (
            f"SELECT {_COLUMNS} FROM {self.session.messages_table} "  # noqa: S608
            f"WHERE session_id = ? AND id IN ({marks}) ORDER BY id"
        )
        found = yield Block(self._all, sql, (session, *ids))
        return [self._raw(session, row) for row in found]

    def commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> Operation[None]:
        yield Block(self._commit, session, items, gone, left)

    def rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> Operation[None]:
        yield Block(self._rewrite, session, items)

    # -- performed as effects ----------------------------------------------------------------

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self.session._locked_connection() as connection:
            found: list[Any] = connection.execute(sql, values).fetchall()
            return found

    def _commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> None:
        of, messages = self.session, self.session.messages_table
        with of._write_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for at in range(0, len(gone), _CHUNK):
                ids = gone[at : at + _CHUNK]
                marks = ",".join("?" * len(ids))
                connection.execute(
                    f"DELETE FROM {messages} WHERE session_id = ? AND id IN ({marks})",  # noqa: S608
                    (session, *ids),
                )
            if items:
                of._insert_items(connection, list(items))
                newest = connection.execute(
                    f"SELECT id FROM {messages} WHERE session_id = ? ORDER BY id DESC LIMIT ?",  # noqa: S608
                    (session, len(items)),
                ).fetchall()
                self._last = [ident for (ident,) in newest]
            elif not left:
                connection.execute(
                    f"DELETE FROM {of.sessions_table} WHERE session_id = ?",  # noqa: S608
                    (session,),
                )
            connection.commit()

    def _rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> None:
        with self.session._write_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for ident, item in items:
                connection.execute(
                    f"UPDATE {self.session.messages_table} SET message_data = ? "  # noqa: S608
                    "WHERE session_id = ? AND id = ?",
                    (json.dumps(item), session, ident),
                )
            connection.commit()

    @staticmethod
    def _raw(session: str, row: Sequence[Any]) -> Raw:
        ident, kind, data, created = row
        data = b"" if data is None else data
        item, flaw = parsed(session, ident, kind, data)
        place = frame(str(ident).encode(), str(created).encode(), hashlib.sha256(data).digest())
        return Raw(ident, item, place, flaw)


def shipped(session: Any) -> bool:
    """Whether the session is the SDK's own SQLiteSession, in what this module stands on."""
    with suppress(ImportError, AttributeError):
        from agents.memory.sqlite_session import SQLiteSession

        own = type(session)
        return isinstance(session, SQLiteSession) and all(
            getattr(own, part) is getattr(SQLiteSession, part) for part in PARTS
        )
    return False
