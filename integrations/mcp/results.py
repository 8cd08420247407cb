"""What the client is given: results of tools with the guard's words in them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memguard.collection import Withheld
from memguard.errors import MemguardError
from memguard.integrations.mcp.calls import READS, Answer
from memguard.labels import Label, render, visible
from memguard.record import Trust

#: The guard's own member of a result's ``_meta``, and of a request's, where a client says where text is from.
META, SOURCE = "memguard", "memguard/source"
#: Labels that a result lists.
_LABELS = 200


def refused(error: MemguardError) -> dict[str, Any]:
    """An error as a tool's result: the model is told, and the client's program can tell it by its code."""
    return {
        "content": [{"type": "text", "text": visible(str(error))}],
        "isError": True,
        "_meta": {META: {"error": dict(error.as_dict())}},
    }


def fenced(text: str, label: Label | None) -> str:
    """A text as the model sees it: quoted, where it is trusted less than a user."""
    found = label or Label()
    return text if found.trust >= Trust.USER else render([(text, found)])


def served(tool: str, answer: Answer, given: Mapping[str, Any], *, labelled: bool = True) -> dict[str, Any]:
    """The result of a call of the reference server.

    Args:
        given: the server's own result.
        labelled: whether the home says what records are worth; where it does not, nothing is quoted.
    """
    made = dict(given)
    meta: dict[str, Any] = {}
    if tool in READS:
        graph = answer.graph(fenced) if labelled else answer.graph()
        made["content"] = [{"type": "text", "text": json.dumps(graph, indent=2, ensure_ascii=False)}]
        if "structuredContent" in given:
            made["structuredContent"] = graph
        labels = [
            {"record": f"{entry.context} {entry.key}", **entry.label.as_dict()}
            for entry in answer.entries()
            if entry.label is not None and entry.label.trust < Trust.USER
        ]
        if labels:
            meta["labels"] = labels[:_LABELS]
        if answer.hidden:
            meta["kept from this reader"] = answer.hidden
    if answer.withheld:
        meta["withheld"] = [_held(item) for item in answer.withheld]
        made["content"] = [*made.get("content", ()), {"type": "text", "text": _told(answer)}]
    return with_meta(made, meta)


def with_meta(given: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """A result with the guard's member in its ``_meta``."""
    if not meta:
        return dict(given)
    return {**given, "_meta": {**(given.get("_meta") or {}), META: dict(meta)}}


def _held(item: Withheld) -> dict[str, Any]:
    return {"record": f"{item.put.context} {item.put.key}", "entry": item.entry, "code": item.decision.code}


def _told(answer: Answer) -> str:
    entries = ", ".join(f"{item.entry} ({item.decision.code or 'withheld'})" for item in answer.withheld)
    more = f" {answer.dropped} observations of a withheld entity went with it." if answer.dropped else ""
    return f"memguard: part of this was not stored and is kept for review as {entries}.{more}"


def quoted(content: Sequence[Any], label: Label) -> list[Any]:
    """The content of a result with every text in it fenced, texts of embedded resources too."""
    made = []
    for block in content:
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            block = {**block, "text": fenced(block["text"], label)}
        elif isinstance(block, Mapping) and isinstance(block.get("resource"), Mapping):
            inner = block["resource"]
            if isinstance(inner.get("text"), str):
                block = {**block, "resource": {**inner, "text": fenced(inner["text"], label)}}
        made.append(block)
    return made
