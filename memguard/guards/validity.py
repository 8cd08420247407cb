"""Validity: memories that are not valid yet, no longer, or that another memory declares to replace.

What it goes by is declared, never guessed: the interval in ``record.validity`` (adapters read it from the members
of a value that ``[guards.validity]`` names), and ``record.data["replaced"]``, which says that a record of at least
the same trust names this one as replaced. Expired and future memories are withheld; replaced ones stay readable
and are flagged, so that they shape no action.

Codes: MG322 expired, MG323 not valid yet, MG324 replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from memguard.decision import Decision, Disposition, Evidence
from memguard.guard import GuardContext, Stage
from memguard.record import Record
from memguard.record import Validity as Interval
from memguard.settings import Config

EXPIRED, FUTURE, REPLACED = "MG322", "MG323", "MG324"
_ALLOW = Decision(guard="validity")


class Validity:
    """Holds records to the interval that they declare. Keeps no state."""

    name = "validity"
    stages = (Stage.READ,)
    #: What it says on a read follows from label, scope, validity and data alone, whatever the content.
    by_label = True

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard; it has no settings of its own."""
        return cls()

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        """Whether the record holds at the moment of the read. A moment equal to ``until`` is past it."""
        held = record.validity
        if held.until is not None and ctx.now >= held.until:
            return _said(Disposition.QUARANTINE, EXPIRED, "it declares to be valid no longer")
        if held.since is not None and ctx.now < held.since:
            return _said(Disposition.QUARANTINE, FUTURE, "it declares not to be valid yet")
        if record.data.get("replaced"):
            return _said(Disposition.FLAG, REPLACED, "a memory of at least the same trust replaces it")
        return _ALLOW


def _said(disposition: Disposition, code: str, reason: str) -> Decision:
    return Decision(disposition, reason, code, (Evidence(code, reason),), 1.0, "validity")


def declared(fields: Mapping[str, Any], since: str, until: str) -> Interval:
    """The interval that members of a value declare; what is no moment declares nothing.

    Args:
        fields: the value. Moments are seconds since the epoch or ISO 8601, a date meaning its first second in UTC.
        since, until: names of the members.
    """
    if since not in fields and until not in fields:
        return Interval()
    return Interval(_moment(fields.get(since)), _moment(fields.get(until)))


def _moment(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e18 and math.isfinite(value) else None
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
