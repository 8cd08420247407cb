"""The file of the reference memory server: one JSON object a line, taken apart into records. Pure.

An entity is a context: its first record is what it is (name and type), its others are its observations in their
order. All relations are one context of their own, in theirs. A line that is nothing of both is a record of the context
``file``, and wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memguard.collection import Stored
from memguard.errors import TamperedError
from memguard.integrity.canonical import canonical_json

#: Contexts that are no entity's.
RELATIONS, DAMAGED = "relations", "file"
#: The key of what an entity is.
ENTITY = "entity"
_PLAIN = re.compile(r"[\w.@+-]{1,40}\Z")
_UNPLAIN = re.compile(r"[^\w.@+-]+")
_ENDS = ("from", "to", "relationType")


@dataclass(slots=True)
class Parsed:
    """A graph file: entities by context (name, type, observations), relations, and records by context and key."""

    records: dict[str, list[Stored]] = field(default_factory=dict)
    #: Context to the entity's name, for the first entity of that name.
    names: dict[str, str] = field(default_factory=dict)

    def add(self, context: str, stored: Stored) -> None:
        """One more record."""
        self.records.setdefault(context, []).append(stored)


def context_of(name: str) -> str:
    """The context of an entity. Names that are not plain words are shortened, and told apart by a digest: errors
    name contexts, and an error is no place for a text that somebody chose."""
    if _PLAIN.match(name):
        return f"entity {name}"
    return f"entity {_UNPLAIN.sub('_', name)[:24]}~{_digest(name)}"


def observation_key(text: str, times: int = 1) -> str:
    """The key of an observation; the second of the same text in one entity is told apart by its number."""
    return f"observation {_digest(text)}" + (f" {times}" if times > 1 else "")


def relation_key(relation: Mapping[str, str]) -> str:
    """The key of a relation."""
    return f"relation {_digest([relation[end] for end in _ENDS])}"


def entity_content(name: str, kind: str) -> bytes:
    """What the tag of an entity covers."""
    return canonical_json([ENTITY, name, kind])


def observation_content(name: str, text: str) -> bytes:
    """What the tag of an observation covers."""
    return canonical_json(["observation", name, text])


def relation_content(relation: Mapping[str, str]) -> bytes:
    """What the tag of a relation covers."""
    return canonical_json(["relation", *[relation[end] for end in _ENDS]])


def parsed(data: bytes) -> Parsed:
    """Take a file apart. Nothing is raised: what is wrong with a line is its record's flaw."""
    found = Parsed()
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            _line(found, number, line)
    return found


def _line(found: Parsed, number: int, line: bytes) -> None:
    try:
        item = json.loads(line.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        item = None
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "entity" and _is_entity(item):
        _entity(found, item)
    elif kind == "relation" and item.keys() == {"type", *_ENDS} and all(_is_text(item[end]) for end in _ENDS):
        value = {end: item[end] for end in _ENDS}
        found.add(RELATIONS, Stored(relation_key(value), relation_content(value), None, value=value))
    else:
        found.add(DAMAGED, Stored(f"line {number}", line, None, flaw=_damaged(number)))


def _entity(found: Parsed, item: dict[str, Any]) -> None:
    name, kind = item["name"], item["entityType"]
    context = context_of(name)
    found.names.setdefault(context, name)
    value = {"name": name, "entityType": kind}
    found.add(context, Stored(ENTITY, entity_content(name, kind), None, value=value))
    times: dict[str, int] = {}
    for text in item["observations"]:
        times[text] = times.get(text, 0) + 1
        key = observation_key(text, times[text])
        found.add(context, Stored(key, observation_content(name, text), None, value=text))


def _is_entity(item: dict[str, Any]) -> bool:
    if item.keys() != {"type", "name", "entityType", "observations"}:
        return False
    texts = item["observations"]
    return (
        _is_text(item["name"])
        and _is_text(item["entityType"])
        and isinstance(texts, list)
        and all(map(_is_text, texts))
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose members stand once: else the server and the guard may read different ones."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _damaged(number: int) -> TamperedError:
    return TamperedError(
        "a line of the memory file is nothing that the server writes.",
        case="undecodable",
        record=f"line {number} of the file",
        code="MG607",
        why="It is no JSON, or an object with other members than an entity or a relation has.",
        do="Restore the file from a copy, or take the line out.",
    )


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()[:24]
