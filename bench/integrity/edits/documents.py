"""Memories that are plain text on disk, from the adversary's side: Markdown files in folders, and a graph's JSONL file.

Both are one model: owners, each with documents in an order; a document is a text and what stands beside it (its
front matter, or the members of an observation). An edit changes the model, and the kind of store says which files
that rewrites. A guard's seals stand in its home, in ``beside.db``: an adversary who holds the home moves them along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.raw import Raw, canonical, literal
from memguard.bench.integrity.edits.scene import COPY, Scene, read_only, schema_rows
from memguard.bench.integrity.edits.steps import Remove, Sql, Step, Write

#: The seals of a guarded one, and where the adversary has an older copy of them.
SEALS = "home/beside.db"
HERE, SISTER = "memories", "sister.db"
#: Members beside a text.
META = ("owner", "role", "source", "topic", "ts")


@dataclass(frozen=True, slots=True)
class Doc:
    """One document: what it is called, its text, what stands beside it, and bytes in place of all that."""

    slot: str
    text: str = ""
    meta: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None

    def beside(self, **changes: str | None) -> Doc:
        """The same with other members (None takes one away)."""
        members = {**dict(self.meta), **changes}
        return replace(self, meta=tuple((k, v) for k, v in members.items() if v is not None))


Memory = dict[str, list[Doc]]


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of store keeps its documents.

    Args:
        load: every document, by owner and in order.
        steps: what rewrites the files from one memory to another.
        seal: owner and document to context and key of the seal.
        context: owner to the seals' context.
    """

    load: Callable[[Path], Memory]
    steps: Callable[[Memory, Memory], list[Step]]
    seal: Callable[[str, Doc], tuple[str, str]]
    context: Callable[[str], str]


# --- Markdown files ---------------------------------------------------------------------------------------


def markdown(doc: Doc) -> bytes:
    """A document as a file: front matter, then the text."""
    if doc.raw is not None:
        return doc.raw
    front = "".join(f"{name}: {value}\n" for name, value in doc.meta)
    return f"---\n{front}---\n{doc.text}\n".encode()


def parsed_markdown(slot: str, data: bytes) -> Doc:
    """A file as a document; what is of another shape keeps its bytes."""
    front, mark, rest = data.removeprefix(b"---\n").partition(b"---\n")
    try:
        pairs = [line.split(": ", 1) for line in front.decode("utf-8").splitlines()]
        meta = tuple((name, value) for name, value in pairs)
    except ValueError:
        return Doc(slot, raw=data)
    try:
        doc = Doc(slot, rest.decode("utf-8").removesuffix("\n"), meta)
    except ValueError:
        return Doc(slot, rest.hex(), meta, data)
    return doc if mark and markdown(doc) == data else replace(doc, raw=data)


def _files(base: Path) -> Memory:
    found: Memory = {}
    for path in sorted(base.glob("*/*.md")):
        found.setdefault(path.parent.name, []).append(parsed_markdown(path.stem, path.read_bytes()))
    return found


def _file_steps(old: Memory, new: Memory) -> list[Step]:
    before = {(owner, doc.slot): doc for owner, docs in old.items() for doc in docs}
    after = {(owner, doc.slot): doc for owner, docs in new.items() for doc in docs}
    gone = [f"store/{HERE}/{owner}/{slot}.md" for owner, slot in before if (owner, slot) not in after]
    made: list[Step] = [Remove(tuple(gone))] if gone else []
    for (owner, slot), doc in after.items():
        if before.get((owner, slot)) != doc:
            made.append(Write(f"store/{HERE}/{owner}/{slot}.md", markdown(doc)))
    return made


FOLDER = Format(
    _files,
    _file_steps,
    lambda owner, doc: (owner, f"{owner}/{doc.slot}.md"),
    lambda owner: owner,
)


# --- the graph's file -------------------------------------------------------------------------------------


def observation(doc: Doc) -> str:
    """A document as the text of an observation."""
    if doc.raw is not None:
        return doc.raw.decode()
    members = [("id", doc.slot), *doc.meta, ("text", doc.text)]
    inner = ",".join(f"{json.dumps(k)}:{json.dumps(v)}" for k, v in members)
    return "{" + inner + "}"


