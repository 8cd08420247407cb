"""Where the texts of one call are from: messages by their role, facts from the messages that they are taken from.

A message goes through the write chain before Mem0's model reads it. A fact is worth the least of them: an extraction
raises nobody's trust, and a text that was recalled and said again is known by the chain.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memguard.binding import subject
from memguard.decision import Disposition
from memguard.effects import Block, Operation, Twin
from memguard.errors import QuarantinedError, RejectedError
from memguard.events import WriteDecided
from memguard.integrations.conversation import attributed, speaker
from memguard.integrations.mem0.keeping import Refusal
from memguard.integrations.mem0.owners import MEMORY, Owner
from memguard.labels import Label
from memguard.record import Lineage, Record, Source, Trust, inherited, text_of

if TYPE_CHECKING:
    from memguard.engine import MemGuard
    from memguard.pipeline import Outcome

KINDS = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
#: What several sources together are.
TOGETHER = Source("summary", "mem0")


class Speaking:
    """The sources of one call of ``add``.

    Args:
        owner: whose the memories will be.
        derived: the memories are taken out of the messages by a model (else each message is one).
    """

    def __init__(self, mg: MemGuard, store: str, owner: Owner, *, derived: bool) -> None:
        self._mg, self._store, self._owner, self.derived = mg, store, owner, derived
        self._labels: dict[tuple[str, str], Label] = {}
        #: What the call's messages are worth together; None where nothing is derived.
        self.floor: Trust | None = None
        self.refused: dict[int, Refusal] = {}

    def of_memory(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Source and lineage of a memory that this call stores."""
        if not self.derived:
            own, lineage = self._said(payload.get("role"), payload.get("actor_id"))
            return {"source": own, "lineage": lineage}
        labels = list(self._labels.values())
        parents = Lineage(inherited(*(label.provenance for label in labels)))
        known = {str(label.source) for label in labels}
        source = labels[0].source if len(known) == 1 else TOGETHER
        return {"source": replace(source, signature=None), "lineage": parents}

    def of_message(self, message: Mapping[str, Any]) -> Label | None:
        """The label of a message that was screened; the least of all for one that Mem0 put together."""
        found = self._labels.get(_key(message))
        if found is not None or not self._labels:
            return found
        return min(self._labels.values(), key=lambda label: label.trust.rank)

    def _said(self, role: object, name: object) -> tuple[Source, Lineage]:
        kind = KINDS.get(role, "unknown") if isinstance(role, str) else "unknown"
        return attributed(speaker(kind, name), self._mg.screening.trust)

    # -- messages before extraction ------------------------------------------------------------

    def admit(self, messages: Sequence[Any]) -> Operation[list[Any]]:
        """The messages that may be read by the model, rewritten where a guard cut something out.

        Raises:
            QuarantinedError: one is withheld and the policy is to raise.
        """
        kept: list[Any] = []
        for at, message in enumerate(messages):
            if not isinstance(message, Mapping) or message.get("content") is None:
                kept.append(message)  # Mem0 has its own word on these
                continue
            admitted = yield from self._one(at, message)
            if admitted is not None:
                kept.append(admitted)
        self.floor = Trust.least(label.trust for label in self._labels.values())
        return kept

    def _one(self, at: int, message: Mapping[str, Any]) -> Operation[Mapping[str, Any] | None]:
        content = message["content"]
        source, lineage = self._said(message.get("role"), message.get("name"))
        screening = self._mg.screening
        where = f"message {at} of a call on {self._store!r}"
        record = Record(text_of(content), self._store, "", source, lineage)
        record = subject(record, (self._owner.context(MEMORY),), content, None)
        if not screening.writes:
            self._labels[_key(message)] = Label(
                source, screening.trust(source) or Trust.UNKNOWN, None, lineage
            )
            return message
        outcome: Outcome = yield Twin(screening.write, screening.awrite, record)
        decision = outcome.decision
        if decision.disposition is Disposition.REWRITE:
            content, decision = screening.rewritten(content, record, decision)
        if decision.flagged:
            self._mg.events.emit(WriteDecided(self._store, where, decision))
        about = {"index": at, "disposition": str(decision.disposition), "code": decision.code}
        if decision.disposition is Disposition.REJECT:
            self.refused[at] = Refusal(
                about,
                RejectedError(
                    "a guard rejected a message; nothing of it is kept.",
                    code=decision.code or None,
                    where=where,
                    why=decision.reason,
                ),
            )
            return None
        if decision.disposition is Disposition.QUARANTINE:
            kept: str = yield Block(self._withhold, message, outcome, decision)
            error = None
            if self._mg.config.policy.on_hold == "raise":
                error = QuarantinedError(
                    f"a guard withheld a message; it is kept in the quarantine as {kept}.",
                    code=decision.code or None,
                    where=where,
                    why=decision.reason,
                    do=f"memguard quarantine show {kept}",
                )
            self.refused[at] = Refusal({**about, "entry": kept}, error)
            return None
        label = Label.of(outcome.record.provenance, decision)
        self._mg.recall.note(outcome.record, label.trust, stored=True)
        admitted = message if content is message["content"] else {**message, "content": content}
        self._labels[_key(admitted)] = label
        return admitted

    def _withhold(self, message: Mapping[str, Any], outcome: Outcome, decision: Any) -> str:
        """Keep a message as the memory that a release makes of it: its own words, as with ``infer=False``."""
        now = datetime.now(UTC).isoformat()
        payload = {
            **self._owner.fields(),
            "data": text_of(message["content"]),
            "role": str(message.get("role") or ""),
            "created_at": now,
            "updated_at": now,
        }
        found = outcome.record.provenance
        return self._mg.quarantine.keep(
            self._store,
            self._owner.context(MEMORY),
            str(uuid.uuid4()),
            payload,
            decision,
            source=found.source,
            trust=decision.trust or found.trust,
            lineage=found.lineage,
        )


class Updating(Speaking):
    """The source of a new text of a memory: what the program declared, else nobody said."""

    def of_memory(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing beyond what is declared."""
        return {}


def _key(message: Mapping[str, Any]) -> tuple[str, str]:
    return str(message.get("role")), text_of(message.get("content"))
