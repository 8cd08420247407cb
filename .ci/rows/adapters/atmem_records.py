"""atmem's records: written by ``Memory.remember``, edited in the table ``records``, checked by ``Memory.verify``.

Two rows: the audit chain in the same database alone, and with ``Memory.checkpoint`` documents appended after every
genuine write to a file outside the folder that the adversary holds (``verify(checkpoints_path=...)``). ``verify`` is
a call of the operator, so the detection point is the audit: ``Memory.list`` answers without it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record

OWNERS = ("rows-a", "rows-b")
#: Columns that name a record's place; everything else of a row is what is stored there.
PLACE = ("id", "subject_id")


class AtmemChain(MemoryAdapter):
    """The chain alone."""

    name = "atmem-chain"
    detection_point = "audit"
    supports_replay = supports_metadata = supports_snapshot = True
    checkpointed = False

    def setup(self) -> None:
        self._base = Path(tempfile.mkdtemp(prefix="rows-atmem-"))
        (self._base / "store").mkdir()
        self._open()

    @property
    def _db(self) -> Path:
        return self._base / "store" / "memories.db"

    @property
    def _sink(self) -> Path:
        return self._base / "checkpoints.jsonl"

    def _open(self) -> None:
        from atmem import Memory

        self._memory = Memory(str(self._db))

    def teardown(self) -> None:
        self._memory.close()
        shutil.rmtree(self._base, ignore_errors=True)

    def reload(self) -> None:
        self._memory.close()
        self._open()

    # --- its own write path -------------------------------------------------------------------------------

    def _remember(self, owner: str, n: int) -> None:
        words = ("colour", "city", "drink", "sport", "animal", "season", "metal", "number")
        self._memory.remember(owner, f"My favourite {words[n]} is choice {owner[-1]}{n}")
        if self.checkpointed:
            self._memory.checkpoint(sink_path=str(self._sink))

    def seed(self, n: int) -> None:
        for i in range(n):
            self._remember(OWNERS[0], i)

    def seed_other(self, n: int) -> None:
        for i in range(n):
            self._remember(OWNERS[1], i)

    def append_genuine(self) -> None:
        self.reload()
        self._remember(OWNERS[0], len(self.read_all_raw()))

    # --- the adversary's side -----------------------------------------------------------------------------

    def _rows(self, owner: str) -> list[Record]:
        connection = sqlite3.connect(self._db)
        connection.row_factory = sqlite3.Row
        try:
            found = connection.execute(
                "SELECT * FROM records WHERE subject_id = ? ORDER BY rowid", (owner,)
            ).fetchall()
        finally:
            connection.close()
        return [Record(i, dict(row)) for i, row in enumerate(found)]

    def read_all_raw(self) -> list[Record]:
        return self._rows(OWNERS[0])

    def read_other_raw(self) -> list[Record]:
        return self._rows(OWNERS[1])

    def _run(self, statement: str, values: tuple[Any, ...]) -> None:
        connection = sqlite3.connect(self._db)
        try:
            connection.execute(statement, values)
            connection.commit()
        finally:
            connection.close()

    def _put(self, place: str, fields: dict[str, Any]) -> None:
        new = {k: v for k, v in fields.items() if k not in PLACE}
        sets = ", ".join(f"{column} = ?" for column in new)
        self._run(f"UPDATE records SET {sets} WHERE id = ?", (*new.values(), place))

    def write_raw(self, record: Record) -> None:
        rows = self.read_all_raw()
        if record.seq < len(rows):
            self._put(rows[record.seq].fields["id"], record.fields)
            return
        columns = list(record.fields)
        marks = ", ".join("?" for _ in columns)
        self._run(
            f"INSERT INTO records ({', '.join(columns)}) VALUES ({marks})", tuple(record.fields.values())
        )

    def delete_raw(self, seq: int) -> None:
        self._run("DELETE FROM records WHERE id = ?", (self.read_all_raw()[seq].fields["id"],))

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self._put(self.read_all_raw()[victim_seq].fields["id"], donor.fields)

    def mutate_payload(self, record: Record) -> Record:
        record.fields["content"] = f"{record.fields['content']} That is what they say."
        return record

    def forge_record(self, template: Record) -> Record:
        fields = {**template.fields, "id": "rec_" + "f" * 32, "content": "The courier account is a payee."}
        return Record(template.seq + 1, fields)

    def read_meta(self, seq: int) -> dict[str, Any]:
        fields = self.read_all_raw()[seq].fields
        return {"created_at": fields["created_at"], "source_type": fields["source_type"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        row = self.read_all_raw()[seq].fields
        self._run("UPDATE records SET created_at = ? WHERE id = ?", ("2001-01-01T00:00:00+00:00", row["id"]))

    # --- control C3 ---------------------------------------------------------------------------------------

    def identity_of(self, record: Record) -> str:
        return str(record.fields["id"])

    def payload_of(self, record: Record) -> str:
        return str(record.fields["content"])

    def owner_of(self, record: Record) -> str:
        return str(record.fields["subject_id"])

    # --- T9: every file beside the database -----------------------------------------------------------------

    def snapshot_store(self) -> object:
        self._memory.close()
        copy = self._base / "copy"
        shutil.copytree(self._base / "store", copy)
        self._open()
        return copy

    def restore_store(self, token: Any) -> None:
        self._memory.close()
        shutil.rmtree(self._base / "store")
        shutil.copytree(token, self._base / "store")
        self._open()

    # --- its own answer -------------------------------------------------------------------------------------

    def verify(self) -> bool:
        self.verify_detail = None
        more = {"checkpoints_path": str(self._sink)} if self.checkpointed else {}
        fine = bool(self._memory.verify(OWNERS[0], **more)["valid"])
        if not fine:
            self.verify_detail = "Memory.verify"
        return fine and len(self._memory.list(OWNERS[0])) > 0


class AtmemCheckpoint(AtmemChain):
    """The chain, and checkpoints outside the folder that the adversary holds."""

    name = "atmem-chain+checkpoint"
    checkpointed = True
