"""Principals and places: which rows of a LangGraph object are whose, and how a guarded one is bound.

A store or checkpointer with a scope map gets its operations wrapped once (:class:`ScopedStore`,
:class:`~memguard.integrations.langgraph.saver_scoping.ScopedSaver`): each call is bound to the principal in
force, and what comes back is looked at again. Without a map nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from memguard.context import current_principal
from memguard.decision import Decision, Disposition, Evidence
from memguard.effects import Operation
from memguard.engine import MemGuard
from memguard.errors import RefusedError, ScopeError
from memguard.events import ReadDecided, WriteDecided
from memguard.integrations.langgraph.store_items import FILTER_KEY, OPERATORS, matches
from memguard.labels import label_of
from memguard.record import Record, Scope, Trust, text_of
from memguard.scopes import ScopeMap, foreign

Stage = Literal["read", "write"]
#: Modes in which the scope guard does what it says; the others only report.
_ENFORCING = ("enforce", "reject", "quarantine")
#: As many namespaces as a list may have; they are cut to the caller's limit afterwards.
_EVERY = 1 << 31


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


class ScopedStore:
    """The operations of a guarded store, bound to the principal. Everything else is the wrapped operations'."""

    def __init__(self, inner: Any, bound: Binding) -> None:
        self._inner, self._bound = inner, bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def batch(self, ops: Iterable[Any]) -> Operation[list[Any]]:
        """Any mixture of operations; what is another owner's answers as if it were not there.

        Raises:
            ScopeError: no principal; a put into, or a name that is no place of, another owner; a search or a filter
                that cannot be bound. Nothing of the batch was done.
        """
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        asked: list[Any] = []
        places: list[int] = []
        results: list[Any] = [[] if isinstance(op, SearchOp | ListNamespacesOp) else None for op in ops]
        scopes: dict[int, Scope] = {}
        for at, op in enumerate(ops):
            stage: Stage = "write" if isinstance(op, PutOp) else "read"
            scope = self._bound.scope(stage)
            if scope is not None:
                scopes[at] = scope
                op = self._narrowed(op, scope, stage)
            if op is not None:
                asked.append(op)
                places.append(at)
        if asked:
            found = yield from self._inner.batch(asked)
            for at, result in zip(places, found, strict=True):
                results[at] = self._own(ops[at], result, scopes[at]) if at in scopes else result
        return results

    def _narrowed(self, op: Any, scope: Scope, stage: Stage) -> Any:
        """The operation within the owner's part of the store; None if it lies outside."""
        scopes, bound = self._bound.map, self._bound
        try:
            if isinstance(op, GetOp | PutOp):
                if scopes.owns(scope, op.namespace):
                    return op
                if isinstance(op, PutOp) and op.value is not None:
                    raise foreign(scopes.store, "the namespace of a put")
                return None if bound.hidden(stage, "an item of another owner was named") else op
            if isinstance(op, SearchOp):
                bound.check_filter(op.filter)
                prefix = scopes.narrowed(scope, op.namespace_prefix)
                if prefix is None:
                    return None if bound.hidden(stage, "another owner's namespace was searched") else op
                return op._replace(namespace_prefix=prefix) if bound._stages[stage] else op
            if isinstance(op, ListNamespacesOp) and bound._stages[stage]:
                last = max(scopes.namespace.values())
                path = ["*"] * (last + 1)
                for part, at in scopes.namespace.items():
                    path[at] = getattr(scope, part)
                own = MatchCondition(match_type="prefix", path=tuple(path))
                conditions = (*(op.match_conditions or ()), own)
                # Cut to depth and limit afterwards: a backend's own reading of a condition may let others through.
                return op._replace(match_conditions=conditions, max_depth=None, limit=_EVERY, offset=0)
        except ScopeError as error:
            bound.refused(stage, error)
        return op

    def _own(self, op: Any, result: Any, scope: Scope) -> Any:
        """What of an answer is the owner's, whatever the backend returned."""
        holds, bound = self._bound.map.holds, self._bound
        if isinstance(op, GetOp):
            if result is None or holds(scope, result.namespace):
                bound.served([result] if result is not None else [], scope)
                return result
            return None if bound.hidden("read", "a store returned another owner's item") else result
        if isinstance(op, SearchOp):
            own = [item for item in result if holds(scope, item.namespace)]
            bound.served(own, scope)
            if len(own) < len(result) and not bound.hidden("read", "a store returned other owners' items"):
                return result
            return own
        if isinstance(op, ListNamespacesOp):
            own = [ns for ns in result if holds(scope, ns)]
            if not bound._stages["read"]:
                if len(own) < len(result):
                    bound.hidden("read", "other owners' namespaces were listed")
                return result
            own = [ns for ns in own if all(matches(ns, c) for c in op.match_conditions or ())]
            cut = list(dict.fromkeys(ns[: op.max_depth] for ns in own))
            return cut[op.offset : op.offset + op.limit]
        return result
