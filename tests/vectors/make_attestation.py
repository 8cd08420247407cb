"""Golden vectors of attestations. Run it to write the JSON beside it.

Everything is computed here from docs/spec/attestation.md alone: the standard library, PyNaCl for Ed25519, and no
line of memguard. The contents are chosen so that their canonical JSON can be written down by hand.

    python tests/vectors/make_attestation.py            # writes attestation.json
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import nacl.signing

HERE = Path(__file__).parent
SEED = bytes(range(32))


def frame(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def owner(part: str | None) -> bytes:
    return b"" if part is None else b"=" + part.encode()


#: name, content, its canonical JSON, source, store, place, tenant, user, milliseconds
CASES = [
    (
        "text",
        "Ships on Friday",
        '"Ships on Friday"',
        "tool:crm",
        "memories",
        ["users", "alice", "k"],
        None,
        None,
        0,
    ),
    (
        "value",
        {"text": "Grüße", "n": 10, "a": [1, True, None]},
        '{"a":[1,true,null],"n":10,"text":"Grüße"}',
        "web:https://shop.example",
        "memories",
        ["acme", "alice", "pref-1"],
        "acme",
        "alice",
        1_800_000_000_000,
    ),
    ("owner with an empty-looking name", "x", '"x"', "tool:crm", "m", ["n", "k"], "=", None, 1),
    ("message", "hello", '"hello"', "user:alice", "checkpoints", ["thread-1", "m-1"], None, "alice", 2**53),
]


def vectors() -> dict[str, object]:
    key = nacl.signing.SigningKey(SEED)
    public = bytes(key.verify_key)
    rows = []
    for name, content, canonical, source, store, place, tenant, user, at in CASES:
        digest = hashlib.sha256(canonical.encode()).digest()
        said = frame(
            b"memguard/attestation/1",
            public,
            source.encode(),
            store.encode(),
            frame(*(part.encode() for part in place)),
            owner(tenant),
            owner(user),
            struct.pack(">Q", at),
            digest,
        )
        rows.append(
            {
                "name": name,
                "content": content,
                "canonical": canonical,
                "source": source,
                "store": store,
                "place": place,
                "tenant": tenant,
                "user": user,
                "at_ms": at,
                "digest": digest.hex(),
                "message": said.hex(),
                "token": (b"\x01" + struct.pack(">Q", at) + key.sign(said).signature).hex(),
            }
        )
    return {
        "format": "memguard/attestation/1",
        "seed": SEED.hex(),
        "public_key": public.hex(),
        "vectors": rows,
    }


if __name__ == "__main__":
    text = json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"
    (HERE / "attestation.json").write_text(text, encoding="utf-8")
