"""Mem0 on each of its vector stores, bare or guarded: one context is one user, one record one memory as it was said.

Memories go in with ``infer=False``, so that what is measured is the stores and not a model. Qdrant, FAISS and Chroma
lie in folders of the cell, pgvector on a server whose data folder does; the history beside them is Mem0's SQLite.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.bench.suts import mem0_offline, postgres_cell
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.langgraph_saver import OWNERS
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

#: What the agent asks for on the ranked path: words that one seeded record of each context shares.
QUERY = "spending limit approved amount"
TOP = 2
PACKAGES = {"qdrant": "qdrant-client", "faiss": "faiss-cpu", "chroma": "chromadb", "pgvector": "psycopg"}


class Mem0Sut(Guarded):
    """Memory over one vector store, bare or guarded."""

    def __init__(self, cell: Path, name: Name, provider: str) -> None:
        from memguard.bench.integrity.edits import mem0_cases

        super().__init__(cell, name, "memories")
        self.kind = f"mem0-{provider}"
        self.edits = mem0_cases.KINDS[provider]
        self._provider = provider
        self._memory: Any = None
        self._inner: Any = None
        logging.getLogger("mem0").setLevel(
            logging.CRITICAL
        )  # it warns of what is not installed, on every start

    def versions(self) -> dict[str, str]:
        """Versions of Mem0, of the store's library and, where used, of the guard."""
        guard = ["memguard-middleware"] if self.guarded else []
        return self.package_versions("mem0ai", PACKAGES[self._provider], *guard)

    def backend(self) -> str:
        """The vector store, and the history beside it."""
        words = {
            "qdrant": "Qdrant in local mode (a file of pickles)",
            "faiss": "FAISS (an index file and a JSON file)",
            "chroma": "Chroma on a folder",
            "pgvector": "PostgreSQL with pgvector",
        }
        return f"{words[self._provider]}; history in SQLite {sqlite3.sqlite_version}"

    def features(self) -> dict[str, str]:
        """The guard; Mem0 has no protection of its own to switch on."""
        return self.guard_features()

    @property
    def _notes(self) -> Path:
        """The agent's own list of its memories' identifiers."""
        return self.cell / f"{self._file}.ids.json"

    def _ids(self) -> dict[str, dict[str, str]]:
        return json.loads(self._notes.read_text()) if self._notes.exists() else {}

    def start(self) -> None:
        """Open the Memory; a guarded one after a look at what would be unpickled."""
        os.environ["MEM0_DIR"] = str(self.cell / "mem0")
        uri = None
        self.database.mkdir(parents=True, exist_ok=True)
        if self._provider == "pgvector":
            uri = postgres_cell.start(self.database / "pg").uri(postgres_cell.NAME, tcp=False)
        config = mem0_offline.config(self._provider, self.database, uri)
        if self.guarded:
            from memguard.integrations.mem0 import from_config

            self._inner = from_config(config)
        else:
            from mem0 import Memory  # type: ignore[import-untyped]

            self._inner = Memory.from_config(config)
        self._memory = self.wrap(self._inner)

    def stop(self) -> None:
        """Close the guard, then the Memory, its files and its server."""
        wrapped = self._wrapped
        self.unwrap()
        inner, self._inner, self._memory = self._inner, None, None
        if wrapped is not None:
            wrapped._calls.keeping.table.close()
        if inner is not None:
            mem0_offline.close(inner)
        if self._provider == "pgvector":
            postgres_cell.stop(self.database / "pg")

    def write(self, record: Record) -> None:
        """``add`` of one message, as it stands."""
        about = {"n": record.n, "topic": record.topic, "source": record.source, "ts": record.ts}
        about |= {"for": record.owner, "kind": "note"}
        made = self._memory.add(
            [{"role": record.role, "content": record.text}], user_id=record.owner, metadata=about, infer=False
        )
        ids = self._ids()
        ids.setdefault(record.owner, {})[str(record.n)] = made["results"][0]["id"]
        self._notes.write_text(json.dumps(ids))
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """``delete`` of the context's second memory."""
        self._memory.delete(self._ids()[OWNERS[context]]["1"])

    def replace(self, context: str) -> None:
        """``update`` of the third memory's text."""
        old = self.records[context][2]
        said = f"{old.text} (withdrawn, ask first)"
        self._memory.update(self._ids()[OWNERS[context]]["2"], text=said)

    def key(self, record: Record) -> str:
        """Its number in its context: Mem0 makes up the identifiers."""
        return f"m-{record.n}"

    def body(self, record: Record) -> Mapping[str, Any]:
        """What was said, by whom and about what."""
        return {
            "text": record.text,
            "owner": record.owner,
            "role": record.role,
            "source": record.source,
            "topic": record.topic,
            "ts": record.ts,
        }

    def paths(self) -> tuple[str, ...]:
        """By identifier, the list, the ranked search, a filtered list, and the history."""
        return ("get", "list", "query", "filtered", "history")

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path of an owner."""
        owner = OWNERS[context]
        filters = {"user_id": owner}
        ids = self._ids().get(owner, {})
        known = [(ids[str(r.n)], r) for r in self.records.get(context, []) if str(r.n) in ids]
        if path == "get":
            found = [self._memory.get(id) for id, _ in known]
            return [_item(item) for item in found if item is not None]
        if path == "history":
            return [self._history(id, record) for id, record in known]
        if path == "query":
            found = self._memory.search(QUERY, filters=filters, top_k=TOP, threshold=0.0)["results"]
            return [_item(item) for item in found]
        if path == "filtered":
            filters["kind"] = "note"
        found = self._memory.get_all(filters=filters, top_k=100)["results"]
        return sorted(map(_item, found), key=lambda item: (str(item.stamps["created_at"]), item.key))

    def _history(self, id: str, record: Record) -> Item:
        """The history of one memory: what its rows say, with what the agent knows of it anyway."""
        rows = self._memory.history(id)
        body: dict[str, Any] = {**self.body(record), "text": None, "role": None}
        if rows:
            body |= {"text": rows[0]["new_memory"], "role": rows[0]["role"]}
        said = [{k: row[k] for k in ("old_memory", "new_memory", "event", "is_deleted")} for row in rows]
        times = [[row["id"], row["created_at"], row["updated_at"]] for row in rows]
        return Item(self.key(record), body, {"rows": said, "times": times})


def _item(found: Mapping[str, Any]) -> Item:
    """A served memory as plain values, whatever an adversary made of it."""
    about = dict(found.get("metadata") or {})
    about.pop("memguard", None)
    body = {
        "text": found.get("memory"),
        "owner": found.get("user_id"),
        "role": found.get("role"),
        "source": about.pop("source", None),
        "topic": about.pop("topic", None),
        "ts": about.pop("ts", None),
    }
    number = about.pop("n", None)
    stamps = {k: found.get(k) for k in ("id", "hash", "created_at", "updated_at", "expiration_date")}
    return Item(f"m-{number}", body, {**stamps, "more": json.dumps(about, sort_keys=True, default=repr)})


def qdrant(cell: Path, name: Name) -> Mem0Sut:
    """Qdrant in local mode, Mem0's default."""
    return Mem0Sut(cell, name, "qdrant")


def faiss(cell: Path, name: Name) -> Mem0Sut:
    """FAISS."""
    return Mem0Sut(cell, name, "faiss")


def chroma(cell: Path, name: Name) -> Mem0Sut:
    """Chroma."""
    return Mem0Sut(cell, name, "chroma")


def pgvector(cell: Path, name: Name) -> Mem0Sut:
    """pgvector."""
    return Mem0Sut(cell, name, "pgvector")
