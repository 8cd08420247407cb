"""Mem0's stores as rows, and how each is edited in its own format while it is closed.

Qdrant: pickles in SQLite, rewritten with plain ``pickle`` and ``sqlite3``. FAISS: its index and its JSON file. Chroma:
the tables of its SQLite file, the log of vectors among them. pgvector: SQL. The history is SQLite for all of them.
"""

from __future__ import annotations

import base64
import json
import pickle
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.raw import Raw, canonical
from memguard.bench.integrity.edits.scene import COPY, DATABASE, SISTER, Scene, read_only, schema_rows
from memguard.bench.suts import postgres_cell
from memguard.bench.suts.mem0_offline import COLLECTION

#: Place of the distinctive fact in its context.
FACT_AT = 3
#: What stands beside a memory's text and is no part of what was said.
META = ("role", "actor_id", "expiration_date", "updated_at")
_IDS = ("sister.db.ids.json", "agent.db.ids.json")


@dataclass(slots=True)
class Row:
    """One memory as it lies in the store. ``vectors`` by name; the dense one is ``""``."""

    id: str
    payload: Any
    vectors: dict[str, Any]

    def saying(self, **changes: Any) -> Row:
        """The same row with some members of its payload changed (None removes one)."""
        payload = {**self.payload, **changes}
        return Row(self.id, {k: v for k, v in payload.items() if v is not None}, dict(self.vectors))

    @property
    def order(self) -> str:
        """What rows are ordered by."""
        return str(self.payload.get("created_at")) if isinstance(self.payload, dict) else ""


class Format(ABC):
    """One vector store in its own format. Every method works on the folder of one database."""

    provider = ""

    @abstractmethod
    def load(self, base: Path, *, behind: bool = False) -> list[Row]:
        """Every row; ``behind`` a view that was put over them, if there is one."""

    @abstractmethod
    def put(self, base: Path, rows: Sequence[Row]) -> None:
        """Write rows, new or in the place of those of their identifiers."""

    @abstractmethod
    def drop(self, base: Path, ids: Sequence[str]) -> None:
        """Remove rows."""

    def schema(self, base: Path) -> list[Raw]:
        """Tables and what hangs on them, where the store has any."""
        return []


