"""The vector stores of Mem0 as rows: identifier, payload and vector of what is in them, undecided and unbelieved.

One class for each store that memguard knows well enough to see its vectors: an edit that only moves a vector changes
what is found, and must not pass. Writes go through Mem0's own methods.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from memguard.collection import FIELD
from memguard.errors import IntegrityError, TamperedError, UnsupportedError
from memguard.integrations.mem0.owners import Owner

#: Records asked for at a time.
PAGE = 512


class Row(NamedTuple):
    """One record of a vector store: its payload as plain values, a digest of its vectors, and one of the dense one."""

    id: str
    payload: dict[str, Any]
    vectors: bytes
    dense: str
    flaw: IntegrityError | None = None


class Backend(ABC):
    """One collection of a vector store.

    Args:
        store: Mem0's wrapper of it.
    """

    #: A batch is stored whole or not at all.
    atomic = False

    def __init__(self, store: Any) -> None:
        self.store = store

    @abstractmethod
    def place(self) -> str | None:
        """A name for where it is; None for one that lives in this process only."""

    def hint(self) -> object:
        """Differs after anybody else changed the collection; None where that cannot be told."""
        return None

    @abstractmethod
    def owners(self) -> set[Owner]:
        """Whose records there are."""

    @abstractmethod
    def of(self, owner: Owner) -> Iterable[Row]:
        """Every record of an owner, in the store's own order."""

    @abstractmethod
    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        """Records by identifier, those that are there."""

    @abstractmethod
    def count(self) -> int:
        """How many records there are."""

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A payload as the store will give it back.

        Raises:
            UnsupportedError: MG542, it holds something that the store cannot keep as it is.
        """
        found: dict[str, Any] = json_only(payload)
        return found

    def after(self, old: Mapping[str, Any], new: Mapping[str, Any], *, vector: bool) -> dict[str, Any]:
        """The payload that an update leaves.

        Args:
            vector: the update brings a vector too.
        """
        return dict(new)

    def dense(self, vector: Any) -> str:
        """The digest that a record will have whose dense vector is this one."""
        return dense_of(packed(vector))

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


def dense_of(vector: bytes) -> str:
    """The digest of one dense vector, as it stands under a record's tag."""
    return hashlib.sha256(vector).hexdigest()[:32]


def packed(vector: Iterable[float]) -> bytes:
    """A dense vector as float32, little-endian."""
    import numpy

    return numpy.asarray(vector, dtype="<f4").tobytes()


def payload_of(found: Any) -> dict[str, Any]:
    """A payload as an object, whatever stands in its place."""
    return dict(found) if isinstance(found, Mapping) else {"unreadable": repr(found)}


def without_seal(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload's own members."""
    return {name: value for name, value in payload.items() if name != FIELD}


def backend_of(store: Any) -> Backend:
    """What reads a vector store of Mem0.

    Raises:
        UnsupportedError: MG544, memguard does not know it well enough to see its vectors.
    """
    from memguard.integrations.mem0.chroma import Chroma
    from memguard.integrations.mem0.faiss_files import Faiss
    from memguard.integrations.mem0.pgvector import PgVector
    from memguard.integrations.mem0.qdrant import Qdrant

    known: Mapping[str, Callable[[Any], Backend]]
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


def tables_only(connection: Any, where: str) -> None:
    """That a SQLite database has no trigger and no view, which would rewrite or hide what is stored.

    Raises:
        TamperedError: MG543.
    """
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master"):
        if kind in ("trigger", "view"):
            raise unsound(where, f"A {kind} ({str(name)[:60]}) stands in its database, and Mem0 makes none.")


def unsound(where: str, why: str) -> TamperedError:
    """The error for a store in which something stands that Mem0 does not put there."""
    return TamperedError(
        "a vector store is not built as Mem0 builds it.",
        case="state",
        record=where,
        code="MG543",
        why=why,
        do="Put a backup back, or take out what was added; then memguard audit STORE.",
    )
