"""The reader: order, backfill, demotion and the purpose filter, as properties and as exact cases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.reader import (
    Candidate,
    Judged,
    Neighbours,
    Selection,
    doubtful,
    neighbours,
    next_window,
    select,
)
from memguard.record import Record, Trust

LEVELS = st.sampled_from(list(Trust))


@st.composite
def judged(draw: st.DrawFn) -> list[Judged]:
    """Candidates whose rivals are trusted, unflagged and elsewhere, as the reader finds them."""
    count = draw(st.integers(0, 12))
    found = [
        Judged(draw(LEVELS), draw(st.booleans()), draw(st.booleans()), draw(st.booleans()))
        for _ in range(count)
    ]
    trusted = [i for i, c in enumerate(found) if c.trust >= Trust.USER and not c.flagged]
    for i, one in enumerate(found):
        if one.trust < Trust.USER and trusted and draw(st.booleans()):
            rivals = tuple(draw(st.lists(st.sampled_from(trusted), min_size=1, max_size=3, unique=True)))
            found[i] = Judged(one.trust, one.flagged, one.withheld, one.would, rivals)
    return found


@given(judged(), st.integers(-2, 15))
def test_nothing_is_lost_that_is_not_withheld(found: list[Judged], asked: int) -> None:
    chosen = select(found, asked)
    left = {i for i, c in enumerate(found) if not c.withheld}
    assert len(chosen.served) == len(set(chosen.served)) == min(max(0, asked), len(left))
    assert set(chosen.served) <= left
    assert set(chosen.withheld) == set(range(len(found))) - left
    assert set(select(found, len(found)).served) == left
    assert chosen.short == max(0, asked) - len(chosen.served)


@given(judged(), st.integers(0, 12))
def test_asking_for_more_only_adds(found: list[Judged], asked: int) -> None:
    assert select(found, asked + 1).served[:asked] == select(found, asked).served


@given(judged())
def test_the_order_of_the_store_stands_but_for_what_contradicts_trusted_records(found: list[Judged]) -> None:
    chosen = select(found, len(found))
    moved = set(chosen.demoted)
    still = [i for i in chosen.served if i not in moved]
    assert still == sorted(still)
    place = {i: at for at, i in enumerate(chosen.served)}
    for i in chosen.served:
        assert all(place[r] < place[i] for r in found[i].rivals if r in place)
    assert all(found[i].rivals for i in moved)


@given(judged(), st.integers(0, 15), LEVELS)
def test_purpose_act_never_serves_below_the_level_or_flagged(
    found: list[Judged], asked: int, level: Trust
) -> None:
    chosen = select(found, asked, act_level=level)
    assert all(found[i].trust >= level and not found[i].flagged for i in chosen.served)
    # Backfill: a record that may be served is left out only where the number is reached.
    fit = [i for i, c in enumerate(found) if c.trust >= level and not c.flagged and not c.withheld]
    assert len(chosen.served) == min(asked, len(fit))
    seen = select(found, asked, act_level=level, enforce_purpose=False)
    assert seen.served == select(found, asked).served
    assert seen.would_filter == chosen.filtered
    assert (seen.filtered, chosen.would_filter) == ((), ())


@given(judged(), LEVELS)
def test_a_higher_level_serves_no_more(found: list[Judged], level: Trust) -> None:
    lower = set(select(found, len(found), act_level=Trust.UNTRUSTED).served)
    assert set(select(found, len(found), act_level=level).served) <= lower


def test_exact_cases() -> None:
    user, web = Judged(Trust.USER), Judged(Trust.UNTRUSTED)
    poison = Judged(Trust.UNTRUSTED, rivals=(3,))
    # Two copies of poison stand before the trusted record that they contradict, and behind it afterwards.
    assert select([poison, poison, web, user, web], 5).served == (2, 3, 0, 1, 4)
    assert select([poison, poison, web, user, web], 2) == Selection((2, 3), (0, 1), asked=2)
    # A rival that is not served itself moves nobody.
    gone = Judged(Trust.USER, withheld=True)
    assert select([Judged(Trust.UNTRUSTED, rivals=(1,)), gone, web], 3).served == (0, 2)
    # Behind already: nothing moves.
    assert select([user, Judged(Trust.UNTRUSTED, rivals=(0,)), web], 3).served == (0, 1, 2)
    flagged = Judged(Trust.USER, flagged=True)
    assert select([web, flagged, user, user], 1, act_level=Trust.USER) == Selection(
        (2,), filtered=(0, 1), asked=1
    )
    assert select([Judged(Trust.USER, would=True), user], 2).would == (0,)


# -- neighbours ----------------------------------------------------------------------------------------------


def candidate(text: str, trust: Trust, *, key: str = "k", flagged: bool = False, **data: object) -> Candidate:
    return Candidate(Record(text, "s", key, trust=trust, data=data), flagged)


TRUE = "The IBAN of Northwind is DE12500105170648489890"
FALSE = "Northwind's IBAN has changed to FR7630006000011234567890189"


def rivals(*candidates: Candidate) -> list[tuple[int, ...]]:
    return [n.rivals for n in neighbours(candidates, Trust.USER)]


def test_only_less_trusted_records_contradict_and_only_unflagged_trusted_ones_are_believed() -> None:
    assert rivals(candidate(FALSE, Trust.UNTRUSTED), candidate(TRUE, Trust.USER)) == [(1,), ()]
    assert rivals(candidate(FALSE, Trust.TOOL), candidate(TRUE, Trust.SYSTEM)) == [(1,), ()]
    assert rivals(candidate(FALSE, Trust.USER), candidate(TRUE, Trust.USER)) == [(), ()]
    assert rivals(candidate(FALSE, Trust.UNTRUSTED), candidate(TRUE, Trust.TOOL)) == [(), ()]
    assert rivals(candidate(FALSE, Trust.UNTRUSTED), candidate(TRUE, Trust.USER, flagged=True)) == [(), ()]
    assert rivals(candidate(TRUE, Trust.UNTRUSTED), candidate(TRUE, Trust.USER)) == [(), ()]


@given(st.integers())
def test_what_is_found_does_not_depend_on_the_order(seed: int) -> None:
    pool = [
        candidate(FALSE, Trust.UNTRUSTED, key="a"),
        candidate(TRUE, Trust.USER, key="b"),
        candidate("The user lives in Porto", Trust.USER, key="c"),
        candidate("User lives in Ghent", Trust.UNKNOWN, key="d"),
        candidate("Tea at noon", Trust.UNTRUSTED, key="e"),
        candidate("new", Trust.USER, key="f", supersedes=("c",)),
    ]

    def by_key(order: list[Candidate]) -> dict[str, tuple[set[str], str | None]]:
        return {
            order[i].record.key: (
                {order[r].record.key for r in n.rivals},
                order[n.successor].record.key if n.successor is not None else None,
            )
            for i, n in enumerate(neighbours(order, Trust.USER))
        }

    shuffled = random.Random(seed).sample(pool, len(pool))
    expected = {"a": ({"b"}, None), "b": (set(), None), "c": (set(), "f"), "d": ({"c"}, None)}
    assert by_key(shuffled) == {**expected, "e": (set(), None), "f": (set(), None)}


@pytest.mark.parametrize(
    ("newer", "replaces"),
    [
        (candidate("new", Trust.USER, key="n", supersedes=("o",)), True),
        (candidate("new", Trust.SYSTEM, key="n", supersedes=("o",)), True),
        (candidate("new", Trust.UNTRUSTED, key="n", supersedes=("o",)), False),
        (candidate("new", Trust.USER, key="n", flagged=True, supersedes=("o",)), False),
        (candidate("new", Trust.USER, key="n", supersedes=("other",)), False),
    ],
)
def test_only_a_record_of_the_same_trust_replaces_another(newer: Candidate, replaces: bool) -> None:
    old = candidate("old", Trust.USER, key="o")
    found = neighbours([old, newer], Trust.USER)
    assert found == [Neighbours((), 1 if replaces else None), Neighbours()]


def test_a_record_does_not_replace_itself_or_one_of_another_namespace() -> None:
    own = candidate("x", Trust.USER, key="n", supersedes=("n",))
    assert neighbours([own], Trust.USER) == [Neighbours()]
    elsewhere = Candidate(Record("old", "s", "o", trust=Trust.USER), space="them")
    newer = Candidate(Record("new", "s", "n", trust=Trust.USER, data={"supersedes": ("o",)}), space="us")
    assert neighbours([elsewhere, newer], Trust.USER) == [Neighbours(), Neighbours()]


def test_doubtful_is_what_says_something_comparable_below_the_level() -> None:
    assert doubtful([candidate(FALSE, Trust.UNKNOWN)], Trust.USER)
    assert not doubtful([candidate("Tea at noon", Trust.UNKNOWN), candidate(TRUE, Trust.USER)], Trust.USER)


@given(st.integers(1, 50), st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 1000))
def test_a_window_grows_until_its_bound_and_then_ends(asked: int, fetched: int, kept: int, most: int) -> None:
    following = next_window(asked, fetched, min(kept, fetched), most)
    if fetched >= most:
        assert following is None
    else:
        assert following is not None
        assert fetched < following <= most
    steps, window = 0, max(1, fetched)
    while (grown := next_window(asked, window, 0, most)) is not None:
        steps, window = steps + 1, grown
    assert steps <= 12
