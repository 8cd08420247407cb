"""Stores of others, and stores that are made to fail, as their maintainers would describe them."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore

from memguard.testing.conformance import Functions, JsonFile, RawRecord, SqliteTable, Subject


class PlainTable(Subject):
    """A table of keys and values, as thousands of agents have one."""

    name = "plain-sqlite-table"
    versions: ClassVar = {"sqlite3": sqlite3.sqlite_version}
    backend = "SQLite"
    raw = SqliteTable("kv.db", "kv", "ns", "k", "v")

    def open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.folder / "kv.db")
        connection.execute("CREATE TABLE IF NOT EXISTS kv (ns TEXT, k TEXT, v TEXT, PRIMARY KEY (ns, k))")
        return connection

    def close(self, store: sqlite3.Connection) -> None:
        store.close()

    def write(self, store: sqlite3.Connection, context: str, key: str, value: dict[str, Any]) -> None:
        with store:
            store.execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?)", (context, key, json.dumps(value)))

    def read(self, store: sqlite3.Connection, context: str) -> list[tuple[str, dict[str, Any]]]:
        rows = store.execute("SELECT k, v FROM kv WHERE ns = ? ORDER BY rowid", (context,))
        return [(key, json.loads(value)) for key, value in rows]

    def delete(self, store: sqlite3.Connection, context: str, key: str) -> None:
        with store:
            store.execute("DELETE FROM kv WHERE ns = ? AND k = ?", (context, key))

    def contexts(self, store: sqlite3.Connection) -> list[str]:
        return [name for (name,) in store.execute("SELECT DISTINCT ns FROM kv")]


def in_memory_records(store: InMemoryStore) -> list[RawRecord]:
    return [
        RawRecord(ns[1], key, item.value) for ns, held in store._data.items() for key, item in held.items()
    ]


def in_memory_save(store: InMemoryStore, records: Sequence[RawRecord]) -> None:
    one = next(item for held in store._data.values() for item in held.values())
    store._data.clear()
    for record in records:
        space = ("users", record.context)
        store._data[space][record.key] = Item(
            value=record.value,
            key=record.key,
            namespace=space,
            created_at=one.created_at,
            updated_at=one.updated_at,
        )


class InMemory(Subject):
    """LangGraph's InMemoryStore: a store that lives in its process, guarded by the adapter for its type."""

    name = "langgraph-inmemory-store"
    in_process = True
    ordered = False
    raw = Functions(in_memory_records, in_memory_save)

    def open(self) -> InMemoryStore:
        return InMemoryStore()

    def close(self, store: InMemoryStore) -> None:
        pass

    def write(self, store: InMemoryStore, context: str, key: str, value: dict[str, Any]) -> None:
        store.put(("users", context), key, value)

    def read(self, store: InMemoryStore, context: str) -> list[tuple[str, dict[str, Any]]]:
        return [(item.key, item.value) for item in store.search(("users", context), limit=100)]

    def get(self, store: InMemoryStore, context: str, key: str) -> dict[str, Any] | None:
        item = store.get(("users", context), key)
        return item.value if item else None

    def delete(self, store: InMemoryStore, context: str, key: str) -> None:
        store.delete(("users", context), key)


class TamperSeen(Exception):
    """What the sealed file documents as its integrity refusal."""


class FileStore(Subject):
    """One JSON file; what a subclass makes of a file that it does not like is its own affair."""

    name = "file"
    raw = JsonFile("notes.json")

    @property
    def path(self) -> Path:
        return self.folder / "notes.json"

    def load(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def save(self, notes: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(notes))

    def open(self) -> FileStore:
        return self

    def close(self, store: FileStore) -> None:
        pass

    def write(self, store: FileStore, context: str, key: str, value: dict[str, Any]) -> None:
        notes = self.load()
        kept = [n for n in notes.get(context, []) if n["key"] != key]
        self.save({**notes, context: [*kept, {"key": key, "value": value}]})

    def read(self, store: FileStore, context: str) -> list[tuple[str, dict[str, Any]]]:
        return [(n["key"], n["value"]) for n in self.load().get(context, [])]

    def delete(self, store: FileStore, context: str, key: str) -> None:
        notes = self.load()
        notes[context] = [n for n in notes.get(context, []) if n["key"] != key]
        self.save(notes)


class Sealed(FileStore):
    """A MAC over the whole file beside it, the key elsewhere: refuses everything but an older file with its seal."""

    name = "sealed-file"
    integrity_errors = (TamperSeen,)

    def _seal(self) -> str:
        return hmac.new(
            b"a key that is not in the folder", self.path.read_bytes(), hashlib.sha256
        ).hexdigest()

    def load(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        if (self.folder / "seal").read_text() != self._seal():
            raise TamperSeen
        return super().load()

    def save(self, notes: dict[str, Any]) -> None:
        super().save(notes)
        (self.folder / "seal").write_text(self._seal())


class Stumbling(Sealed):
    """The same, but what it raises is no error that it documents."""

    name = "stumbling-file"
    integrity_errors = ()


class Swallowing(FileStore):
    """Leaves a record that it does not like out, without a word: what is left is served as the whole."""

    name = "swallowing-file"

    def write(self, store: FileStore, context: str, key: str, value: dict[str, Any]) -> None:
        super().write(store, context, key, {**value, "sum": len(value["text"])})

    def read(self, store: FileStore, context: str) -> list[tuple[str, dict[str, Any]]]:
        return [
            (key, value) for key, value in super().read(store, context) if value["sum"] == len(value["text"])
        ]


class Refusing(FileStore):
    """Refuses every read, and would score a perfect rate without controls."""

    name = "refusing-file"
    integrity_errors = (TamperSeen,)

    def read(self, store: FileStore, context: str) -> list[tuple[str, dict[str, Any]]]:
        found = super().read(store, context)
        if len(found) > 6 or getattr(self, "restarted", False):
            raise TamperSeen
        return found

    def open(self) -> FileStore:
        self.restarted = self.path.exists()
        return self


class Forgetful(FileStore):
    """Serves a genuine record written after a restart no more than once: control C2."""

    name = "forgetful-file"

    def open(self) -> FileStore:
        notes = self.load()
        self.save(
            {
                context: [n for n in held if "after the seeding" not in n["value"]["text"]]
                for context, held in notes.items()
            }
        )
        return self


@pytest.fixture
def subjects() -> dict[str, type[Subject]]:
    every = (PlainTable, InMemory, FileStore, Sealed, Stumbling, Swallowing, Refusing, Forgetful)
    return {subject.__name__: subject for subject in every}


@pytest.fixture
def row_maker() -> Any:
    """Rows from given verdicts, as the bench's own tests build them."""
    file = Path(__file__).parent.parent / "bench" / "conftest.py"
    spec = importlib.util.spec_from_file_location("bench_rows", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_row
