"""How a quarantined record goes back to its place in a store, and how it leaves it again.

What stands in the place is looked at before, and the put goes through only if that is still so under the
store's lock: a release never overwrites what somebody wrote in between.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

from langgraph.store.base import GetOp, Item, PutOp

from memguard.custody import Change
from memguard.effects import Operation
from memguard.errors import RefusedError
from memguard.integrations.langgraph.store_operations import StoreOperations
from memguard.integrations.langgraph.store_rows import Namespace, context_of, namespace_of
from memguard.integrations.langgraph.store_writes import Entry, Part
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.verifier import Context
from memguard.labels import Label, label_of
from memguard.quarantine.entry import Kept
from memguard.quarantine.place import TRIES, busy, newer, released_from


class Moved(Exception):
    """A place is not as it was when it was looked at. Raised before anything is announced."""


class StoreReleasing:
    """See :class:`~memguard.quarantine.desk.Releasing`."""

    def __init__(self, operations: StoreOperations) -> None:
        self._ops = operations

    def absent(self, kept: Kept) -> Operation[bool]:
        """Whether nothing stands in the record's place."""
        item, _ = yield from self._there(namespace_of(kept.context), kept.key)
        return item is None

    def put_back(
        self, kept: Kept, label: Label, since: float, entry: str, *, replace: bool
    ) -> Operation[bool]:
        """Store the record with this label; False if it stands there already (a release that was cut short)."""
        namespace = namespace_of(kept.context)
        for _ in range(TRIES):
            item, cell = yield from self._there(namespace, kept.key)
            if item is not None and released_from(label_of(item), entry) and item.value == kept.value:
                return False
            if item is not None and item.updated_at.timestamp() >= int(since) and not replace:
                raise newer(entry, "It was written after this one was withheld.", "--replace writes over it.")
            try:
                yield from self._put(namespace, kept, label, since, entry, cell)
                return True
            except Moved:
                continue
        raise busy(entry)

    def take_out(self, kept: Kept, entry: str) -> Operation[bool]:
        """Delete the record if it is still the one that was released; False if it is gone already."""
        namespace = namespace_of(kept.context)
        for _ in range(TRIES):
            item, cell = yield from self._there(namespace, kept.key)
            if item is None:
                return False
            if not released_from(label_of(item), entry):
                why = "What stands there now was written after the release."
                raise newer(entry, why, "Delete it yourself if it must go.")
            gone = yield from remove(self._ops, {namespace: {kept.key: cell}})
            if gone:
                return True
        raise busy(entry)

    def _there(self, namespace: Namespace, key: str) -> Operation[tuple[Item | None, bytes | None]]:
        """What stands in a place, verified, and the cell that says which state of it this is."""
        ops = self._ops
        while True:
            before = self._cell(namespace, key)
            (item,) = yield from ops._get(namespace, [GetOp(namespace, key, refresh_ttl=False)])
            cell = self._cell(namespace, key)
            if cell == before or ops.custody.settings.mode == "off":
                return item, cell

    def _cell(self, namespace: Namespace, key: str) -> bytes | None:
        context = self._ops.custody.peek(context_of(namespace))
        return context.index.member(pack_key(key), MAIN) if context is not None else None

    def _put(
        self, namespace: Namespace, kept: Kept, label: Label, since: float, entry: str, cell: bytes | None
    ) -> Operation[None]:
        ops, name = self._ops, context_of(namespace)
        now = yield from ops.table.clock()
        own: dict[str, Any] = {"label": label.as_dict()}
        minutes = None
        if kept.ttl is not None and (ops.table.expiring or ops.inner.supports_ttl):
            minutes = (since + kept.ttl * 60 - now) / 60
            if minutes <= 0:
                raise RefusedError(
                    "a quarantined record has expired while it waited.",
                    code="MG353",
                    where=entry,
                    why=f"It was written with {kept.ttl:g} minutes to live, which count from then.",
                    do=f"memguard quarantine drop {entry}",
                )
            own |= {"exp": int(now + minutes * 60), "ttl": minutes}
        value = dict(kept.value) if isinstance(kept.value, Mapping) else kept.value
        op = PutOp(namespace, kept.key, value, index=kept.index, ttl=minutes)
        item = Entry(op, ops.table.form.kept(value), own, ops.table.form.own(own))
        part, started = Part(namespace, {kept.key: item}), time.time()

        def prepare(contexts: list[Context]) -> list[Change]:
            (context,) = contexts
            if context.index.member(pack_key(kept.key), MAIN) != cell:
                raise Moved
            return [changed(ops._sealed(context, part), operation="release")]

        def perform() -> Operation[None]:
            yield from ops._before(part)
            yield from ops.table.batch([item.op._replace(value=item.handed)])

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            adds = yield from ops._read_back(contexts[0], part, started)
            return [changed(changes[0], adds=adds)]

        yield from ops.custody.operate([name], prepare, perform, settle)


def remove(ops: StoreOperations, places: Mapping[Namespace, Mapping[str, bytes | None]]) -> Operation[int]:
    """Delete items that are still in the state that was looked at, as one operation; how many went.

    Args:
        places: cells by namespace and key; an item whose cell is another by now stays.
    """
    names = {context_of(namespace): namespace for namespace in places}
    parts: list[Part] = []

    def prepare(contexts: list[Context]) -> list[Change]:
        parts.clear()
        changes = []
        for context in contexts:
            namespace = names[context.id]
            part = Part(namespace)
            for key, cell in places[namespace].items():
                if cell is not None and context.index.member(pack_key(key), MAIN) == cell:
                    part.deletes[key] = PutOp(namespace, key, None)
            parts.append(part)
            changes.append(ops._sealed(context, part))
        return changes

    def perform() -> Operation[None]:
        handed = [part.deletes[key] for part in parts for key in part.gone]
        if handed:
            yield from ops.table.batch(handed)
        for part in parts:
            if part.gone:
                yield from ops.table.drop_vectors(part.namespace, part.gone)

    yield from ops.custody.operate(list(names), prepare, perform)
    return sum(len(part.gone) for part in parts)
