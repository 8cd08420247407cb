"""The stand-in of a vector store of Mem0, for one call: everything it answers with was verified."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memguard.collection import Entry
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.mem0.keeping import Admitted, Keeping, unscreened
from memguard.integrations.mem0.owners import ENTITY, MEMORY, checked_filters, owner_of
from memguard.integrations.mem0.session import Session, held
from memguard.integrations.mem0.table import MemoryPut
from memguard.labels import Label
from memguard.record import Trust

#: The class below has a method called ``list``.
Found = list[Any]


class Vectors:
    """A vector store of Mem0, guarded. Everything it answers with was verified."""

    #: What users and Mem0 ask of a store besides its records.
    REACHABLE = ("client", "collection_name", "embedding_model_dims", "col_info", "list_cols", "config")

    def __init__(self, session: Session, kind: str) -> None:
        self._session, self._kind = session, kind

    def __getattr__(self, name: str) -> Any:
        if name in Vectors.REACHABLE:
            return getattr(self._store, name)
        raise AttributeError(f"{name!r} of the vector store is not reached through a guarded Memory")

    @property
    def _store(self) -> Any:
        inner = self._session.inner
        return inner.vector_store if self._kind == MEMORY else inner.entity_store

    @property
    def _keeping(self) -> Keeping:
        return self._session.keeping

    # -- reads -------------------------------------------------------------------------------

    def search(self, query: Any, vectors: Any, top_k: int = 5, filters: Any = None) -> Found:
        """See ``VectorStoreBase``."""
        return self._found(filters, lambda: self._store.search(query, vectors, top_k=top_k, filters=filters))

    def keyword_search(self, query: Any, top_k: int = 5, filters: Any = None) -> Found | None:
        """See ``VectorStoreBase``."""
        able = True

        def ask() -> Sequence[Any]:
            nonlocal able
            answer = self._store.keyword_search(query=query, top_k=top_k, filters=filters)
            able = answer is not None
            return answer or []

        found = self._found(filters, ask)
        return found if able else None

    def search_batch(
        self, queries: Any, vectors_list: Any, top_k: int = 1, filters: Any = None
    ) -> Sequence[Found]:
        """See ``VectorStoreBase``."""
        return [
            self.search(query, vector, top_k=top_k, filters=filters)
            for query, vector in zip(queries, vectors_list, strict=False)
        ]

    def get(self, vector_id: Any) -> Any:
        """See ``VectorStoreBase``. Another owner's answers as one that is not there."""
        try:
            found = self._store.get(vector_id=vector_id)
        except Exception:
            self._session.run(self._one(str(vector_id), None))  # what cannot be read may be what was damaged
            raise
        entry = self._session.run(self._one(str(vector_id), found))
        return None if entry is None or found is None else self._made(found, entry)

    def _one(self, id: str, found: Any) -> Operation[Entry | None]:
        row = None if found is None else dict(found.payload or {})
        entry = yield from self._keeping.find(self._kind, id, row)
        if entry is None or not self._session.mine(owner_of(entry.context)):
            return None
        self._session.remember(entry)
        return entry

    def _found(self, filters: Any, ask: Callable[[], Sequence[Any]]) -> Found:
        session = self._session

        def asked() -> Operation[Sequence[Any]]:
            found: Sequence[Any] = yield Call(ask)
            return found

        def search() -> Operation[Found]:
            checked_filters(filters)
            found = yield from self._keeping.search(self._kind, filters, asked)
            mine = [(entry, hit) for entry, hit in found if session.mine(owner_of(entry.context))]
            speaking = session.speaking
            if self._kind == MEMORY and speaking is not None and speaking.floor is not None:
                mine = yield from self._for_prompt(mine, speaking.floor)
            for entry, _ in mine:
                session.remember(entry)
            return [self._made(hit, entry) for entry, hit in mine]

        answer: Found = session.run(search())
        return answer

    def _for_prompt(self, found: Found, floor: Trust) -> Operation[Found]:
        """What may stand beside new messages in the prompt that facts are taken from: nothing worth less than they."""
        served = yield from self._keeping.served([entry for entry, _ in found])
        good = {e.key for e in served if e.label is None or e.label.trust >= floor}
        return [(entry, hit) for entry, hit in found if entry.key in good]

    def _made(self, found: Any, entry: Entry) -> Any:
        """The store's own record with the payload that was verified."""
        return found.model_copy(update={"payload": copy.deepcopy(entry.value)})

    # -- writes ------------------------------------------------------------------------------

    def insert(self, vectors: Any, payloads: Any = None, ids: Any = None) -> None:
        """See ``VectorStoreBase``."""
        vectors = [*vectors]
        payloads = [*payloads] if payloads is not None else [{} for _ in vectors]
        ids = [str(id) for id in ids] if ids is not None else [str(uuid.uuid4()) for _ in vectors]
        new = [at for at, id in enumerate(ids) if id not in self._session.stored]
        if any(ids[at] in self._session.refused for at in new):
            raise held()  # Mem0 tries again, one by one
        table = self._keeping.table
        if self._kind == ENTITY:
            puts = [table.put(ENTITY, ids[at], payloads[at], vector=_plain(vectors[at])) for at in new]
            self._session.run(self._keep_entities(puts))
            return
        puts = [self._put(ids[at], payloads[at], _plain(vectors[at])) for at in new]
        self._session.run(self._keep(puts))

    def update(self, vector_id: Any, vector: Any = None, payload: Any = None) -> None:
        """See ``VectorStoreBase``."""
        self._session.run(self._changed(str(vector_id), vector, payload))

    def delete(self, vector_id: Any) -> None:
        """See ``VectorStoreBase``."""
        self._session.run(self._gone(str(vector_id)))

    def create_col(self, *args: Any, **options: Any) -> Any:
        """Refused: a guarded Memory has its collections."""
        raise _whole("create_col")

    def delete_col(self) -> None:
        """Refused: everything goes by ``Memory.reset()``."""
        raise _whole("delete_col")

    def reset(self) -> None:
        """Refused: everything goes by ``Memory.reset()``."""
        raise _whole("reset")

    def _put(self, id: str, payload: Mapping[str, Any], vector: Any, *, update: bool = False) -> MemoryPut:
        speaking = self._session.speaking
        said = {} if speaking is None else speaking.of_memory(payload)
        return self._keeping.table.put(MEMORY, id, payload, vector=vector, update=update, **said)

    def _keep(self, puts: Sequence[MemoryPut]) -> Operation[None]:
        session = self._session
        admitted: Admitted = yield from self._keeping.admit(puts)
        if admitted.stored:
            yield from self._keeping.keep(MEMORY, admitted.stored, {})
        with session.mutex:
            for put in admitted.stored:
                session.stored.add(put.name)
                session.labels[put.name] = _label(put)
                session.owners[put.name] = owner_of(put.context)
            for put in puts:
                at = session.order.pop(0) if session.order else None
                refusal = admitted.refused.get(put.name)
                if refusal is not None:
                    about = refusal.what if at is None else {"index": at, **refusal.what}
                    session.refused[put.name] = refusal._replace(what=about)
        if admitted.refused and session.raises:
            raise held()

    def _keep_entities(self, puts: Sequence[MemoryPut]) -> Operation[None]:
        labelled = [unscreened(put, self._label_of_linked(put.value)) for put in puts]
        yield from self._keeping.keep(ENTITY, labelled, {})
        self._session.stored.update(put.name for put in puts)

    def _label_of_linked(self, payload: Mapping[str, Any]) -> Label | None:
        """An entity is worth the least of the memories of this call that it is linked to."""
        linked = payload.get("linked_memory_ids") or ()
        labels = [label for id in linked if (label := self._session.labels.get(str(id))) is not None]
        return min(labels, key=lambda label: label.trust.rank, default=None)

    def _changed(self, id: str, vector: Any, payload: Any) -> Operation[None]:
        session = self._session
        entry = session.entries.get(id) or (yield from self._there(id))
        if entry is None:
            return
        old = entry.value
        backend = self._keeping.table.backend(self._kind)
        assert backend is not None
        new = dict(old) if payload is None else backend.after(old, payload, vector=vector is not None)
        plain = _plain(vector)
        if self._kind == ENTITY:
            put = self._keeping.table.put(ENTITY, id, new, vector=plain, update=True)
            yield from self._keeping.keep(ENTITY, [unscreened(put, entry.label)], {})
            self._forget(id)
            return
        put = self._put(id, new, plain, update=True)
        if put.context != entry.context:
            raise _moved(id)
        if put.text == str(old.get("data") or ""):
            yield from self._keeping.keep(MEMORY, [unscreened(put, entry.label)], {})
            session.labels[id] = entry.label
        else:
            yield from self._keep([put])
        self._forget(id)

    def _there(self, id: str) -> Operation[Entry | None]:
        found = yield Call(self._store.get, vector_id=id)
        return (yield from self._one(id, found))

    def _gone(self, id: str) -> Operation[None]:
        session = self._session
        entry = session.entries.get(id) or (yield from self._there(id))
        if entry is None:
            return
        yield from self._keeping.delete(entry.context, [id])
        session.labels[id], session.owners[id] = entry.label, owner_of(entry.context)
        self._forget(id)

    def _forget(self, id: str) -> None:
        entry = self._session.entries.pop(id, None)
        if entry is not None:
            self._session.owners[id] = owner_of(entry.context)

    def list(self, filters: Any = None, top_k: Any = None) -> Any:
        """See ``VectorStoreBase``; the records stand in the first element, as all stores have it."""
        extra = {} if top_k is None else {"top_k": top_k}
        return [self._found(filters, lambda: rows_in(self._store.list(filters=filters, **extra)))]


def rows_in(listed: Any) -> list[Any]:
    """The records of a list, in whichever of Mem0's forms a store answers."""
    if isinstance(listed, list | tuple) and listed and isinstance(listed[0], list | tuple):
        return list(listed[0])
    return list(listed) if isinstance(listed, list | tuple) else []


def _plain(vector: Any) -> Any:
    return vector if vector is None else [float(part) for part in vector]


def _label(put: MemoryPut) -> Label | None:
    said = put.own.get("label")
    return None if said is None else Label.from_dict(said)


def _moved(id: str) -> UnsupportedError:
    return UnsupportedError(
        "an update would give a memory to another owner.",
        code="MG546",
        where=id,
        do="Add it under its new owner, and delete it here.",
    )


def _whole(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} of the vector store is not reached through a guarded Memory.",
        code="MG546",
        why="It would take memories without their heads.",
        do="Memory.reset() deletes everything; delete and delete_all what is somebody's.",
    )
