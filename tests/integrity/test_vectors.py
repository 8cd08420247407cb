"""The golden vectors of rows and heads: the generator makes them, and the product agrees with every byte."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from memguard.errors import AnchorError, TamperedError, UnknownKeyError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.serde import Sealed
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.head import UNCOUNTED
from memguard.integrity.index import pack_key, unpack_key
from memguard.integrity.logview import HeadRecord, Intent, LogView, Note, signatures
from memguard.integrity.records import read_head, say_head
from memguard.integrity.tag import Sealer, parse
from memguard.integrity.verifier import Context
from memguard.slot import decode, encode
from memguard.testing.keys import MemoryKeyRing

VECTORS = Path(__file__).parents[1] / "vectors"
V: dict[str, Any] = json.loads((VECTORS / "rows_heads.json").read_text(encoding="utf-8"))


@pytest.fixture
def ring() -> MemoryKeyRing:
    return MemoryKeyRing(V["kid"], secret=bytes.fromhex(V["secret"]))


@pytest.fixture
def context(ring: MemoryKeyRing) -> Context:
    return Context(ring, V["store"], V["context"], V["kid"], None)


def test_the_file_is_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_rows_heads", VECTORS / "make_rows_heads.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "memguard" not in {name.partition(".")[0] for name in vars(module) if name != "memguard"}
    for name, make in module.FILES.items():
        text = json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
        assert (VECTORS / name).read_text(encoding="utf-8") == text


def test_frames() -> None:
    seen = set()
    for item in V["frames"]:
        parts = [bytes.fromhex(part) for part in item["parts"]]
        assert frame(*parts).hex() == item["frame"]
        assert unframe(bytes.fromhex(item["frame"])) == parts
        seen.add(item["frame"])
    assert len(seen) == len(V["frames"])


def test_canonical_json() -> None:
    for item in V["canonical"]:
        value = json.loads(item["json"])
        assert canonical_json(value).hex() == item["canonical"]


def test_packed_keys() -> None:
    for item in V["packed_keys"]:
        assert pack_key(item["text"]).hex() == item["packed"]
        assert unpack_key(bytes.fromhex(item["packed"])) == item["text"]


@pytest.mark.parametrize("name", sorted(V["seals"]))
def test_seals(name: str, ring: MemoryKeyRing) -> None:
    item = V["seals"][name]
    sealer = Sealer(ring.subkey("row"), V["kid"], item["kind"].encode(), V["store"], V["context"])
    key, bound = bytes.fromhex(item["key"]), tuple(map(bytes.fromhex, item["bound"]))
    fields = {name: bytes.fromhex(item[name]) for name in ("prev", "replaced", "content", "extra")}
    numbers = {name: item[name] for name in ("generation", "fence", "size")}
    made = sealer.seal(key, bound=bound, **numbers, **fields)
    assert made.tag.hex() == item["tag"]
    assert made.encode() == item["seal"]
    read = parse(item["seal"], "a record")
    assert read == made
    sealer.check(read, key, bound, "a record")
    for other in ("ck", "wr", "it", "xx"):
        if other != item["kind"]:
            with pytest.raises(TamperedError):
                Sealer(ring.subkey("row"), V["kid"], other.encode(), V["store"], V["context"]).check(
                    read, key, bound, ""
                )


def test_what_a_langgraph_row_binds() -> None:
    """The adapter's own fields: what stands in ``bound``, ``key``, ``extra`` and the digest of parts."""
    seals = V["seals"]
    metadata = {"source": "loop", "step": 1, "parents": {}, "user": "ü"}
    hexed = lambda parts: [part.hex() for part in parts]  # noqa: E731

    def text(label: Any) -> bytes:
        return rows.text_before_seal(metadata, label)

    assert hexed(rows.text_fields(None, "msgpack", text(None))) == seals["checkpoint"]["bound"]
    again = seals["checkpoint again"]
    parent = bytes.fromhex(seals["checkpoint"]["key"]).decode()
    assert hexed(rows.text_fields(parent, "msgpack+aes", text({"trust": "user"}))) == again["bound"]
    assert hexed(rows.bound_fields(None, "", metadata, None)) == seals["checkpoint in parts"]["bound"]
    column = rows.metadata_text({**metadata, "memguard": {"seal": seals["checkpoint"]["seal"]}})
    claim = rows.text_claim(parent, None, "msgpack", column, "a record")
    assert hexed(claim.bound) == seals["checkpoint"]["bound"]
    assert claim.seal == seals["checkpoint"]["seal"]
    write = seals["pending write"]
    assert rows.write_key(bytes.fromhex(again["key"]).decode(), "task-1").hex() == write["key"]
    assert rows.write_extra(-4, "~a, b").hex() == write["extra"]
    checkpoint = {
        "v": 2,
        "id": bytes.fromhex(again["key"]).decode(),
        "channel_versions": {"messages": "1", "total": "2"},
        "channel_values": {"messages": Sealed("msgpack", b"\x90"), "total": 7},
    }
    channels = rows.channels_of(checkpoint, "a record")
    assert channels.content(["messages"]).hex() == seals["checkpoint in parts"]["content"]
    assert channels.place().hex() == V["cells"][2]["place"]
    assert rows.context_of("t-ü", "") == V["context"]


