"""The tables of the PostgreSQL stores, read undecoded."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.postgres.base import PLACEHOLDER

from memguard.custody import Custody
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph import store_postgres_sql as statements
from memguard.integrations.langgraph.postgres_schema import Schema
from memguard.integrations.langgraph.postgres_session import ended
from memguard.integrations.langgraph.store_jsonb import Split
from memguard.integrations.langgraph.store_postgres_clock import ServerClock
from memguard.integrations.langgraph.store_postgres_link import AsyncLink, Link
from memguard.integrations.langgraph.store_postgres_seen import Seen
from memguard.integrations.langgraph.store_rows import Namespace, Stored, context_of, namespace_of, told
from memguard.integrations.langgraph.store_table import Hit, altered, reading

_COLUMNS = {
    "store": {"prefix": "text", "key": "text", "value": "jsonb", "created_at": "timestamptz",
              "updated_at": "timestamptz", "expires_at": "timestamptz", "ttl_minutes": "int4"},
    "store_vectors": {"prefix": "text", "key": "text", "field_name": "text", "embedding": "",
                      "created_at": "timestamptz", "updated_at": "timestamptz"},
}  # fmt: skip


class PostgresTable(Link, ServerClock):
    """PostgresStore: its two tables, over its own connection or pool."""

    sql = expiring = True
    ordered = cached = False
    custody: Custody

    def __init__(self, store: Any) -> None:
        Link.__init__(self, store)
        ServerClock.__init__(self)
        self.vectored = bool(store.index_config)
        #: The function that writes out a vector, and the type it is of.
        self._send: str | None = None
        self._vector: str | None = None
        self._schema = Schema(_COLUMNS)
        self._seen = Seen()
        self._seed = secrets.randbits(62)
        self.lasting = False

    def key(self, key: object) -> str:
        text = super().key(key)
        writable(text, "an item key")
        return text

    # -- the table ---------------------------------------------------------------------------

    def hint(self, names: Iterable[str]) -> Operation[object]:
        """By context: how many rows there are and what their versions add up to (:mod:`~.store_postgres_seen`)."""
        by_name = {name: ".".join(namespace_of(name)) for name in names}
        if not by_name:
            return {}
        yield from self._sending()
        prefixes = list(by_name.values())
        while True:
            known = self._seen.snapshot(prefixes)
            values = {"prefixes": prefixes, "seed": self._seed, "snapshot": known}
            statement = statements.hint(vectored=self._send is not None)
            with reading("the store's tables"):
                try:
                    found, began, ended = yield Call(self._all, statement, values)
                except ValueError:  # a view has no versions
                    yield from self.sound(None)
                    raise
            snapshot, start, clock, expires = found[0][:4]
            self.lasting = not expires
            self._time(clock, began, ended)
            if self._seen.tell((snapshot, start), known, prefixes, [row[4:] for row in found]):
                return {name: self._seen.sums(prefix) for name, prefix in by_name.items()}

    def sound(self, hint: object) -> Operation[None]:
        if hint is not None and self._schema.seen == self._seen.at:
            return
        at = self._seen.at
        with reading("the store's tables"):
            found, _, _ = yield Call(self._all, self._schema.statement, self._schema.values)
        vector = self._schema.check(found).get("store_vectors", {}).get("embedding")
        if vector != self._vector:
            self._vector, self._send = vector, None
        self._schema.seen = at if hint is not None else None

    def namespaces(self) -> Operation[Sequence[Namespace]]:
        with reading("the store's namespaces"):
            found, _, _ = yield Call(self._all, statements.NAMESPACES, {"snapshot": self._seen.listed_at})
        return self._seen.list(found)

    def quiet(self) -> Operation[None]:
        """Wait for transactions of writers that were killed; see :func:`~.postgres_session.ended`."""
        yield from ended(self.change, "store")

    def rows(self, namespace: Namespace) -> Operation[Sequence[Stored]]:
        prefix = ".".join(namespace)
        with reading(f"namespace {prefix!r}"):
            found = yield from self._read(prefix, None)
            self._seen.read(context_of(namespace), [(row[0], row[10], row[11]) for row in found])
            return [self._stored(row) for row in found]

    def fetch(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, Stored]]:
        prefix, context = ".".join(namespace), context_of(namespace)
        with reading(f"namespace {prefix!r}"):
            found = yield from self._read(prefix, keys)
            if self._seen.expecting(context):
                held = self.custody.peek(context)
                self._seen.wrote(context, held, [(row[0], row[10], row[11]) for row in found])
            return {row[0]: self._stored(row) for row in found}

    def _read(self, prefix: str, keys: Sequence[str] | None) -> Operation[list[Any]]:
        yield from self._sending()
        which = "all" if keys is None else "one" if len(keys) == 1 else "some"
        values: dict[str, Any] = {"prefix": prefix, "seed": self._seed}
        if keys is not None:
            values["keys"] = keys[0] if which == "one" else list(keys)
        while True:
            found, began, ended = yield Call(self._all, statements.rows(self._send, which), values)
            if found:
                self._time(found[0][8], began, ended)
                if found[0][4] is not None:
                    self._zone = found[0][4].tzinfo
                if (
                    self._send is None and found[0][9]
                ):  # vectors: a store without an index may stand on them too
                    self.vectored = True
                    yield from self._sending()
                    if self._send is None:
                        raise ValueError("a table of vectors without vectors")
                    continue
            return list(found)

    def _sending(self) -> Operation[None]:
        """Look up how vectors are written out, where there may be vectors and it is not known yet."""
        if self.vectored and self._send is None:
            found, _, _ = yield Call(self._all, statements.SEND)
            if found:
                self._send = found[0][0]

    def _stored(self, row: Sequence[Any]) -> Stored:
        key, body, seal, own, created, updated, ttl, expires, _, _, _, _, vectors = row[:13]
        digest = b"" if vectors is None else hashlib.sha256(vectors).digest()
        times = _stamp(created), _stamp(updated), told(ttl), _stamp(expires)
        return Stored(key, Split(body, seal, own), *times, digest)

    def batch(self, ops: Sequence[Any]) -> Operation[list[Any]]:
        writes = [op for op in ops if isinstance(op, PutOp)]
        if writes:
            self._check_connection()
            self._writing()
        try:
            answer: list[Any] = yield Call(self._call, ops)
        except (
            psycopg.errors.ForeignKeyViolation
        ):  # an item of this very transaction is not there for its vectors
            raise altered(f"namespace {'/'.join(writes[0].namespace)!r}" if writes else "") from None
        for op in writes:
            context = context_of(op.namespace)
            if op.value is None:
                self._seen.deleted(context, self.custody.peek(context), op.key)
            else:
                self._seen.expect(context, op.key)
        return answer

    def search(self, op: SearchOp) -> Operation[list[Hit]]:
        for wanted in (op.filter or {}).values():
            for operand in wanted.values() if isinstance(wanted, dict) else (wanted,):
                if isinstance(operand, str):
                    writable(operand, "what a filter compares with")
        yield from self._sending()
        # The store's own statement, its rows as stored: items are made from what was checked.
        ((statement, values),), wanted = self.store._prepare_batch_search_queries([(0, op)])
        if wanted:
            (vector,) = yield Call(self._embed, [query for _, query in wanted])
            values = [vector if value is PLACEHOLDER else value for value in values]
        found, _, _ = yield Call(self._all, statements.joined(statement, self._send), values)
        return [
            Hit(
                tuple(row[13].split(".")),
                row[0],
                None if row[14] is None else float(row[14]),
                self._stored(row),
            )
            for row in found
        ]

    def vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[dict[str, bytes]]:
        yield from self._sending()
        if self._send is None or not keys:
            return {}
        values = {"prefix": ".".join(namespace), "keys": list(keys)}
        with reading(f"namespace {values['prefix']!r}"):
            found, _, _ = yield Call(self._all, statements.vectors(self._send), values)
        return {key: hashlib.sha256(digest).digest() for key, digest in found}

    def drop_vectors(self, namespace: Namespace, keys: Sequence[str]) -> Operation[None]:
        if self._send is not None and keys:
            values = {"prefix": ".".join(namespace), "keys": list(keys)}
            yield Call(self.change, [(statements.DROP_VECTORS, values)])

    def expired(self, now: str) -> Operation[Sequence[tuple[Namespace, str]]]:
        with reading("the store's expiries"):
            found, _, _ = yield Call(self._all, statements.EXPIRED, {"now": now})
        return [(tuple(str(prefix).split(".")), key) for prefix, key in found]

    def delete_expired(self, namespace: Namespace, keys: Sequence[str], now: str) -> Operation[None]:
        values = {"prefix": ".".join(namespace), "keys": list(keys), "now": now}
        yield Call(self.change, [(statements.DELETE_EXPIRED, values)])


class AsyncPostgresTable(AsyncLink, PostgresTable):
    """AsyncPostgresStore: the same tables over an asynchronous connection or pool."""


def writable(text: str, what: str) -> None:
    """That a ``text`` column can hold it.

    Raises:
        UnsupportedError: MG510.
    """
    if "\0" in text:
        raise UnsupportedError(
            f"{what} holds the character NUL.",
            code="MG510",
            why="No text of PostgreSQL can hold it. Nothing was read or stored.",
            do="Leave the character out.",
        )


def _stamp(moment: datetime | None) -> str:
    """A timestamp as text that does not depend on the session's time zone."""
    return "NULL" if moment is None else moment.astimezone(UTC).isoformat()
