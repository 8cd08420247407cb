"""The hashing embedder: the same numbers everywhere, unit length, and near where texts share words."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard import registry
from memguard.embedders.hashing import Hashing, cosine
from memguard.errors import ConfigError
from memguard.ports import Embedder


def test_it_is_the_port_and_found_by_name() -> None:
    made = registry.load("embedder", "hashing").open()
    assert isinstance(made, Embedder)
    assert (made.name, made.dim) == ("hashing", 512)
    assert registry.names("embedder") == ("hashing", "minilm")


def test_vectors_are_the_same_in_every_process_whatever_its_hash_seed() -> None:
    program = (
        "from memguard.embedders.hashing import Hashing; print(Hashing(16).embed(['Heron in the reeds'])[0])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{Hashing(16).embed(['Heron in the reeds'])[0]}\n"}


@given(st.lists(st.text(), max_size=5))
def test_every_text_gives_a_unit_or_a_zero_vector_and_order_does_not_matter(texts: list[str]) -> None:
    embedder = Hashing(64)
    found = embedder.embed(texts)
    assert [len(v) for v in found] == [64] * len(texts)
    for text, vector in zip(texts, found, strict=True):
        assert math.isclose(sum(x * x for x in vector), 1.0) or not any(vector)
        assert embedder.embed([text]) == [vector]


def test_what_counts_is_shared_words_not_common_ones_case_or_width() -> None:
    same, near, far, plain, wide = Hashing().embed(
        [
            "Anna moved to a flat in Lisbon",
            "She said Anna moved flats, in Lisbon",
            "Is it that you were to be in a",
            "LISBON",
            "Ｌｉｓｂｏｎ",
        ]
    )
    assert cosine(same, near) > 0.5
    assert abs(cosine(same, far)) < 0.1
    assert cosine(plain, wide) == pytest.approx(1.0)
    assert Hashing().embed(["", "?!", "\ud800"])[:2] == [[0.0] * 512] * 2


def test_a_long_text_is_read_from_its_start_only() -> None:
    assert Hashing(max_chars=9).embed(["one word and 10 MB more"]) == Hashing().embed(["one word "])


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="16 to 65536") as caught:
        Hashing(8)
    assert caught.value.code == "MG104"
    with pytest.raises(ValueError, match="longer"):
        cosine([1.0], [1.0, 2.0])
    assert cosine([0.0], [1.0]) == 0.0
