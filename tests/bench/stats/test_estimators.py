"""Estimators: values worked out by hand or by another library, and every edge case that has a rule."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.bench.stats.bud import bootstrap, bud, conversation_deltas, holm, mcnemar, sign_flip
from memguard.bench.stats.grades import Pair, check_replicates, mean, pairs, verdict
from memguard.bench.stats.shares import Tokens, base_change, overhead, quarantine_rate
from memguard.errors import ConfigError

T, F = True, False


def _pair(conversation: str, base: int, treated: int, question: str = "q") -> Pair:
    return Pair(conversation, question, Fraction(base), Fraction(treated))


@pytest.mark.parametrize(
    ("grades", "said", "share"),
    [
        ([T, T, F], T, Fraction(2, 3)),
        ([T, F, F], F, Fraction(1, 3)),
        ([T, T, None], T, Fraction(1)),
        ([T, F, None], F, Fraction(1, 2)),  # a tie is wrong
        ([T, None, None], None, None),  # one of three is no verdict
        ([None, None, None], None, None),
        ([T], T, Fraction(1)),
        ([T, F], F, Fraction(1, 2)),
        ([T, T, T, F, None], T, Fraction(3, 4)),
        ([T, T, T, None, None], None, None),
    ],
)
def test_verdicts_and_means(grades: list[bool | None], said: bool | None, share: Fraction | None) -> None:
    assert verdict(grades) is said
    assert mean(grades) == share


def test_even_replicates_are_refused_unless_forced() -> None:
    check_replicates(3)
    check_replicates(2, force=True)
    for count in (0, 2, -1):
        with pytest.raises(ConfigError):
            check_replicates(count)
    with pytest.raises(ConfigError):
        check_replicates(0, force=True)


def test_an_item_that_one_arm_did_not_grade_is_in_neither() -> None:
    base = {("a", "1"): [T], ("a", "2"): [T], ("a", "3"): [F]}
    treated: dict[tuple[str, str], list[bool | None]] = {("a", "1"): [F], ("a", "2"): [None]}
    assert pairs(base, treated) == [Pair("a", "1", Fraction(1), Fraction(0))]


def test_conversations_weigh_the_same() -> None:
    """One conversation of ten items and one of two: the pooled mean would be 1/12, BUD is the mean of 0.1 and 0."""
    found = [_pair("long", 0, int(at == 0), str(at)) for at in range(10)]
    found += [_pair("short", 1, 1, str(at)) for at in range(2)]
    assert conversation_deltas(found) == {"long": Fraction(1, 10), "short": Fraction(0)}
    assert bud(found) == 5.0
    assert bud([]) is None


def test_the_bootstrap_is_degenerate_without_a_discordant_item() -> None:
    found = [_pair("a", 1, 1, str(at)) for at in range(150)]
    interval = bootstrap(found, seed=1)
    assert interval is not None
    assert interval.degenerate
    assert (interval.low, interval.high) == (None, None)
    assert interval.bound == interval.resolution == 2.0  # 3/150 in points
    assert bootstrap([], seed=1) is None


def test_the_bootstrap_agrees_with_the_binomial() -> None:
    """One conversation of 100 items, 20 of them better: a resample's mean is binomial, whose 2.5 and 97.5
    percentiles are 12 and 28 of 100 (scipy.stats.binom.ppf)."""
    found = [_pair("a", 0, int(at < 20), str(at)) for at in range(100)]
    interval = bootstrap(found, seed=7)
    assert interval is not None
    assert interval.low == pytest.approx(12, abs=1)
    assert interval.high == pytest.approx(28, abs=1)
    assert interval.resolution == pytest.approx(8, abs=1)
    assert bootstrap(found, seed=7) == interval
    assert bootstrap(found, seed=8) != interval


def test_conversations_that_differ_widen_the_clustered_interval() -> None:
    found = [_pair("up", 0, 1, str(at)) for at in range(30)] + [
        _pair("down", 1, 0, str(at)) for at in range(30)
    ]
    within = bootstrap(found, seed=3)
    clustered = bootstrap(found, seed=3, over="conversations")
    assert within is not None
    assert clustered is not None
    assert (within.low, within.high) == (0.0, 0.0)
    assert (clustered.low, clustered.high) == (-100.0, 100.0)


@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [  # scipy.stats.binomtest(min, n, 0.5).pvalue
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
        (3, 9, 0.14599609375),
        (10, 25, 0.016673847800120715),
        (7, 7, 1.0),
        (2, 40, 4.1109160520136356e-10),
    ],
)
def test_mcnemar_is_the_exact_binomial_test(better: int, worse: int, p: float) -> None:
    found = [_pair("a", 0, 1, f"b{at}") for at in range(better)]
    found += [_pair("a", 1, 0, f"w{at}") for at in range(worse)]
    found += [_pair("a", 1, 1, f"s{at}") for at in range(11)]
    said = mcnemar(found)
    assert (said.better, said.worse, said.discordant) == (better, worse, better + worse)
    assert said.p == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(
    ("deltas", "p", "floor"),
    [
        ([1, 1, 1, 1, 1], 0.0625, 0.0625),
        ([1, 1, 1, 1, 0], 0.125, 0.125),
        ([0, 0], 1.0, 1.0),
        ([1], 1.0, 1.0),
        ([3, -1], 1.0, 0.5),  # signs (+,+): 4 >= 2; (+,-): 2 >= 2; all four
        ([0.1, 0.2, -0.3], 1.0, 0.25),  # the observed sum is zero up to rounding
    ],
)
def test_sign_flip(deltas: list[float], p: float, floor: float) -> None:
    said = sign_flip(deltas)
    assert said is not None
    assert (said.p, said.floor, said.conversations) == (p, floor, len(deltas))
    assert sign_flip([]) is None


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_sign_flip_is_symmetric_and_never_below_its_floor(deltas: list[int]) -> None:
    said, mirrored = sign_flip(deltas), sign_flip([-delta for delta in deltas])
    assert said is not None
    assert said == mirrored
    assert said.floor <= said.p <= 1 or not sum(deltas)


def test_holm() -> None:
    """Holm's own steps: 3*.01, 2*.02, 1*.04, none below the one before."""
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_quarantine_rate_is_a_mean_over_cells_that_adjudicated() -> None:
    assert quarantine_rate([(1, 10), (0, 0), (3, 10)]) == pytest.approx(0.2)
    assert quarantine_rate([(0, 0)]) is None
    with pytest.raises(ValueError, match="more"):
        quarantine_rate([(2, 1)])


def test_overhead_is_a_ratio_of_sums_without_the_judge() -> None:
    cells = [Tokens(extract=100, answer=100, judge=999, guard=10), Tokens(extract=0, answer=200, guard=30)]
    assert overhead(cells) == pytest.approx(0.1)
    assert overhead([Tokens(judge=5)]) is None
    assert base_change(cells, [Tokens(extract=300, answer=200)]) == pytest.approx(-0.2)
    assert base_change(cells, []) is None
