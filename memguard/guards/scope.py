"""Scope: a record that says whose it is goes only to and comes only from its owner.

Adapters bind principals to places (:mod:`memguard.scopes`) and hide what is another owner's. This guard looks
at each record again, whatever the backend and the adapter did: an owner that is named must be the principal's,
character by character. A record that names none (a store without a scope map) is nobody's business here.
"""

from __future__ import annotations

from typing import Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.guard import GuardContext, Stage
from memguard.record import Record
from memguard.settings import Config

FOREIGN, NOBODY = "MG220", "MG222"


class ScopeGuard:
    """Refuses to write, and withholds from reading, what is not the principal's. Keeps no state."""

    name = "scope"
    stages = (Stage.WRITE, Stage.READ)
    #: What it says on a read follows from label, scope, validity and data alone, whatever the content.
    by_label = True

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """It has no settings of its own."""
        return cls()

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        """Allow, or reject a write and withhold a read."""
        scope, principal = record.scope, ctx.principal
        if scope.tenant is None and scope.user is None:
            return _ALLOW
        if principal is None:
            return _refusal(ctx.stage, NOBODY, "it belongs to somebody, and no principal is in force")
        for owner, named in ((scope.tenant, principal.tenant), (scope.user, principal.user)):
            if owner is not None and owner != named:
                return _refusal(ctx.stage, FOREIGN, "it belongs to another owner than the principal")
        return _ALLOW


_ALLOW = Decision(guard="scope")


def _refusal(stage: Stage, code: str, reason: str) -> Decision:
    severity = Disposition.REJECT if stage is Stage.WRITE else Disposition.QUARANTINE
    return Decision(severity, reason, code, evidence=(Evidence(code, reason),), score=1.0, guard="scope")
