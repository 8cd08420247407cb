"""The memory file as a table of records, and the server's tools as the way to change it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from memguard.collection import Put, Stored
from memguard.collection.writes import Moved
from memguard.effects import Block, Operation
from memguard.errors import MemguardError, TamperedError
from memguard.integrations.mcp.lines import (
    DAMAGED,
    ENTITY,
    RELATIONS,
    Parsed,
    entity_content,
    observation_content,
    observation_key,
    parsed,
    relation_content,
    relation_key,
)

#: A change within this time of another may have the same time stamp (nanoseconds).
_TICK = 50_000_000
#: The file at most, in bytes.
MAX_BYTES = 256 << 20


class Backend(Protocol):
    """Who changes the file."""

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool; its answer. Blocking.

        Raises:
            MemguardError, Refused: nothing was changed, or it is not known.
        """
        ...


class Refused(Exception):
    """The server itself refused a call: its answer, for the client as it is."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__("the server refused a call")
        self.answer = answer


class GraphTable:
    """A plain table (:class:`~memguard.collection.beside.Plain`) over a graph file.

    Attributes:
        planned: the file's bytes that a call of a client was planned on, and the call itself (no tool: what
            follows from the records); :meth:`commit` refuses another state of the file.
        answer: what the server said to the last change.
    """

    ordered = atomic = True

    def __init__(self, path: Path, backend: Backend) -> None:
        self.path, self.backend = path, backend
        self.planned: tuple[bytes, str, Mapping[str, Any]] | None = None
        self.answer: Any = None
        self._known: tuple[object, bytes, Parsed] = (None, b"", parsed(b""))

    # -- reading -----------------------------------------------------------------------------

    def contexts(self) -> Operation[Sequence[str]]:
        found: Parsed = yield Block(self.look)
        return list(found.records)

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        found: Parsed = yield Block(self.look)
        return list(found.records.get(context, ()))

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        found: Parsed = yield Block(self.look)
        there: dict[str, Stored] = {}
        for stored in found.records.get(context, ()):
            if stored.key in keys:
                # Of two under one name the first is shown; that there are two, a scan says.
                there.setdefault(stored.key, stored)
        return there

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        yield Block(self.look)
        return self._known[0]

    def look(self) -> Parsed:
        """The file taken apart; once for each state of it."""
        signature = self._signature()
        if signature is not None and signature == self._known[0]:
            return self._known[2]
        data = self._read()
        found = self._known[2] if data == self._known[1] else parsed(data)
        # What was changed while it was read, or a moment ago, is read again next time.
        settled = signature if signature is not None and signature == self._signature() else None
        self._known = (settled, data, found)
        return found

    def picture(self) -> bytes:
        """The file's bytes, as :meth:`look` last saw them."""
        self.look()
        return self._known[1]

    def _signature(self) -> object:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        stamps = status.st_mtime_ns, status.st_ctime_ns
        if max(stamps) > time.time_ns() - _TICK:
            return None
        return status.st_dev, status.st_ino, status.st_size, *stamps

    def _read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _unreadable(self.path, f"{error.strerror}.") from None
        if len(data) > MAX_BYTES:
            raise _unreadable(self.path, f"It is larger than {MAX_BYTES >> 20} MiB.")
        return data

    # -- changing ----------------------------------------------------------------------------

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        yield Block(self._commit, puts, deletes)

    def _commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        found = self.look()
        picture, planned, passed = self.planned or (self._known[1], "", {})
        if picture != self._known[1]:
            raise Moved  # somebody else's call came in between: what is written would not be what was planned
        if deletes.get(DAMAGED):
            self.without_damage()
        calls = [(planned, passed)] if planned else [*_deleting(found, deletes), *_writing(found, puts)]
        for tool, arguments in calls:
            self.answer = self.backend.apply(tool, arguments)
        self._sync()

    def without_damage(self) -> None:
        """Take out lines that are nothing that the server writes: it has no tool for them."""
        if DAMAGED not in self.look().records:
            return
        lines = self._read().split(b"\n")
        wrong = {stored.key for stored in parsed(b"\n".join(lines)).records.get(DAMAGED, ())}
        kept = [line for number, line in enumerate(lines, 1) if f"line {number}" not in wrong]
        temporary = self.path.with_name(f"{self.path.name}.memguard.tmp")
        temporary.write_bytes(b"\n".join(kept))
        temporary.replace(self.path)

    def _sync(self) -> None:
        """Have on the disk what the server has written: it does not wait for that itself."""
        try:
            for path, flags in ((self.path, os.O_RDONLY), (self.path.parent, os.O_RDONLY | os.O_DIRECTORY)):
                fd = os.open(path, flags)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
        except FileNotFoundError:
            raise not_its_file() from None

    def remade(self, put: Put, value: Any) -> Put:
        if put.key == ENTITY:
            return replace(put, value=value, content=entity_content(value["name"], value["entityType"]))
        if put.context == RELATIONS:
            return replace(put, value=value, key=relation_key(value), content=relation_content(value))
        name = self.name_of(put)
        return replace(
            put, value=value, key=observation_key(value), content=observation_content(name, value), text=value
        )

    def name_of(self, put: Put) -> str:
        """The entity that a put is about.

        Raises:
            MemguardError: MG606, there is no such entity (any more).
        """
        if put.place is not None:
            return put.place[0]
        name = self.look().names.get(put.context)
        if name is None:
            raise MemguardError(
                "the entity of an observation is not there.",
                code="MG606",
                where=put.context,
                do="Make it first.",
            )
        return name


