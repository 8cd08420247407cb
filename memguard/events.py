"""What happened: one frozen dataclass per kind of event, and a small bus that tells.

An event names records by identifier and never holds content. The bus writes each one to the
standard library's logging (loggers ``memguard`` and ``memguard.<area>``; this package adds a
NullHandler and configures nothing else) and then hands it to the observers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from memguard.decision import Decision
from memguard.isolate import Raised, attempt

logging.getLogger("memguard").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. ``area`` names the logger: write, read, integrity, forget, act or none."""

    area: ClassVar[str] = ""
    level: ClassVar[int] = logging.INFO

    @property
    def severity(self) -> int:
        """The logging level of this one event."""
        return self.level

    @property
    def channel(self) -> str:
        """Name of the logger that hears it."""
        return f"memguard.{self.area}" if self.area else "memguard"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the kind of event under ``event``."""
        values = asdict(self)
        for name in values:
            value = getattr(self, name)
            if isinstance(value, Decision):
                values[name] = value.as_dict()
            elif isinstance(value, tuple):
                values[name] = list(value)
        return {"event": type(self).__name__, **values}

    def line(self) -> str:
        """One line for the log: the kind and its fields."""
        return f"{type(self).__name__} " + " ".join(
            f"{k}={v}" for k, v in self.as_dict().items() if k != "event"
        )


@dataclass(frozen=True, slots=True)
class StartLine(Event):
    """A store is guarded now; logged once per guarded object."""

    store: str
    #: The type that was wrapped, ``SqliteSaver``.
    wraps: str
    preset: str
    #: Guards that only observe.
    observing: tuple[str, ...] = ()
    #: Guards that the configuration names and this version does not have.
    absent: tuple[str, ...] = ()
    anchor: str = ""
    config_digest: str = ""

    def line(self) -> str:
        """The start line of the log: what is guarded, how, and what only observes."""
        parts = [f"{self.wraps} guarded as {self.store!r}", self.preset]
        if self.observing:
            parts.append(f"{len(self.observing)} observing ({', '.join(self.observing)})")
        if self.absent:
            parts.append(f"not in this version: {', '.join(self.absent)}")
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """The write, read or act chain answered about one record."""

    store: str
    record: str
    decision: Decision

    @property
    def severity(self) -> int:
        """Loud only for what is not simply allowed."""
        return logging.WARNING if self.decision.flagged else logging.DEBUG

    def line(self) -> str:
        """Where, what was decided, what would have been, and which rules said so."""
        d = self.decision
        would = f" (would {d.would})" if d.would is not None else ""
        rules = ",".join(dict.fromkeys(item.rule for item in d.evidence))
        by = f" {d.code} by {d.guard}" if d.guard else ""
        seen = f" [{rules}]" if rules else ""
        return f"{self.area} {self.store}/{self.record}: {d.disposition}{would}{by}{seen}"


@dataclass(frozen=True, slots=True)
class WriteDecided(Decided):
    """The write chain answered."""

    area: ClassVar[str] = "write"


@dataclass(frozen=True, slots=True)
class ReadDecided(Decided):
    """The read chain answered."""

    area: ClassVar[str] = "read"


@dataclass(frozen=True, slots=True)
class ActDecided(Decided):
    """The act chain answered; ``record`` is the tool."""

    area: ClassVar[str] = "act"


@dataclass(frozen=True, slots=True)
class Observing(Event):
    """Guards only observe: told once a day and process, so that observing does not become the normal state."""

    level: ClassVar[int] = logging.WARNING

    guards: tuple[str, ...]
    #: Records that enforcing would have withheld, and the first day of them (ISO; empty for none).
    would: int = 0
    since: str = ""

    def line(self) -> str:
        """Who observes, what enforcing would have done, and what to do next."""
        names, since = ", ".join(dict.fromkeys(self.guards)), f" since {self.since}" if self.since else ""
        return (
            f"memguard is observing ({names}): {self.would} records would have been withheld{since}. "
            "memguard status shows which rules; memguard config promote enforces them"
        )


@dataclass(frozen=True, slots=True)
class GuardRaised(Event):
    """A guard failed; ``decision`` is what its fail mode made of it."""

    level: ClassVar[int] = logging.ERROR

    guard: str
    stage: str
    store: str
    record: str
    #: Type of the exception. Its message may quote content and is left out.
    error: str
    fail_mode: str
    decision: Decision

    @property
    def channel(self) -> str:
        """The logger of the stage it failed in."""
        return f"memguard.{self.stage}"

    def line(self) -> str:
        """Which guard failed where, and what came of it."""
        return (
            f"guard {self.guard} raised {self.error} on {self.stage} of {self.store}/{self.record}; "
            f"fail mode {self.fail_mode} made it {self.decision.disposition}"
        )


@dataclass(frozen=True, slots=True)
class PurposeFiltered(Event):
    """A read for ``purpose="act"`` met records below the act level. With ``would`` they were served all the same."""

    area: ClassVar[str] = "read"
    level: ClassVar[int] = logging.DEBUG

    store: str
    records: int
    would: bool = False


@dataclass(frozen=True, slots=True)
class WithholdsTooMuch(Event):
    """A read guard withheld more of a store than ``read.max_withheld_ratio`` allows, so it only observes there;
    with ``over`` False the share is back within the limit and it enforces again."""

    area: ClassVar[str] = "read"
    level: ClassVar[int] = logging.ERROR

    store: str
    guard: str
    #: Of the last ``of`` records, how many it withheld.
    withheld: int
    of: int
    over: bool = True

    def line(self) -> str:
        """Which guard, how much, and what to look at."""
        if not self.over:
            return f"guard {self.guard} enforces again on reads of {self.store}: {self.withheld} of {self.of} withheld"
        return (
            f"guard {self.guard} withheld {self.withheld} of the last {self.of} records read from {self.store}, more "
            "than read.max_withheld_ratio; it only observes there until the share is lower. Look at memguard status"
        )


@dataclass(frozen=True, slots=True)
class ReadRefused(Event):
    """A record at rest was not as it was left. With ``served`` it was only reported."""

    area: ClassVar[str] = "integrity"
    level: ClassVar[int] = logging.ERROR

    store: str
    context: str
    record: str
    case: str
    code: str
    served: bool = False


@dataclass(frozen=True, slots=True)
class ForkRecorded(Event):
    """Two writers went on from the same place and both histories are kept."""

    area: ClassVar[str] = "integrity"
    level: ClassVar[int] = logging.WARNING

    store: str
    context: str
    record: str
    generation: int


@dataclass(frozen=True, slots=True)
class RecoveryRun(Event):
    """An interrupted write was found and settled: ``finished`` or ``undone``."""

    area: ClassVar[str] = "integrity"
    level: ClassVar[int] = logging.WARNING

    store: str
    context: str
    outcome: str
    records: int = 0


@dataclass(frozen=True, slots=True)
class AnchorCompacted(Event):
    """The anchor's log was rewritten shorter."""

    area: ClassVar[str] = "integrity"

    anchor: str
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class Adopted(Event):
    """Existing rows were signed as they stood."""

    area: ClassVar[str] = "integrity"
    level: ClassVar[int] = logging.WARNING

    store: str
    contexts: int
    records: int


