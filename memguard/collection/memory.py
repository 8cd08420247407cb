"""A collection that lives in a process: for tests of what stands on collections, and as the shortest table there is."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memguard.collection.rows import FIELD, Put, Stored, opened
from memguard.effects import Block, Operation
from memguard.integrity.canonical import canonical_json
from memguard.record import text_of


class MemoryTable:
    """Records as ``{context: {key: {"value": …, "memguard": …}}}``, in the order in which they were written.

    Args:
        records: the dictionary to keep them in.
    """

    atomic = True

    def __init__(
        self, records: dict[str, dict[str, dict[str, Any]]] | None = None, *, ordered: bool = False
    ) -> None:
        self.records = {} if records is None else records
        self.ordered = ordered

    def put(self, context: str, key: str | None, value: Any, **more: Any) -> Put:
        """A put of this value (anything that JSON holds)."""
        return Put(context, key, value, canonical_json(value), text_of(value), **more)

    def contexts(self) -> Operation[Sequence[str]]:
        return [context for context, held in self.records.items() if held]
        yield

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        return [self._stored(key, row) for key, row in self.records.get(context, {}).items()]
        yield

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        held = self.records.get(context, {})
        return {key: self._stored(key, held[key]) for key in keys if key in held}
        yield

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        yield Block(self._commit, puts, deletes)

    def _commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        for context, keys in deletes.items():
            for key in keys:
                self.records.get(context, {}).pop(key, None)
        for put in puts:
            held = self.records.setdefault(put.context, {})
            if self.ordered:
                held.pop(put.name, None)  # what is written again stands at the end
            held[put.name] = {"value": copy.deepcopy(put.value), FIELD: put.field}

    def remade(self, put: Put, value: Any) -> Put:
        return replace(put, value=value, content=canonical_json(value), text=text_of(value))

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        for stored, field in sealed:
            self.records[context][stored.key][FIELD] = field
        return
        yield

    def _stored(self, key: str, row: dict[str, Any]) -> Stored:
        seal, own = opened(row.get(FIELD))
        return Stored(key, canonical_json(row["value"]), seal, own, value=row["value"])
