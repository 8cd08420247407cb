"""Golden vectors of seals, cells, heads and log records. Run it to write rows_heads.json beside it.

Everything is computed here from the specifications alone (docs/spec/rows.md and docs/spec/heads.md):
the standard library, PyNaCl for Ed25519, and no line of memguard. A test compares the product with the
file, and the file with this program.

    python tests/vectors/make_rows_heads.py
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from base64 import b64encode
from pathlib import Path
from typing import Any

import nacl.signing

HERE = Path(__file__).parent
KID, SECRET = "2026-12-a", bytes(range(32))
STORE, CONTEXT = "checkpoints", '["ck","t-ü",""]'
FIRST, SECOND = "1ef4f797-8335-6428-8001-8a1503f9b875", "1ef4f797-9000-6000-8002-8a1503f9b875"
BOOT, TIME = bytes(range(16)), 1764590000.25


def subkey(purpose: str) -> bytes:
    """HKDF-SHA256, empty salt, one block."""
    extracted = hmac.digest(bytes(32), SECRET, "sha256")
    return hmac.digest(extracted, b"memguard/1/" + purpose.encode() + b"\x01", "sha256")


def mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def frame(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def metadata_text(metadata: dict[str, Any], own: dict[str, Any]) -> bytes:
    """A metadata column of the SQLite savers up to the text of the seal's member."""
    text = json.dumps({**metadata, "memguard": {**own, "seal": ""}}, ensure_ascii=False)
    return text[: text.rindex('"seal"')].encode()


def frames() -> list[dict[str, Any]]:
    parts = [[], [b""], [b"a", b"b"], [b"ab", b""], [b"", b"ab"], [bytes(300), b"\x00\x00\x00\x01a"]]
    return [{"parts": [part.hex() for part in p], "frame": frame(*p).hex()} for p in parts]


def canonical_forms() -> list[dict[str, str]]:
    texts = [
        "null",
        '{"b": 1, "a": [true, false, null, -0.0, 1e300, 12345678901234567890]}',
        '{"10": 1, "9": 2, "é": "\\u2028\\ud83d\\ude00", "\\u0000": ""}',
        '{"lone": "x\\ud800y"}',
        '{"deep": {"z": {}, "a": []}, "text": "a\\"b\\\\c\\n"}',
    ]
    return [{"json": text, "canonical": canonical(json.loads(text)).hex()} for text in texts]


def seal(kind: bytes, key: bytes, *, generation: int, fence: int, size: int, prev: bytes, replaced: bytes,
         content: bytes, extra: bytes, bound: list[bytes]) -> dict[str, Any]:  # fmt: skip
    fields = struct.pack(">QII", generation, fence, size) + prev + replaced + content
    place = frame(b"memguard/row/1", kind, STORE.encode(), KID.encode(), CONTEXT.encode())
    message = place + fields + frame(key, extra, *bound)
    tag = mac(subkey("row"), message)[:16]
    packed = fields + tag + extra
    text = f"mg1.{KID}.{b64encode(packed).decode().rstrip('=')}"
    return {
        "kind": kind.decode(),
        "key": key.hex(),
        "generation": generation,
        "fence": fence,
        "size": size,
        "prev": prev.hex(),
        "replaced": replaced.hex(),
        "content": content.hex(),
        "extra": extra.hex(),
        "bound": [part.hex() for part in bound],
        "message": message.hex(),
        "tag": tag.hex(),
        "seal": text,
    }


