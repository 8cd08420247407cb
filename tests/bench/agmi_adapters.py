"""Adapters for the reference implementation of seeds/001 (agmi): the guarded objects of LangGraph under its adversary.

They start, stop and read through the bench's systems under test; raw rows and edits are agmi's, or, for SqliteStore,
which agmi measures at its front door only, written here against agmi's interface. Everything the guard keeps beside
the store goes into a snapshot; the anchor lies elsewhere, as deployed.

    agmi-check --adapter agmi_adapters:GuardedSqliteSaver        (from this folder)
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record
from agmi.adapters.langgraph_sqlite import LangGraphSqliteAdapter

from memguard.bench.suts import names
from memguard.bench.suts.protocol import HOME, STORE


class _Guarded(MemoryAdapter):
    """Life and snapshots of a guarded system under test."""

    sut_name: str
    supports_snapshot = True

    def setup(self) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="agmi-memguard-")
        self._cell = Path(self._dir.name) / "cell"
        self._cell.mkdir()
        self._sut = names.build(self.sut_name, self._cell)
        self._db = self._sut.database
        self._sut.setup()
        self._open()

    def teardown(self) -> None:
        self._sut.stop()
        self._dir.cleanup()

    def _open(self) -> None:
        self._sut.start()

    def reload(self) -> None:
        self._sut.stop()
        self._open()

    def snapshot_store(self) -> object:
        self._sut.stop()
        copy = Path(self._dir.name) / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        for folder in (STORE, HOME):
            shutil.copytree(self._cell / folder, copy / folder)
        return copy

    def restore_store(self, token: Any) -> None:
        self._sut.stop()
        for folder in (STORE, HOME):
            shutil.rmtree(self._cell / folder)
            shutil.copytree(token / folder, self._cell / folder)
        self._open()


class _Saver:
    """The four calls that agmi's own adapter makes, for a sync and an async saver alike."""

    def __init__(self, sut: Any) -> None:
        self._sut = sut

    def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        self._sut.put(config, {**checkpoint, "channel_versions": versions or {}}, metadata)
        return {
            "configurable": {**config["configurable"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        }

    def get_tuple(self, config: Any) -> Any:
        return self._sut.get_tuple(config)

    def get(self, config: Any) -> Any:
        found = self._sut.get_tuple(config)
        return found.checkpoint if found else None

    def list(self, config: Any) -> Any:
        return self._sut.listed(config, None)


class GuardedSqliteSaver(_Guarded, LangGraphSqliteAdapter):
    """SqliteSaver behind memguard, anchor elsewhere."""

    name = "langgraph-sqlite+memguard"
    sut_name = "langgraph-sqlite-saver+memguard"

    def setup(self) -> None:
        self._config = {"configurable": {"thread_id": "agmi-thread", "checkpoint_ns": ""}}
        super().setup()

    def _open(self) -> None:
        super()._open()
        self._saver = _Saver(self._sut)


class GuardedAsyncSqliteSaver(GuardedSqliteSaver):
    """AsyncSqliteSaver behind memguard, anchor elsewhere."""

    name = "langgraph-async-sqlite+memguard"
    sut_name = "langgraph-async-sqlite-saver+memguard"


class BareSqliteStore(_Guarded):
    """SqliteStore as it is: order of writing, timestamps as metadata, namespaces as owners."""

    name = "langgraph-sqlite-store"
    sut_name = "langgraph-sqlite-store"
    supports_replay = supports_metadata = True
    MINE, OTHER = ("agmi", "mine"), ("agmi", "other")
    COLUMNS = ("prefix", "key", "value", "created_at", "updated_at")

    def setup(self) -> None:
        super().setup()
        (self._cell / HOME).mkdir(exist_ok=True)

    # --- the store's own write and read paths -------------------------------------------------------------

    def _put(self, space: tuple[str, ...], key: str, text: str) -> None:
        self._sut._store.put(space, key, {"text": text})  # type: ignore[attr-defined]

    def seed(self, n: int) -> None:
        for i in range(n):
            self._put(self.MINE, f"k-{i}", f"genuine {i}")

    def seed_other(self, n: int) -> None:
        for i in range(n):
            self._put(self.OTHER, f"o-{i}", f"of another {i}")

    def append_genuine(self) -> None:
        self.reload()
        self._put(self.MINE, "k-late", "genuine and late")

    def verify(self) -> bool:
        self.verify_detail = None
        try:
            return bool(self._sut._store.search(self.MINE, limit=100))  # type: ignore[attr-defined]
        except Exception as error:  # whatever it raises is agmi's verdict
            self.verify_detail = f"{type(error).__name__}: {error}"[:160]
            return False

    # --- the adversary's side -----------------------------------------------------------------------------

    def _rows(self, space: tuple[str, ...]) -> list[Record]:
        with sqlite3.connect(self._db) as connection:
            found = connection.execute(
                f"SELECT {', '.join(self.COLUMNS)} FROM store WHERE prefix = ? ORDER BY rowid",
                (".".join(space),),
            ).fetchall()
        connection.close()
        return [Record(i, dict(zip(self.COLUMNS, row, strict=True))) for i, row in enumerate(found)]

    def read_all_raw(self) -> list[Record]:
        return self._rows(self.MINE)

    def read_other_raw(self) -> list[Record]:
        return self._rows(self.OTHER)

    def _run(self, statement: str, values: tuple[Any, ...]) -> None:
        with sqlite3.connect(self._db) as connection:
            connection.execute(statement, values)
        connection.close()

    def write_raw(self, record: Record) -> None:
        rows, new = self.read_all_raw(), record.fields
        if record.seq < len(rows):
            key = rows[record.seq].fields["key"]
            self._run(
                "UPDATE store SET value = ? WHERE prefix = ? AND key = ?", (new["value"], new["prefix"], key)
            )
        else:
            marks = ", ".join("?" for _ in self.COLUMNS)
            values = tuple(new[c] for c in self.COLUMNS)
            self._run(f"INSERT INTO store ({', '.join(self.COLUMNS)}) VALUES ({marks})", values)

    def delete_raw(self, seq: int) -> None:
        row = self.read_all_raw()[seq].fields
        self._run("DELETE FROM store WHERE prefix = ? AND key = ?", (row["prefix"], row["key"]))

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        row = self.read_all_raw()[victim_seq].fields
        values = (donor.fields["value"], row["prefix"], row["key"])
        self._run("UPDATE store SET value = ? WHERE prefix = ? AND key = ?", values)

    def mutate_payload(self, record: Record) -> Record:
        value = json.loads(record.fields["value"])
        record.fields["value"] = json.dumps({**value, "text": f"{value['text']}, or so they say"}).encode()
        return record

    def forge_record(self, template: Record) -> Record:
        forged = Record(
            template.seq + 1, {**template.fields, "key": "k-forged", "updated_at": "2099-01-01 00:00:00"}
        )
        return self.mutate_payload(forged)

    def read_meta(self, seq: int) -> dict[str, Any]:
        row = self.read_all_raw()[seq].fields
        return {"created_at": row["created_at"], "updated_at": row["updated_at"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        row = self.read_all_raw()[seq].fields
        values = ("2001-01-01 00:00:00", row["prefix"], row["key"])
        self._run("UPDATE store SET created_at = ? WHERE prefix = ? AND key = ?", values)

    # --- control C3 ---------------------------------------------------------------------------------------

    def identity_of(self, record: Record) -> str:
        return str(record.fields["key"])

    def payload_of(self, record: Record) -> str:
        value = record.fields["value"]
        return value.decode() if isinstance(value, bytes) else str(value)

    def owner_of(self, record: Record) -> str:
        return str(record.fields["prefix"])


class GuardedSqliteStore(BareSqliteStore):
    """SqliteStore behind memguard, anchor elsewhere."""

    name = "langgraph-sqlite-store+memguard"
    sut_name = "langgraph-sqlite-store+memguard"