@dataclass(frozen=True, slots=True)
class QuarantinePurged(Event):
    """Content that nobody reviewed was destroyed in the quarantine; stubs are left."""

    area: ClassVar[str] = "write"
    level: ClassVar[int] = logging.WARNING

    entries: tuple[str, ...]
    #: Why: ``age``.
    reason: str

    def line(self) -> str:
        """How many, and the first few."""
        first = ", ".join(self.entries[:5]) + (", ..." if len(self.entries) > 5 else "")
        return f"{len(self.entries)} quarantined entries were never reviewed and are destroyed ({self.reason}): {first}"


@dataclass(frozen=True, slots=True)
class Reviewed(Event):
    """An operator released, dropped, purged or brought back quarantined entries."""

    area: ClassVar[str] = "write"

    entries: tuple[str, ...]
    verb: str
    by: str


@dataclass(frozen=True, slots=True)
class Reverted(Event):
    """An operator took records out of a store, by source or by time."""

    area: ClassVar[str] = "integrity"
    level: ClassVar[int] = logging.WARNING

    store: str
    records: int
    by: str


Observer = Callable[[Event], object]


class Bus:
    """Hands events to the log and to observers, in the order in which they subscribed.

    An observer that raises is reported to the log and stays subscribed; the caller never notices.
    """

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Add an observer; the answer takes it off again (calling it twice is harmless)."""
        # Replaced, never changed: emit may be walking the old tuple in another thread.
        self._observers = (*self._observers, observer)

        def unsubscribe() -> None:
            self._observers = tuple(other for other in self._observers if other is not observer)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Log the event and tell every observer."""
        logger, severity = logging.getLogger(event.channel), event.severity
        if logger.isEnabledFor(severity):
            logger.log(severity, "%s", event.line(), extra={"memguard": event.as_dict()})
        for observer in self._observers:
            result = attempt(observer, event)
            if isinstance(result, Raised):
                logging.getLogger("memguard").warning("an observer raised %s; it is kept", result.name)
