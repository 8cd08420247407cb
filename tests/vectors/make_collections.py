"""Golden vectors of records of a collection. Run it to write collections.json beside it.

Everything is computed here from the specification alone (docs/spec/rows.md), by the standard library and
no line of memguard. A test compares the product with the file, and the file with this program.

    python tests/vectors/make_collections.py
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from base64 import b64encode
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KID, SECRET = "2026-12-a", bytes(range(32))
STORE = "sessions"


def subkey(purpose: str) -> bytes:
    """HKDF-SHA256, empty salt, one block."""
    extracted = hmac.digest(bytes(32), SECRET, "sha256")
    return hmac.digest(extracted, b"memguard/1/" + purpose.encode() + b"\x01", "sha256")


def frame(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def record(context: str, key: str, value: Any, own: dict[str, Any], *, generation: int, fence: int, size: int,
           position: int, prev: bytes, replaced: bytes, place: bytes) -> dict[str, Any]:  # fmt: skip
    """A record whose content is canonical JSON of its value."""
    content = hashlib.sha256(canonical(value)).digest()
    extra = struct.pack(">I", position)
    fields = struct.pack(">QII", generation, fence, size) + prev + replaced + content
    told = frame(b"memguard/row/1", b"cr", STORE.encode(), KID.encode(), context.encode())
    signed = told + fields + frame(key.encode(), extra, canonical(own))
    tag = hmac.digest(subkey("row"), signed, "sha256")[:16]
    cell = tag
    if place:
        cell = hmac.digest(subkey("row"), b"memguard/place/1" + tag + place, "sha256")[:16]
    packed = b64encode(fields + tag + extra).decode().rstrip("=")
    return {
        "context": context,
        "key": key,
        "value": value,
        "own": own,
        "generation": generation,
        "fence": fence,
        "size": size,
        "position": position,
        "prev": prev.hex(),
        "replaced": replaced.hex(),
        "place": place.hex(),
        "seal": f"mg1.{KID}.{packed}",
        "cell": (bytes(8) + cell).hex(),
    }


def collections() -> dict[str, Any]:
    """A new record, one that replaced it with a label and a place, and a message with a key that was given to it."""
    first = {"generation": 1, "fence": 0, "size": 1, "position": 0, "prev": bytes(16), "replaced": bytes(16)}
    new = record("grün", "tea", {"text": "ü"}, {"at": 1764579600}, **first, place=b"")
    label = {"at": 1764579601, "label": {"source": "user:alice", "trust": "user"}}
    again = {
        **first,
        "generation": 300,
        "fence": 2,
        "prev": bytes(range(16)),
        "replaced": bytes.fromhex(new["cell"])[8:],
        "place": frame(b"2026-12-01", b"vector"),
    }
    key = "000000000007-000003"
    given = {**first, "generation": 7, "size": 9, "position": 3, "prev": bytes(range(16)), "place": b""}
    return {
        "kid": KID,
        "secret": SECRET.hex(),
        "store": STORE,
        "records": {
            "new": new,
            "again": record("grün", "tea", ["black", 1.5, None], label, **again),
            "given": record("s-1", key, {"role": "user", "content": "hi"}, {"at": 0, "key": key}, **given),
        },
    }


FILES = {"collections.json": collections}


def main() -> None:
    for name, make in FILES.items():
        (HERE / name).write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
