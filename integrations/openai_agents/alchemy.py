"""The tables of ``SQLAlchemySession``, read as they are, on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from memguard.effects import Call, Operation
from memguard.integrations.openai_agents.backends import Raw
from memguard.integrations.openai_agents.sqlite import parsed
from memguard.integrity.canonical import frame

#: What of the session's own class this stands on; a subclass that changes one goes the general way.
PARTS = (
    "get_items",
    "add_items",
    "pop_item",
    "clear_session",
    "_serialize_item",
    "_deserialize_item",
    "_ensure_tables",
    "_session",
    "_lock_session",
    "_run_sqlite_write_with_retry",
)


class AlchemyBackend:
    """One ``SQLAlchemySession``, over its own engine."""

    is_async, ordered, reaches = True, False, True

    def __init__(self, session: Any) -> None:
        self.session = session

    @property
    def place(self) -> str | None:
        """The database, by the address without its password, and the table; None for SQLite in memory."""
        url = self.session.engine.url
        where = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "sqlite":
            if url.database in (None, "", ":memory:") or "mode=memory" in where:
                return None
            where = os.path.realpath(url.database)
        return f"{where}#{self.session._messages.name}"

    def contexts(self) -> Operation[Sequence[str]]:
        from sqlalchemy import select

        found = yield Call(self._all, select(self.session._messages.c.session_id).distinct())
        return [str(row[0]) for row in found]

    def rows(self, session: str) -> Operation[list[Raw]]:
        messages = self.session._messages
        ask = self._select().order_by(messages.c.created_at.asc(), messages.c.id.asc())
        return self._raws(session, (yield Call(self._all, ask.where(messages.c.session_id == session))))

    def recent(self, session: str, count: int) -> Operation[list[Raw]]:
        messages = self.session._messages
        ask = self._select().order_by(messages.c.id.desc()).limit(count)
        found = yield Call(self._all, ask.where(messages.c.session_id == session))
        return self._raws(session, found[::-1])

    def commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> Operation[None]:
        yield Call(self._commit, session, items, gone, left)

    def rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> Operation[None]:
        yield Call(self._rewrite, session, items)

    # -- performed as effects ----------------------------------------------------------------

    def _select(self) -> Any:
        from sqlalchemy import Text, cast, select

        columns = self.session._messages.c
        # The stamp as the database spells it: a driver's own reading of it would lose what is not a stamp.
        return select(columns.id, columns.message_data, cast(columns.created_at, Text).label("created"))

    async def _all(self, ask: Any) -> list[Any]:
        await self.session._ensure_tables()
        async with self.session._session() as session:
            return list((await session.execute(ask)).all())

    async def _commit(self, session: str, items: Sequence[Any], gone: Sequence[Any], left: int) -> None:
        from sqlalchemy import delete, insert, text, update

        of, messages, sessions = self.session, self.session._messages, self.session._sessions
        await of._ensure_tables()
        rows = [{"session_id": session, "message_data": await of._serialize_item(item)} for item in items]

        async def work() -> None:
            async with of._session() as found, found.begin():
                await of._lock_session(found, create=bool(rows))
                if gone:
                    where = (messages.c.session_id == session, messages.c.id.in_(list(gone)))
                    await found.execute(delete(messages).where(*where))
                if rows:
                    await found.execute(insert(messages), rows)
                    touch = update(sessions).where(sessions.c.session_id == session)
                    await found.execute(touch.values(updated_at=text("CURRENT_TIMESTAMP")))
                elif not left:
                    await found.execute(delete(sessions).where(sessions.c.session_id == session))

        await of._run_sqlite_write_with_retry(work)

    async def _rewrite(self, session: str, items: Sequence[tuple[Any, Any]]) -> None:
        from sqlalchemy import update

        of, messages = self.session, self.session._messages

        async def work() -> None:
            async with of._session() as found, found.begin():
                for ident, item in items:
                    where = (messages.c.session_id == session, messages.c.id == ident)
                    change = update(messages).where(*where)
                    await found.execute(change.values(message_data=await of._serialize_item(item)))

        await of._run_sqlite_write_with_retry(work)

    @staticmethod
    def _raws(session: str, rows: Sequence[Any]) -> list[Raw]:
        found = []
        for ident, data, created in rows:
            raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")
            item, flaw = parsed(session, ident, "text" if isinstance(data, str) else "blob", raw)
            place = frame(str(ident).encode(), str(created).encode(), hashlib.sha256(raw).digest())
            found.append(Raw(ident, item, place, flaw))
        return found


def shipped(session: Any) -> bool:
    """Whether the session is the SDK's own SQLAlchemySession, in what this module stands on."""
    with suppress(ImportError, AttributeError):
        from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession

        own = type(session)
        return isinstance(session, SQLAlchemySession) and all(
            getattr(own, part) is getattr(SQLAlchemySession, part) for part in PARTS
        )
    return False
