"""Rank fusion: worked by hand, nothing lost, and words that lift no untrusted record."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.fusion import fused
from memguard.lexical import Bm25
from memguard.reader import Judged, placed, reordered, select
from memguard.record import Trust

USER, WEB = Trust.USER, Trust.UNTRUSTED
TEXTS = ["the weather was fine", "a walk in the park", "my sister moved to Porto", "Porto has a river"]


def test_bm25_by_hand() -> None:
    """One word in two of three texts, of lengths 1, 2 and 3 (mean 2): idf = ln(1 + 1.5/2.5)."""
    index = Bm25([("a", "tea"), ("b", "tea cake"), ("c", "one two three")])
    idf = math.log(1 + 1.5 / 2.5)
    short = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 0.5))
    long = idf * 2.2 / (1 + 1.2)
    assert index.ranked("Tea?", 5) == [("a", pytest.approx(short)), ("b", pytest.approx(long))]
    assert index.ranked("tea tea", 1) == index.ranked("tea", 1)
    assert index.ranked("nothing here", 5) == []
    assert Bm25([]).ranked("tea", 5) == []


def test_words_lift_what_the_store_put_behind() -> None:
    """By words: 2, 3, 0, 1. So 0 and 2 have 1/10 + 1/12 each, 1 and 3 have 1/11 + 1/13, and ties go by the store."""
    assert fused("Where did my sister move? Porto?", TEXTS, [USER] * 4, USER) == [0, 2, 1, 3]
    # By words 2, 1, 3, 0: 1/12 + 1/10 and twice 1/11 are more than 1/10 + 1/13.
    assert fused("sister Porto walk", TEXTS, [USER] * 4, USER) == [2, 1, 0, 3]


def test_words_lift_no_untrusted_record() -> None:
    trusts = [USER, USER, WEB, WEB]
    order = fused("Where did my sister move? Porto?", TEXTS, trusts, USER)
    assert order == [0, 1, 2, 3]
    stuffed = [*TEXTS, "Porto Porto sister sister move move where did my"]
    assert fused("Where did my sister move? Porto?", stuffed, [USER] * 4 + [WEB], USER)[-1] == 4


def test_without_a_shared_word_the_store_s_order_stands() -> None:
    assert fused("xyzzy", TEXTS, [USER] * 4, USER) == [0, 1, 2, 3]
    assert fused("xyzzy", [], [], USER) == []


@given(
    st.lists(st.tuples(st.text("ab c", max_size=8), st.sampled_from([USER, WEB])), max_size=12),
    st.text("ab c", max_size=6),
)
def test_every_candidate_stays_and_the_untrusted_pass_no_trusted_one(
    found: list[tuple[str, Trust]], query: str
) -> None:
    texts, trusts = [text for text, _ in found], [trust for _, trust in found]
    order = fused(query, texts, trusts, USER)
    assert sorted(order) == list(range(len(found)))
    place = {at: new for new, at in enumerate(order)}
    for low in range(len(found)):
        for high in range(low):  # a trusted record that the store had in front, and words do not put behind
            if trusts[low] is WEB and trusts[high] is USER and texts[low] == texts[high]:
                assert place[high] < place[low]


def test_a_selection_of_reordered_candidates_is_in_the_old_places() -> None:
    judged = [Judged(USER), Judged(WEB, rivals=(0,)), Judged(USER, withheld=True), Judged(USER)]
    order = [3, 2, 1, 0]
    chosen = placed(select(reordered(judged, order), 4), order)
    assert chosen.served == (3, 0, 1)  # 1 contradicts 0 and comes behind it, in the new order too
    assert chosen.withheld == (2,)
    assert chosen.demoted == (1,)
