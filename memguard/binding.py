"""Principals and places, for adapters: which rows of a guarded object are whose, and what its home does about it.

An adapter asks :func:`binding` once when it guards an object, and narrows each call by it. Without a scope map there
is no binding and nothing is narrowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from memguard.context import current_principal
from memguard.decision import Decision, Disposition, Evidence
from memguard.errors import RefusedError, ScopeError
from memguard.events import ReadDecided, WriteDecided
from memguard.labels import label_of
from memguard.record import Record, Scope, Trust, text_of
from memguard.scopes import ScopeMap

if TYPE_CHECKING:
    from memguard.engine import MemGuard

#: Filter keys that become part of a statement: a path of plain names.
FILTER_KEY = re.compile(r"[A-Za-z0-9_.\-]+\Z")
OPERATORS = frozenset(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"))
Stage = Literal["read", "write"]
#: Modes in which the scope guard does what it says; the others only report.
_ENFORCING = ("enforce", "reject", "quarantine")


class Binding:
    """The scope map of one guarded object, and what its home does about it.

    Args:
        stages: for each stage whether it is enforced (True) or only reported (False).
    """

    def __init__(self, mg: MemGuard, scopes: ScopeMap, stages: Mapping[Stage, bool]) -> None:
        self._mg, self.map, self._stages = mg, scopes, stages

    def scope(self, stage: Stage) -> Scope | None:
        """The owner that the principal names; None where it names none and that is only reported.

        Raises:
            ScopeError: MG221 or MG222.
        """
        try:
            return self.map.bound(current_principal())
        except ScopeError as error:
            self.refused(stage, error)
            return None

    def refused(self, stage: Stage, error: RefusedError) -> None:
        """Raise, or report what enforcing would have raised."""
        if self._stages[stage]:
            raise error
        self.hidden(stage, error.what, error.code)

    def hidden(self, stage: Stage, reason: str, code: str = "MG220") -> bool:
        """Tell of rows that are (or, where it is only reported, would be) kept from the principal; whether they are."""
        enforced = self._stages[stage]
        full = Disposition.QUARANTINE if stage == "read" else Disposition.REJECT
        decision = Decision(
            full if enforced else Disposition.ALLOW,
            reason,
            code,
            evidence=(Evidence(code, reason),),
            score=1.0,
            guard="scope",
            would=None if enforced else full,
        )
        kind = ReadDecided if stage == "read" else WriteDecided
        self._mg.events.emit(kind(self.map.store, "", decision))
        return enforced

    def served(self, items: Iterable[Any], scope: Scope) -> None:
        """Have it remembered, as the owner's, what was served below user trust: it may be written again."""
        for item in items:
            label = label_of(item)
            if label is not None and label.trust < Trust.USER:
                text = text_of(item.value, max_items=self._mg.config.guards.limits.max_nodes)
                record = Record(text, self.map.store, item.key, label.source, label.lineage, scope)
                self._mg.recall.note(record, label.trust)

    def check_filter(self, filter: Mapping[str, Any] | None) -> None:
        """Refuse keys and operators that are not known to mean what they say.

        Raises:
            ScopeError: MG224.
        """
        for key, wanted in (filter or {}).items():
            good = isinstance(key, str) and FILTER_KEY.match(key) and not key.startswith(".")
            operators = wanted if isinstance(wanted, Mapping) else ()
            if not good or any(str(o).startswith("$") and o not in OPERATORS for o in operators):
                self.refused(
                    "read",
                    ScopeError(
                        "a filter key or operator is not known.",
                        code="MG224",
                        where=self.map.store,
                        why="One that a backend ignores, or reads as a query, would answer with others' rows.",
                        do="Keys are letters, digits, '_', '-' and '.'; operators stand in values.",
                    ),
                )


def binding(
    mg: MemGuard,
    store: str,
    places: Mapping[str, str] | None,
    *kinds: Literal["namespace", "thread", "metadata"],
) -> Binding | None:
    """The binding of a guarded object, None if it has no scope map or the scope guard is off.

    Args:
        places: the map that ``guard(..., scope=…)`` was given; default that of ``[stores.NAME]``.
        kinds: places that this kind of object has.

    Raises:
        ConfigError: MG225.
    """
    if places is None:
        configured = mg.config.stores.get(store)
        places = {part: place for part, place in configured.scope.items()} if configured is not None else {}
    if not places:
        return None
    scopes = ScopeMap.parse(store, places).only(*kinds)
    read, write = mg.config.read.scope, mg.config.write.scope
    if read == "off" and write == "off":
        return None
    return Binding(mg, scopes, {"read": read in _ENFORCING, "write": write in _ENFORCING})


def taken(overrides: Mapping[str, Any]) -> tuple[Mapping[str, str] | None, dict[str, Any]]:
    """The ``scope`` of a call of ``guard``, and its other overrides."""
    rest = dict(overrides)
    return rest.pop("scope", None), rest


def subject(record: Record, place: Sequence[str], value: object, scope: Scope | None) -> Record:
    """The record with whose it is, and with what a signature is checked over if its source brought one.

    Args:
        place: ``(*namespace, key)`` of an item, ``(thread, id)`` of a message.
        value: what would be signed: the item's value, the message's content.
        scope: the owner that the place says; None without a scope map.
    """
    if scope is not None:
        record = replace(record, scope=scope)
    if record.source.signature is not None:
        principal = current_principal()
        owner = principal.scope if principal is not None else Scope()
        signed = {"value": value, "place": tuple(place), "owner": owner}
        record = replace(record, data={**record.data, **signed})
    return record
