"""The arithmetic of thresholds, and the bounds that keep a poisoned memory from opening the gate."""

from __future__ import annotations

import pytest

from memguard.guards.calibration import just_above, raised, thresholds
from memguard.guards.statistical import Scorer

SCORER = Scorer({}, bias=0.0, scale=1.0, flag=0.76, quarantine=0.95)


def test_one_in_a_hundred_stays_above_the_new_threshold() -> None:
    scores = [i / 1000 for i in range(1000)]  # 0.000 to 0.999
    flag, quarantine = thresholds(scores, Scorer({}, 0.0, 1.0, flag=0.98, quarantine=0.999))
    assert (flag.wanted, flag.value, flag.above, flag.note) == (0.9891, 0.9891, 10, "")
    # One in a thousand may stay, but of 1,000 memories that is not sure enough to lower anything.
    assert (quarantine.wanted, quarantine.value) == (0.9981, 0.999)
    assert quarantine.note == "not lowered: that takes 3000 memories"
    assert (flag.resolution, flag.bound) == (0.001, 0.003)


def test_lowering_takes_three_hundred_memories_and_goes_half_a_logit() -> None:
    few, _ = thresholds([0.1] * 299, SCORER)
    assert (few.value, few.note) == (0.76, "not lowered: that takes 300 memories")
    enough, _ = thresholds([0.1] * 300, SCORER)
    assert (enough.wanted, enough.value, enough.above) == (0.1001, 0.6576, 0)
    near, _ = thresholds([0.7] * 300, SCORER)
    assert (near.value, near.note) == (0.7001, "")


def test_memories_that_are_all_poison_raise_a_threshold_by_one_logit_and_no_more() -> None:
    flag, quarantine = thresholds([0.999] * 100_000, SCORER)
    assert (flag.value, quarantine.value) == (0.8959, 0.981)
    assert flag.value == pytest.approx(raised(0.76, 1.0))
    assert "may be poison" in flag.note
    assert flag.above == 100_000


def test_raising_needs_no_great_number() -> None:
    flag, _ = thresholds([0.2] * 47 + [0.8, 0.81, 0.82], SCORER)
    assert (flag.wanted, flag.value, flag.above) == (0.8201, 0.8201, 0)


def test_quarantine_never_falls_below_flag() -> None:
    scorer = Scorer({}, 0.0, 1.0, flag=0.9, quarantine=0.91)
    flag, quarantine = thresholds([0.93] * 500 + [0.2] * 4000, scorer)
    assert flag.value == 0.9301
    assert quarantine.value >= flag.value


def test_nothing_asks_for_nothing() -> None:
    flag, quarantine = thresholds([], SCORER)
    assert (flag.value, quarantine.value, flag.resolution, flag.bound) == (0.76, 0.95, 1.0, 1.0)


def test_order_and_type_of_the_scores_do_not_matter() -> None:
    scores = [((i * 7919) % 1000) / 1000 for i in range(1000)]
    assert thresholds(scores, SCORER) == thresholds(iter(sorted(scores)), SCORER)


@pytest.mark.parametrize(("score", "above"), [(0.5, 0.5001), (0.50005, 0.5001), (0.99995, 1.0), (1.0, 1.0)])
def test_just_above(score: float, above: float) -> None:
    assert just_above(score) == pytest.approx(above)