def seals() -> dict[str, dict[str, Any]]:
    """A checkpoint of SqliteSaver, the same put again, one in parts, and a pending write."""
    metadata = {"source": "loop", "step": 1, "parents": {}, "user": "ü"}
    whole = {
        "generation": 1,
        "fence": 1,
        "size": 1,
        "prev": bytes(16),
        "replaced": bytes(16),
        "content": sha(b"\x81\xa2id\xa1x"),
        "extra": b"",
        "bound": [b"", b"msgpack", metadata_text(metadata, {})],
    }
    first = seal(b"ck", FIRST.encode(), **whole)
    again = {**whole, "generation": 2, "prev": bytes(range(16)), "replaced": bytes.fromhex(first["tag"])}
    again["bound"] = [
        b"=" + FIRST.encode(),
        b"msgpack+aes",
        metadata_text(metadata, {"label": {"trust": "user"}}),
    ]
    channels = [(b"messages", b"msgpack", sha(b"\x90")), (b"total", b"=", sha(canonical(7)))]
    shown = canonical({"v": 2, "id": SECOND, "channel_versions": {"messages": "1", "total": "2"}})
    parts = {
        **whole,
        "content": sha(frame(shown, *channels[0])),
        "extra": frame(b"messages"),
        "bound": [b"", b"", canonical(metadata), b"null"],
    }
    write = {
        "generation": 3,
        "fence": 2,
        "size": 2,
        "prev": bytes(range(16, 32)),
        "replaced": bytes(16),
        "content": sha(b"\x01"),
        "extra": frame(b"-4", b"~a, b"),
        "bound": [b"__resume__", b"msgpack"],
    }
    return {
        "checkpoint": first,
        "checkpoint again": seal(b"ck", SECOND.encode(), **again),
        "checkpoint in parts": seal(b"ck", SECOND.encode(), **parts),
        "pending write": seal(b"wr", frame(SECOND.encode(), b"task-1"), **write),
    }


def pack_key(text: str) -> bytes:
    if text in (FIRST, SECOND):
        return b"\x01" + bytes.fromhex(text.replace("-", ""))
    return b"\xfe" + text.encode()


def member(task: str, index: int) -> bytes:
    return sha(frame(task.encode(), str(index).encode()))[:8]


