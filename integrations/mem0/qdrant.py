"""Qdrant as rows. In local mode everything answers from memory, which is filled from a file of pickles on opening.

So both are looked at: what memory would serve must be what the file says, and what is bound is the file's form, which
the next opening finds again (memory holds vectors normalised or not, as they came in).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.mem0.backends import (
    PAGE,
    Backend,
    Row,
    dense_of,
    digest,
    packed,
    tables_only,
    unsound,
)
from memguard.integrations.mem0.owners import IDENTITIES, Owner
from memguard.integrations.mem0.pickles import point_of
from memguard.integrity.canonical import canonical_json

#: Rows whose comparison is remembered.
KNOWN = 50_000


class Qdrant(Backend):
    """A collection of Qdrant, in a folder, in memory, or on a server."""

    _schema: object = None
    #: The collection whose settings were looked at; after a reset there is another.
    _ranked: object = None

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        #: Rows that were compared: the file's bytes, the vector in memory, and what came of it.
        self._known: dict[str, tuple[bytes, Any, Row]] = {}

    def place(self) -> str | None:
        local = self._local()
        if local is None:
            return f"qdrant:{self.store.collection_name}"
        if local.storage is None:
            return None
        return str(Path(local.storage.location).resolve().parent)

    def hint(self) -> object:
        self._sound()
        local = self._local()
        if local is None:
            return None
        if local.storage is not None:
            connection = local.storage.storage
            ((version,),) = connection.execute("PRAGMA data_version").fetchall()
            ((schema,),) = connection.execute("PRAGMA schema_version").fetchall()
            if self._schema != schema:
                tables_only(connection, self.place() or "")
                self._schema = schema
            return (version, schema)
        return "memory"

    def owners(self) -> set[Owner]:
        self._sound()
        found = (record for record in self._scroll(None, payload=list(IDENTITIES)))
        return {Owner.of(record.payload or {}) for record in found}

    def of(self, owner: Owner) -> Iterable[Row]:
        self._sound()
        fields = owner.fields()
        chosen = self.store._create_filter(fields) if fields else None
        mine = (r for r in self._scroll(chosen, vectors=True) if Owner.of(r.payload or {}) == owner)
        for record in mine:
            yield self._row(record)

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        found = self.store.client.retrieve(
            collection_name=self.store.collection_name, ids=list(ids), with_payload=True, with_vectors=True
        )
        return {row.id: row for row in map(self._row, found)}

    def count(self) -> int:
        return int(self.store.client.count(self.store.collection_name).count)

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        from pydantic_core import to_jsonable_python

        found: dict[str, Any] = to_jsonable_python(dict(payload))  # as the client does
        return found

    def after(self, old: Mapping[str, Any], new: Mapping[str, Any], *, vector: bool) -> dict[str, Any]:
        return dict(new) if vector else {**old, **new}

    # -- inside ------------------------------------------------------------------------------

    def _sound(self) -> None:
        """That vectors are ranked as in a collection that Mem0 makes. A server is asked once, it has its own settings.

        Raises:
            TamperedError: MG543.
        """
        local = self._local()
        looked_at = self.store if local is None else local
        if self._ranked is looked_at:
            return
        if local is None:
            params = self.store.client.get_collection(self.store.collection_name).config.params
        else:
            params = local.config
        if not _as_made(params, self.store.embedding_model_dims):
            raise unsound(
                self.place() or "", "Distance, size or type of its vectors are not those that Mem0 sets."
            )
        self._ranked = looked_at

    def _local(self) -> Any:
        """The collection in this process, None if a server holds it."""
        collections = getattr(getattr(self.store.client, "_client", None), "collections", None)
        return None if collections is None else collections[self.store.collection_name]

    def _scroll(self, chosen: Any, *, payload: Any = True, vectors: bool = False) -> Iterator[Any]:
        offset = None
        while True:
            found, offset = self.store.client.scroll(
                collection_name=self.store.collection_name,
                scroll_filter=chosen,
                limit=PAGE,
                offset=offset,
                with_payload=payload,
                with_vectors=vectors,
            )
            yield from found
            if offset is None:
                return

    def _row(self, record: Any) -> Row:
        id, payload = str(record.id), dict(record.payload or {})
        local = self._local()
        if local is None or local.storage is None:
            held = _named(record.vector)
            return Row(id, payload, _digest(held), _dense(held))
        raw, known = _kept(local.storage, id), self._known.get(id)
        if known is not None and (known[0], known[1], known[2].payload) == (raw, record.vector, payload):
            return known[2]  # the same bytes in the file, and the same in memory, as when both were compared
        row = _compared(id, payload, record.vector, raw, f"{local.storage.location} {id}")
        if row.flaw is None and isinstance(raw, bytes):
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[id] = (raw, record.vector, row)
        return row


def _as_made(params: Any, size: int | None) -> bool:
    """Whether a collection's settings are Mem0's: one dense vector, compared by cosine, and words by IDF or none."""
    dense, sparse = params.vectors, params.sparse_vectors or {}
    plain = not any(
        getattr(dense, name, None) for name in ("multivector_config", "quantization_config")
    ) and getattr(dense, "datatype", None) in (None, "float32")
    words = all(name == "bm25" and each.modifier == "idf" for name, each in sparse.items())
    cosine = getattr(dense, "distance", None) == "Cosine"
    return bool(cosine and plain and words and size in (None, dense.size))


def _compared(id: str, payload: dict[str, Any], vector: Any, raw: object, where: str) -> Row:
    """The row of what memory holds, once the file was found to say the same."""
    try:
        if raw is None:
            raise _differs(where, "the file does not hold it")
        kept = point_of(raw, where)
        if str(kept.id) != id or canonical_json(kept.payload) != canonical_json(payload):
            raise _differs(where, "the file holds another payload")
        said = _named(kept.vector)
        if not _alike(said, _named(vector)):
            raise _differs(where, "the file holds another vector")
    except IntegrityError as flaw:
        return Row(id, payload, b"", "", flaw)
    return Row(id, payload, _digest(said), _dense(said))


def _kept(storage: Any, id: str) -> object:
    """The bytes that the file holds of a point; None for nothing."""
    key = storage._legacy_keys.get(id, storage.encode_key(id))
    rows = storage.storage.execute("SELECT point FROM points WHERE id = ?", (key,)).fetchall()
    return rows[0][0] if rows else None


def _named(vector: Any) -> dict[str, Any]:
    found = vector if isinstance(vector, Mapping) else {"": vector}
    return {str(name): part for name, part in found.items() if part is not None}


def _values(vector: Any) -> tuple[bytes, list[float]]:
    """What a vector is besides its numbers, and the numbers."""
    sparse = vector if isinstance(vector, Mapping) else getattr(vector, "__dict__", None)
    if sparse is not None:
        return repr(list(sparse["indices"])).encode(), [float(v) for v in sparse["values"]]
    return b"", [float(v) for v in vector]


def _digest(vectors: Mapping[str, Any]) -> bytes:
    parts: list[bytes] = []
    for name in sorted(vectors):
        kind, numbers = _values(vectors[name])
        parts += (name.encode(), kind, packed(numbers))
    return digest(*parts)


def _dense(vectors: Mapping[str, Any]) -> str:
    return dense_of(packed(_values(vectors[""])[1]) if "" in vectors else b"")


def _alike(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two sets of vectors point the same ways; lengths may differ, since one may be normalised."""
    if left.keys() != right.keys():
        return False
    for name in left:
        (kind, a), (other, b) = _values(left[name]), _values(right[name])
        if kind != other or len(a) != len(b):
            return False
        long_a, long_b = math.hypot(*a) or 1.0, math.hypot(*b) or 1.0
        if not all(math.isclose(x / long_a, y / long_b, abs_tol=1e-5) for x, y in zip(a, b, strict=True)):
            return False
    return True


def _differs(where: str, why: str) -> TamperedError:
    return TamperedError(
        "what Qdrant serves from memory is not what its file holds.",
        case="T1",
        record=where,
        code="MG543",
        why=f"For this record {why}: it was changed after the store was opened, or a write did not arrive.",
        do="Close the store, and memguard audit STORE after opening it again.",
    )