def _deleting(found: Parsed, deletes: Mapping[str, Sequence[str]]) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls that take these records out: one, for what one call of a client deletes."""
    calls: list[tuple[str, dict[str, Any]]] = []
    names = [found.names[c] for c, keys in deletes.items() if ENTITY in keys and c in found.names]
    if names:
        calls.append(("delete_entities", {"entityNames": names}))
    texts = []
    for context, keys in deletes.items():
        if context in (RELATIONS, DAMAGED) or ENTITY in keys or context not in found.names:
            continue
        held = [stored.value for stored in found.records[context] if stored.key in keys]
        texts.append({"entityName": found.names[context], "observations": list(dict.fromkeys(held))})
    if texts:
        calls.append(("delete_observations", {"deletions": texts}))
    wanted = set(deletes.get(RELATIONS, ()))
    ends = [stored.value for stored in found.records.get(RELATIONS, ()) if stored.key in wanted]
    left = [r for r in ends if r["from"] not in names and r["to"] not in names]
    if left:
        calls.append(("delete_relations", {"relations": left}))
    return calls


def _writing(found: Parsed, puts: Sequence[Put]) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls that store these records: one, for what one call of a client writes."""
    entities: dict[str, dict[str, Any]] = {}
    more: dict[str, dict[str, Any]] = {}
    relations = []
    for put in puts:
        if put.context == RELATIONS:
            relations.append(put.value)
        elif put.key == ENTITY:
            entities[put.context] = {**put.value, "observations": []}
        elif put.context in entities:
            entities[put.context]["observations"].append(put.value)
        else:
            name = found.names.get(put.context, "")
            item = more.setdefault(put.context, {"entityName": name, "contents": []})
            item["contents"].append(put.value)
    calls: list[tuple[str, dict[str, Any]]] = []
    if entities:
        calls.append(("create_entities", {"entities": list(entities.values())}))
    if more:
        calls.append(("add_observations", {"observations": list(more.values())}))
    if relations:
        calls.append(("create_relations", {"relations": relations}))
    return calls


def not_its_file() -> TamperedError:
    """The server serves something else than the file that the guard was told of."""
    return TamperedError(
        "the server's answer is not what its memory file holds.",
        case="state",
        record="memory file",
        code="MG605",
        why="It keeps its memory in another file, or the file was changed while it answered.",
        do="Give the server and the guard the same file: MEMORY_FILE_PATH as an absolute path, or --file.",
    )


def _unreadable(path: Path, why: str) -> TamperedError:
    return TamperedError(
        "the memory file cannot be read.",
        case="state",
        record=path.name,
        code="MG607",
        why=why,
        do="Look at it.",
    )
