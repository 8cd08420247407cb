"""Items of a session as records: the reserved field, the bytes that a tag covers, and whose word an item is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memguard.collection import FIELD
from memguard.errors import UnsupportedError
from memguard.integrations.conversation import speaker
from memguard.integrity.canonical import canonical_json
from memguard.labels import Label
from memguard.record import Source, text_of

#: Members that name, order and type an item and hold no words of anybody.
_TECHNICAL = frozenset(
    (
        "id",
        "type",
        "role",
        "status",
        "call_id",
        "encrypted_content",
        "phase",
        "approval_request_id",
        "logprobs",
    )
)
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
#: Items in which the service reports what a tool of its own found.
_HOSTED = frozenset(
    (
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "tool_search_output",
    )
)


class SessionItem(dict[str, Any]):
    """An item as a guarded session serves it: the plain dictionary, with its label as an attribute."""

    memguard_label: Label | None = None


def mapping(item: object) -> dict[str, Any]:
    """An item as a dictionary of its own, memguard's field still in it.

    Raises:
        UnsupportedError: MG580, it is none, so that a seal would have no place in it.
    """
    if isinstance(item, Mapping):
        return dict(item)
    raise UnsupportedError(
        f"an item of a session is a mapping, not {type(item).__name__}.",
        code="MG580",
        why="The seal is a member of the item.",
        do="Add items in the form that the SDK gives them, such as {'role': 'user', 'content': 'hello'}.",
    )


def parted(item: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """An item without memguard's field, and what stood in that field (None for nothing)."""
    bare = dict(item)
    return bare, bare.pop(FIELD, None)


def content_of(bare: Mapping[str, Any]) -> bytes:
    """The bytes that the tag covers.

    Raises:
        TypeError, ValueError: the item is not JSON, as the wrapped session would say.
    """
    return canonical_json(bare)


def words(bare: Mapping[str, Any], most: int) -> str:
    """What the content guards read of an item: every text in it but the technical members."""
    said = {name: value for name, value in bare.items() if name not in _TECHNICAL}
    if set(said) == {"content"} or set(said) == {"output"} or set(said) == {"name", "arguments"}:
        (*_, last) = said.values()
        return _plain(last, most)
    return text_of(list(said.values()), max_items=most)


def _plain(value: Any, most: int) -> str:
    """The text of a content: a string, or the texts of its parts without their type names."""
    if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        return text_of(
            [[v for k, v in part.items() if k not in _TECHNICAL and k != "annotations"] for part in value],
            max_items=most,
        )
    return text_of(value, max_items=most)


def said_by(bare: Mapping[str, Any], tools: Mapping[str, str]) -> Source:
    """Whose word an item is.

    Args:
        tools: names of the tools that were called, by call id.
    """
    role, kind = bare.get("role"), str(bare.get("type", "message"))
    if kind == "message":
        return speaker(_ROLES.get(str(role), "unknown"))
    if kind.endswith("_output"):
        name = (
            bare.get("name") or tools.get(str(bare.get("call_id", ""))) or kind.removesuffix("_call_output")
        )
        return speaker("tool", "" if name == "function" else name)
    if kind in _HOSTED:
        return speaker("tool", bare.get("name") or kind.removesuffix("_call"))
    if kind == "compaction":
        return speaker("summary")
    if kind == "mcp_approval_response":
        return speaker("user")
    if kind == "reasoning" or kind.endswith(("_call", "_request")) or kind == "item_reference":
        return speaker("assistant")
    return speaker("unknown")


def calls(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Names of the tools that items call, by call id."""
    found: dict[str, str] = {}
    for item in items:
        ident, name = item.get("call_id"), item.get("name")
        if isinstance(ident, str) and isinstance(name, str) and str(item.get("type", "")).endswith("_call"):
            found[ident] = name
    return found
