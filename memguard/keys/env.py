"""Keys from an environment variable, for containers and secret managers."""

from __future__ import annotations

import os
from types import MappingProxyType

from memguard.errors import ConfigError
from memguard.keys.document import decode, parse_secret
from memguard.keys.file import Passphrase, passphrase_from_environment
from memguard.keys.keyset import Key, KeySet, today
from memguard.keys.ring import RootKeyRing, derive


class EnvKeyRing(RootKeyRing):
    """Read-only ring from a variable that holds one base64url secret or a key document's JSON.

    A bare secret has no id of its own; it gets ``env-`` and eight digits that are derived
    from it, so that another secret is an unknown key and never looks like tampering.
    """

    @classmethod
    def open(cls, name: str, *, passphrase: Passphrase | None = None) -> EnvKeyRing:
        """Read the variable ``name``.

        Raises:
            ConfigError: unset (``MG108``), malformed or not random (``MG109``).
        """
        text = os.environ.get(name, "").strip()
        if not text:
            raise ConfigError(
                "The variable with the key is not set.",
                code="MG108",
                where=f"env:{name}",
                do="Set it to 32 random bytes in base64url, or to the content of a key file.",
            )
        where = f"env:{name}"
        if text.startswith("{"):
            keys, _ = decode(text, where, passphrase or passphrase_from_environment)
            return cls(where, keys)
        secret = parse_secret(text, where)
        kid = "env-" + derive(secret, "key-id")[:4].hex()
        return cls(where, KeySet(kid, MappingProxyType({kid: Key(today(), secret=secret)})))

    @classmethod
    def create(cls, name: str, *, passphrase: Passphrase | None = None) -> EnvKeyRing:
        """The same as :meth:`open`: a variable that is set is used, one that is not cannot be made."""
        return cls.open(name, passphrase=passphrase)
