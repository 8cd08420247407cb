"""The golden vectors: the generator makes them, and the product agrees with them."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memguard.anchors.file import LOCK, LOG, FileAnchor
from memguard.anchors.framing import HEADER_SIZE, Header, frame
from memguard.keys import open_keys, verify_signature
from memguard.ledger import encode, link, verify_chain
from memguard.ports import LedgerEntry
from memguard.testing import MemoryKeyRing

VECTORS = Path(__file__).parents[1] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_keys_anchor", VECTORS / "make_keys_anchor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["keys.json", "anchor-log.json", "ledger.json"])
def test_the_files_are_what_the_generator_writes(name: str) -> None:
    made = generator()
    assert set(made.FILES) == {"keys.json", "anchor-log.json", "ledger.json"}
    assert (VECTORS / name).read_text(encoding="utf-8") == made.text(name)
    assert "memguard" not in [line.split()[1] for line in made.__loader__.get_source("make_keys_anchor").splitlines()  # type: ignore[union-attr]
                              if line.startswith(("import ", "from "))]  # fmt: skip


def test_logs_are_read_and_written_to_the_byte(tmp_path: Path) -> None:
    for number, log in enumerate(load("anchor-log.json")["logs"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        data, records = bytes.fromhex(log["file"]), [bytes.fromhex(r) for r in log["records"]]
        (folder / LOG).write_bytes(data)
        anchor = FileAnchor.open(folder)
        found, cursor, reset = anchor.read(None)
        assert (found, cursor.epoch, cursor.offset, reset) == (records, log["epoch"], log["end"], False)
        assert (folder / LOCK).exists()
        header = Header(log["epoch"], bytes.fromhex(log["log_id"]), log["base"])
        assert data[:HEADER_SIZE] == header.encode()
        place, again = HEADER_SIZE, b""
        for record in records:
            durable = 0 if place < log["base"] else log["base"]
            again += frame([record], seed=header.seed, offset=place, durable=durable)
            place = HEADER_SIZE + len(again)
        assert data == header.encode() + again
        assert anchor.acquire()
        anchor.append([b"next"], sync=True)
        assert (folder / LOG).read_bytes()[: log["end"]] == data
        anchor.release()


def test_keys_derive_and_sign_as_specified() -> None:
    for wanted in load("keys.json")["rings"]:
        os.environ["VECTOR_KEY"] = wanted["secret"]
        try:
            bare = open_keys("env:VECTOR_KEY")
        finally:
            del os.environ["VECTOR_KEY"]
        assert bare.current == wanted["env_kid"]
        for purpose, value in wanted["subkeys"].items():
            assert bare.subkey(purpose).hex() == value
        assert bare.public_key().hex() == wanted["public_key"]
        assert len(wanted["signatures"]) == 3
        for case in wanted["signatures"]:
            message, signature = bytes.fromhex(case["message"]), bytes.fromhex(case["signature"])
            assert bare.sign(message) == signature
            assert bare.verify(message, signature, bare.current)
            assert verify_signature(bytes.fromhex(wanted["public_key"]), message, signature)
            assert not bare.verify(message + b"x", signature, bare.current)


def test_key_documents_are_read(tmp_path: Path) -> None:
    vectors = load("keys.json")
    path = tmp_path / "key.json"
    secrets = {ring["kid"]: ring["subkeys"]["row"] for ring in vectors["rings"]}
    for document, passphrase in (
        (vectors["document"], None),
        (vectors["wrapped"]["document"], vectors["wrapped"]["passphrase"]),
    ):
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        ring = open_keys(f"file:{path}", passphrase=lambda given=passphrase: given)
        assert ring.current == document["current"]
        assert ring.ids == tuple(kid for kid, key in document["keys"].items() if key["state"] != "destroyed")
        for kid in ring.ids:
            assert ring.subkey("row", kid).hex() == secrets[kid]


def test_the_ledger_links_as_specified() -> None:
    vectors = load("ledger.json")
    key, entries, chain = bytes.fromhex(vectors["key"]), [], bytes(32)
    for wanted in vectors["entries"]:
        fields = {
            name: value for name, value in wanted.items() if name not in ("encoded", "records", "chain")
        }
        entry = LedgerEntry(**fields, records=tuple(wanted["records"]), chain=bytes.fromhex(wanted["chain"]))
        assert encode(entry).hex() == wanted["encoded"]
        assert link(key, chain, entry) == entry.chain
        chain = entry.chain
        entries.append(entry)
    assert verify_chain(key, entries) is None
    first = load("keys.json")["rings"][0]
    assert key.hex() == first["subkeys"]["chain"]
    assert MemoryKeyRing(first["kid"], secret=bytes(range(32))).subkey("chain") == key
