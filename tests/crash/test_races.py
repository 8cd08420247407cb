"""Six processes on one store: no false alarm, no acknowledged write lost, forks recorded; some of them killed."""

from __future__ import annotations

import pytest
from test_kills import run


def test_six_processes() -> None:
    report = run("crash_race", "--seed", 1, "--operations", 20)
    assert not report["failures"], "\n".join(report["failures"])
    assert report["operations"] == 5 * 20
    assert report["forks"], "two writers of one thread never went on from the same checkpoint"
    assert report["looks"], "the reader saw nothing of it"


def test_six_processes_of_which_some_are_killed() -> None:
    report = run("crash_race", "--seed", 2, "--operations", 40, "--kills", 6)
    assert not report["failures"], "\n".join(report["failures"])
    assert report["kills"] >= 2, "nobody was killed at work"
    assert report["looks"]


@pytest.mark.crash_full
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_longer_races(seed: int) -> None:
    report = run("crash_race", "--seed", seed, "--operations", 120, "--kills", 20, on_disk=True)
    assert not report["failures"], "\n".join(report["failures"])
    assert report["kills"] >= 10
