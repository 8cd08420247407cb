"""What is about to be stored, through the write chain: labelled, rewritten, withheld or refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langgraph.store.base import GetOp, ListNamespacesOp, PutOp

from memguard.binding import Binding, subject
from memguard.context import current_source
from memguard.decision import Decision, Disposition
from memguard.effects import Block, Operation, Twin
from memguard.engine import MemGuard
from memguard.errors import QuarantinedError, RejectedError
from memguard.events import WriteDecided
from memguard.integrations.langgraph.store_rows import Namespace, context_of, name
from memguard.labels import Label, label_of
from memguard.pipeline import Outcome
from memguard.record import Lineage, Parent, Record, Trust, text_of

#: Namespaces that are looked through for a parent that its child's own namespace does not have.
_PLACES = 64

Batch = Callable[[Sequence[Any]], Operation[list[Any]]]


class Screened(NamedTuple):
    """A value that may be stored, and what the guard keeps beside it."""

    value: dict[str, Any]
    own: dict[str, Any]


class StoreScreen:
    """The write chain for the items of one guarded store.

    Args:
        batch: reads through the guard, within what the principal may see: parents are looked up by it.
    """

    def __init__(self, mg: MemGuard, store: str, bound: Binding | None, batch: Batch) -> None:
        self._mg, self._store, self._bound, self._batch = mg, store, bound, batch

    def __call__(
        self, namespace: Namespace, key: str, value: dict[str, Any], claims: Any, op: PutOp
    ) -> Operation[Screened | None]:
        """What of it is to be stored; None if it was withheld.

        Args:
            claims: a label that the value brought along, which nobody has to believe; None for none.

        Raises:
            RejectedError, QuarantinedError: a guard refused it.
        """
        screening = self._mg.screening
        record = self._record(namespace, key, value, claims)
        if any(parent.trust is None for parent in record.lineage.parents):
            record = yield from self._with_parents(record, namespace)
        outcome: Outcome = yield Twin(screening.write, screening.awrite, record)
        decision, stored = outcome.decision, value
        if decision.disposition is Disposition.REWRITE:
            stored, decision = screening.rewritten(value, record, decision)
        if decision.flagged:
            self._mg.events.emit(WriteDecided(self._store, name(namespace, key), decision))
        if decision.disposition is Disposition.REJECT:
            raise RejectedError(
                "a guard rejected a write; nothing of it is kept.",
                code=decision.code or None,
                where=name(namespace, key),
                why=decision.reason,
            )
        if decision.disposition is Disposition.QUARANTINE:
            yield Block(self._withhold, namespace, key, value, op, outcome, decision)  # waits for a disk
            return None
        label = Label.of(outcome.record.provenance, decision)
        self._mg.recall.note(outcome.record, label.trust, stored=True)
        return Screened(stored, {"label": label.as_dict()})

    def _record(self, namespace: Namespace, key: str, value: Any, claims: Any) -> Record:
        text = text_of(value, max_items=self._mg.config.guards.limits.max_nodes)
        declared = current_source()
        record = Record(text, self._store, key)
        if declared is not None:
            record = Record(text, self._store, key, declared.source, declared.lineage)
        if claims is not None:
            record = Record(text, self._store, key, record.source, record.lineage, data={"claims": claims})
        owner = None if self._bound is None else self._bound.map.scope_of(namespace)
        return subject(record, (*namespace, key), value, owner)

    def _with_parents(self, record: Record, namespace: Namespace) -> Operation[Record]:
        """The record with the trust of parents that were named by key: in its own namespace, else in another one.

        A key that several namespaces have counts as the least trusted of them; one that the principal may not
        see, or that nobody has, stays without a level and so counts as unknown.
        """
        parents = record.lineage.parents
        most = self._mg.config.guards.limits.max_parents
        wanted = [parent.id for parent in parents if parent.trust is None][:most]
        found = yield from self._levels(wanted, [namespace])
        missing = [ident for ident in wanted if ident not in found]
        if missing:
            (names,) = yield from self._batch([ListNamespacesOp(limit=_PLACES + 1)])
            if len(names) <= _PLACES:
                others = [tuple(name) for name in names if tuple(name) != namespace]
                found.update((yield from self._levels(missing, others)))
        known = (Parent(p.id, p.trust if p.trust is not None else found.get(p.id)) for p in parents)
        return replace(record, lineage=Lineage(tuple(known)))

    def _levels(self, keys: Sequence[str], namespaces: Sequence[Namespace]) -> Operation[dict[str, Trust]]:
        """The least trust of the items of these keys, for those that are there."""
        ops = [GetOp(namespace, key, refresh_ttl=False) for namespace in namespaces for key in keys]
        items = (yield from self._batch(ops)) if ops else []
        found: dict[str, Trust] = {}
        for op, item in zip(ops, items, strict=True):
            if item is None:
                continue
            label = label_of(item) or Label()
            level = label.trust
            if label.source.kind != "summary":  # policy may have lowered its source since
                level = min(level, self._mg.screening.trust(label.source) or level)
            found[op.key] = min(level, found.get(op.key, level))
        return found

    def _withhold(
        self, namespace: Namespace, key: str, value: Any, op: PutOp, outcome: Outcome, decision: Decision
    ) -> None:
        """Keep it in the quarantine, as it came."""
        found = outcome.record.provenance
        kept = self._mg.quarantine.keep(
            self._store,
            context_of(namespace),
            key,
            value,
            decision,
            source=found.source,
            trust=decision.trust or found.trust,
            lineage=found.lineage,
            ttl=op.ttl,
            index=op.index,
        )
        if self._mg.config.policy.on_hold == "raise":
            raise QuarantinedError(
                f"a guard withheld a write; it is kept in the quarantine as {kept}.",
                code=decision.code or None,
                where=name(namespace, key),
                why=decision.reason,
                do=f"memguard quarantine show {kept}",
            )
