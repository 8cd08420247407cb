"""What a guarded store hands out, and which questions it takes: items with labels, filters, namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from langgraph.store.base import Item, ListNamespacesOp, MatchCondition, SearchItem

from memguard.binding import FILTER_KEY, OPERATORS
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph.rows import spelled
from memguard.integrations.langgraph.store_forms import FIELD
from memguard.integrations.langgraph.store_rows import Namespace
from memguard.integrations.langgraph.store_table import Hit
from memguard.labels import Label


class LabelledItem(Item):
    """An item that says where it is from. Equal to an item without a label."""

    __slots__ = ("memguard_label",)

    def __init__(self, label: Label, **fields: Any) -> None:
        super().__init__(**fields)
        self.memguard_label = label

    def __reduce__(self) -> tuple[Any, ...]:
        return _item, (self.memguard_label, _fields(self))


class LabelledSearchItem(SearchItem):
    """A search result that says where it is from."""

    __slots__ = ("memguard_label",)

    def __init__(self, label: Label, **fields: Any) -> None:
        super().__init__(**fields)
        self.memguard_label = label

    def __reduce__(self) -> tuple[Any, ...]:
        return _search_item, (self.memguard_label, {**_fields(self), "score": self.score})


def _item(label: Label, fields: dict[str, Any]) -> LabelledItem:
    return LabelledItem(label, **fields)


def _search_item(label: Label, fields: dict[str, Any]) -> LabelledSearchItem:
    return LabelledSearchItem(label, **fields)


def _fields(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ("value", "key", "namespace", "created_at", "updated_at")}


# LangGraph writes an item that is part of a checkpoint by its class's name and slots, and reads it back by
# them: ours must say what theirs say.
for _ours, _theirs in ((LabelledItem, Item), (LabelledSearchItem, SearchItem)):
    _ours.__module__, _ours.__name__, _ours.__qualname__ = (
        _theirs.__module__,
        _theirs.__name__,
        _theirs.__qualname__,
    )
    setattr(_ours, "__slots__", _theirs.__slots__)  # noqa: B010 - no declaration of slots, and not to be taken for one


def served(
    namespace: Namespace,
    key: str,
    value: Any,
    created: str | datetime,
    updated: str | datetime,
    label: Label | None,
    result: Hit | None = None,
) -> Item:
    """The item to serve; with ``result``, a search result of that score."""
    if label is not None:
        fields: dict[str, Any] = {
            "namespace": namespace, "key": key, "value": value, "created_at": created, "updated_at": updated
        }  # fmt: skip
        if result is None:
            return LabelledItem(label, **fields)
        return LabelledSearchItem(label, **fields, score=result.score)
    if result is None:
        return Item(namespace=namespace, key=key, value=value, created_at=created, updated_at=updated)  # type: ignore[arg-type]
    return SearchItem(namespace, key, value, created, updated, result.score)  # type: ignore[arg-type]


def relabelled(item: Any, label: Label) -> Any:
    """The item, just read and nobody else's yet, with the label of this read. One without a label gets it only where
    the read said something."""
    if isinstance(item, LabelledItem | LabelledSearchItem):
        item.memguard_label = label
        return item
    if label.decision is None:
        return item
    if isinstance(item, SearchItem):
        return LabelledSearchItem(label, **_fields(item), score=item.score)
    return LabelledItem(label, **_fields(item))


def search_item_of(item: Item, score: float | None) -> SearchItem:
    """The same as a search result."""
    label = getattr(item, "memguard_label", None)
    fields = {**_fields(item), "score": score}
    return SearchItem(**fields) if label is None else LabelledSearchItem(label, **fields)


def check_filter(filter: Mapping[str, Any] | None, *, sql: bool) -> None:
    """Refuse filter keys and operators that a statement should not hold, whatever the backend's version does.

    Args:
        sql: the filter becomes part of a statement.

    Raises:
        UnsupportedError: MG140.
    """
    for key, wanted in (filter or {}).items():
        if not isinstance(key, str) or key.split(".")[0] == FIELD or (sql and not FILTER_KEY.match(key)):
            raise UnsupportedError(
                "a filter key is not allowed.",
                code="MG140",
                why="Keys are letters, digits, '_', '-' and '.', and not memguard's own field.",
                do="Rename the key; operators belong in values.",
            )
        for operand in wanted.values() if isinstance(wanted, Mapping) else (wanted,):
            if sql and isinstance(operand, str):
                spelled(operand, "what a filter compares with")
        if isinstance(wanted, Mapping) and (sql or any(str(k).startswith("$") for k in wanted)):
            for operator in wanted:
                if operator not in OPERATORS:
                    raise UnsupportedError(
                        "a filter operator is not known.",
                        code="MG140",
                        why=f"Operators are {', '.join(sorted(OPERATORS))}.",
                        do="Write {key: {operator: value}}, or compare with a plain value.",
                    )


def under(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Whether a namespace lies at or below a prefix, segment by segment."""
    return tuple(namespace[: len(prefix)]) == tuple(prefix)


def listed(namespace: Sequence[str], op: ListNamespacesOp) -> bool:
    """Whether a namespace that a list shows is one that was asked for."""
    if op.max_depth is not None:
        # Cut to a depth, only conditions that lie within it can still be told.
        told = [
            c for c in op.match_conditions or () if c.match_type == "prefix" and len(c.path) <= len(namespace)
        ]
        return len(namespace) <= op.max_depth and all(matches(namespace, c) for c in told)
    return all(matches(namespace, condition) for condition in op.match_conditions or ())


def matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Whether a namespace meets a condition, segment by segment; ``*`` stands for any one segment."""
    path = condition.path
    if not path:
        return True
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(want in ("*", have) for have, want in zip(part, path, strict=True))
