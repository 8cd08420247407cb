"""A LangGraph store bound to a principal.

A store or checkpointer with a scope map gets its operations wrapped once (:class:`ScopedStore`,
:class:`~memguard.integrations.langgraph.saver_scoping.ScopedSaver`): each call is bound to the principal in
force, and what comes back is looked at again. Without a map nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from memguard.binding import Binding, Stage
from memguard.effects import Operation
from memguard.errors import ScopeError
from memguard.integrations.langgraph.store_items import matches
from memguard.record import Scope
from memguard.scopes import foreign

#: As many namespaces as a list may have; they are cut to the caller's limit afterwards.
_EVERY = 1 << 31


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
