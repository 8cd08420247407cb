"""Golden vectors of keys, the anchor log and the ledger's chain. Run it to write the JSON beside it.

Everything is computed here from the specifications alone (docs/spec/keys.md and
docs/spec/anchor-log.md): the standard library, PyNaCl for Ed25519 and argon2id, and no line of
memguard. A test compares the product with these files, and the files with this program.

    python tests/vectors/make_keys_anchor.py            # writes keys.json, anchor-log.json, ledger.json
"""

from __future__ import annotations

import hmac
import json
import struct
from base64 import urlsafe_b64encode
from pathlib import Path
from zlib import crc32

import nacl.bindings
import nacl.pwhash.argon2id
import nacl.signing

HERE = Path(__file__).parent
SECRETS = {"2026-12-a": bytes(range(32)), "2027-01-a": bytes(range(255, 223, -1))}
PURPOSES = ("accumulator", "anchor", "chain", "row", "sign")


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def subkey(secret: bytes, purpose: str) -> bytes:
    """HKDF-SHA256, empty salt, one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, b"memguard/1/" + purpose.encode() + b"\x01", "sha256")


def keys() -> dict[str, object]:
    rings = []
    for kid, secret in SECRETS.items():
        signer = nacl.signing.SigningKey(subkey(secret, "sign"))
        messages = [b"", b"head", bytes(range(256))]
        rings.append(
            {
                "kid": kid,
                "secret": b64(secret),
                "subkeys": {purpose: subkey(secret, purpose).hex() for purpose in PURPOSES},
                "public_key": bytes(signer.verify_key).hex(),
                "signatures": [
                    {"message": message.hex(), "signature": signer.sign(message).signature.hex()}
                    for message in messages
                ],
                "env_kid": "env-" + subkey(secret, "key-id")[:4].hex(),
            }
        )
    passphrase, salt, nonce, kid = "correct horse", bytes(range(16)), bytes(range(24)), "2026-12-a"
    wrapping = nacl.pwhash.argon2id.kdf(32, passphrase.encode(), salt, opslimit=1, memlimit=8 * 1024 * 1024)
    plain = b"memguard.keys/1\0" + kid.encode() + b"\0" + SECRETS[kid]
    box = nonce + nacl.bindings.crypto_secretbox(plain, nonce, wrapping)
    document = {
        "schema": "memguard.keys/1",
        "current": "2027-01-a",
        "keys": {
            "2026-11-a": {"created": "2026-11-02", "state": "destroyed", "destroyed": "2026-12-01"},
            "2026-12-a": {"created": "2026-12-01", "state": "retired", "secret": b64(SECRETS["2026-12-a"])},
            "2027-01-a": {"created": "2027-01-04", "state": "active", "secret": b64(SECRETS["2027-01-a"])},
        },
    }
    wrapped = {
        "schema": "memguard.keys/1",
        "current": kid,
        "wrap": {"kdf": "argon2id", "ops": 1, "mem_kib": 8192, "salt": b64(salt)},
        "keys": {kid: {"created": "2026-12-01", "state": "active", "wrapped": b64(box)}},
    }
    return {
        "rings": rings,
        "document": document,
        "wrapped": {"passphrase": passphrase, "document": wrapped, "secret": b64(SECRETS[kid])},
    }


def header(epoch: int, base: int, log_id: bytes) -> bytes:
    body = struct.pack("<8sIIQQ16s12s", b"MGANCHOR", 1, 0, epoch, base, log_id, bytes(12))
    return body + struct.pack("<I", crc32(body))


def record(payload: bytes, head: bytes, offset: int, durable: int) -> bytes:
    body = struct.pack("<4sIQ", b"MGr1", len(payload), durable) + payload
    body += bytes(-(len(body) + 4) % 8)
    return body + struct.pack("<I", crc32(body, struct.unpack("<I", head[60:])[0] ^ offset))


def anchor_log() -> dict[str, object]:
    log_id = bytes(range(0xA0, 0xB0))
    logs = []
    for epoch, compacted, appended in (
        (1, [], []),
        (1, [], [b"first", b"", bytes(12), b"MGr1MGx1", bytes(range(256))]),
        (7, [b"kept one", b"kept two"], [b"after the compaction"]),
    ):
        size = sum(-(-(20 + len(payload)) // 8) * 8 for payload in compacted)
        data = head = header(epoch, 64 + size, log_id)
        for payload in compacted:
            data += record(payload, head, len(data), 0)
        assert len(data) == 64 + size
        durable = len(data)
        for payload in appended:
            data += record(payload, head, len(data), durable)
        logs.append(
            {
                "epoch": epoch,
                "log_id": log_id.hex(),
                "base": 64 + size,
                "records": [payload.hex() for payload in compacted + appended],
                "end": len(data),
                "file": data.hex(),
            }
        )
    return {"logs": logs}


def ledger() -> dict[str, object]:
    key = subkey(SECRETS["2026-12-a"], "chain")
    chain, entries = bytes(32), []
    for generation, (operation, records) in enumerate(
        (("put", ["r1"]), ("put_writes", ["r1/0", "r1/1"]), ("delete", [])), start=1
    ):
        context, kid, time = '["ck","t-ü",""]', "2026-12-a", 1764590000.25 + generation
        encoded = b"memguard.ledger/1\0"
        for text in (context, operation, kid):
            encoded += struct.pack(">I", len(text.encode())) + text.encode()
        encoded += struct.pack(">QQdQ", generation, 1, time, len(records))
        for name in records:
            encoded += struct.pack(">I", len(name)) + name.encode()
        chain = hmac.digest(key, chain + encoded, "sha256")
        entries.append(
            {
                "context": context,
                "generation": generation,
                "fence": 1,
                "operation": operation,
                "records": records,
                "kid": kid,
                "time": time,
                "encoded": encoded.hex(),
                "chain": chain.hex(),
            }
        )
    return {"key": key.hex(), "entries": entries}


FILES = {"keys.json": keys, "anchor-log.json": anchor_log, "ledger.json": ledger}


def text(name: str) -> str:
    """The content of one vector file."""
    return json.dumps(FILES[name](), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in FILES:
        (HERE / name).write_text(text(name), encoding="utf-8")
