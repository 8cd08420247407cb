"""Chat messages as records: the seal among ``additional_kwargs``, what a tag covers, whose word it is. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from memguard.collection import FIELD
from memguard.integrations.conversation import speaker
from memguard.integrity.canonical import canonical_json
from memguard.labels import Label
from memguard.record import Source, text_of

#: The member of a message that takes what its class does not know.
MORE = "additional_kwargs"
_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
#: Members of a block and of ``additional_kwargs`` that hold no words of anybody.
_TECHNICAL = frozenset(
    ("block_type", "tool_call_id", "session_id", "image_mimetype", "audio_mimetype", FIELD)
)


def dumped(message: ChatMessage) -> dict[str, Any]:
    """A message as the SQL store writes it: plain JSON values."""
    found: dict[str, Any] = message.model_dump(mode="json")
    return found


def parted(data: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """A dumped message without memguard's field, and what stood in that field (None for nothing)."""
    more = data.get(MORE)
    if not isinstance(more, Mapping) or FIELD not in more:
        return dict(data), None
    rest = {name: value for name, value in more.items() if name != FIELD}
    return {**data, MORE: rest}, more[FIELD]


def joined(bare: Mapping[str, Any], field: Mapping[str, Any]) -> dict[str, Any]:
    """A dumped message with memguard's field in it."""
    more = bare.get(MORE)
    return {**bare, MORE: {**(more if isinstance(more, Mapping) else {}), FIELD: dict(field)}}


def content_of(value: Any) -> bytes:
    """The bytes that the tag covers.

    Objects that are not JSON (a store in memory takes any) count by which object they are.
    """
    try:
        return canonical_json(value)
    except TypeError:
        return json.dumps(value, sort_keys=True, default=lambda o: f"{type(o).__name__} {id(o)}").encode()


def words(bare: Mapping[str, Any], most: int) -> str:
    """What the content guards read of a message: the texts of its blocks, and what came with them."""
    blocks, more = bare.get("blocks") or [], bare.get(MORE) or {}
    parts: list[Any] = [
        [value for name, value in block.items() if name not in _TECHNICAL]
        if isinstance(block, Mapping)
        else block
        for block in blocks
    ]
    extra = {name: value for name, value in more.items() if name not in _TECHNICAL}
    if not extra and len(parts) == 1 and isinstance(parts[0], list) and len(parts[0]) == 1:
        return text_of(parts[0][0], max_items=most)
    return text_of([*parts, *([extra] if extra else [])], max_items=most)


def said_by(bare: Mapping[str, Any]) -> Source:
    """Whose word a message is."""
    kind = _ROLES.get(str(bare.get("role")), "unknown")
    more = bare.get(MORE)
    return speaker(kind, more.get("name") if kind == "tool" and isinstance(more, Mapping) else "")


def copied(message: ChatMessage) -> ChatMessage:
    """A message of its own: who goes on changing the one it gave, or was given, does not change the store's."""
    try:
        return message.model_copy(deep=True)
    except (TypeError, copy.Error):  # something in it cannot be copied: it stays the same object
        return message.model_copy(
            update={"blocks": list(message.blocks), MORE: dict(message.additional_kwargs)}
        )


def sealed(message: ChatMessage, field: Mapping[str, Any]) -> ChatMessage:
    """A copy with memguard's field in it."""
    made = copied(message)
    made.additional_kwargs = {**made.additional_kwargs, FIELD: dict(field)}
    return made


def served(message: ChatMessage, label: Label | None) -> ChatMessage:
    """A copy without memguard's field, with its label as an attribute that no dump shows."""
    made = copied(message)
    made.additional_kwargs = {k: v for k, v in made.additional_kwargs.items() if k != FIELD}
    object.__setattr__(made, "memguard_label", label)
    return made
