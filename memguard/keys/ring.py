"""What every key ring does with its keys: subkeys, signatures, verification."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NoReturn

import nacl.bindings
import nacl.exceptions
import nacl.signing
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.bindings import crypto_sign, crypto_sign_BYTES, crypto_sign_seed_keypair, crypto_sign_SEEDBYTES

from memguard.errors import ConfigError
from memguard.keys.keyset import KeySet, unknown_key

_PURPOSE = re.compile(r"[a-z0-9][a-z0-9._/-]{0,63}")
_INFO = b"memguard/1/"


def derive(secret: bytes, purpose: str) -> bytes:
    """The 32-byte subkey of a root secret: HKDF-SHA256, no salt, info ``memguard/1/<purpose>``.

    Raises:
        ConfigError: the purpose is malformed.
    """
    if not _PURPOSE.fullmatch(purpose):
        raise ConfigError(
            "A key purpose is malformed.", where="keys", do="Use a-z, 0-9 and . _ / - (at most 64)."
        )
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_INFO + purpose.encode()).derive(secret)


@lru_cache(maxsize=1024)
def _checked(public_key: bytes) -> nacl.signing.VerifyKey | None:
    """The key, if it is a canonical point of the prime-order group and no small-order one."""
    try:
        if len(public_key) == 32 and nacl.bindings.crypto_core_ed25519_is_valid_point(public_key):
            return nacl.signing.VerifyKey(public_key)
    except nacl.exceptions.UnavailableError:
        # A minimal libsodium; its own verification still refuses small orders and bad encodings.
        return nacl.signing.VerifyKey(public_key)
    return None


def verify_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` is an Ed25519 signature over ``message`` by ``public_key``, strictly.

    False for a public key that is not canonical, of small order or outside the prime-order
    group, for a non-canonical S, and for any wrong length: each message has one verdict,
    whoever checks it.
    """
    key = _checked(public_key)
    if key is None or len(signature) != 64:
        return False
    try:
        key.verify(message, signature)
    except nacl.exceptions.BadSignatureError:
        return False
    return True


class RootKeyRing:
    """A ring over a :class:`KeySet`; the base of the file, environment and memory rings.

    Immutable for its users: subkeys are cached for the life of the object, and dropped when
    the set changes. It cannot be pickled, and copies are the object itself.
    """

    def __init__(self, uri: str, keys: KeySet) -> None:
        self.uri = uri
        self._adopt(keys)

    @property
    def states(self) -> dict[str, str]:
        """State of each key ever held: active, retired or destroyed."""
        return {kid: key.state for kid, key in self._set.keys.items()}

    def subkey(self, purpose: str, kid: str | None = None) -> bytes:
        """32 bytes for one purpose, of the root key ``kid`` (default: current). Cached.

        Raises:
            UnknownKeyError: the ring does not hold ``kid``, or it was destroyed.
        """
        cache = self._subkeys
        found = cache.get((kid, purpose))
        if found is None:
            name = self.current if kid is None else kid
            found = cache[name, purpose] = cache[kid, purpose] = derive(self._secret(name), purpose)
        return found

    def sign(self, message: bytes, kid: str | None = None) -> bytes:
        """Ed25519 signature (64 bytes) under the signing key of ``kid`` (default: current).

        Raises:
            UnknownKeyError: as :meth:`subkey`. ConfigError: the key is retired.
        """
        name = self.current if kid is None else kid
        signer = self._signer(name)
        if self._set.keys[name].state != "active":
            raise ConfigError(
                f"Key {name!r} is {self._set.keys[name].state}; it verifies and signs no more.",
                code="MG112",
                where="keys",
                do=f"Sign with the current key, {self.current!r}.",
            )
        # The binding itself: SigningKey.sign wraps the same call in objects that nobody here looks at.
        return crypto_sign(message, signer)[:crypto_sign_BYTES]

    def verify(self, message: bytes, signature: bytes, kid: str) -> bool:
        """Whether the signature is ``kid``'s over ``message``.

        Raises:
            UnknownKeyError: as :meth:`subkey`.
        """
        return verify_signature(self._signer(kid)[crypto_sign_SEEDBYTES:], message, signature)

    def public_key(self, kid: str | None = None) -> bytes:
        """Raw Ed25519 public key (32 bytes) of ``kid`` (default: current)."""
        return self._signer(self.current if kid is None else kid)[crypto_sign_SEEDBYTES:]

    def _signer(self, kid: str) -> bytes:
        """The signing key in libsodium's form: 32 bytes of seed, 32 of public key."""
        signer = self._signers.get(kid)
        if signer is None:
            _, signer = crypto_sign_seed_keypair(self.subkey("sign", kid))
            self._signers[kid] = signer
        return signer

    def _secret(self, kid: str) -> bytes:
        key = self._set.keys.get(kid)
        if (key is None or key.secret is None) and self._refresh():
            key = self._set.keys.get(kid)
        if key is None or key.secret is None:
            raise unknown_key(kid, self._set)
        return key.secret

    def _refresh(self) -> bool:
        """Look for keys that were added elsewhere; whether anything changed."""
        return False

    def _adopt(self, keys: KeySet) -> None:
        """Take a set of keys, and drop everything derived from the old one."""
        self._set = keys
        #: Id of the key that new records are written under.
        self.current = keys.current
        #: Ids this ring can verify with, oldest first.
        self.ids = keys.usable
        self._subkeys: dict[tuple[str | None, str], bytes] = {}
        self._signers: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} current={self.current} ids={','.join(self.ids)}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds secrets and cannot be pickled; open it by its URI instead."
        )

    def __copy__(self) -> RootKeyRing:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RootKeyRing:
        return self
