"""What is about to be stored in a collection, through the write chain: labelled, rewritten, withheld or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memguard.binding import subject
from memguard.collection.rows import Entry, Put, Table, Withheld, named
from memguard.context import current_source
from memguard.decision import Decision, Disposition
from memguard.effects import Block, Operation, Twin
from memguard.errors import QuarantinedError, RejectedError
from memguard.events import WriteDecided
from memguard.labels import Label
from memguard.pipeline import Outcome
from memguard.record import FIRST_HAND, UNKNOWN_SOURCE, Lineage, Parent, Record, Trust

if TYPE_CHECKING:
    from memguard.engine import MemGuard

#: Verified records by key, wherever they are: (context to look in first, keys).
Find = Callable[[str, Sequence[str]], Operation[Sequence[Entry]]]


class Screen:
    """The write chain for the records of one collection.

    Args:
        find: looks up parents that were named by key, within what the principal may see.
        conversation: the records are one state that is never half-dropped: what would be withheld is stored and
            flagged, as in a checkpointer (only a rejection refuses, and then the whole write).
    """

    def __init__(
        self,
        mg: MemGuard,
        store: str,
        table: Table,
        find: Find,
        *,
        conversation: bool = False,
    ) -> None:
        self._mg, self._store, self._table, self._find = mg, store, table, find
        self._conversation = conversation

    def __call__(self, put: Put) -> Operation[Put | Withheld]:
        """The put to store, with its label; or that it was withheld.

        Raises:
            RejectedError, QuarantinedError: a guard refused it.
        """
        screening = self._mg.screening
        own = {**put.own, "at": int(time.time())}
        if not screening.writes:
            return replace(put, own=own)
        record = yield from self._record(put)
        outcome: Outcome = yield Twin(screening.write, screening.awrite, record)
        decision, kept = outcome.decision, put
        if self._conversation:
            decision = decision.for_state()
        if decision.disposition is Disposition.REWRITE:
            value, decision = screening.rewritten(put.value, record, decision)
            if decision.disposition is Disposition.REWRITE:
                kept = self._table.remade(put, value)
        where = named(self._store, put.context, put.key)
        if decision.flagged:
            self._mg.events.emit(WriteDecided(self._store, where, decision))
        if decision.disposition is Disposition.REJECT:
            raise RejectedError(
                "a guard rejected a write; nothing of it is kept.",
                code=decision.code or None,
                where=where,
                why=decision.reason,
            )
        if decision.disposition is Disposition.QUARANTINE:
            entry: str = yield Block(self._withhold, put, outcome, decision)  # waits for a disk
            return Withheld(put, decision, entry)
        label = Label.of(outcome.record.provenance, decision)
        self._mg.recall.note(outcome.record, label.trust, stored=True)
        return replace(kept, own={**own, **kept.own, "label": label.as_dict()})

    def _record(self, put: Put) -> Operation[Record]:
        declared = current_source()
        source = put.source or (declared.source if declared is not None else UNKNOWN_SOURCE)
        lineage = put.lineage if put.lineage is not None else declared.lineage if declared else FIRST_HAND
        record = Record(put.text, self._store, put.key or "", source, lineage)
        if put.claims is not None:
            record = replace(record, data={"claims": put.claims})
        record = subject(record, put.place or (put.context, put.key or ""), put.value, put.scope)
        if any(parent.trust is None for parent in record.lineage.parents):
            record = yield from self._with_parents(record, put.context)
        return record

    def _with_parents(self, record: Record, context: str) -> Operation[Record]:
        """The record with the trust of parents that were named by key; one that nobody has counts as unknown."""
        parents = record.lineage.parents
        most = self._mg.config.guards.limits.max_parents
        wanted = [parent.id for parent in parents if parent.trust is None][:most]
        levels: dict[str, Trust] = {}
        for entry in (yield from self._find(context, wanted)):
            label = entry.label or Label()
            level = label.trust
            if label.source.kind != "summary":  # policy may have lowered its source since
                level = min(level, self._mg.screening.trust(label.source) or level)
            levels[entry.key] = min(level, levels.get(entry.key, level))
        known = (Parent(p.id, p.trust if p.trust is not None else levels.get(p.id)) for p in parents)
        return replace(record, lineage=Lineage(tuple(known)))

    def _withhold(self, put: Put, outcome: Outcome, decision: Decision) -> str:
        """Keep it in the quarantine, as it came."""
        found = outcome.record.provenance
        kept = self._mg.quarantine.keep(
            self._store,
            put.context,
            put.key or "",
            put.value,
            decision,
            source=found.source,
            trust=decision.trust or found.trust,
            lineage=found.lineage,
        )
        if self._mg.config.policy.on_hold == "raise":
            raise QuarantinedError(
                f"a guard withheld a write; it is kept in the quarantine as {kept}.",
                code=decision.code or None,
                where=named(self._store, put.context, put.key),
                why=decision.reason,
                do=f"memguard quarantine show {kept}",
            )
        return kept
