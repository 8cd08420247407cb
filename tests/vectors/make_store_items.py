"""Golden vectors of store items. Run it to write store_items.json beside it.

Everything is computed here from the specification alone (docs/spec/rows.md), by the standard library and
no line of memguard. A test compares the product with the file, and the file with this program.

    python tests/vectors/make_store_items.py
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
STORE = "memories"


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


def varint(number: int) -> bytes:
    low, rest = number % 128, number // 128
    return bytes([low + 128]) + varint(rest) if rest else bytes([low])


def store_item(body: str, own: dict[str, Any], *, generation: int, fence: int, size: int, position: int, prev: bytes,
               replaced: bytes, place: bytes) -> dict[str, Any]:  # fmt: skip
    """An item under the key "tea" of namespace ("users", "ü"), as SqliteStore keeps it."""
    context, bound = '["it","users","ü"]', json.dumps(own, separators=(",", ":"), ensure_ascii=False)
    content, extra = sha(body[:-1].encode()), struct.pack(">I", position)
    fields = struct.pack(">QII", generation, fence, size) + prev + replaced + content
    told = frame(b"memguard/row/1", b"it", STORE.encode(), KID.encode(), context.encode())
    tag = mac(subkey("row"), told + fields + frame(b"tea", extra, bound.encode()))[:16]
    packed = b"".join(map(varint, (generation, fence, size, position))) + prev
    packed += (b"" if replaced == bytes(16) else replaced) + tag
    seal = f"mg1.{KID}.{b64encode(packed).decode().rstrip('=')}"
    between, rest = "" if body == "{}" else ",", "" if not own else "," + bound[1:-1]
    cell = mac(subkey("row"), b"memguard/place/1" + tag + place)[:16]
    return {
        "context": context,
        "generation": generation,
        "fence": fence,
        "size": size,
        "position": position,
        "prev": prev.hex(),
        "replaced": replaced.hex(),
        "content": content.hex(),
        "tag": tag.hex(),
        "seal": seal,
        "value": body[:-1] + between + '"memguard":{"seal":"' + seal + '"' + rest + "}}",
        "place": place.hex(),
        "cell": (bytes(8) + cell).hex(),
    }


def store_items() -> dict[str, Any]:
    """A new item, the item that replaced it with a label and a lifetime, and an empty one of a large operation."""
    stamps = [b"'2026-12-01 09:00:00'", b"'2026-12-01 09:00:00'", b"NULL", b"", b""]
    kept = [*stamps[:2], b"10.0", b"", b""]
    first = {"generation": 1, "fence": 0, "size": 1, "position": 0, "prev": bytes(16), "replaced": bytes(16)}
    new = store_item('{"text":"grün"}', {}, **first, place=frame(*stamps))
    again = {
        **first,
        "generation": 300,
        "fence": 2,
        "prev": bytes(range(16)),
        "replaced": bytes.fromhex(new["cell"])[8:],
    }
    own = {"label": {"trust": "user"}, "exp": 1764590400, "ttl": 10.0}
    large = {**first, "generation": 2**63, "fence": 2**32 - 1, "size": 70_000, "position": 69_999}
    return {
        "kid": KID,
        "secret": SECRET.hex(),
        "store": STORE,
        "items": {
            "new": new,
            "again": store_item('{"text":"black"}', own, **again, place=frame(*kept)),
            "empty": store_item("{}", {}, **large, place=frame(*stamps)),
        },
    }


FILES = {"store_items.json": store_items}


def main() -> None:
    for name, make in FILES.items():
        (HERE / name).write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
