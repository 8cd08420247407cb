"""The tables' bytes, computed anew from docs/spec/quarantine.md by other code, and held by fixed vectors."""

from __future__ import annotations

import hashlib
import hmac
import json
import unicodedata
from typing import Any

from nacl.public import PrivateKey, SealedBox
from quarantine_place import SECRET, Place, keep

from memguard.keys.file import FileKeyRing
from memguard.keys.ring import derive
from memguard.quarantine.entry import Kept
from memguard.record import Lineage, Parent, Source, Trust


def _frame(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _mac(key: bytes, *parts: Any) -> str:
    return hmac.new(key, _frame(*(str(part).encode() for part in parts)), hashlib.sha256).hexdigest()


def test_rows_are_what_the_page_says(place: Place) -> None:
    mg = place.guard()
    keep(mg)
    mg.quarantine.drop("q-0001", by="alice", reason="poison")
    ring = FileKeyRing.open(place.root / "agent" / "key.json")
    key, index = ring.subkey("quarantine"), ring.subkey("quarantine-index")
    columns = (
        'seq, store, context, code, rule, guard, source, trust, score, time, place, "like", content, body, public, '
        "digest, size"
    )
    (entry,) = place.sql(f"SELECT {columns} FROM quarantine")
    ((tag, sealed),) = place.sql("SELECT tag, sealed FROM quarantine")
    assert tag == _mac(key, "memguard/quarantine/1", "entry", *entry)
    acts = place.sql(
        'SELECT seq, entry, verb, time, "by", note, bound, prev, tag FROM quarantine_log ORDER BY seq'
    )
    assert [(act[2], act[4], act[5], act[6], act[7]) for act in acts] == [
        ("keep", "", "", tag, ""),
        ("drop", "alice", "poison", "", acts[0][8]),
    ]
    assert [act[8] for act in acts] == [_mac(key, "memguard/quarantine/1", "act", *act[:8]) for act in acts]
    known = mg._log.head(("@quarantine", "quarantine"))
    assert known is not None
    assert (known[1].generation, known[1].cells, known[1].chain.hex()) == (2, 2, acts[1][8])

    plain = SealedBox(PrivateKey(FileKeyRing.open(place.review).subkey("review"))).decrypt(sealed)
    assert hashlib.sha256(sealed).hexdigest() == entry[15]
    assert entry[16] == len(sealed) == len(plain) + 48
    body = json.loads(plain)
    assert (body["value"], body["key"], body["exact"]) == ({"text": SECRET}, "k", True)
    context = body["context"].encode()

    def digest(kind: str, data: bytes) -> str:
        made = hmac.new(index, _frame(b"memguard/index/1", kind.encode(), data), hashlib.sha256).digest()
        return made[:16].hex()

    folded = " ".join(unicodedata.normalize("NFKC", f"text\n{SECRET}").casefold().split())
    assert entry[2] == "c-" + digest("context", _frame(b"memories", context))[:8]
    assert entry[10] == digest("place", _frame(b"memories", context, b"k"))
    assert entry[11] == digest("like", folded.encode())
    assert json.loads(entry[12]) == [digest("content", t.encode()) for t in (f"text\n{SECRET}", SECRET)]
    assert entry[13] == digest("body", plain)


def test_the_review_key_and_the_sealed_bytes_by_fixed_vectors() -> None:
    private = PrivateKey(derive(bytes(range(32)), "review"))
    assert bytes(private.public_key).hex() == PUBLIC
    kept = Kept(
        {"text": "tea\ud800"},
        True,
        '["it","a"]',
        "k",
        Source("web", "x"),
        Trust.UNTRUSTED,
        Lineage((Parent("p", Trust.TOOL),)),
        1.5,
        ["text"],
        {"code": "MG203"},
    )
    assert kept.encode() == PLAIN
    assert Kept.decode(PLAIN, "q") == kept


PUBLIC = "b681c34dc478fdd92201f349d495052ff9c7b30aea411d8e6e19870c6fc08d43"
PLAIN = (
    b'{"value": {"text": "tea\\ud800"}, "exact": true, "context": "[\\"it\\",\\"a\\"]", "key": "k", '
    b'"source": "web:x", "trust": "untrusted", "parents": [["p", "tool"]], "ttl": 1.5, "index": ["text"], '
    b'"decision": {"code": "MG203"}}'
)
