"""The golden vectors of a collection's records: the generator makes them, and the product agrees with every byte."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from memguard.collection.rows import KIND, Stored, claim_of, opened, order_of, position
from memguard.errors import TamperedError
from memguard.integrity.canonical import canonical_json
from memguard.integrity.index import MAIN
from memguard.integrity.verifier import Context
from memguard.testing.keys import MemoryKeyRing

VECTORS = Path(__file__).parents[1] / "vectors"
V: dict[str, Any] = json.loads((VECTORS / "collections.json").read_text(encoding="utf-8"))
RING = MemoryKeyRing(V["kid"], secret=bytes.fromhex(V["secret"]))


def test_the_file_is_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_collections", VECTORS / "make_collections.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not any(name.startswith("memguard") for name in vars(module))
    for name, make in module.FILES.items():
        text = json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
        assert (VECTORS / name).read_text(encoding="utf-8") == text


def _stored(record: dict[str, Any], **changes: Any) -> Stored:
    seal, own = opened({"seal": record["seal"], **record["own"]})
    place = bytes.fromhex(record["place"])
    return Stored(record["key"], canonical_json(record["value"]), seal, own, place)._replace(**changes)


@pytest.mark.parametrize("name", sorted(V["records"]))
def test_golden_vectors(name: str) -> None:
    """The product makes these bytes and reads them back."""
    record = V["records"][name]
    context = Context(RING, V["store"], record["context"], V["kid"], None)
    claim = claim_of(V["store"], record["context"], _stored(record))
    row = context.check(claim)
    assert row.cell.hex() == record["cell"]
    assert order_of(claim) == record["generation"].to_bytes(8, "big") + position(record["position"])
    made = context.sealer(KIND).seal(
        record["key"].encode(),
        **{key: record[key] for key in ("generation", "fence", "size")},
        **{key: bytes.fromhex(record[key]) for key in ("prev", "replaced")},
        content=row.seal.digest,
        bound=(canonical_json(record["own"]),),
        extra=position(record["position"]),
    )
    assert made.encode() == record["seal"]
    assert context.cell(MAIN, made, claim.place).hex() == record["cell"]


@pytest.mark.parametrize("name", sorted(V["records"]))
@pytest.mark.parametrize(
    "changes", [{"key": "other"}, {"content": b"other"}, {"own": b"{}"}, {"seal": None}, {"seal": 7}]
)
def test_nothing_of_a_record_changes_unseen(name: str, changes: dict[str, Any]) -> None:
    record = V["records"][name]
    context = Context(RING, V["store"], record["context"], V["kid"], None)
    with pytest.raises(TamperedError):
        context.check(claim_of(V["store"], record["context"], _stored(record, **changes)))
    other = Context(RING, V["store"], "elsewhere", V["kid"], None)
    with pytest.raises(TamperedError):
        other.check(claim_of(V["store"], "elsewhere", _stored(record)))
