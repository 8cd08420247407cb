"""The arguments of the reference memory server's tools, checked before anything is planned on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from memguard.errors import MemguardError
from memguard.integrations.mcp.lines import ENTITY, RELATIONS, context_of, observation_key, relation_key
from memguard.integrations.mcp.table import not_its_file
from memguard.labels import visible

_ENTITY: dict[str, type] = {"name": str, "entityType": str, "observations": list}
_RELATION: dict[str, type] = {"from": str, "to": str, "relationType": str}
#: Tool to its only argument, and the members of that one's items (None: plain text).
_FORMS: dict[str, tuple[str, dict[str, type] | None]] = {
    "create_entities": ("entities", _ENTITY),
    "create_relations": ("relations", _RELATION),
    "add_observations": ("observations", {"entityName": str, "contents": list}),
    "delete_entities": ("entityNames", None),
    "delete_observations": ("deletions", {"entityName": str, "observations": list}),
    "delete_relations": ("relations", _RELATION),
    "open_nodes": ("names", None),
}
_FENCED = re.compile(
    r"\[memory-[0-9a-f]{16} begin: [^\n]*\]\n(?P<body>.*)\n\[memory-[0-9a-f]{16} end\]\Z", re.DOTALL
)


def shaped(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without members that the tool does not know.

    Raises:
        MemguardError: MG606, they are not in the tool's form, or hold half a character that no file keeps.
    """
    if not isinstance(arguments, Mapping):
        raise _form(tool)
    if tool == "read_graph":
        return {}
    if tool == "search_nodes":
        return {"query": _text(tool, arguments.get("query"))}
    name, members = _FORMS[tool]
    items = arguments.get(name)
    if not isinstance(items, list):
        raise _form(tool)
    return {name: [_item(tool, item, members) for item in items]}


def _item(tool: str, item: Any, members: dict[str, type] | None) -> Any:
    if members is None:
        return _text(tool, item)
    if not isinstance(item, Mapping):
        raise _form(tool)
    made: dict[str, Any] = {}
    for name, kind in members.items():
        value = item.get(name)
        if kind is str:
            made[name] = _text(tool, value)
        elif isinstance(value, list):
            made[name] = [_text(tool, text) for text in value]
        else:
            raise _form(tool)
    return made


def _text(tool: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _form(tool)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _form(tool, "A text holds half a character, which the file cannot keep.") from None
    return value


def remaining(tool: str, given: Mapping[str, Any], made: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    """The arguments of a writing tool, without what was withheld and with what was rewritten.

    Args:
        made: by context and key of a record, what the guards made of it; None for nothing.
    """
    if not made:
        return dict(given)

    def texts(name: str, found: Sequence[str]) -> list[str]:
        kept = [made.get((context_of(name), observation_key(text)), text) for text in found]
        return [text for text in kept if text is not None]

    if tool == "create_entities":
        entities = [
            {
                **(made.get((context_of(e["name"]), ENTITY)) or e),
                "observations": texts(e["name"], e["observations"]),
            }
            for e in given["entities"]
            if made.get((context_of(e["name"]), ENTITY), e) is not None
        ]
        return {"entities": entities}
    if tool == "add_observations":
        items = [
            {**item, "contents": texts(item["entityName"], item["contents"])}
            for item in given["observations"]
        ]
        return {"observations": items}
    kept = [made.get((RELATIONS, relation_key(relation)), relation) for relation in given["relations"]]
    return {"relations": [relation for relation in kept if relation is not None]}


def one_each(keys: Sequence[str], what: str) -> None:
    """That nothing is named twice in one call: the server would store it twice.

    Raises:
        MemguardError: MG606.
    """
    if len(set(keys)) != len(keys):
        raise MemguardError(
            f"a call names the same {what} twice.",
            code="MG606",
            why="The server would store both under one name.",
            do="Name it once.",
        )


def entity_names(answer: Any) -> list[str]:
    """The names of the entities in an answer, whose form is checked here.

    Raises:
        TamperedError: MG605, it is no graph, or holds an entity twice.
    """
    try:
        entities, relations = answer["entities"], answer["relations"]
        names = [str(_text("", entity["name"])) for entity in entities]
        good = all(
            isinstance(e["entityType"], str) and all(isinstance(t, str) for t in e["observations"])
            for e in entities
        ) and all(isinstance(r[end], str) for r in relations for end in _RELATION)
    except (TypeError, KeyError, MemguardError):
        raise not_its_file() from None
    if not good or len(set(names)) != len(names):
        raise not_its_file()
    return names


def unfenced(text: str) -> str | None:
    """What stands inside a fence that a reader copied; None if there is none."""
    found = _FENCED.match(text)
    if found is None:
        return None
    lines = found["body"].split("\n")
    return "\n".join(line[2:] if line.startswith("| ") else line for line in lines)


def shown(text: str) -> str:
    """A text as it stands inside a fence."""
    return visible(text)


def _form(tool: str, why: str | None = None) -> MemguardError:
    return MemguardError(
        f"the arguments of {tool or 'a tool'} are not in the form that its schema states.",
        code="MG606",
        why=why,
        do="Look at the tool's inputSchema.",
    )
