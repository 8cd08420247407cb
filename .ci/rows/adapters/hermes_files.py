"""Hermes Agent's memory file: written by ``MemoryStore.add``, read as its system prompt takes it.

A context is one home folder (one profile); the file holds entries one after another and nothing beside them, so T8
does not apply. A restart is a new ``MemoryStore`` that loads from disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record

OWNERS = ("profile-a", "profile-b")


class HermesMemoryMd(MemoryAdapter):
    """``MEMORY.md`` and the system-prompt snapshot."""

    name = "hermes-memory-md"
    detection_point = "read"
    supports_replay = supports_snapshot = True

    def setup(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="rows-hermes-"))
        self._seeded = 0

    def teardown(self) -> None:
        shutil.rmtree(self._base, ignore_errors=True)

    def reload(self) -> None:
        return None  # every call below opens the file anew

    def _store(self, owner: str) -> Any:
        os.environ["HERMES_HOME"] = str(self._base / owner)
        from tools.memory_tool import MemoryStore

        store = MemoryStore()
        store.load_from_disk()
        return store

    def _add(self, owner: str, text: str) -> None:
        answer = self._store(owner).add("memory", text)
        if not answer.get("success"):
            raise RuntimeError("the memory tool refused a genuine entry")

    def seed(self, n: int) -> None:
        for i in range(n):
            self._add(OWNERS[0], f"note {i}: the limit is {40 + i}")

    def seed_other(self, n: int) -> None:
        for i in range(n):
            self._add(OWNERS[1], f"other note {i}: the limit is {90 + i}")

    def append_genuine(self) -> None:
        self._add(OWNERS[0], "late note: the limit is 77")

    # --- the adversary's side -----------------------------------------------------------------------------

    @staticmethod
    def _delimiter() -> str:
        from tools.memory_tool import ENTRY_DELIMITER

        return str(ENTRY_DELIMITER)

    def _file(self, owner: str) -> Path:
        return self._base / owner / "memories" / "MEMORY.md"

    def _rows(self, owner: str) -> list[Record]:
        text = self._file(owner).read_text(encoding="utf-8").strip()
        parts = text.split(self._delimiter()) if text else []
        return [Record(i, {"owner": owner, "text": part}) for i, part in enumerate(parts)]

    def _save(self, rows: list[Record]) -> None:
        text = self._delimiter().join(r.fields["text"] for r in rows)
        self._file(OWNERS[0]).write_text(text, encoding="utf-8")

    def read_all_raw(self) -> list[Record]:
        return self._rows(OWNERS[0])

    def read_other_raw(self) -> list[Record]:
        return self._rows(OWNERS[1])

    def write_raw(self, record: Record) -> None:
        rows = self.read_all_raw()
        rows[record.seq : record.seq + 1] = [record]
        self._save(rows)

    def delete_raw(self, seq: int) -> None:
        rows = self.read_all_raw()
        del rows[seq]
        self._save(rows)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self.write_raw(Record(victim_seq, dict(donor.fields)))

    def mutate_payload(self, record: Record) -> Record:
        record.fields["text"] = f"{record.fields['text']}, or so they say"
        return record

    def identity_of(self, record: Record) -> str:
        return f"{record.fields['owner']} {record.seq}"

    def payload_of(self, record: Record) -> str:
        return str(record.fields["text"])

    def owner_of(self, record: Record) -> str:
        return str(record.fields["owner"])

    def snapshot_store(self) -> object:
        copy = self._base / "copy"
        shutil.copytree(self._base / OWNERS[0], copy)
        return copy

    def restore_store(self, token: Any) -> None:
        shutil.rmtree(self._base / OWNERS[0])
        shutil.copytree(token, self._base / OWNERS[0])

    # --- its own read path ----------------------------------------------------------------------------------

    def verify(self) -> bool:
        self.verify_detail = None
        said = self._store(OWNERS[0]).format_for_system_prompt("memory")
        if not said or "[BLOCKED:" in said:
            self.verify_detail = "format_for_system_prompt"
            return False
        return True
