"""What the server's own memory tools do to memory, so that a call can be judged before it is approved. Pure.

The outcome of a call follows from the block and the arguments. Only a call whose outcome is known here is approved,
and afterwards the block must be exactly that: whatever else changed meanwhile does not hide behind the call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: Tools that change blocks or passages, by name; :data:`TYPES` finds those of other versions.
WRITERS = frozenset(
    (
        "archival_memory_insert",
        "core_memory_append",
        "core_memory_replace",
        "memory",
        "memory_apply_patch",
        "memory_insert",
        "memory_replace",
        "memory_rethink",
        "rethink_memory",
        "rethink_user_memory",
        "store_memories",
    )
)
#: Types of the server's own tools that touch memory; those of them that only read or end are not writers.
TYPES = frozenset(("letta_memory_core", "letta_sleeptime_core", "letta_voice_sleeptime_core"))
_HARMLESS = frozenset(
    ("memory_finish_edits", "finish_rethinking_memory", "search_memory", "conversation_search")
)
#: Arguments that only steer the agent's loop.
_STEERING = frozenset(("request_heartbeat", "thinking", "inner_thoughts"))


class Effect(NamedTuple):
    """What a call would do: a new value of a block, or a new passage; ``why`` where that is not known."""

    label: str = ""
    value: str | None = None
    passage: str | None = None
    tags: tuple[str, ...] = ()
    why: str = ""


def is_writer(tool: Mapping[str, Any]) -> bool:
    """Whether an attached tool may change memory on the server."""
    name = str(tool.get("name"))
    return name in WRITERS or (tool.get("tool_type") in TYPES and name not in _HARMLESS)


def arguments_of(text: object) -> dict[str, Any] | None:
    """The arguments of a call; None where they are no object."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            return None
    return {k: v for k, v in text.items() if k not in _STEERING} if isinstance(text, dict) else None


def effect(name: str, arguments: dict[str, Any] | None, values: Mapping[str, str]) -> Effect:
    """What a call would do.

    Args:
        values: the agent's blocks, value by label.
    """
    if arguments is None:
        return Effect(why="its arguments are no object")
    if name == "archival_memory_insert":
        text, tags = arguments.get("content"), arguments.get("tags") or []
        if not isinstance(text, str) or not isinstance(tags, list):
            return Effect(why="its content is no text")
        return Effect(passage=text, tags=tuple(str(tag) for tag in tags))
    if name == "memory":
        command, label = arguments.get("command"), str(arguments.get("path") or "")
        label = label.removeprefix("/memories/").removeprefix("/")
        if command == "str_replace":
            return _replaced(label, values, arguments.get("old_string"), arguments.get("new_string"))
        if command == "insert":
            return _inserted(label, values, arguments.get("insert_text"), arguments.get("insert_line", -1))
        return Effect(why="it attaches, detaches or renames blocks, which is the program's to do")
    label = str(arguments.get("label") or "")
    if name == "core_memory_append":
        return _with(label, values, lambda old: f"{old}\n{_text(arguments['content'])}")
    if name == "core_memory_replace":
        old, new = arguments.get("old_content"), arguments.get("new_content")
        if not isinstance(old, str) or not isinstance(new, str) or old not in values.get(label, ""):
            return Effect(label, why="what it replaces is not in the block")
        return Effect(label, values[label].replace(old, new))
    if name == "memory_replace":
        return _replaced(label, values, arguments.get("old_string"), arguments.get("new_string"))
    if name == "memory_insert":
        return _inserted(label, values, arguments.get("new_string"), arguments.get("insert_line", -1))
    if name == "memory_rethink":
        return _with(label, values, lambda old: _text(arguments["new_memory"]))
    return Effect(label, why="what it would make of the block is not known beforehand")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _with(label: str, values: Mapping[str, str], make: Any) -> Effect:
    if label not in values:
        return Effect(label, why="there is no such block")
    try:
        return Effect(label, make(values[label]))
    except (KeyError, TypeError):
        return Effect(label, why="an argument is missing or no text")


def _replaced(label: str, values: Mapping[str, str], old: object, new: object) -> Effect:
    if label not in values or not isinstance(old, str) or not isinstance(new, str):
        return Effect(label, why="there is no such block, or an argument is no text")
    current, old, new = values[label].expandtabs(), old.expandtabs(), new.expandtabs()
    if not old or current.count(old) != 1:
        return Effect(label, why="what it replaces is not in the block exactly once")
    return Effect(label, current.replace(old, new))


def _inserted(label: str, values: Mapping[str, str], new: object, line: object) -> Effect:
    if label not in values or not isinstance(new, str):
        return Effect(label, why="there is no such block, or an argument is no text")
    lines = values[label].expandtabs().split("\n")
    at = len(lines) if line in (-1, None) else line
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= len(lines):
        return Effect(label, why="the line is not in the block")
    return Effect(label, "\n".join([*lines[:at], *new.expandtabs().split("\n"), *lines[at:]]))


def unattended(state: Mapping[str, Any]) -> list[str]:
    """Writing tools of an agent that run without anybody's approval."""
    asked = {
        rule.get("tool_name")
        for rule in state.get("tool_rules") or ()
        if rule.get("type") == "requires_approval"
    }
    return [str(tool["name"]) for tool in _writers(state) if tool["name"] not in asked]


def _writers(state: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [tool for tool in state.get("tools") or () if is_writer(tool)]