class _Bad:
    """Stands in for whatever a pickle would make."""

    def __repr__(self) -> str:
        return "an object"

    def __init__(self, *args: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __call__(self, *args: Any) -> None:
        return None


class _Look(pickle.Unpickler):
    """Reads a pickle without importing anything."""

    def find_class(self, module: str, name: str) -> Any:
        return _Bad


class Qdrant(Format):
    """``collection/NAME/storage.sqlite``: one pickled point a row."""

    provider = "qdrant"

    def file(self, base: Path) -> Path:
        """The SQLite file."""
        return base / "qdrant" / "collection" / COLLECTION / "storage.sqlite"

    def load(self, base: Path, *, behind: bool = False) -> list[Row]:
        found = []
        table = "kept" if behind and _has(self.file(base), "kept") else "points"
        for row in read_only(self.file(base), f"SELECT id, point FROM {table} ORDER BY 1"):
            id = str(pickle.loads(base64.b64decode(row["id"])))  # noqa: S301 - the bench's own stores
            found.append(self._row(id, row["point"]))
        return found

    def _row(self, id: str, raw: bytes) -> Row:
        import io

        try:
            fields = _Look(io.BytesIO(raw)).load().state["__dict__"]
            vector = fields["vector"]
            named = vector if isinstance(vector, dict) else {"": vector}
            plain = {n: v.state["__dict__"] if isinstance(v, _Bad) else v for n, v in named.items()}
            return Row(id, dict(fields["payload"]), plain)
        except Exception:  # noqa: BLE001 - whatever stands there
            return Row(id, {"unreadable": raw.hex()}, {})

    def put(self, base: Path, rows: Sequence[Row]) -> None:
        for row in rows:
            self.raw(base, row.id, self._pickled(row))

    def raw(self, base: Path, id: str, point: bytes) -> None:
        """Put bytes in a row's place."""
        key = base64.b64encode(pickle.dumps(id, protocol=4)).decode()
        with closing(sqlite3.connect(self.file(base))) as db, db:
            done = db.execute("UPDATE points SET point = ? WHERE id = ?", (point, key))
            if not done.rowcount:
                db.execute("INSERT INTO points VALUES (?, ?)", (key, point))

    @staticmethod
    def _pickled(row: Row) -> bytes:
        from qdrant_client.http.models import PointStruct, SparseVector

        vectors = {n: SparseVector(**v) if isinstance(v, dict) else v for n, v in row.vectors.items()}
        return pickle.dumps(PointStruct(id=row.id, vector=vectors, payload=row.payload))

    def drop(self, base: Path, ids: Sequence[str]) -> None:
        keys = [(base64.b64encode(pickle.dumps(id, protocol=4)).decode(),) for id in ids]
        with closing(sqlite3.connect(self.file(base))) as db, db:
            db.executemany("DELETE FROM points WHERE id = ?", keys)

    def schema(self, base: Path) -> list[Raw]:
        return [_renamed(row, "points") for row in schema_rows(self.file(base))]


class Faiss(Format):
    """``NAME.faiss`` and ``NAME.json``."""

    provider = "faiss"

    def _files(self, base: Path) -> tuple[Path, Path]:
        folder = base / "faiss"
        return folder / f"{COLLECTION}.faiss", folder / f"{COLLECTION}.json"

    def load(self, base: Path, *, behind: bool = False) -> list[Row]:
        import faiss

        index_file, file = self._files(base)
        found = json.loads(file.read_text(encoding="utf-8"))
        index = faiss.read_index(str(index_file))
        vectors: dict[str, dict[str, Any]] = {}
        for at, id in sorted((int(at), id) for at, id in found["index_to_id"].items()):
            held = vectors.setdefault(id, {})
            held[str(len(held)) if held else ""] = [float(x) for x in index.reconstruct(at)]
        return [Row(id, payload, vectors.get(id, {})) for id, payload in found["docstore"].items()]

    def put(self, base: Path, rows: Sequence[Row]) -> None:
        held = {row.id: row for row in self.load(base)}
        held.update({row.id: row for row in rows})
        self._save(base, list(held.values()))

    def drop(self, base: Path, ids: Sequence[str]) -> None:
        self._save(base, [row for row in self.load(base) if row.id not in ids])

    def _save(self, base: Path, rows: Sequence[Row]) -> None:
        import faiss
        import numpy

        index_file, file = self._files(base)
        index = faiss.read_index(str(index_file))
        every = [(row.id, vector) for row in rows for vector in row.vectors.values()]
        index.reset()
        if every:
            index.add(numpy.array([vector for _, vector in every], dtype="float32"))
        faiss.write_index(index, str(index_file))
        said = {
            "docstore": {row.id: row.payload for row in rows},
            "index_to_id": {str(at): id for at, (id, _) in enumerate(every)},
        }
        file.write_text(json.dumps(said, indent=2), encoding="utf-8")


class Chroma(Format):
    """``chroma.sqlite3``: metadata in tables, vectors in the log that its index is filled from."""

    provider = "chroma"

    def file(self, base: Path) -> Path:
        """The SQLite file."""
        return base / "chroma" / "chroma.sqlite3"

    def load(self, base: Path, *, behind: bool = False) -> list[Row]:
        file = self.file(base)
        table = "kept" if behind and _has(file, "kept") else "embeddings"
        rows = {
            row["id"]: Row(str(row["embedding_id"]), {}, {}) for row in read_only(file, _CHROMA_ROWS + table)
        }
        for said in read_only(file, "SELECT * FROM embedding_metadata"):
            if said["id"] in rows:
                value = next((said[c] for c in _CHROMA_VALUES if said[c] is not None), None)
                rows[said["id"]].payload[said["key"]] = value
        by_id = {row.id: row for row in rows.values()}
        for entry in read_only(file, "SELECT id, operation, vector FROM embeddings_queue ORDER BY seq_id"):
            row = by_id.get(str(entry["id"]))
            if row is not None and entry["vector"] is not None:
                raw = entry["vector"]
                row.vectors[""] = list(struct.unpack(f"<{len(raw) // 4}f", raw))
        return list(by_id.values())

    def put(self, base: Path, rows: Sequence[Row]) -> None:
        there = {row.id: row for row in self.load(base)}
        with closing(sqlite3.connect(self.file(base))) as db, db:
            for row in rows:
                if row.id not in there:
                    self._insert(db, row)
                    continue
                ((number,),) = db.execute(
                    "SELECT id FROM embeddings WHERE embedding_id = ?", (row.id,)
                ).fetchall()
                if row.payload != there[row.id].payload:
                    db.execute("DELETE FROM embedding_metadata WHERE id = ?", (number,))
                    self._metadata(db, number, row.payload)
                if row.vectors != there[row.id].vectors:
                    packed = _floats(row.vectors.get(""))
                    db.execute("UPDATE embeddings_queue SET vector = ? WHERE id = ? AND vector IS NOT NULL",
                               (packed, row.id))  # fmt: skip

    def _insert(self, db: sqlite3.Connection, row: Row) -> None:
        segment = "SELECT id FROM segments WHERE scope = 'METADATA' LIMIT 1"
        ((segment,), *_) = db.execute(segment).fetchall()
        ((topic,), *_) = db.execute("SELECT topic FROM embeddings_queue LIMIT 1").fetchall()
        queued = db.execute(
            "INSERT INTO embeddings_queue (operation, topic, id, vector, encoding, metadata) VALUES (0, ?, ?, ?, ?, ?)",
            (topic, row.id, _floats(row.vectors.get("")), "FLOAT32", json.dumps(row.payload)),
        )
        made = db.execute(
            "INSERT INTO embeddings (segment_id, embedding_id, seq_id) VALUES (?, ?, ?)",
            (segment, row.id, queued.lastrowid),
        )
        db.execute("UPDATE max_seq_id SET seq_id = ? WHERE segment_id = ?", (queued.lastrowid, segment))
        self._metadata(db, int(made.lastrowid or 0), row.payload)

    @staticmethod
    def _metadata(db: sqlite3.Connection, number: int, payload: Mapping[str, Any]) -> None:
        for key, value in payload.items():
            column = {bool: "bool_value", int: "int_value", float: "float_value"}.get(
                type(value), "string_value"
            )
            db.execute(f"INSERT INTO embedding_metadata (id, key, {column}) VALUES (?, ?, ?)",
                       (number, key, value))  # fmt: skip

    def drop(self, base: Path, ids: Sequence[str]) -> None:
        with closing(sqlite3.connect(self.file(base))) as db, db:
            for id in ids:
                found = db.execute("SELECT id FROM embeddings WHERE embedding_id = ?", (id,)).fetchall()
                db.executemany("DELETE FROM embedding_metadata WHERE id = ?", found)
                db.execute("DELETE FROM embeddings WHERE embedding_id = ?", (id,))
                db.execute("DELETE FROM embeddings_queue WHERE id = ?", (id,))

    def schema(self, base: Path) -> list[Raw]:
        return [_renamed(row, "embeddings") for row in schema_rows(self.file(base))]


_CHROMA_ROWS = "SELECT id, embedding_id FROM "
_CHROMA_VALUES = ("string_value", "int_value", "float_value", "bool_value")


class PgVector(Format):
    """The table of the collection, by SQL."""

    provider = "pgvector"
    _ROWS = f"SELECT id::text AS id, payload, vector::text AS vector FROM {COLLECTION} ORDER BY id"
    _SCHEMA = (
        "SELECT relkind::text AS kind, relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'v') UNION ALL SELECT 'rule', rulename FROM pg_rules"
        " UNION ALL SELECT 'trigger', tgname FROM pg_trigger WHERE NOT tgisinternal"
    )

    def folder(self, base: Path) -> Path:
        """The server's data folder."""
        return base / "pg"

    def load(self, base: Path, *, behind: bool = False) -> list[Row]:
        answers = postgres_cell.rows(self.folder(base), (self._ROWS, self._SCHEMA))
        found = answers[self._ROWS]
        if behind and any(r["name"] == "kept" for r in answers[self._SCHEMA]):
            query = self._ROWS.replace(f"FROM {COLLECTION}", "FROM kept")
            found = postgres_cell.rows(self.folder(base), (self._ROWS, self._SCHEMA, query))[query]
        return [
            Row(row["id"], row["payload"], {} if row["vector"] is None else {"": json.loads(row["vector"])})
            for row in found
        ]

    def run(self, base: Path, script: str, *, crash: bool = False) -> None:
        """Run SQL."""
        from memguard.bench.integrity.edits.steps import EditFailed

        wrong = postgres_cell.run(self.folder(base), script, crash=crash)
        if wrong:
            raise EditFailed(wrong)

    def put(self, base: Path, rows: Sequence[Row]) -> None:
        self.run(base, self.script(rows))

    def script(self, rows: Sequence[Row]) -> str:
        """The statements that write rows."""
        said = []
        for row in rows:
            vector = _quoted(json.dumps(row.vectors[""])) if "" in row.vectors else "NULL"
            values = f"{_quoted(row.id)}, {vector}, {_quoted(json.dumps(row.payload))}"
            said.append(
                f"INSERT INTO {COLLECTION} (id, vector, payload) VALUES ({values})"
                " ON CONFLICT (id) DO UPDATE SET vector = excluded.vector, payload = excluded.payload;"
            )
        return "\n".join(said)

    def drop(self, base: Path, ids: Sequence[str]) -> None:
        listed = ", ".join(_quoted(id) for id in ids)
        self.run(base, f"DELETE FROM {COLLECTION} WHERE id IN ({listed});")

    def schema(self, base: Path) -> list[Raw]:
        words = {"r": "table", "v": "view"}
        found = postgres_cell.rows(self.folder(base), (self._ROWS, self._SCHEMA))[self._SCHEMA]
        return [Raw("schema", "", f"{words.get(r['kind'], r['kind'])}:{r['name']}", "", "") for r in found]


FORMATS: dict[str, Format] = {f.provider: f for f in (Qdrant(), Faiss(), Chroma(), PgVector())}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _floats(vector: Sequence[float] | None) -> bytes | None:
    return None if vector is None else struct.pack(f"<{len(vector)}f", *vector)


def _renamed(row: Raw, table: str) -> Raw:
    """The records' table under the name that all of these stores share."""
    kind, _, name = row.slot.partition(":")
    return Raw("schema", "", f"{kind}:{COLLECTION if name == table else name}", "", row.content)


# --- raw rows for C3 --------------------------------------------------------------------------------------


def state(of: Format) -> Callable[[Path], list[Raw]]:
    """Every row of the store, of the history beside it, and their schemas."""

    def read(cell: Path) -> list[Raw]:
        base = cell / DATABASE
        if not base.exists():
            return []
        names = _names(cell)
        owners = {id: owner for id, (owner, _) in names.items()}
        slots = {id: slot for id, (_, slot) in names.items()}
        lines = read_only(base / "history.db", "SELECT rowid AS at, * FROM history")
        told = {line["memory_id"] for line in lines}
        found: list[Raw] = []
        for row in of.load(base):
            payload = dict(row.payload)
            seal = payload.pop("memguard", None)
            owners[row.id] = str(payload.pop("user_id", None) or owners.get(row.id, ""))
            order = str(payload.pop("created_at", "") or _moment(lines, row.id))
            meta = canonical([payload.pop(name, None) for name in META])
            # Vectors of a record that Mem0's history knows are rows of their own; a forged one's are part of it.
            own = "" if row.id in told else canonical(row.vectors)
            slot = slots.get(row.id, row.id)
            about = (canonical(payload), meta, own, canonical(seal))
            found.append(Raw(COLLECTION, owners[row.id], slot, order, *about))
        for row in of.load(base, behind=True):
            owner, slot = owners.get(row.id, ""), slots.get(row.id, row.id)
            for name, vector in row.vectors.items() if row.id in told else ():
                found.append(Raw("vectors", owner, f"{slot}/{name}", "", canonical(vector)))
        for line in lines:
            said = {k: v for k, v in line.items() if k not in ("id", "at", "memory_id")}
            id, at = line["memory_id"], str(line["at"])
            slot = f"{slots.get(id, id)}/{at}"
            found.append(Raw("history", owners.get(id, ""), slot, at, canonical(said), seal=str(line["id"])))
        schema = [
            Raw("schema", "", f"history {r.slot}", "", r.content) for r in schema_rows(base / "history.db")
        ]
        return found + schema + of.schema(base)

    return read


def _names(cell: Path) -> dict[str, tuple[str, str]]:
    """Owner and name of every memory that the agent wrote, by identifier, in this database and in its sister."""
    found: dict[str, tuple[str, str]] = {}
    for file in _IDS:
        said = json.loads((cell / file).read_text()) if (cell / file).exists() else {}
        found.update({id: (owner, f"m-{int(n):02}") for owner, ids in said.items() for n, id in ids.items()})
    return found


def _has(file: Path, table: str) -> bool:
    return bool(read_only(file, "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table'", (table,)))


def _moment(lines: Sequence[Mapping[str, Any]], id: str) -> str:
    return next((str(line["created_at"]) for line in lines if line["memory_id"] == id), "")


def rows(of: Format, scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
    """The memories of a context, oldest first."""
    name = SISTER if sister else DATABASE
    base = scene.cell / (f"{COPY}/{name}" if copied else name)
    owner = scene.owners[who]
    mine = [
        row for row in of.load(base) if isinstance(row.payload, dict) and row.payload.get("user_id") == owner
    ]
    return sorted(mine, key=lambda row: row.order)
