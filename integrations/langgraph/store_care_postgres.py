"""Adoption and repair of a PostgreSQL store's rows: a seal is put beside a value that stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from memguard.care import Existing
from memguard.effects import Call, Operation
from memguard.integrations.langgraph.store_care import GeneralStoreCare
from memguard.integrations.langgraph.store_forms import FIELD
from memguard.integrations.langgraph.store_operations import StoreOperations
from memguard.integrations.langgraph.store_postgres import PostgresTable
from memguard.integrations.langgraph.store_rows import (
    Namespace,
    Stored,
    claim_of,
    epoch,
    name,
    namespace_of,
    place_of,
)
from memguard.integrations.langgraph.store_seals import position, spell
from memguard.integrations.langgraph.store_table import reading
from memguard.integrity.tag import Seal
from memguard.integrity.verifier import Context

_SEAL = f"""UPDATE store SET value = (value - '{FIELD}') || jsonb_build_object('{FIELD}', %s::jsonb)
    WHERE prefix = %s AND key = %s AND (value - '{FIELD}')::text = %s"""  # noqa: S608 - constant text
_DROP = "DELETE FROM store WHERE prefix = %s AND key = ANY(%s)"


class PostgresStoreCare(GeneralStoreCare):
    """The two tables of the PostgreSQL stores. Rows have no order, so each stands at the first place."""

    def __init__(self, operations: StoreOperations, table: PostgresTable) -> None:
        super().__init__(operations)
        self._table, self._form = table, table.form

    def _existing(self, namespace: Namespace, found: Sequence[Stored]) -> Iterator[Existing]:
        now = self._table.now()
        for stored in found:
            claim, opened = claim_of(namespace, stored, self._form, now)
            if opened.seal is not None:  # something stands where a seal should
                seal = claim.seal
                extra = seal.extra if isinstance(seal, Seal) else position(0)
                yield Existing(claim, opened.content, extra, (stored, opened.own))
            else:
                yield self._unsealed(namespace, stored, now)

    def _unsealed(self, namespace: Namespace, stored: Stored, now: float) -> Existing:
        """A row from before the guard: what a seal over it would bind."""
        claim, _ = claim_of(namespace, stored, self._form, now)
        with reading(name(namespace, stored.key)):
            if stored.value.body is None:
                raise ValueError  # no store of LangGraph writes a value that is no object
        at, own = epoch(stored.expires or "NULL"), {}
        if at is not None:
            own = {"exp": int(at), "ttl": 0.0 if stored.ttl == "NULL" else float(stored.ttl)}
        bound, content = self._form.own(own), self._form.content(stored.value.body)
        place = place_of(stored, bound, now)
        claim = claim._replace(seal=None, bound=(bound,), content=content, place=place)
        return Existing(claim, content, position(0), (stored, bound))

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        prefix = ".".join(namespace_of(context.id))
        statements: list[tuple[str, Any]] = []
        for item, seal in sealed:
            stored, own = item.row
            member = json.dumps({"seal": spell(seal), **json.loads(own)})
            statements.append((_SEAL, (member, prefix, stored.key, stored.value.body)))
        yield Call(self._table.change, statements)

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        namespace = namespace_of(context.id)
        keys = [item.row[0].key for item in found]
        yield Call(self._table.change, [(_DROP, (".".join(namespace), keys))])
        yield from self._table.drop_vectors(namespace, keys)
