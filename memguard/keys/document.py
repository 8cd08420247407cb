"""The key file's JSON, and the passphrase around its secrets. No I/O.

Specified in ``docs/spec/keys.md``. Errors name the file and the field, never a value.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import nacl.exceptions
import nacl.pwhash.argon2id as argon2id
import nacl.secret
import nacl.utils

from memguard.errors import ConfigError
from memguard.keys.keyset import KEY_ID, SECRET_BYTES, STATES, Key, KeySet

SCHEMA = "memguard.keys/1"
#: Largest key document read (bytes), and most keys in one.
MAX_DOCUMENT = 1 << 20
MAX_KEYS = 4096
#: argon2id cost of new wrappings (RFC 9106, second choice), and the bounds accepted from a file.
OPS, MEMORY_KIB = 3, 64 * 1024
MAX_OPS, MAX_MEMORY_KIB = 16, 1024 * 1024
_DOMAIN = SCHEMA.encode() + b"\0"


@dataclass(frozen=True, slots=True)
class Wrap:
    """How the secrets of a document are wrapped: argon2id parameters, and the key they gave."""

    ops: int
    memory_kib: int
    salt: bytes
    box: nacl.secret.SecretBox

    @classmethod
    def of(cls, passphrase: str, ops: int = OPS, memory_kib: int = MEMORY_KIB, salt: bytes = b"") -> Wrap:
        """Derive the wrapping key (tens of milliseconds, by intent). A fresh salt unless given."""
        salt = salt or nacl.utils.random(argon2id.SALTBYTES)
        key = argon2id.kdf(32, passphrase.encode(), salt, opslimit=ops, memlimit=memory_kib * 1024)
        return cls(ops, memory_kib, salt, nacl.secret.SecretBox(key))

    def seal(self, kid: str, secret: bytes) -> str:
        """The wrapped secret; the id is inside, so wrapped secrets cannot trade places."""
        return b64(bytes(self.box.encrypt(_DOMAIN + kid.encode() + b"\0" + secret)))

    def open(self, kid: str, wrapped: bytes) -> bytes | None:
        """The secret, or None: the wrong passphrase, or not what :meth:`seal` made for ``kid``."""
        try:
            plain = self.box.decrypt(wrapped)
        except (nacl.exceptions.CryptoError, ValueError):
            return None
        head = _DOMAIN + kid.encode() + b"\0"
        return plain[len(head) :] if plain.startswith(head) else None


def encode(keys: KeySet, wrap: Wrap | None) -> str:
    """The document's text; secrets wrapped if ``wrap`` is given."""
    entries: dict[str, dict[str, str]] = {}
    for kid, key in keys.keys.items():
        entry = entries[kid] = {"created": key.created.isoformat(), "state": key.state}
        if key.destroyed is not None:
            entry["destroyed"] = key.destroyed.isoformat()
        if key.secret is not None:
            if wrap is None:
                entry["secret"] = b64(key.secret)
            else:
                entry["wrapped"] = wrap.seal(kid, key.secret)
    document: dict[str, object] = {"schema": SCHEMA, "current": keys.current}
    if wrap is not None:
        document["wrap"] = {
            "kdf": "argon2id",
            "ops": wrap.ops,
            "mem_kib": wrap.memory_kib,
            "salt": b64(wrap.salt),
        }
    return json.dumps(document | {"keys": entries}, indent=1) + "\n"


