"""The table of ``SQLAlchemyChatStore``, read as it is: every message with its status, in one transaction a change."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from memguard.collection import Put, Stored
from memguard.effects import Call, Operation
from memguard.integrations.llamaindex.chat_table import damaged, keyed
from memguard.integrations.llamaindex.messages import content_of, joined, parted, words
from memguard.integrity.canonical import frame

#: What of the store's own class this stands on.
PARTS = (
    "get_messages",
    "count_messages",
    "add_message",
    "add_messages",
    "set_messages",
    "delete_message",
    "delete_messages",
    "delete_oldest_messages",
    "archive_oldest_messages",
    "get_keys",
    "_initialize",
)
#: Rows that are named in one statement.
_CHUNK = 500


class Line(NamedTuple):
    """A message of the table: what is dumped of it, its status, and its row."""

    data: dict[str, Any]
    status: str
    id: int = 0


class SqlTable:
    """Translation only; see :class:`memguard.collection.Table`. Values are :class:`Line` s.

    The order of messages is that of ``timestamp`` and ``id``; both are in the place of a row, so it needs no check
    of its own, and a message that was archived keeps its place.

    Args:
        most: nodes of a message that are looked at for text.
    """

    atomic, ordered, is_async = True, False, True

    def __init__(self, store: Any, most: int) -> None:
        self.store, self._most = store, most
        #: Rows that were written last, so that reading them back does not read everything.
        self._last: list[int] = []

    @property
    def place(self) -> str | None:
        """The database, by the address without its password, and the table; None for SQLite in memory."""
        from sqlalchemy.engine import make_url

        engine = self.store._async_engine
        url = make_url(self.store.async_database_uri) if engine is None else engine.url
        where: str = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "sqlite":
            if url.database in (None, "", ":memory:") or "mode=memory" in where:
                return None
            where = os.path.realpath(url.database)
        return f"{where}#{self.store.db_schema or ''}.{self.store.table_name}"

    def put(self, key: str, data: Mapping[str, Any], status: str, **more: Any) -> Put:
        """A message on its way."""
        bare, claims = parted(data)
        line = Line(bare, status)
        return Put(key, None, line, _content(line), words(bare, self._most), claims=claims, **more)

    def says(self, line: Line) -> bytes:
        """What a message says, whatever its status, for finding it again in a history."""
        return content_of(line.data)

    def contexts(self) -> Operation[Sequence[str]]:
        found: Sequence[str] = yield Call(self._keys)
        return found

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        return self._stored(context, (yield Call(self._all, context, None)))

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        found: dict[str, Stored] = {}
        if self._last and len(self._last) == len(keys):
            recent = yield Call(self._all, context, self._last)
            found = {stored.key: stored for stored in self._stored(context, recent)}
        if not all(key in found for key in keys):
            found = {stored.key: stored for stored in (yield from self.rows(context))}
        return {key: found[key] for key in keys if key in found}

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        for context in dict.fromkeys([*(put.context for put in puts), *deletes]):
            mine = [put for put in puts if put.context == context]
            # Only a put that names its key may stand there already.
            named = {put.key for put in mine if put.value.id}
            gone = set(deletes.get(context, ()))
            there: dict[str, int] = {}
            if gone:
                there = {stored.key: stored.value.id for stored in (yield from self._lines(context))}
            ids = [there[key] for key in gone if key in there]
            updates = [(put.value.id, _kept(put)) for put in mine if put.key in named]
            inserts = [_kept(put) for put in mine if put.key not in named]
            yield Call(self._change, context, ids, updates, inserts)

    def remade(self, put: Put, value: Any) -> Put:
        line = value if isinstance(value, Line) else Line(*value)
        return replace(put, value=line, content=_content(line), text=words(line.data, self._most))

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        updates = [
            (stored.value.id, Line(joined(stored.value.data, field), stored.value.status))
            for stored, field in sealed
        ]
        yield Call(self._change, context, [], updates, [])

    # -- inside ------------------------------------------------------------------------------

    def _lines(self, context: str) -> Operation[list[Stored]]:
        return [stored for stored in (yield from self.rows(context)) if isinstance(stored.value, Line)]

    @staticmethod
    def _stored(context: str, rows: Sequence[Any]) -> list[Stored]:
        found = []
        for at, (ident, moment, role, status, text) in enumerate(rows):
            raw = str(text).encode("utf-8", "surrogatepass")
            place = frame(str(ident).encode(), str(moment).encode(), hashlib.sha256(raw).digest())
            data: Any = None
            with suppress(ValueError, RecursionError):
                data = json.loads(raw)
            if not isinstance(data, dict) or not isinstance(text, str):
                found.append(Stored(f"?{at}", b"", None, place=place, flaw=damaged(context, ident)))
                continue
            bare, field = parted(data)
            name, seal, own = keyed(field, at)
            line = Line(bare, str(status), ident)
            # The role stands beside the message too: there it must say the same.
            content = _content(line) if role == data.get("role") else _content(line) + str(role).encode()
            found.append(Stored(name, content, seal, own, place, line))
        return found

    # -- performed as effects ----------------------------------------------------------------

    async def _keys(self) -> list[str]:
        from sqlalchemy import select

        factory, table = await self.store._initialize()
        async with factory() as session:
            found = await session.execute(select(table.c.key).distinct())
            return [str(row[0]) for row in found.fetchall()]

    async def _all(self, context: str, ids: Sequence[int] | None) -> list[Any]:
        from sqlalchemy import Text, cast, select

        factory, table = await self.store._initialize()
        c = table.c
        ask = select(c.id, c.timestamp, c.role, c.status, cast(c.data, Text)).where(c.key == context)
        if ids is not None:
            ask = ask.where(c.id.in_(list(ids)))
        async with factory() as session:
            return list((await session.execute(ask.order_by(c.timestamp, c.id))).fetchall())

    async def _change(
        self,
        context: str,
        gone: Sequence[int],
        updates: Sequence[tuple[int, Line]],
        inserts: Sequence[Line],
    ) -> None:
        from sqlalchemy import delete, insert, update

        factory, table = await self.store._initialize()
        now = time.time_ns()
        last = [ident for ident, _ in updates]
        async with factory() as session:
            for at in range(0, len(gone), _CHUNK):
                ids = list(gone[at : at + _CHUNK])
                await session.execute(delete(table).where(table.c.key == context, table.c.id.in_(ids)))
            for ident, line in updates:
                where = (table.c.key == context, table.c.id == ident)
                values = {"status": line.status, "role": line.data.get("role"), "data": line.data}
                await session.execute(update(table).where(*where).values(**values))
            for at, line in enumerate(inserts):
                # Ascending stamps keep their order, as in the store's own set_messages.
                values = {"key": context, "timestamp": now + at, "role": line.data.get("role")}
                values |= {"status": line.status, "data": line.data}
                done = await session.execute(insert(table).values(**values))
                last += done.inserted_primary_key or ()
            await session.commit()
        self._last = last


def _kept(put: Put) -> Line:
    line: Line = put.value
    return Line(joined(line.data, put.field), line.status, line.id)


def _content(line: Line) -> bytes:
    return content_of({"message": line.data, "status": line.status})


def shipped(store: Any) -> bool:
    """Whether the store is LlamaIndex's own SQLAlchemyChatStore, in what this module stands on."""
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    own = type(store)
    return isinstance(store, SQLAlchemyChatStore) and all(
        getattr(own, part) is getattr(SQLAlchemyChatStore, part) for part in PARTS
    )
