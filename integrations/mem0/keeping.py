"""The collection behind one guarded Memory, and the operations that its proxies stand on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from memguard.collection import Collection, Entry, Put, Withheld
from memguard.collection.writes import Part
from memguard.custody import Change
from memguard.effects import Call, Operation
from memguard.errors import QuarantinedError, RejectedError
from memguard.integrations.mem0.columns import read_back
from memguard.integrations.mem0.journal import Line, content_of
from memguard.integrations.mem0.owners import (
    ENTITY,
    HISTORY,
    MEMORY,
    MESSAGES,
    Owner,
    kind_of,
    messages_context,
    owner_of,
    picks,
)
from memguard.integrations.mem0.table import Mem0Table, MemoryPut
from memguard.integrity.index import pack_key
from memguard.integrity.verifier import Context
from memguard.labels import Label


class Refusal(NamedTuple):
    """A memory or message that a guard kept out: its id or its place in the call, the code, and where it is kept.

    ``error`` is what a call raises that stored nothing else.
    """

    what: dict[str, Any]
    error: RejectedError | QuarantinedError | None = None

    @property
    def rejected(self) -> bool:
        """Nothing of it is kept."""
        return isinstance(self.error, RejectedError)


@dataclass(slots=True)
class Admitted:
    """What came of the puts of one call."""

    stored: list[MemoryPut] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)


class Keeping(Collection):
    """See :class:`~memguard.collection.Collection`. Everything of one Memory is under one name."""

    table: Mem0Table

    # -- contexts ------------------------------------------------------------------------------

    def of_kind(self, kind: str, pick: Callable[[Owner], bool] | None = None) -> Operation[list[str]]:
        """Contexts of one kind that have records or ought to, of the owners that ``pick`` picks."""
        there = yield from self.table.of_kind(kind)
        every = dict.fromkeys([*there, *(c for c in self.custody.known() if kind_of(c) == kind)])
        return [context for context in every if pick is None or pick(owner_of(context))]

    def find(self, kind: str, id: str, row: Mapping[str, Any] | None) -> Operation[Entry | None]:
        """The record of an identifier, verified; None if there is none.

        Args:
            row: the payload that the store answered with, unbelieved; None for nothing.

        Raises:
            IntegrityError: it is not what was written, or it is missing.
        """
        if row is not None:
            context = Owner.of(row).context(kind)
            return (yield from self.get(context, [id])).get(id)
        if self.custody.settings.mode == "off":
            return None
        if self.custody.anchored:
            self.custody.log.refresh()
        group = pack_key(id)
        for context in (yield from self.of_kind(kind)):
            held = self.custody.peek(context)
            if held is None:
                yield from self.custody.complete([context], None)
                held = self.custody.peek(context)
            if held is None or group in held.index.groups:
                entry = (yield from self.get(context, [id])).get(id)
                if entry is not None:
                    return entry
        return None

    def search(
        self, kind: str, filters: Mapping[str, Any] | None, ask: Callable[[], Operation[Sequence[Any]]]
    ) -> Operation[list[tuple[Entry, Any]]]:
        """What the store finds under these filters, each hit verified and nothing missing."""
        names = yield from self.of_kind(kind, picks(filters))

        def hits() -> Operation[list[tuple[str, str, Any]]]:
            found = yield from ask()
            return [(Owner.of(hit.payload or {}).context(kind), str(hit.id), hit) for hit in found]

        return (yield from self.within(names, hits))

    # -- memories --------------------------------------------------------------------------------

    def admit(self, puts: Sequence[MemoryPut]) -> Operation[Admitted]:
        """Each put through the write chain by itself: one that is refused takes no other with it."""
        admitted = Admitted()
        for put in puts:
            where = {"id": put.name}
            try:
                said = yield from self.screen(put)
            except (RejectedError, QuarantinedError) as error:
                admitted.refused[put.name] = Refusal({**where, **_about(error)}, error)
                continue
            if isinstance(said, Withheld):
                code, entry = said.decision.code, said.entry
                about = {"disposition": "quarantine", "code": code, "entry": entry}
                admitted.refused[put.name] = Refusal({**where, **about})
            else:
                assert isinstance(said, MemoryPut)
                admitted.stored.append(said)
        return admitted

    def keep(self, kind: str, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        """Store and delete: one operation where the backend has transactions, else one for each record."""
        backend = self.table.backend(kind) if kind in (MEMORY, ENTITY) else None
        parts: dict[str, Part] = {}
        for put in puts:
            parts.setdefault(put.context, Part()).puts.append(put)
        for context, keys in deletes.items():
            parts.setdefault(context, Part()).deletes = list(keys)
        if kind in (HISTORY, MESSAGES) or (backend is not None and backend.atomic):
            yield from self._operate(parts)
            return
        for context, part in parts.items():
            for put in part.puts:
                yield from self._operate({context: Part([put])})
            for key in part.deletes:
                yield from self._operate({context: Part(deletes=[key])})

    # -- the journal -------------------------------------------------------------------------------

    def line(self, kind: str, context: str, key: str, columns: dict[str, Any], label: Label | None) -> Put:
        """A row of the journal: what was screened as a memory or a message is not screened again."""
        made = Line(read_back(columns), self.table.journal.number())
        own: dict[str, Any] = {"at": int(time.time())}
        if label is not None:
            own["label"] = label.as_dict()
        return Put(context, key, made, content_of(kind, made), "", own=own)

    def history(self, memory_id: str) -> Operation[list[Entry]]:
        """The history of one memory, as it was written: no row missing or added, in the order of time."""

        def rows() -> Operation[list[tuple[str, str, None]]]:
            return [(context, key, None) for context, key in self.table.journal.of_memory(memory_id)]
            yield

        # Whose it is, its own rows say: none can stand in a context that does not count it. Where there is none,
        # any context may miss one.
        named = dict.fromkeys(context for context, _, _ in (yield from rows()))
        names = list(named) or (yield from self.of_kind(HISTORY))
        found = yield from self.within(names, rows)
        return [entry for entry, _ in found]

    def messages(self, scope: str) -> Operation[list[Entry]]:
        """The raw messages of a session, oldest first."""
        context = messages_context(scope)
        if self.custody.settings.mode != "off":
            yield from self.custody.complete([context], (yield from self.table.hint([context])))
        found = yield from self.all(context)
        return sorted(found, key=lambda e: (str(e.value["columns"]["created_at"]), e.value["n"]))

    # -- everything ----------------------------------------------------------------------------

    def clear(self, kinds: Sequence[str], everything: Callable[[], Any]) -> Operation[None]:
        """Everything of these kinds goes, by one call of ``everything`` (the Memory's own), as one operation.

        Raises:
            IntegrityError: something is not as it was left; nothing was deleted.
        """

        def names() -> Operation[list[str]]:
            found: list[str] = []
            for kind in kinds:
                found += yield from self.of_kind(kind)
            return found

        def prepare(contexts: list[Context]) -> list[Change]:
            return [self._sealed(context, Part(keep=())) for context in contexts]

        def perform() -> Operation[None]:
            yield Call(everything)

        yield from self.custody.operate(names, prepare, perform)


def unscreened(put: MemoryPut, label: Label | None) -> MemoryPut:
    """A put whose text was screened elsewhere, such as an entity out of a memory."""
    own: dict[str, Any] = {**put.own, "at": int(time.time())}
    if label is not None:
        own["label"] = label.as_dict()
    return replace(put, own=own)


def _about(error: RejectedError | QuarantinedError) -> dict[str, Any]:
    word = "reject" if isinstance(error, RejectedError) else "quarantine"
    return {"disposition": word, "code": error.code}
