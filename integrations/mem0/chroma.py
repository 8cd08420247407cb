"""Chroma as rows: metadata in SQLite, vectors in files of its own, both as Chroma gives them back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.mem0.backends import (
    PAGE,
    Backend,
    Row,
    dense_of,
    digest,
    json_only,
    packed,
    tables_only,
    unsound,
)
from memguard.integrations.mem0.chroma_settings import as_made, stored_as_made
from memguard.integrations.mem0.owners import Owner


class Chroma(Backend):
    """Chroma on a folder: metadata in SQLite, vectors in its own files."""

    _watch: Any = None
    #: The version of the file whose settings were looked at.
    _ranked: object = None

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
            tables_only(self._watch, str(folder))
            self._schema = schema
        if self._ranked != (version, schema):
            # What answers was loaded with the one; the file may say the other by now.
            loaded = getattr(self.store.collection, "configuration_json", None)
            if not as_made(loaded) or not stored_as_made(self._watch, str(self.store.collection.id)):
                raise self._other()
            self._ranked = (version, schema)
        return (version, schema)

    def _other(self) -> TamperedError:
        return unsound(
            self.place() or "", "Its index compares vectors in another way than the one Mem0 leaves it."
        )

    def close(self) -> None:
        """Let go of the connection that watches."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def owners(self) -> set[Owner]:
        self.hint()
        found: set[Owner] = set()
        for page in self._pages(include=["metadatas"]):
            found.update(Owner.of(payload or {}) for payload in page["metadatas"])
        return found

    def of(self, owner: Owner) -> Iterable[Row]:
        self.hint()
        for page in self._pages(where=_where(owner), include=["metadatas", "embeddings"]):
            for row in self._rows(page):
                if Owner.of(row.payload) == owner:
                    yield row

    def some(self, ids: Sequence[str]) -> dict[str, Row]:
        page = self._get(ids=list(ids), include=["metadatas", "embeddings"])
        return {row.id: row for row in self._rows(page)}

    def count(self) -> int:
        return int(self.store.collection.count())

    def after(self, old: Mapping[str, Any], new: Mapping[str, Any], *, vector: bool) -> dict[str, Any]:
        return {**old, **new}  # members that are left out stay

    def plain(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _digits(value) for name, value in json_only(payload).items() if value is not None}

    def _get(self, **options: Any) -> Any:
        from chromadb.errors import InternalError

        try:
            return self.store.collection.get(**options)
        except InternalError:
            # It names a record and no vector, or the other way round.
            raise unsound(self.place() or "", "Chroma cannot read a record that it lists.") from None

    def _pages(self, **options: Any) -> Iterator[Any]:
        at = 0
        while True:
            page = self._get(limit=PAGE, offset=at, **options)
            yield page
            at += len(page["ids"])
            if len(page["ids"]) < PAGE:
                return

    def _rows(self, page: Any) -> Iterator[Row]:
        vectors = page["embeddings"]
        for at, id in enumerate(page["ids"]):
            found = packed(vectors[at])
            yield Row(id, dict(page["metadatas"][at] or {}), digest(found), dense_of(found))


def _digits(value: Any) -> Any:
    """A value with floats of 15 digits: Chroma reads longer ones back up to one unit in the last place off.

    Raises:
        UnsupportedError: MG542, a number that Chroma's columns do not hold.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _number("no finite number")
        return float(f"{value:.15g}") + 0.0  # and no negative zero, which comes back as zero
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _number("a whole number of more than 64 bits")
    return [_digits(part) for part in value] if isinstance(value, list) else value


def _number(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"metadata hold {what}.",
        code="MG542",
        why="Chroma keeps whole numbers of 64 bits and finite floats; it would give back another value, or none.",
        do="Write it as text.",
    )


def _where(owner: Owner) -> dict[str, Any] | None:
    clauses: list[dict[str, Any]] = [{name: {"$eq": value}} for name, value in owner.fields().items()]
    return {"$and": clauses} if len(clauses) > 1 else clauses[0] if clauses else None
