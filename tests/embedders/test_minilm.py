"""MiniLM: the pinned model, the tokenizer piece by piece, and a missing library that is said plainly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memguard import registry
from memguard.embedders.hashing import cosine
from memguard.errors import TamperedError
from memguard.integrations.minilm.embedder import MiniLM, _tokenizer
from memguard.integrations.minilm.wordpiece import words
from memguard.ports import Embedder

TOKENS = _tokenizer()


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM.open()


# Numbers from the `tokenizers` library reading the tokenizer.json of all-MiniLM-L6-v2.
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [101, 102]),
        ("Café au lait, naïve!", [101, 7668, 8740, 21110, 2102, 1010, 15743, 999, 102]),
        ("日本語 text", [101, 1864, 1876, 1950, 3793, 102]),
        ("x\x00y\tz\u200b", [101, 1060, 2100, 1062, 102]),
        ("a" * 101 + " b", [101, 100, 1038, 102]),
    ],
)
def test_pieces_are_those_of_the_model(text: str, pieces: list[int]) -> None:
    assert TOKENS.encode(text) == pieces


def test_a_long_text_is_cut_to_what_the_model_reads() -> None:
    found = TOKENS.encode("heron " * 10_000)
    assert (len(found), found[0], found[-1]) == (256, 101, 102)


def test_words_stand_alone_where_bert_has_them_alone() -> None:
    assert list(words("Don't  stop—now 東京")) == ["don", "'", "t", "stop", "—", "now", "東", "京"]


def test_vectors_are_those_of_the_model_alone_or_in_a_batch(model: MiniLM) -> None:
    assert isinstance(model, Embedder)
    berlin, munich, paraphrase = model.embed(
        ["He lives in Berlin", "He lives in Munich", "His home is in Germany's capital"]
    )
    assert [len(v) for v in (berlin, munich, paraphrase)] == [384] * 3
    # Why contradictions are not found by distance: the false one is nearer than the true one.
    assert cosine(berlin, munich) == pytest.approx(0.7965, abs=2e-3)
    assert cosine(berlin, paraphrase) == pytest.approx(0.6484, abs=2e-3)
    assert cosine(model.embed(["He lives in Berlin"])[0], berlin) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "x" * 1_000_000])
def test_any_string_is_taken(model: MiniLM, text: str) -> None:
    (vector,) = model.embed([text])
    assert sum(x * x for x in vector) == pytest.approx(1.0, abs=1e-4)


def test_another_model_is_refused_before_it_runs(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"not the model")
    with pytest.raises(TamperedError, match="not the one that this version was tested with") as caught:
        MiniLM(other)
    assert caught.value.code == "MG330"


def test_without_its_libraries_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from memguard import registry\nfrom memguard.errors import UnsupportedError\n"
        "try: registry.load('embedder', 'minilm').open()\n"
        "except UnsupportedError as e: print(e.code, e)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("MG133 ")
    assert "pip install 'memguard-middleware[minilm]'" in run.stdout


def test_naming_it_loads_nothing() -> None:
    program = (
        "import sys\nfrom memguard import registry\nregistry.load('embedder', 'minilm')\n"
        "print([m for m in ('numpy', 'onnxruntime', 'socket') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in ("[]", "['socket']")
    assert "minilm" in registry.embedders.names()
