"""The vector stores of Mem0 as rows: identifier, payload and vector of what is in them, undecided and unbelieved.

One class for each store that memguard knows well enough to see its vectors: an edit that only moves a vector changes
what is found, and must not pass. Writes go through Mem0's own methods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memguard.collection import FIELD
from memguard.errors import IntegrityError, TamperedError, UnsupportedError
from memguard.integrations.mem0.owners import IDENTITIES, Owner

#: Records asked for at a time.
PAGE = 512


class Row(NamedTuple):
    """One record of a vector store: its payload as plain values, and a digest of its vectors."""

    id: str
    payload: dict[str, Any]
    vectors: bytes
    flaw: IntegrityError | None = None


class Backend:
    """One collection of a vector store.

    Args:
        store: Mem0's wrapper of it.
    """

    #: A batch is stored whole or not at all.
    atomic = False

    def __init__(self, store: Any) -> None:
        self.store = store

    def place(self) -> str | None:
        """A name for where it is; None for one that lives in this process only."""
        raise NotImplementedError

    def hint(self) -> object:
        """Differs after anybody else changed the collection; None where that cannot be told."""
        return None

    def owners(self) -> set[Owner]:
        """Whose records there are."""
        raise NotImplementedError

    def of(self, owner: Owner) -> Iterable[Row]:
        """Every record of an owner, in the store's own order."""
        raise NotImplementedError

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        """Records by identifier, those that are there."""
        raise NotImplementedError

    def count(self) -> int:
        """How many records there are."""
        raise NotImplementedError

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A payload as the store will give it back.

        Raises:
            UnsupportedError: MG542, it holds something that the store cannot keep as it is.
        """
        return json_only(payload)

    def after(self, old: Mapping[str, Any], new: Mapping[str, Any], *, vector: bool) -> dict[str, Any]:
        """The payload that an update leaves.

        Args:
            vector: the update brings a vector too.
        """
        return dict(new)

    def seal(self, id: str, payload: dict[str, Any]) -> None:
        """Put a payload beside a vector that stands already."""
        self.store.update(vector_id=id, vector=None, payload=payload)


def json_only(value: Any, where: str = "") -> Any:
    """A copy of a JSON value.

    Raises:
        UnsupportedError: MG542, it is none.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: json_only(part, f"{where}.{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_only(part, where) for part in value]
    raise UnsupportedError(
        f"metadata{where} holds a value of type {type(value).__name__}.",
        code="MG542",
        why="The store would keep it in another form, or write a file that it cannot read again.",
        do="Use text, numbers, lists and objects.",
    )


def digest(*vectors: bytes) -> bytes:
    """Of the vectors of a record, in a fixed order."""
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in vectors)).digest()[:16]


def packed(vector: Iterable[float]) -> bytes:
    """A dense vector as float32, little-endian."""
    import numpy

    return numpy.asarray(vector, dtype="<f4").tobytes()


