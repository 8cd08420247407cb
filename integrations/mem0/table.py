"""Everything that one Memory keeps, as one table of a collection: translation only.

Contexts, by their kind: ``mem`` the memories of an owner, ``ent`` the entities found in them, ``his`` the history of
their memories, ``msg`` the raw messages of a session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memguard.collection import FIELD, Put, Stored, members, opened
from memguard.effects import Block, Operation
from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.mem0.backends import Backend, Row, backend_of, without_seal
from memguard.integrations.mem0.columns import check
from memguard.integrations.mem0.journal import Journal
from memguard.integrations.mem0.owners import (
    ENTITY,
    HISTORY,
    MEMORY,
    MESSAGES,
    Owner,
    kind_of,
    owner_of,
)
from memguard.integrity.canonical import canonical_json


@dataclass(slots=True)
class MemoryPut(Put):
    """A memory or an entity on its way: its value is the payload, the vector stands beside it."""

    #: None: it keeps the one that it has.
    vector: Any = None
    #: It is there already.
    update: bool = False


class Mem0Table:
    """See :class:`~memguard.collection.Table`.

    Args:
        memory: the wrapped Memory.
    """

    ordered = False
    atomic = False

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.journal = Journal(memory)
        self._backends: dict[int, tuple[Any, Backend]] = {}
        #: Contexts that ought to be there, once custody is taken.
        self.known: Callable[[], Iterable[str]] = tuple

    # -- the two collections of the vector store ----------------------------------------------

    def backend(self, kind: str) -> Backend | None:
        """Memories' or entities' rows; None while nobody has asked for the entities yet."""
        store = self.memory.vector_store if kind == MEMORY else self.memory._entity_store
        if store is None:
            if not any(kind_of(context) == ENTITY for context in self.known()):
                return None
            store = self.memory.entity_store  # another process wrote some: it exists
        held = self._backends.get(id(store))
        if held is None or held[0] is not store:
            held = self._backends[id(store)] = (store, backend_of(store))
        return held[1]

    def close(self) -> None:
        """Let go of what the backends opened."""
        for _, backend in self._backends.values():
            end = getattr(backend, "close", None)
            if end is not None:
                end()

    def put(self, kind: str, id: str, payload: Mapping[str, Any], **more: Any) -> MemoryPut:
        """A put of a memory or an entity. A vector that comes with it is bound by the tag."""
        backend = self.backend(kind)
        assert backend is not None
        plain = backend.plain(without_seal(payload))
        if kind == MEMORY:
            check(plain)
        text = str(plain.get("data") or "") if kind == MEMORY else ""
        context = Owner.of(plain).context(kind)
        own = {} if more.get("vector") is None else {"v": backend.dense(more["vector"])}
        return MemoryPut(context, id, plain, canonical_json(plain), text, own=own, **more)

    # -- reading -------------------------------------------------------------------------------

    def contexts(self) -> Operation[Sequence[str]]:
        found: list[str] = []
        for kind in (MEMORY, ENTITY, HISTORY, MESSAGES):
            found += yield from self.of_kind(kind)
        return found

    def of_kind(self, kind: str) -> Operation[list[str]]:
        """Contexts of one kind that have records."""
        if kind in (HISTORY, MESSAGES):
            found: list[str] = yield Block(self.journal.contexts, kind)
            return found
        backend = self.backend(kind)
        if backend is None:
            return []
        owners: set[Owner] = yield Block(backend.owners)
        return sorted(owner.context(kind) for owner in owners)

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        kind = kind_of(context)
        if kind in (HISTORY, MESSAGES):
            found: list[Stored] = yield Block(self.journal.rows, kind, context)
            return found
        backend = self.backend(kind)
        if backend is None:
            return []
        rows: list[Row] = yield Block(lambda: list(backend.of(owner_of(context))))
        return [_stored(row) for row in rows]

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        kind = kind_of(context)
        if kind in (HISTORY, MESSAGES):
            found: dict[str, Stored] = yield Block(self.journal.fetch, kind, context, keys)
            return found
        backend = self.backend(kind)
        if backend is None or not keys:
            return {}
        rows: dict[str, Row] = yield Block(backend.some, keys)
        owner = owner_of(context)
        return {id: _stored(row) for id, row in rows.items() if Owner.of(row.payload) == owner}

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        kinds = {kind_of(context) for context in contexts}
        said: list[object] = []
        if kinds & {HISTORY, MESSAGES}:
            said.append((yield Block(self.journal.hint)))
        for kind in sorted(kinds & {MEMORY, ENTITY}):
            backend = self.backend(kind)
            if backend is not None:
                said.append((yield Block(backend.hint)))
        return None if None in said else tuple(said)

    # -- writing -------------------------------------------------------------------------------

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        kinds = {kind_of(put.context) for put in puts} | {kind_of(context) for context in deletes}
        for kind in sorted(kinds):
            mine = [put for put in puts if kind_of(put.context) == kind]
            gone = {context: keys for context, keys in deletes.items() if kind_of(context) == kind}
            if kind in (HISTORY, MESSAGES):
                yield Block(self.journal.commit, kind, mine, gone)
            else:
                yield Block(self._commit, kind, mine, gone)

    def _commit(self, kind: str, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        if kind == ENTITY and self.memory._entity_store is None:
            _ = self.memory.entity_store
        backend = self.backend(kind)
        assert backend is not None
        store = backend.store
        for ids in deletes.values():
            for id in ids:
                store.delete(vector_id=id)
        new: list[tuple[Any, dict[str, Any], str]] = []
        for put in puts:
            assert isinstance(put, MemoryPut)
            payload = {**put.value, FIELD: json.dumps(put.field, ensure_ascii=False, separators=(",", ":"))}
            if put.update:
                store.update(vector_id=put.name, vector=put.vector, payload=payload)
            else:
                new.append((put.vector, payload, put.name))
        if new:
            vectors, payloads, ids = (list(part) for part in zip(*new, strict=True))
            store.insert(vectors=vectors, payloads=payloads, ids=ids)

    def remade(self, put: Put, value: Any) -> Put:
        """The same put with other words: hash and lemmas follow from the text, and so does the vector."""
        kind = kind_of(put.context)
        if kind in (HISTORY, MESSAGES):
            raise UnsupportedError("a history row is not rewritten.", code="MG545")
        payload = remade_payload(value)
        backend = self.backend(kind)
        assert backend is not None
        plain = backend.plain(payload)
        text = str(plain.get("data") or "")
        if isinstance(put, MemoryPut):
            made = put
        else:  # it comes out of the quarantine
            there = bool(put.key) and put.key in backend.some([put.name])
            made = MemoryPut(put.context, put.key, None, b"", "", update=there)
        vector = [
            float(x) for x in self.memory.embedding_model.embed(text, "update" if made.update else "add")
        ]
        return replace(
            made,
            value=plain,
            content=canonical_json(plain),
            text=text,
            vector=vector,
            own={**made.own, "v": backend.dense(vector)},
        )

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        kind = kind_of(context)
        if kind in (HISTORY, MESSAGES):
            yield Block(self.journal.write_seals, kind, context, list(sealed))
            return
        backend = self.backend(kind)
        assert backend is not None
        for stored, own in sealed:
            text = json.dumps(own, ensure_ascii=False, separators=(",", ":"))
            yield Block(backend.seal, stored.key, {**stored.value, FIELD: text})


def remade_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload whose hash and lemmas are those of its text, as Mem0 makes them."""
    import hashlib

    from mem0.utils.lemmatization import lemmatize_for_bm25  # type: ignore[import-untyped]

    text = str(payload.get("data") or "")
    return {
        **payload,
        "hash": hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest(),
        "text_lemmatized": lemmatize_for_bm25(text),
    }


def _stored(row: Row) -> Stored:
    own = without_seal(row.payload)
    found: Any = row.payload.get(FIELD)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            found = repr(found)
    seal, said = opened(found)
    try:
        content = canonical_json(own)
    except (TypeError, ValueError, RecursionError):
        content = repr(own).encode("utf-8", "surrogatepass")
    flaw = row.flaw
    bound = members(said).get("v")
    if flaw is None and bound is not None and bound != row.dense:
        flaw = TamperedError(
            "a vector is not the one that was written.",
            case="T8",
            record=row.id,
            why="Its digest stands under the record's tag.",
            do="memguard audit STORE lists what is damaged.",
        )
    return Stored(row.id, content, seal, said, row.vectors, own, flaw)
