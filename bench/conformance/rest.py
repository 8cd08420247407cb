"""Records at rest as the bench's control C3 compares them, and the steps that put changed ones there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.conformance.edits import FIELD, LABELS
from memguard.bench.conformance.raw import RawRecord, RawStore
from memguard.bench.integrity.edits.raw import Raw, canonical
from memguard.bench.integrity.edits.steps import EditFailed
from memguard.bench.suts.protocol import STORE

TABLE = "records"
#: Characters of a printed edit's line.
_LINE = 160


class Order:
    """Names for positions that a deletion does not shift and an exchange exchanges.

    A record keeps the name of its position as long as it stands in the same order among those that were there before; a
    new one is named after the record before it.
    """

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._names: dict[str, dict[str, str]] = {}

    def of(self, context: str, keys: Sequence[str]) -> dict[str, str]:
        """The names of one context's records, in their order."""
        if not self._ordered:
            return dict.fromkeys(keys, "")
        known = self._names.get(context)
        if not known:
            found = {key: f"{at:06}" for at, key in enumerate(keys)}
            self._names[context] = dict(found)
            return found
        old = iter(sorted(known[key] for key in keys if key in known))
        found, last = {}, ""
        for key in keys:
            last = next(old) if key in known else f"{last}~"
            found[key] = last
        self._names[context] = {**known, **{k: v for k, v in found.items() if k not in known}}
        return found


def state(records: Sequence[RawRecord], order: Order) -> list[Raw]:
    """The records as C3 compares them.

    Raises:
        EditFailed: two records lie in one place.
    """
    by_context: dict[str, list[str]] = {}
    for record in records:
        by_context.setdefault(record.context, []).append(record.key)
    if any(len(set(keys)) != len(keys) for keys in by_context.values()):
        raise EditFailed("two records lie under one key of one context")
    names = {context: order.of(context, keys) for context, keys in by_context.items()}
    return [_raw(record, names[record.context][record.key]) for record in records]


def _raw(record: RawRecord, order: str) -> Raw:
    value, labels, seal = record.value, {}, ""
    if isinstance(value, dict):
        labels = {name: value[name] for name in LABELS if name in value}
        seal = canonical(value[FIELD]) if FIELD in value else ""
        value = {name: part for name, part in value.items() if name not in labels and name != FIELD}
    meta = canonical([labels, record.meta])
    return Raw(TABLE, record.context, record.key, order, canonical(value), meta, seal=seal)


@dataclass(frozen=True)
class Rewrite:
    """Put these records there, with the raw store's own means."""

    raw: RawStore
    before: tuple[RawRecord, ...]
    after: tuple[RawRecord, ...]
    #: The open store, for one that lives in its process.
    store: Any = None

    @property
    def live(self) -> bool:
        """Whether it may be made under the running store."""
        return self.store is not None

    def run(self, cell: Path) -> None:
        """Save; anything that the raw store raises is the bench's failure."""
        try:
            self.raw.save(self.store if self.live else cell / STORE, self.after)
        except Exception as error:
            raise EditFailed(f"the raw store could not save: {type(error).__name__}") from error

    def text(self) -> str:
        """What changed, a line a record; memory content is the bench's own, so it may be printed."""
        old = {(r.context, r.key): r for r in self.before}
        new = {(r.context, r.key): r for r in self.after}
        lines = [f"remove {c}/{k}" for c, k in old.keys() - new.keys()]
        for place in new:
            if place not in old:
                lines.append(f"add {place[0]}/{place[1]}: {_short(new[place])}")
            elif old[place] != new[place]:
                lines.append(f"put {place[0]}/{place[1]}: {_short(new[place])}")
        order = [p for p in new if p in old] != [p for p in old if p in new]
        return "\n".join(sorted(lines) + (["change the order of records"] if order else [])) or "nothing"


def _short(record: RawRecord) -> str:
    text = json.dumps([record.value, record.meta], sort_keys=True, default=repr)
    return text if len(text) <= _LINE else text[: _LINE - 1] + "…"


@dataclass(frozen=True)
class Own:
    """An edit of the maintainer's own."""

    edit: Callable[[Any], None]
    store: Any = None

    @property
    def live(self) -> bool:
        """Whether it may be made under the running store."""
        return self.store is not None

    def run(self, cell: Path) -> None:
        """Call it."""
        try:
            self.edit(self.store if self.live else cell / STORE)
        except Exception as error:
            raise EditFailed(f"the given edit failed: {type(error).__name__}") from error

    def text(self) -> str:
        """Where it is defined."""
        return f"{getattr(self.edit, '__module__', '')}:{getattr(self.edit, '__qualname__', 'edit')}"
