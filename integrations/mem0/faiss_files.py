"""FAISS as rows: an index and a document store in memory, written to two files after every change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.integrations.mem0.backends import Backend, Row, dense_of, digest, packed, payload_of, unsound
from memguard.integrations.mem0.owners import Owner


class Faiss(Backend):
    """FAISS: an index and a document store, both in memory, written to two files after every change."""

    def place(self) -> str | None:
        return str(Path(self.store.path).resolve() / self.store.collection_name)

    def hint(self) -> object:
        self._sound()
        return "memory"  # what answers is this process's own; files are read on opening only

    def owners(self) -> set[Owner]:
        self._sound()
        return {Owner.of(payload_of(payload)) for payload in self.store.docstore.values()}

    def of(self, owner: Owner) -> Iterable[Row]:
        self._sound()
        places = self._places()
        for id, payload in list(self.store.docstore.items()):
            if Owner.of(payload_of(payload)) == owner:
                yield self._row(id, payload, places)

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        places, held = self._places(), self.store.docstore
        return {id: self._row(id, held[id], places) for id in ids if id in held}

    def count(self) -> int:
        return len(self.store.docstore)

    def dense(self, vector: Any) -> str:
        if not self.store._should_normalize():
            return super().dense(vector)
        import faiss
        import numpy

        row = numpy.array([vector], dtype=numpy.float32)
        faiss.normalize_L2(row)
        return dense_of(packed(row[0]))

    def _places(self) -> dict[str, int]:
        return {id: at for at, id in self.store.index_to_id.items()}

    def _row(self, id: str, payload: Any, places: Mapping[str, int]) -> Row:
        at = places.get(id)
        found = b"" if at is None else packed(self.store.index.reconstruct(int(at)))
        return Row(id, payload_of(payload), digest(found), dense_of(found))

    def _sound(self) -> None:
        """That index and document store belong together, and that the index ranks as Mem0's settings say.

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
            raise unsound(self.place() or "", "Index and document store do not name the same records.")
        if index is not None and not self._flat(index):
            raise unsound(
                self.place() or "", "Its index is of another type, metric or size than Mem0's settings make."
            )

    def _flat(self, index: Any) -> bool:
        """Whether the index is the one that Mem0 makes: it compares with every vector, by the settings' metric."""
        import faiss

        inner = self.store.distance_strategy.lower() in ("inner_product", "cosine")
        kind = faiss.IndexFlatIP if inner else faiss.IndexFlatL2
        metric = faiss.METRIC_INNER_PRODUCT if inner else faiss.METRIC_L2
        size = self.store.embedding_model_dims
        return bool(type(index) is kind and index.metric_type == metric and index.d == size)