def test_cells_and_terms(context: Context) -> None:
    for item in V["cells"]:
        seal = parse(V["seals"][item["row"]]["seal"], "")
        member = rows.member_of("task-1", -4) if item["row"] == "pending write" else bytes(8)
        cell = context.cell(member, seal, bytes.fromhex(item["place"]))
        assert cell.hex() == item["cell"]
        assert pack_key(item["record"]).hex() == item["group"]
        assert f"{context.term(bytes.fromhex(item['group']), cell):064x}" == item["term"]


def test_the_log_is_read_as_it_says(ring: MemoryKeyRing) -> None:
    view = LogView(ring)
    records = [bytes.fromhex(record) for record in V["log"]["records"]]
    heads, totals = [], []
    for record in records:
        for read in view.feed([record]):
            heads.append(read)
            known = view.known((V["store"], V["context"]))
            assert known is not None
            totals.append(f"{known[1].total:064x}")
    assert totals == [item["total"] for item in V["log"]["heads"]]
    assert [h.head.total == UNCOUNTED for h in heads] == [not item["stated"] for item in V["log"]["heads"]]
    late = LogView(ring)
    late.feed(records[:-2])  # added up once, at the end
    assert late.known((V["store"], V["context"]))[1].total == int(V["log"]["heads"][1]["total"], 16)
    assert [h.head.chain.hex() for h in heads] == [item["chain"] for item in V["log"]["heads"]]
    assert heads[0].delta == (
        ((bytes.fromhex(V["cells"][0]["group"]), bytes.fromhex(V["cells"][0]["cell"])),),
        (),
    )
    assert {h.time for h in heads} == {V["time"]}
    assert heads[2].head.horizon == pack_key(V["cells"][0]["record"])
    assert view.intents == {}
    assert view.base == {"serial": 1, "reason": "created"}
    assert view.notes[0].details["reason"] == "restored"
    assert signatures(records, ring) == (7, 0, 0)
    assert signatures(records[:-1], ring) == (
        5,
        0,
        1,
    )  # the last one that is signed covers what stands before
    carried = view.feed([bytes.fromhex(record) for record in V["log"]["compacted"]], reset=True)
    assert [(h.carried, h.head) for h in carried] == [(True, heads[2].head)]


def test_the_log_is_written_as_it_says(ring: MemoryKeyRing) -> None:
    view = LogView(ring)
    cells = [(bytes.fromhex(item["group"]), bytes.fromhex(item["cell"])) for item in V["cells"]]
    reader = LogView(ring)
    read = reader.feed([bytes.fromhex(record) for record in V["log"]["records"]])
    made = [
        view.start(1, "created"),
        view.intent(Intent(V["store"], V["context"], "put", 1)),
        view.head(HeadRecord(V["store"], "put", V["time"], V["kid"], read[0].head, ((cells[0],), ()))),
        view.intent(Intent(V["store"], V["context"], "prune", 2, (cells[0], cells[1]))),
        view.head(
            HeadRecord(V["store"], "put", V["time"], V["kid"], read[1].head, ((cells[1],), ())), sign=True
        ),
        view.head(HeadRecord(V["store"], "recover", V["time"], V["kid"], read[2].head, None)),
        view.note(Note(V["store"], "accept", {"context": V["context"], "reason": "restored"})),
    ]
    assert [record.hex() for record in made] == V["log"]["records"]
    assert [record.hex() for record in reader.compacted(V["time"])] == V["log"]["compacted"]


def test_heads_alone(ring: MemoryKeyRing) -> None:
    mask_key = LogView(ring)._mask_key
    said = [unframe(bytes.fromhex(record))[:-2] for record in V["log"]["records"]]
    records = [parts for parts in said if parts[0] in (b"H", b"T")]
    for (kind, kid, *parts), item in zip(records, V["log"]["heads"], strict=True):
        read = read_head(kind, kid.decode(), parts, mask_key)
        head, key = read.head, mask_key(V["store"], V["kid"]) if item["stated"] else None
        assert head.total == (int(item["total"], 16) if item["stated"] else UNCOUNTED)
        assert say_head(kind, V["kid"], read, key) == frame(kind, kid, *parts)
        assert head.boot.hex() == V["boot"]
        assert head.commitment.hex() == item["chain"][:32]
        wrong = read_head(b"T", V["kid"], parts, lambda store, kid: bytes(32)) if item["stated"] else None
        assert wrong is None or wrong.head.total != head.total
        if not item["stated"]:
            with pytest.raises(ValueError, match="a sum is stated"):
                read_head(b"T", kid.decode(), parts, mask_key)


def test_every_bit_of_the_log_counts(ring: MemoryKeyRing) -> None:
    records = [bytes.fromhex(record) for record in V["log"]["records"]]
    for number, record in enumerate(records):
        for at in range(0, len(record), 7):
            flipped = record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]
            changed = [*records[:number], flipped, *records[number + 1 :]]
            try:
                LogView(ring).feed(changed)
            except (AnchorError, UnknownKeyError):
                continue
            assert signatures(changed, ring)[1]  # the signature is for readers without a secret


def test_the_note(ring: MemoryKeyRing) -> None:
    intents = [
        Intent(V["store"], context, operation, number) for context, operation, number in V["note"]["intents"]
    ]
    raw = bytes.fromhex(V["note"]["note"])
    assert encode([intent[:4] for intent in intents], ring.subkey("intent")) == raw
    assert decode(raw, ring.subkey("intent")) == intents
    assert decode(raw + b"rest of a longer one", ring.subkey("intent")) == intents
    for at in range(len(raw)):
        assert decode(raw[:at], ring.subkey("intent")) == []
        assert decode(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], ring.subkey("intent")) == []