def without_seal(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload's own members."""
    return {name: value for name, value in payload.items() if name != FIELD}


class Faiss(Backend):
    """FAISS: an index and a document store, both in memory, written to two files after every change."""

    def place(self) -> str | None:
        return str(Path(self.store.path).resolve() / self.store.collection_name)

    def hint(self) -> object:
        self._sound()
        return "memory"  # what answers is this process's own; files are read on opening only

    def owners(self) -> set[Owner]:
        self._sound()
        return {Owner.of(payload) for payload in self.store.docstore.values()}

    def of(self, owner: Owner) -> Iterable[Row]:
        self._sound()
        places = self._places()
        for id, payload in list(self.store.docstore.items()):
            if Owner.of(payload) == owner:
                yield self._row(id, payload, places)

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        places, held = self._places(), self.store.docstore
        return {id: self._row(id, held[id], places) for id in ids if id in held}

    def count(self) -> int:
        return len(self.store.docstore)

    def seal(self, id: str, payload: dict[str, Any]) -> None:
        self.store.update(vector_id=id, vector=None, payload=payload)

    def _places(self) -> dict[str, int]:
        return {id: at for at, id in self.store.index_to_id.items()}

    def _row(self, id: str, payload: Any, places: Mapping[str, int]) -> Row:
        at = places.get(id)
        found = b"" if at is None else packed(self.store.index.reconstruct(int(at)))
        return Row(id, dict(payload), digest(found))

    def _sound(self) -> None:
        """That index and document store belong together.

        Raises:
            TamperedError: MG543.
        """
        ids, index = self.store.index_to_id, self.store.index
        total = index.ntotal if index is not None else 0
        if not (
            total == len(ids) == len(self.store.docstore)
            and set(ids.values()) == set(self.store.docstore)
            and all(0 <= at < total for at in ids)
        ):
            raise _unsound(self.place() or "", "Index and document store do not name the same records.")


class Chroma(Backend):
    """Chroma on a folder: metadata in SQLite, vectors in its own files."""

    _watch: Any = None

    def place(self) -> str | None:
        folder = self._folder()
        return None if folder is None else f"{folder}/{self.store.collection_name}"

    def _folder(self) -> Path | None:
        settings = getattr(self.store, "settings", None) or self.store.client.get_settings()
        return Path(settings.persist_directory).resolve() if settings.is_persistent else None

    def hint(self) -> object:
        import sqlite3

        folder = self._folder()
        if folder is None:
            return "memory"
        if self._watch is None:
            # A connection of our own sees every commit of others, Chroma's among them.
            uri = (folder / "chroma.sqlite3").as_uri()
            self._watch = sqlite3.connect(f"{uri}?mode=ro", uri=True, check_same_thread=False)
        ((version,),) = self._watch.execute("PRAGMA data_version").fetchall()
        ((schema,),) = self._watch.execute("PRAGMA schema_version").fetchall()
        if getattr(self, "_schema", None) != schema:
            _tables_only(self._watch, str(folder), views=False)
            self._schema = schema
        return (version, schema)

    def close(self) -> None:
        """Let go of the connection that watches."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def owners(self) -> set[Owner]:
        found: set[Owner] = set()
        for page in self._pages(include=["metadatas"]):
            found.update(Owner.of(payload or {}) for payload in page["metadatas"])
        return found

    def of(self, owner: Owner) -> Iterable[Row]:
        for page in self._pages(where=_where(owner), include=["metadatas", "embeddings"]):
            for row in self._rows(page):
                if Owner.of(row.payload) == owner:
                    yield row

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        page = self.store.collection.get(ids=list(ids), include=["metadatas", "embeddings"])
        return {row.id: row for row in self._rows(page)}

    def count(self) -> int:
        return int(self.store.collection.count())

    def after(self, old: Mapping[str, Any], new: Mapping[str, Any], *, vector: bool) -> dict[str, Any]:
        return {**old, **new}  # members that are left out stay

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in json_only(payload).items() if value is not None}

    def _pages(self, **options: Any) -> Iterator[Any]:
        at = 0
        while True:
            page = self.store.collection.get(limit=PAGE, offset=at, **options)
            yield page
            at += len(page["ids"])
            if len(page["ids"]) < PAGE:
                return

    def _rows(self, page: Any) -> Iterator[Row]:
        vectors = page["embeddings"]
        for at, id in enumerate(page["ids"]):
            yield Row(id, dict(page["metadatas"][at] or {}), digest(packed(vectors[at])))


def _where(owner: Owner) -> dict[str, Any] | None:
    clauses: list[dict[str, Any]] = [{name: {"$eq": value}} for name, value in owner.fields().items()]
    return {"$and": clauses} if len(clauses) > 1 else clauses[0] if clauses else None


class PgVector(Backend):
    """pgvector: one table; a batch is one transaction."""

    atomic = True

    def place(self) -> str | None:
        return f"pgvector:{self.store.collection_name}"

    def hint(self) -> object:
        # Every change of a row makes a new version of it, which has another place or another transaction.
        self.store._ensure_collection()
        with self.store._get_cursor() as cursor:
            cursor.execute(
                self._sql(
                    "SELECT count(*), coalesce(sum(hashtextextended(ctid::text || ' ' || xmin::text, 0)::numeric), 0),"
                    " (SELECT relkind = 'r' AND NOT relhastriggers AND NOT relhasrules AND NOT relrowsecurity"
                    " FROM pg_class WHERE oid = %s::regclass) FROM {}"
                ),
                (self._name(),),
            )
            count, total, sound = cursor.fetchone()
        if not sound:
            raise _unsound(self.place() or "", "The table has a trigger, a rule or a policy, or is a view.")
        return (int(count), str(total))

    def owners(self) -> set[Owner]:
        names = ", ".join(f"payload->'{name}'" for name in IDENTITIES)
        found = self._ask(f"SELECT DISTINCT {names} FROM {{}}")
        return {Owner.of(dict(zip(IDENTITIES, values, strict=True))) for values in found}

    def of(self, owner: Owner) -> Iterable[Row]:
        clauses, values = ["true"], []
        for name, value in owner.fields().items():
            clauses.append(f"payload->>'{name}' = %s")
            values.append(value)
        query = (
            f"SELECT id::text, payload, vector::text FROM {{}} WHERE {' AND '.join(clauses)} ORDER BY ctid"
        )
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
            found = payload if isinstance(payload, dict) else {"unreadable": payload}
            yield Row(id, {n: _numeric(v) for n, v in found.items()}, digest((vector or "").encode()))

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


def backend_of(store: Any) -> Backend:
    """What reads a vector store of Mem0.

    Raises:
        UnsupportedError: MG544, memguard does not know it well enough to see its vectors.
    """
    from memguard.integrations.mem0.qdrant import Qdrant

    known = {"Qdrant": Qdrant, "FAISS": Faiss, "ChromaDB": Chroma, "PGVector": PgVector}
    for cls in type(store).__mro__:
        if cls.__module__.startswith("mem0.vector_stores.") and cls.__name__ in known:
            return known[cls.__name__](store)
    raise UnsupportedError(
        f"Mem0 on {type(store).__name__} is not guarded.",
        code="MG544",
        why="memguard binds vectors, and knows how Qdrant, FAISS, Chroma and pgvector give them back.",
        do="Use one of them.",
    )


def _tables_only(connection: Any, where: str, *, views: bool = True) -> None:
    """That a SQLite database has no trigger (and no view), which would rewrite what is stored.

    Raises:
        TamperedError: MG543.
    """
    kinds = ("trigger", "view") if views else ("trigger",)
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        if kind in kinds:
            raise _unsound(where, f"A {kind} ({str(name)[:60]}) stands in its database, and Mem0 makes none.")


def _unsound(where: str, why: str) -> TamperedError:
    return TamperedError(
        "a vector store is not built as Mem0 builds it.",
        case="state",
        record=where,
        code="MG543",
        why=why,
        do="Put a backup back, or take out what was added; then memguard audit STORE.",
    )
