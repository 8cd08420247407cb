"""A guard for any store with keys: the subject's four operations as a table of the collections that adapters stand on.

It shows a maintainer what their store is like under memguard before an adapter is written for it: the seal lies in the
value, under the reserved member ``memguard``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memguard.bench.conformance.subject import Subject
from memguard.care import Handle
from memguard.collection import FIELD, Collection, CollectionCare, Put, Stored, opened
from memguard.effects import Block, Operation, drive
from memguard.errors import UnsupportedError
from memguard.integrity.canonical import canonical_json
from memguard.record import text_of

if TYPE_CHECKING:
    from memguard import MemGuard


class SubjectTable:
    """See :class:`memguard.collection.Table`. One record is one operation: nothing is known of transactions."""

    atomic = False

    def __init__(self, subject: Subject, store: Any) -> None:
        self._subject, self._store = subject, store
        self.ordered = subject.ordered
        self._seen: set[str] = set()

    def contexts(self) -> Operation[Sequence[str]]:
        if type(self._subject).contexts is not Subject.contexts:
            return list((yield Block(self._subject.contexts, self._store)))
        there = []  # the store cannot tell; those that were written to are in the head
        for context in sorted(self._seen):
            there += [context] if (yield from self.rows(context)) else []
        return there

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        found = yield Block(self._subject.read, self._store, context)
        return [stored(item) for item in found]

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        found: dict[str, Stored] = {}
        for key in keys:
            value = yield Block(self._subject.get, self._store, context, key)
            if value is not None:
                found[key] = stored((key, value))
        return found

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        for context, keys in deletes.items():
            for key in keys:
                yield Block(self._subject.delete, self._store, context, key)
        for put in puts:
            self._seen.add(put.context)
            value = {**put.value, FIELD: put.field}
            yield Block(self._subject.write, self._store, put.context, put.name, value)

    def remade(self, put: Put, value: Any) -> Put:
        return replace(put, value=value, content=canonical_json(value), text=text_of(value))

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        raise UnsupportedError("the kit's guard adopts no records that stand already", code="MG148")
        yield


def stored(item: tuple[str, Any]) -> Stored:
    """A served record as the guard sees it: its own part and the rest, unbelieved."""
    key, value = item
    if not isinstance(value, dict):
        return Stored(key, canonical_json(value), None, value=value)
    rest = {name: part for name, part in value.items() if name != FIELD}
    seal, own = opened(value.get(FIELD))
    return Stored(key, canonical_json(rest), seal, own, value=rest)


class KeyedGuard:
    """The guarded store: what the kit reads and writes in the place of the bare one."""

    def __init__(self, mg: MemGuard, subject: Subject, store: Any) -> None:
        self.inner = store
        self._table = SubjectTable(subject, store)
        place = None if subject.in_process else str(subject.folder)
        self._held = Collection(mg, self._table).open(store, subject.name, kind="conformance", place=place)
        handle = Handle(mg, self._held.custody, CollectionCare(self._held), drive, store)
        self.__dict__["_memguard"] = handle
        mg.quarantine.know(subject.name, self)

    def write(self, context: str, key: str, value: dict[str, Any]) -> None:
        """Screen, seal, store and read back."""
        put = Put(context, key, value, canonical_json(value), text_of(value))
        drive(self._held.write([put]))

    def read(self, context: str) -> list[tuple[str, dict[str, Any]]]:
        """Every record of a context, verified and complete."""
        return [(entry.key, entry.value) for entry in drive(self._held.all(context))]

    def get(self, context: str, key: str) -> dict[str, Any] | None:
        """One record, verified."""
        found = drive(self._held.get(context, [key]))
        return found[key].value if key in found else None

    def delete(self, context: str, key: str) -> None:
        """Delete one record."""
        drive(self._held.delete(context, [key]))

    def contexts(self) -> list[str]:
        """Contexts that have records, and those that ought to."""
        names = drive(self._held.names())

        def nothing() -> Operation[Sequence[tuple[str, str, None]]]:
            return []
            yield

        drive(self._held.within(names, nothing))  # a context that nobody wrote is refused, not listed
        return list(names)
