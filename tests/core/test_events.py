"""Events: what is told, how loudly, and that telling breaks nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from memguard import events
from memguard.decision import Decision, Disposition, Evidence
from memguard.events import (
    ActDecided,
    Bus,
    Event,
    ForkRecorded,
    GuardRaised,
    ReadDecided,
    ReadRefused,
    StartLine,
    WriteDecided,
)

FLAGGED = Decision(
    Disposition.QUARANTINE,
    "r",
    "MG204",
    (Evidence("MG204", "r"), Evidence("MG204", "r")),
    1.0,
    "sanitizer",
    rewritten="heron",
)


def every() -> list[type[Event]]:
    found = [v for v in vars(events).values() if isinstance(v, type) and issubclass(v, Event)]
    return [cls for cls in found if cls not in (Event, events.Decided)]


def example(cls: type[Event]) -> Event:
    values: dict[str, Any] = {
        "str": "x",
        "int": 3,
        "bool": True,
        "Decision": FLAGGED,
        "tuple[str, ...]": ("y",),
    }
    return cls(**{f.name: values[str(f.type)] for f in dataclasses.fields(cls)})


@pytest.mark.parametrize("cls", every(), ids=lambda cls: cls.__name__)
def test_every_event_is_frozen_plain_and_without_content(cls: type[Event]) -> None:
    event = example(cls)
    assert cls.__doc__
    assert event.channel.partition(".")[0] == "memguard"
    assert cls.area in ("", "write", "read", "integrity", "forget", "act")
    plain = json.dumps(event.as_dict())
    assert json.loads(plain)["event"] == cls.__name__
    assert "heron" not in plain + event.line() + repr(event)
    assert "\n" not in event.line()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, dataclasses.fields(event)[0].name, "other")


def test_events_go_to_the_log_of_their_area(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    with caplog.at_level(logging.DEBUG, "memguard"):
        bus.emit(WriteDecided("s", "k", Decision()))
        bus.emit(ReadDecided("s", "k", FLAGGED))
        bus.emit(ActDecided("s", "refund", Decision(would=Disposition.FLAG)))
        bus.emit(ReadRefused("s", "c", "k", "T1", "MG401"))
        bus.emit(ForkRecorded("s", "c", "k", 4))
        bus.emit(GuardRaised("g", "write", "s", "k", "ValueError", "closed", FLAGGED))
        bus.emit(StartLine("checkpoints", "SqliteSaver", "balanced", ("anomaly",), ("scope",)))
    told = [(r.name, r.levelname) for r in caplog.records]
    assert told == [
        ("memguard.write", "DEBUG"),
        ("memguard.read", "WARNING"),
        ("memguard.act", "WARNING"),
        ("memguard.integrity", "ERROR"),
        ("memguard.integrity", "WARNING"),
        ("memguard.write", "ERROR"),
        ("memguard", "INFO"),
    ]
    assert caplog.records[1].getMessage() == "read s/k: quarantine MG204 by sanitizer [MG204]"
    assert caplog.records[2].getMessage() == "act s/refund: allow (would flag)"
    start = (
        "SqliteSaver guarded as 'checkpoints' · balanced · 1 observing (anomaly) · not in this version: scope"
    )
    assert caplog.records[-1].getMessage() == start
    assert caplog.records[3].memguard["case"] == "T1"  # type: ignore[attr-defined]


def test_nothing_is_put_into_words_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Event) -> str:
        raise AssertionError

    monkeypatch.setattr(WriteDecided, "line", fail)
    logging.getLogger("memguard.write").setLevel(logging.WARNING)
    Bus().emit(WriteDecided("s", "k", Decision()))


def test_an_observer_cannot_break_the_caller_or_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bus, seen = Bus(), []

    def broken(event: Event) -> None:
        raise ValueError("heron")

    bus.subscribe(broken)
    stop = bus.subscribe(seen.append)
    event = ForkRecorded("s", "c", "k", 1)
    with caplog.at_level(logging.WARNING, "memguard"):
        bus.emit(event)
        bus.emit(event)
    assert seen == [event, event]
    complaints = [r.getMessage() for r in caplog.records if r.name == "memguard"]
    assert complaints == ["an observer raised ValueError; it is kept"] * 2
    stop()
    stop()
    bus.emit(event)
    assert len(seen) == 2


def test_an_observer_may_leave_while_it_is_told() -> None:
    bus, seen = Bus(), []

    def once(event: Event) -> None:
        seen.append(event)
        stop()

    stop = bus.subscribe(once)
    bus.subscribe(seen.append)
    event = ForkRecorded("s", "c", "k", 1)
    bus.emit(event)
    bus.emit(event)
    assert len(seen) == 3


def test_a_program_that_configures_no_logging_stays_silent() -> None:
    code = (
        "from memguard.events import Bus, ReadRefused\n"
        "import logging\n"
        "Bus().emit(ReadRefused('s', 'c', 'k', 'T1', 'MG401'))\n"
        "assert not logging.getLogger().handlers"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
