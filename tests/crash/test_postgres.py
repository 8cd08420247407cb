"""Eight writers on PostgreSQL while clients and the server are killed: nothing lost, no false alarm, no silent fork."""

from __future__ import annotations

import pytest
from test_kills import run


def holds(report: dict[str, object], operations: int, kills: int, stops: int) -> None:
    assert not report["failures"], "\n".join(map(str, report["failures"]))  # type: ignore[call-overload]
    assert report["operations"] == operations
    assert report["stops"] == stops
    assert report["kills"] == kills, "a kill did not land"
    assert report["forks"], "no two writers ever went on from the same checkpoint"
    assert report["checkpoints"]


def test_eight_writers_in_four_processes() -> None:
    report = run("crash_postgres", "--seed", 1, "--operations", 296, "--kills", 3, "--stops", 1)
    holds(report, 296, 3, 1)
    assert report["in_doubt"], "nobody was interrupted at work"


@pytest.mark.crash_full
def test_ten_thousand_operations() -> None:
    options = ("--seed", 2, "--operations", 10_000, "--kills", 60, "--stops", 15)
    report = run("crash_postgres", *options, on_disk=True, seconds=3600)
    holds(report, 10_000, 60, 15)