def parsed_observation(text: str) -> Doc:
    """An observation as a document."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
        members = dict(pairs)
        doc = Doc(members["id"], members["text"], tuple((k, v) for k, v in pairs if k not in ("id", "text")))
    except (ValueError, KeyError, TypeError):
        return Doc(hashlib.sha256(text.encode()).hexdigest()[:8], raw=text.encode())
    return doc if observation(doc) == text else replace(doc, raw=text.encode())


def _graph(base: Path) -> Memory:
    found: Memory = {}
    if not base.exists():
        return found
    for line in base.read_bytes().decode("utf-8", "replace").split("\n"):
        try:
            item = json.loads(line)
        except ValueError:
            continue
        if item.get("type") == "entity":
            held = found.setdefault(item["name"], [])
            held += [parsed_observation(text) for text in item["observations"]]
    return found


def _graph_steps(old: Memory, new: Memory) -> list[Step]:
    lines = [
        {
            "type": "entity",
            "name": owner,
            "entityType": "person",
            "observations": [observation(doc) for doc in docs],
        }
        for owner, docs in new.items()
        if docs
    ]
    text = "\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
    return [Write(f"store/{HERE}", text.encode())]


def _observation_key(doc: Doc) -> str:
    written = json.dumps(observation(doc), ensure_ascii=False).encode()
    return f"observation {hashlib.sha256(written).hexdigest()[:24]}"


GRAPH = Format(
    _graph,
    _graph_steps,
    lambda owner, doc: (f"entity {owner}", _observation_key(doc)),
    lambda owner: f"entity {owner}",
)


# --- seals ------------------------------------------------------------------------------------------------

Row = Mapping[str, Any]
_COLUMNS = ("store", "context", "key", "planned", "digest", "seal", "own")


def seals(cell: Path, *, copied: bool = False) -> list[Row]:
    """The seals in the guard's home, or in the adversary's older copy of it."""
    file = cell / COPY / SEALS if copied else cell / SEALS
    return list(read_only(file, "SELECT * FROM seals")) if file.exists() else []


def seal_of(
    cell: Path, place: tuple[str, str], *, copied: bool = False, store: str = "memories"
) -> Row | None:
    """The seal of a record; None if there is none."""
    wanted = (store.encode(), place[0].encode(), place[1].encode())
    return next(
        (r for r in seals(cell, copied=copied) if (r["store"], r["context"], r["key"]) == wanted), None
    )


def put_seal(row: Row, place: tuple[str, str]) -> str:
    """INSERT of a seal under another place."""
    moved = {**row, "store": b"memories", "context": place[0].encode(), "key": place[1].encode()}
    values = ", ".join(literal(moved[column]) for column in _COLUMNS)
    return f"INSERT OR REPLACE INTO seals ({', '.join(_COLUMNS)}) VALUES ({values});"


def drop_seal(place: tuple[str, str]) -> str:
    """DELETE of a seal."""
    return f"DELETE FROM seals WHERE context = {literal(place[0].encode())} AND key = {literal(place[1].encode())};"


@dataclass(slots=True)
class Edit:
    """An edit on its way: the memory as the adversary makes it, and what becomes of the seals."""

    scene: Scene
    format: Format
    memory: Memory = field(default_factory=dict)
    sql: list[str] = field(default_factory=list)
    _old: Memory = field(default_factory=dict)

    def __post_init__(self) -> None:
        base = self.scene.cell / "store" / HERE
        self.memory, self._old = self.format.load(base), self.format.load(base)

    def docs(self, who: str) -> list[Doc]:
        """The documents of a context, oldest first."""
        return self.memory.get(self.scene.owners[who], [])

    def copied(self, who: str) -> list[Doc]:
        """The same in the adversary's earlier copy."""
        return self.format.load(self.scene.cell / COPY / "store" / HERE).get(self.scene.owners[who], [])

    def place(self, who: str, doc: Doc) -> tuple[str, str]:
        """Context and key of a document's seal."""
        return self.format.seal(self.scene.owners[who], doc)

    def move_seal(
        self, donor: tuple[str, str], place: tuple[str, str], *, copied: bool = False, store: str = "memories"
    ) -> None:
        """Put a copy of one seal in the place of another, if there are seals."""
        row = seal_of(self.scene.cell, donor, copied=copied, store=store) if self.scene.guarded else None
        if row is not None:
            self.sql.append(put_seal(row, place))

    def steps(self) -> list[Step]:
        """The edit's steps."""
        made = self.format.steps(self._old, self.memory) if self.memory != self._old else []
        return [*made, *([Sql(SEALS, "\n".join(self.sql))] if self.sql else [])]


# --- raw rows for C3 --------------------------------------------------------------------------------------


def state(format: Format, cell: Path) -> list[Raw]:
    """Every document of the store with its seal, and the schema of the table of seals."""
    held = {
        (bytes(r["context"]), bytes(r["key"])): canonical([r["seal"], r["own"]])
        for r in seals(cell)
        if isinstance(r["context"], bytes) and isinstance(r["key"], bytes) and r["store"] == b"memories"
    }
    rows: list[Raw] = []
    for owner, docs in format.load(cell / "store" / HERE).items():
        # What stands in its turn has its own name for its place; what does not, that of whose turn it is.
        for order, doc in zip(sorted(doc.slot for doc in docs), docs, strict=True):
            context, key = format.seal(owner, doc)
            # Whose it says it is, is a part of it: a text that two owners hold is another record in each.
            content = canonical([doc.text or (doc.raw or b"").hex(), dict(doc.meta).get("owner", owner)])
            seal = held.get((context.encode(), key.encode()), "")
            rows.append(
                Raw("documents", owner, doc.slot, order, content, canonical(list(doc.meta)), seal=seal)
            )
    home = cell / SEALS
    return rows + (schema_rows(home) if home.exists() and (cell / "store" / HERE).exists() else [])
