"""Audit, adoption and repair of a store's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from memguard.care import Existing
from memguard.custody import Pair
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.store_forms import FIELD, TextForm
from memguard.integrations.langgraph.store_operations import StoreOperations
from memguard.integrations.langgraph.store_release import StoreReleasing
from memguard.integrations.langgraph.store_revert import StoreReverting
from memguard.integrations.langgraph.store_rows import (
    Namespace,
    Stored,
    claim_of,
    context_of,
    disordered,
    epoch,
    namespace_of,
    order_of,
    place_of,
    unquoted,
)
from memguard.integrations.langgraph.store_seals import position, spell
from memguard.integrations.langgraph.store_sqlite import SqliteTable
from memguard.integrations.langgraph.store_table import reading
from memguard.integrity.tag import Seal
from memguard.integrity.verifier import Context


class GeneralStoreCare:
    """A store reached through its own methods: audited; adopted by reading bare and putting guarded."""

    def __init__(self, operations: StoreOperations) -> None:
        self._ops = operations
        #: How a quarantined record goes back, and how records of a source are taken out.
        self.releasing, self.reverting = StoreReleasing(operations), StoreReverting(operations)

    def scan(self, context: Context) -> Operation[Iterable[Any]]:
        """See :class:`~memguard.custody.Rows`."""
        return (yield from self._ops.scan(context))

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """See :class:`~memguard.custody.Rows`."""
        yield from self._ops.erase(context, removes)

    def contexts(self) -> Operation[Sequence[str]]:
        """See :class:`~memguard.care.CareRows`."""
        return [context_of(namespace) for namespace in (yield from self._ops.table.namespaces())]

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """See :class:`~memguard.care.CareRows`."""
        namespace = namespace_of(context.id)
        yield from self._ops.table.sound(None)
        return self._existing(namespace, (yield from self._ops.table.rows(namespace)))

    def _existing(self, namespace: Namespace, found: Sequence[Stored]) -> Iterator[Existing]:
        for stored in found:
            claim, opened = claim_of(namespace, stored, self._ops.table.form, self._ops.table.now())
            yield Existing(claim, opened.content, b"", stored)

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        raise _unsupported("adopted")
        yield

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        raise _unsupported("repaired")
        yield


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"this store's rows cannot be {what} one by one.",
        code="MG148",
        why="memguard knows the tables of LangGraph's own databases; other stores are reached by their methods.",
        do="Copy the items into a guarded store: read them bare, put them guarded.",
    )


class SqliteStoreCare(GeneralStoreCare):
    """The two tables of the SQLite stores."""

    def __init__(self, operations: StoreOperations, table: SqliteTable) -> None:
        super().__init__(operations)
        self._table = table
        self._form: TextForm = table.form

    def _existing(self, namespace: Namespace, found: Sequence[Stored]) -> Iterator[Existing]:
        now, last = self._table.now(), b""
        for at, stored in enumerate(found):
            claim, opened = claim_of(namespace, stored, self._form, now)
            extra = position(at)
            order = order_of(claim)
            if order is not None:
                extra = order[8:]
                if order <= last:
                    # An audit goes on with the next row; this one counts as one of another time.
                    what = f"{claim.record} ({disordered('').what})"
                    claim = claim._replace(place=claim.place + b"order", record=what)
                last = order
                yield Existing(claim, opened.content, extra, (stored, opened.body, opened.own))
            elif opened.seal is not None:  # something stands where a seal should
                yield Existing(claim, opened.content, extra, (stored, opened.body, opened.own))
            else:
                yield self._unsealed(namespace, stored, extra, now)

    def _unsealed(self, namespace: Namespace, stored: Stored, extra: bytes, now: float) -> Existing:
        """A row from before the guard: what a seal over it would bind."""
        claim, _ = claim_of(namespace, stored, self._form, now)
        with reading(claim.record):
            value = orjson.loads(stored.value)
            value.pop(FIELD, None)
            body = self._form.body(value)
        at = epoch(stored.expires or "NULL")
        own: dict[str, Any] = {}
        if at is not None:
            own = {"exp": int(at), "ttl": 0.0 if stored.ttl == "NULL" else float(unquoted(stored.ttl))}
        bound = self._form.own(own)
        content = self._form.content(body)
        claim = claim._replace(seal=None, bound=(bound,), content=content, place=place_of(stored, bound, now))
        return Existing(claim, content, extra, (stored, body, bound))

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        prefix = ".".join(namespace_of(context.id))
        statements = []
        for item, seal in sealed:
            stored, body, own = item.row
            text = self._form.joined(body, own, spell(seal))
            statements.append(
                ("UPDATE store SET value = ? WHERE prefix = ? AND key = ?", (text, prefix, stored.key))
            )
        yield Call(self._table.change, statements)

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        prefix = ".".join(namespace_of(context.id))
        statements = []
        for item in found:
            key = item.row[0].key
            statements.append(("DELETE FROM store WHERE prefix = ? AND key = ?", (prefix, key)))
        yield Call(self._table.change, statements)
        yield from self._table.drop_vectors(namespace_of(context.id), [item.row[0].key for item in found])
