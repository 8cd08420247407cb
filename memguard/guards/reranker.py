"""The reranker: a memory that contradicts trusted ones is flagged, and served behind them.

Which trusted records it contradicts, the reader has found (``record.data["rivals"]``, a count; see
:mod:`memguard.reader`); this guard says what follows, so that its mode governs it. A contradiction alone never
withholds. Withholding needs a second, independent piece of evidence: the record was flagged when it was written,
and comes from an untrusted source.

Codes: MG320 contradicts trusted memories, MG321 contradicts them and was flagged when it was written.
"""

from __future__ import annotations

from typing import Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.guard import GuardContext, Stage
from memguard.record import Record, Trust
from memguard.settings import Config

CONTRADICTS, CONTRADICTS_FLAGGED = "MG320", "MG321"
_ALLOW = Decision(guard="reranker")


class Reranker:
    """Judges a record by what the reader found beside it. Keeps no state."""

    name = "reranker"
    stages = (Stage.READ,)
    #: What it says on a read follows from label, scope, validity and data alone, whatever the content.
    by_label = True

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard; it has no settings of its own."""
        return cls()

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        """Allow, flag, or withhold on two pieces of evidence."""
        if not record.data.get("rivals"):
            return _ALLOW
        reason = "it contradicts memories that are trusted more"
        found: tuple[Evidence, ...] = (Evidence(CONTRADICTS, reason),)
        if record.data.get("flagged") and record.trust is not None and record.trust <= Trust.UNTRUSTED:
            twice = f"{reason}, and was flagged when it was written"
            found = (*found, Evidence(CONTRADICTS_FLAGGED, twice))
            return Decision(Disposition.QUARANTINE, twice, CONTRADICTS_FLAGGED, found, 0.9, self.name)
        return Decision(Disposition.FLAG, reason, CONTRADICTS, found, 0.6, self.name)