def cells(made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    shown = frame(b"messages", b"msgpack", sha(b"\x90"), b"total", b"=", sha(canonical(7)))
    placed = mac(
        subkey("row"), b"memguard/place/1" + bytes.fromhex(made["checkpoint in parts"]["tag"]) + sha(shown)
    )
    listed = [
        ("checkpoint", FIRST, bytes(8), bytes.fromhex(made["checkpoint"]["tag"]), b""),
        ("checkpoint again", SECOND, bytes(8), bytes.fromhex(made["checkpoint again"]["tag"]), b""),
        ("checkpoint in parts", SECOND, bytes(8), placed[:16], sha(shown)),
        ("pending write", SECOND, member("task-1", -4), bytes.fromhex(made["pending write"]["tag"]), b""),
    ]
    found = []
    for name, key, who, state, place in listed:
        group, cell = pack_key(key), who + state
        prefix = frame(b"memguard/cell/1", CONTEXT.encode())
        term = mac(subkey("accumulator"), prefix + cell + group)
        found.append(
            {
                "row": name,
                "record": key,
                "group": group.hex(),
                "place": place.hex(),
                "cell": cell.hex(),
                "term": term.hex(),
            }
        )
    return found


def packed_keys() -> list[dict[str, str]]:
    texts = [FIRST, SECOND, "note", "", FIRST.upper(), "é"]
    return [{"text": text, "packed": pack_key(text).hex()} for text in texts]


def head_parts(
    done: str,
    generation: int,
    fence: int,
    count: int,
    latest: bytes,
    horizon: bytes,
    chain: bytes,
    added: int,
) -> list[bytes]:
    """The parts that all records of a head have."""
    fixed = struct.pack(">QIQ16s32sdH", generation, fence, count, BOOT, chain, TIME, added)
    return [STORE.encode(), CONTEXT.encode(), done.encode(), fixed, latest, horizon]


def masked(total: int, generation: int, fence: int) -> bytes:
    """A sum as a record states it."""
    key = mac(subkey("accumulator"), b"memguard/store/1" + STORE.encode())
    place = struct.pack(">QI16s", generation, fence, BOOT) + CONTEXT.encode()
    mask = int.from_bytes(mac(key, b"memguard/mask/1" + place), "big")
    return ((total + mask) % (1 << 256)).to_bytes(32, "big")


def log(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """A log: base, announced first write, its head, one that is signed, one that states its sum, a note; compacted."""
    signer = nacl.signing.SigningKey(subkey("sign"))
    one = int(listed[0]["term"], 16)
    two = (one + int(listed[1]["term"], 16)) % (1 << 256)
    three = (two - one) % (1 << 256)
    chains = [sha(b"chain 1"), sha(b"chain 2"), sha(b"chain 3")]
    group = [bytes.fromhex(item["group"] + item["cell"]) for item in listed]
    place = [STORE.encode(), CONTEXT.encode()]
    last = (3, 2, 1, pack_key(SECOND), pack_key(FIRST), chains[2], 0)
    # The second head took nothing away; the third is of an operation too large to be spelled out.
    bodies: list[tuple[bytes, list[bytes]]] = [
        (b"B", [canonical({"serial": 1, "reason": "created"})]),
        (b"I", [*place, b"put", struct.pack(">Q", 1), b""]),
        (b"H", [*head_parts("put", 1, 1, 1, pack_key(FIRST), b"", chains[0], 1), group[0]]),
        (b"I", [*place, b"prune", struct.pack(">Q", 2), frame(group[0], group[1])]),
        (b"H", [*head_parts("put", 2, 1, 2, pack_key(SECOND), b"", chains[1], 1), group[1]]),
        (b"T", [*head_parts("recover", *last), masked(three, 3, 2)]),
        (b"N", [STORE.encode(), b"accept", canonical({"context": CONTEXT, "reason": "restored"})]),
    ]
    compacted = [
        (b"B", [canonical({"serial": 2, "reason": "compaction"})]),
        (b"S", [*head_parts("carry", *last), masked(three, 3, 2), KID.encode()]),
        (b"N", bodies[6][1]),
        (b"A", []),
    ]

    def records(said: list[tuple[bytes, list[bytes]]], signed: set[int]) -> list[str]:
        digest, made = bytes(32), []
        for number, (kind, parts) in enumerate(said):
            begun = frame(kind, KID.encode(), *parts)
            digest = sha(digest + begun)
            link = mac(subkey("anchor"), b"memguard/link/1" + digest)
            signature = signer.sign(b"memguard/signed/1" + digest).signature if number in signed else b""
            made.append((begun + frame(link, signature)).hex())
        return made

    return {
        "heads": [
            {"total": f"{one:064x}", "stated": False, "chain": chains[0].hex()},
            {"total": f"{two:064x}", "stated": False, "chain": chains[1].hex()},
            {"total": f"{three:064x}", "stated": True, "chain": chains[2].hex()},
        ],
        "records": records(bodies, {0, 4, 6}),
        "compacted": records(compacted, {0, 2, 3}),
    }


def note() -> dict[str, Any]:
    """The note of an operation under way on two contexts."""
    said = [
        frame(STORE.encode(), c.encode(), b"put", struct.pack(">Q", g))
        for c, g in ((CONTEXT, 3), ('["ck","u",""]', 9))
    ]
    body = frame(*said)
    raw = b"MGI1" + struct.pack(">I", len(body)) + body + mac(subkey("intent"), body)[:16]
    return {"note": raw.hex(), "intents": [[CONTEXT, "put", 3], ['["ck","u",""]', "put", 9]]}


def vectors() -> dict[str, Any]:
    made = seals()
    listed = cells(made)
    return {
        "kid": KID,
        "secret": SECRET.hex(),
        "store": STORE,
        "context": CONTEXT,
        "boot": BOOT.hex(),
        "time": TIME,
        "frames": frames(),
        "canonical": canonical_forms(),
        "seals": made,
        "packed_keys": packed_keys(),
        "cells": listed,
        "log": log(listed),
        "note": note(),
    }


FILES = {"rows_heads.json": vectors}


def main() -> None:
    for name, make in FILES.items():
        (HERE / name).write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