def decode(text: str | bytes, where: str, passphrase: Callable[[], str | None]) -> tuple[KeySet, Wrap | None]:
    """Read a document.

    Args:
        text: the JSON.
        where: file or variable, for errors.
        passphrase: asked only if secrets are wrapped.

    Raises:
        ConfigError: malformed (``MG109``), or the passphrase is missing or wrong (``MG111``).
    """
    if len(text) > MAX_DOCUMENT:
        raise _bad(where, "", f"is larger than {MAX_DOCUMENT} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad(where, "", "is not JSON") from None
    top = _object(document, where, "", {"schema", "current", "keys"}, {"wrap"})
    if top["schema"] != SCHEMA:
        raise _bad(where, "schema", f"is not {SCHEMA!r}")
    wrap = _unwrap(top["wrap"], where, passphrase) if "wrap" in top else None
    if not isinstance(top["keys"], dict) or not 0 < len(top["keys"]) <= MAX_KEYS:
        raise _bad(where, "keys", f"is not an object of 1 to {MAX_KEYS} keys")
    keys: dict[str, Key] = {}
    for number, (kid, value) in enumerate(top["keys"].items()):
        if not KEY_ID.fullmatch(kid):
            raise _bad(where, f"keys, entry {number + 1}", "has a malformed id")
        keys[kid] = _key(kid, value, where, wrap)
    current = top["current"]
    if not isinstance(current, str) or current not in keys or keys[current].state != "active":
        raise _bad(where, "current", "does not name an active key of this file")
    return KeySet(current, MappingProxyType(keys)), wrap


def _key(kid: str, value: object, where: str, wrap: Wrap | None) -> Key:
    at = f"keys.{kid}"
    optional = {"secret", "destroyed"} if wrap is None else {"wrapped", "destroyed"}
    entry = _object(value, where, at, {"created", "state"}, optional)
    if entry["state"] not in STATES:
        raise _bad(where, f"{at}.state", f"is not one of {', '.join(STATES)}")
    name = "secret" if wrap is None else "wrapped"
    if (name in entry) == (entry["state"] == "destroyed"):
        raise _bad(
            where, f"{at}.{name}", "is missing" if name not in entry else "stands beside state destroyed"
        )
    secret: bytes | None = None
    if name in entry:
        raw = _b64(entry[name], where, f"{at}.{name}")
        secret = raw if wrap is None else wrap.open(kid, raw)
        if secret is None:
            raise ConfigError(
                "The passphrase does not open the key file.",
                code="MG111",
                where=f"{where}: {at}",
                why="Either the passphrase is wrong or this entry was changed.",
                do="Check MEMGUARD_PASSPHRASE. Nothing was read or changed.",
            )
        check_secret(secret, where, f"{at}.{name}")
    destroyed = _date(entry["destroyed"], where, f"{at}.destroyed") if "destroyed" in entry else None
    return Key(_date(entry["created"], where, f"{at}.created"), entry["state"], secret, destroyed)


def _unwrap(value: object, where: str, passphrase: Callable[[], str | None]) -> Wrap:
    entry = _object(value, where, "wrap", {"kdf", "ops", "mem_kib", "salt"}, set())
    ops, memory = entry["ops"], entry["mem_kib"]
    if entry["kdf"] != "argon2id":
        raise _bad(where, "wrap.kdf", "is not 'argon2id'")
    if type(ops) is not int or not 1 <= ops <= MAX_OPS:
        raise _bad(where, "wrap.ops", f"is not a number from 1 to {MAX_OPS}")
    if type(memory) is not int or not 8 <= memory <= MAX_MEMORY_KIB:
        raise _bad(where, "wrap.mem_kib", f"is not a number from 8 to {MAX_MEMORY_KIB}")
    salt = _b64(entry["salt"], where, "wrap.salt")
    if len(salt) != argon2id.SALTBYTES:
        raise _bad(where, "wrap.salt", f"is not {argon2id.SALTBYTES} bytes of base64url")
    given = passphrase()
    if not given:
        raise ConfigError(
            "The key file is wrapped and no passphrase was given.",
            code="MG111",
            where=where,
            do="Set MEMGUARD_PASSPHRASE, or give passphrase= a callable.",
        )
    return Wrap.of(given, ops, memory, salt)


def check_secret(secret: bytes, where: str, field: str) -> None:
    """Refuse what no random generator gives: short, few distinct bytes, or readable text.

    A key that can be guessed from a configuration text is no key. Random 32 bytes fail one of
    these tests less than once in 10**12.

    Raises:
        ConfigError: ``MG109``.
    """
    if len(secret) < SECRET_BYTES:
        raise _bad(where, field, f"has fewer than {SECRET_BYTES} bytes")
    if len(set(secret)) < 12 or all(32 <= byte < 127 for byte in secret):
        raise _bad(
            where, field, "is text or a pattern, not random bytes", "Make one with `memguard keys new`."
        )


def parse_secret(text: str, where: str, field: str = "") -> bytes:
    """A secret from base64url text, checked as in :func:`check_secret`."""
    secret = _b64(text, where, field)
    check_secret(secret, where, field)
    return secret


def b64(data: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _b64(value: object, where: str, field: str) -> bytes:
    """Strict base64url: its alphabet only, one spelling per value."""
    if isinstance(value, str) and value.isascii():
        text = value.rstrip("=")
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            data = b""
        if data and b64(data) == text:
            return data
    raise _bad(where, field, "is not base64url")


def _date(value: object, where: str, field: str) -> date:
    if isinstance(value, str) and len(value) == 10:
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise _bad(where, field, "is not a date like 2026-12-01")


def _object(value: object, where: str, at: str, needed: set[str], optional: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _bad(where, at, "is not an object")
    for name in sorted(needed - set(value)):
        raise _bad(where, f"{at}.{name}".lstrip("."), "is missing")
    if set(value) - needed - optional:
        raise _bad(where, at, f"has a field other than {', '.join(sorted(needed | optional))}")
    return value


def _bad(where: str, field: str, why: str, do: str | None = None) -> ConfigError:
    subject = f"field {field}" if field else "document"
    return ConfigError(
        "The key document is malformed.",
        code="MG109",
        where=where,
        why=f"The {subject} {why}.",
        do=do or "Restore it from a backup; a key that is lost cannot be made again.",
    )
