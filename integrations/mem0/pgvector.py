"""pgvector as rows: one table, in which a batch is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memguard.integrations.mem0.backends import (
    Backend,
    Row,
    dense_of,
    digest,
    json_only,
    packed,
    payload_of,
    unsound,
)
from memguard.integrations.mem0.owners import IDENTITIES, Owner

_BUILT = (
    "SELECT relkind = 'r' AND NOT relhastriggers AND NOT relhasrules AND NOT relrowsecurity"
    " FROM pg_class WHERE oid = to_regclass(%s)"
)
_VERSIONS = (
    "SELECT count(*), coalesce(sum(hashtextextended(ctid::text || ' ' || xmin::text, 0)::numeric), 0) FROM {}"
)


class PgVector(Backend):
    """pgvector: one table; a batch is one transaction."""

    atomic = True

    def place(self) -> str | None:
        return f"pgvector:{self.store.collection_name}"

    def hint(self) -> object:
        built = self._ask(_BUILT, [self._name()])
        if built != [(True,)]:
            raise unsound(self.place() or "", "The table has a trigger, a rule or a policy, or is a view.")
        # Every change of a row makes a new version of it, which has another place or another transaction.
        ((count, total),) = self._ask(_VERSIONS)
        return (int(count), str(total))

    def owners(self) -> set[Owner]:
        names = ", ".join(f"payload->'{name}'" for name in IDENTITIES)
        found = self._ask(f"SELECT DISTINCT {names} FROM {{}}")  # noqa: S608 - constants
        return {Owner.of(dict(zip(IDENTITIES, values, strict=True))) for values in found}

    def of(self, owner: Owner) -> Iterable[Row]:
        clauses, values = ["true"], []
        for name, value in owner.fields().items():
            clauses.append(f"payload->>'{name}' = %s")
            values.append(value)
        query = f"SELECT id::text, payload, vector::text FROM {{}} WHERE {' AND '.join(clauses)}"  # noqa: S608 - constants
        for row in self._rows(query, values):
            if Owner.of(row.payload) == owner:
                yield row

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        query = "SELECT id::text, payload, vector::text FROM {} WHERE id::text = ANY(%s)"
        return {row.id: row for row in self._rows(query, [list(ids)])}

    def count(self) -> int:
        ((found,),) = self._ask("SELECT count(*) FROM {}")
        return int(found)

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _numeric(value) for name, value in json_only(payload).items()}

    def _rows(self, query: str, values: Sequence[Any]) -> Iterator[Row]:
        for id, payload, vector in self._ask(query, values):
            found = payload_of(payload)
            dense = packed(json.loads(vector)) if vector else b""
            yield Row(id, {n: _numeric(v) for n, v in found.items()}, digest(dense), dense_of(dense))

    def _ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        self.store._ensure_collection()
        with self.store._get_cursor() as cursor:
            cursor.execute(self._sql(query), tuple(values))
            found: list[Any] = cursor.fetchall()
        return found

    def _sql(self, query: str) -> Any:
        from psycopg import sql

        return sql.SQL(query).format(self.store._col())

    def _name(self) -> str:
        return '"' + str(self.store.collection_name).replace('"', '""') + '"'


def _numeric(value: Any) -> Any:
    """A JSON value as jsonb gives it back: a whole number may have been written as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _numeric(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_numeric(part) for part in value]
    return value
