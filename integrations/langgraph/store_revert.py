"""Taking items of a source, or of a time, out of a store: found in verified rows, deleted through the guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memguard.effects import Operation
from memguard.integrations.langgraph.store_operations import StoreOperations
from memguard.integrations.langgraph.store_release import remove
from memguard.integrations.langgraph.store_rows import (
    Namespace,
    Stored,
    claim_of,
    context_of,
    epoch,
    members,
    namespace_of,
)
from memguard.integrity.tag import NOTHING
from memguard.labels import Label
from memguard.reverting import Draft, Found, Wanted, no_checkpoints


class StoreReverting:
    """See :class:`~memguard.reverting.Reverting`."""

    def __init__(self, operations: StoreOperations) -> None:
        self._ops = operations

    def draft(self, wanted: Wanted) -> Operation[Draft]:
        """Read every item, checked and complete, and choose."""
        no_checkpoints(wanted, "a store")
        ops = self._ops
        names = {context_of(namespace): namespace for namespace in (yield from ops.table.namespaces())}
        for context in ops.custody.known():
            names.setdefault(context, namespace_of(context))

        def fetch() -> Operation[list[tuple[Namespace, Sequence[Stored]]]]:
            found = []
            for namespace in names.values():
                found.append((namespace, (yield from ops.table.rows(namespace))))
            return found

        everything = yield from ops.custody.alone(list(names), fetch)
        records = [found for namespace, stored in everything for found in self._records(namespace, stored)]
        return Draft.of(records, wanted)

    def carry_out(self, draft: Draft) -> Operation[int]:
        """Delete what is still as it was when it was found, a namespace at a time."""
        gone = 0
        for context, found in draft.work.items():
            places = {namespace_of(context): {record.key: record.state for record, _ in found}}
            gone += yield from remove(self._ops, places)
        return gone

    def _records(self, namespace: Namespace, stored: Sequence[Stored]) -> list[Found]:
        ops, name = self._ops, context_of(namespace)
        now = ops.table.now()
        context = ops.custody.peek(name)
        found: list[Found] = []
        for item in stored:
            claim, opened = claim_of(namespace, item, ops.table.form, now)
            if context is None:
                continue
            row = context.check(claim)
            own: dict[str, Any] = members(opened.own)
            label = Label.from_dict(own["label"]) if "label" in own else None
            created, updated = _moment(item.created), _moment(item.updated)
            replaced = row.seal.replaced != NOTHING
            found.append(Found(name, item.key, label, created, updated, replaced, row.cell))
        return found


def _moment(text: str) -> float:
    return epoch(text) or 0.0
