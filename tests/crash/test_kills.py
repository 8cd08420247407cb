"""SIGKILL at named points and at random times: nothing acknowledged is lost, nothing raises a false alarm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import crash_life
import pytest

HERE = Path(__file__).resolve().parent


#: A file system in memory: samples need no disk, because a killed process loses nothing of the page cache
#: and power cuts are rebuilt from what was written. The full runs use the folder for temporary files.
MEMORY = "/dev/shm"


def run(program: str, *args: object, on_disk: bool = False, seconds: float = 1500) -> dict[str, Any]:
    """A program of this folder, in a process that has opened nothing; its report within so many seconds."""
    command = [sys.executable, str(HERE / f"{program}.py"), *map(str, args)]
    environment = dict(os.environ)
    if not on_disk and os.access(MEMORY, os.W_OK):
        environment["MEMGUARD_CRASH_FOLDER"] = MEMORY
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
    )
    assert done.stdout.startswith("{"), done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def holds(report: dict[str, Any], kills: int) -> None:
    assert not report["failures"], "\n".join(report["failures"])
    assert report["kills"] == kills == sum(report["landed"].values()), "a kill did not land"
    assert report["operations"] > 0


def test_a_sample_of_named_points() -> None:
    holds(run("crash_life", "named", "--count", 24, "--seed", 11), 24)


def test_a_sample_of_named_points_in_lag_mode_and_over_new_boots() -> None:
    holds(run("crash_life", "named", "--count", 12, "--seed", 12, "--sync", "lag", "--boots", 0.5), 12)


def test_a_sample_of_random_times() -> None:
    holds(run("crash_life", "random", "--count", 8, "--seed", 13), 8)


def test_a_sample_of_kills_on_a_store() -> None:
    report = run("crash_store", "--count", 13, "--seed", 1)
    holds(report, 13)
    assert len(report["landed"]) == 13


def test_every_target_can_be_named() -> None:
    """A run over all targets meets each of them, so that no name is a word without a place."""
    chosen = crash_life.targets(len(crash_life.TARGETS), 1)
    assert sorted(map(str, chosen)) == sorted(map(str, crash_life.TARGETS))
    assert len(set(crash_life.TARGETS)) == len(crash_life.TARGETS)


@pytest.mark.crash_full
@pytest.mark.parametrize(
    ("sync", "boots", "named", "random_times"),
    [("strict", 0.0, 120, 30), ("strict", 0.6, 60, 15), ("lag", 0.3, 60, 15)],
)
def test_the_full_count(sync: str, boots: float, named: int, random_times: int) -> None:
    """240 at named points and 60 at random times, over strict and lag mode, the same boot and new ones."""
    options = ("--sync", sync, "--boots", boots)
    holds(run("crash_life", "named", "--count", named, "--seed", 1, *options, on_disk=True), named)
    at_random = run("crash_life", "random", "--count", random_times, "--seed", 2, *options, on_disk=True)
    holds(at_random, random_times)


@pytest.mark.crash_full
def test_many_kills_on_a_store() -> None:
    holds(run("crash_store", "--count", 65, "--seed", 2, on_disk=True), 65)


@pytest.mark.crash_full
def test_every_point_lands() -> None:
    report = run("crash_life", "named", "--count", len(crash_life.TARGETS), "--seed", 3)
    holds(report, len(crash_life.TARGETS))
    assert set(report["landed"]) == {f"{scope or 'any'}/{point}" for point, scope, _ in crash_life.TARGETS}
