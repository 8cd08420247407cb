"""The seal of a store item: the golden vectors, one spelling, and nothing else that reads as one."""

from __future__ import annotations

import importlib.util
import json
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.errors import TamperedError
from memguard.integrations.langgraph.store_forms import TextForm
from memguard.integrations.langgraph.store_rows import ITEM, Stored, claim_of, namespace_of, order_of
from memguard.integrations.langgraph.store_seals import position, read, spell
from memguard.integrity.index import MAIN
from memguard.integrity.tag import NOTHING, Seal
from memguard.integrity.verifier import Context
from memguard.testing.keys import MemoryKeyRing

VECTORS = Path(__file__).parents[2] / "vectors"
V: dict[str, Any] = json.loads((VECTORS / "store_items.json").read_text(encoding="utf-8"))
RING = MemoryKeyRing(V["kid"], secret=bytes.fromhex(V["secret"]))
_16 = st.binary(min_size=16, max_size=16)
SEALS = st.builds(
    Seal,
    st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True),
    st.integers(0, 2**64 - 1) | st.integers(0, 300),
    st.integers(0, 2**32 - 1) | st.integers(0, 3),
    st.integers(0, 2**32 - 1) | st.integers(0, 300),
    _16,
    _16 | st.just(NOTHING),
    st.binary(min_size=32, max_size=32),
    _16,
    st.integers(0, 2**32 - 1).map(position),
)


def test_the_file_is_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_store_items", VECTORS / "make_store_items.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not any(name.startswith("memguard") for name in vars(module))
    for name, make in module.FILES.items():
        text = json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
        assert (VECTORS / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", sorted(V["items"]))
def test_golden_vectors(name: str) -> None:
    """The product makes these bytes and reads them back."""
    item, form = V["items"][name], TextForm()
    namespace = namespace_of(item["context"])
    context = Context(RING, V["store"], item["context"], V["kid"], None)
    columns = ("NULL", "10.0")["ttl" in item["value"]]
    stamp = "'2026-12-01 09:00:00'"
    stored = Stored("tea", item["value"].encode(), stamp, stamp, columns, None)
    claim, opened = claim_of(namespace, stored, form, 0.0)
    row = context.check(claim)
    assert row.cell.hex() == item["cell"]
    assert claim.place.hex() == item["place"]
    assert order_of(claim) == item["generation"].to_bytes(8, "big") + position(item["position"])
    made = context.sealer(ITEM).seal(
        b"tea",
        **{key: item[key] for key in ("generation", "fence", "size")},
        **{key: bytes.fromhex(item[key]) for key in ("prev", "replaced", "content")},
        bound=(opened.own,),
        extra=position(item["position"]),
    )
    assert made == row.seal
    assert spell(made) == item["seal"]
    assert context.cell(MAIN, made, claim.place).hex() == item["cell"]
    assert form.joined(opened.body, opened.own, spell(made)) == stored.value


@given(SEALS)
def test_a_seal_reads_back(seal: Seal) -> None:
    assert read(spell(seal), seal.digest, "r") == seal


@given(SEALS, st.randoms(use_true_random=False))
def test_a_seal_has_one_spelling(seal: Seal, rng: random.Random) -> None:
    text = spell(seal)
    at = rng.randrange(len(text))
    others = [text + "=", text + "A", text + "AAAA", text[:-1], text + "\n", text[:at] + "\n" + text[at:]]
    others += [text[:at] + other + text[at + 1 :] for other in "Ab9+/=.-_"]
    for other in others:
        if other == text or not other.startswith("mg1."):
            continue
        try:
            again = read(other, seal.digest, "r")
        except TamperedError:
            continue
        assert again != seal
        assert spell(again) == other


def _packed(raw: bytes) -> str:
    return "mg1.k." + b64encode(raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "raw",
    [
        bytes([1, 0, 1, 0]) + bytes(16) + bytes(16) + bytes(16),  # "replaced" written as zeros
        bytes([0x81, 0, 0, 1, 0]) + bytes(32),  # a needless last byte
        bytes([1, 0x80, 0, 1, 0]) + bytes(32),
        bytes([0xFF] * 9 + [2, 0, 1, 0]) + bytes(32),  # beyond 64 bits
        bytes([1] + [0xFF] * 4 + [16, 1, 0]) + bytes(32),  # beyond 32 bits
        bytes([1, 0, 1, 0]) + bytes(31),
        bytes([1, 0, 1, 0]) + bytes(33),
        bytes([1, 0, 1, 0]) + bytes([1] * 64),
        bytes([0x80] * 60),
        bytes([0x80]),
        b"",
        bytes([0x80] * 5000) + bytes(40),
    ],
)
def test_what_spell_does_not_write_is_refused(raw: bytes) -> None:
    with pytest.raises(TamperedError) as error:
        read(_packed(raw), bytes(32), "item 'k'")
    assert error.value.case == "untagged"
    assert error.value.record == "item 'k'"


def test_the_long_spelling_of_other_rows_is_not_one_of_an_item() -> None:
    item = V["items"]["new"]
    fields = (bytes.fromhex(item[key]) for key in ("prev", "replaced", "content", "tag"))
    seal = Seal(
        V["kid"], item["generation"], item["fence"], item["size"], *fields, position(item["position"])
    )
    with pytest.raises(TamperedError):
        read(seal.encode(), seal.digest, "r")


@given(st.text(max_size=40))
def test_junk_is_refused(junk: str) -> None:
    with pytest.raises(TamperedError):
        read("mg1.k." + junk, bytes(32), "r")
