"""Power cuts: whatever part of the unsynced bytes reached the disk, the promises hold after the next boot."""

from __future__ import annotations

import pytest
from test_kills import run


def holds(report: dict[str, object], cuts: int) -> None:
    assert not report["failures"], "\n".join(report["failures"])  # type: ignore[arg-type]
    assert report["cuts"] == min(cuts, report["possible"])  # type: ignore[type-var]
    assert report["compactions"], "the run did not reach a compaction"


def test_a_sample_of_cuts_in_strict_mode() -> None:
    holds(run("crash_power", "--seed", 1, "--states", 24), 24)


def test_a_sample_of_cuts_in_lag_mode() -> None:
    holds(run("crash_power", "--seed", 2, "--states", 16, "--sync", "lag"), 16)


def test_a_store_that_is_edited_after_the_cut_loses_no_more_than_the_window() -> None:
    holds(run("crash_power", "--seed", 4, "--states", 24, "--sync", "lag", "--edited"), 24)


def test_a_store_that_is_edited_after_the_cut_is_refused_in_strict_mode() -> None:
    holds(run("crash_power", "--seed", 5, "--states", 24, "--edited"), 24)


@pytest.mark.crash_full
@pytest.mark.parametrize("sync", ["strict", "lag"])
@pytest.mark.parametrize("seed", [6, 7])
def test_many_cuts(sync: str, seed: int) -> None:
    holds(run("crash_power", "--seed", seed, "--states", 250, "--sync", sync), 250)
    holds(run("crash_power", "--seed", seed, "--states", 150, "--sync", sync, "--edited"), 150)
