"""The review key: what the quarantine is sealed to, and where its private half is.

The vault needs a public half to write and a private half to read. They are two things on purpose: a process
that writes memories holds the public half, which stands in the sealed configuration, and cannot read
back what it withheld. The private half is derived from a key ring of its own (``[quarantine] review_key``), so
that every key backend, file permissions and rotation work for it as for any other key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nacl.exceptions
from nacl.public import PrivateKey, PublicKey, SealedBox

from memguard.config import Config, user_file
from memguard.errors import ConfigError, TamperedError, UnknownKeyError
from memguard.keys import open_keys
from memguard.ports import KeyRing

#: What the private half is asked for where it is wrapped: never the variable that the agent's keys use.
PASSPHRASE_VARIABLE = "MEMGUARD_REVIEW_PASSPHRASE"  # noqa: S105 - the name of a variable
#: Folder and file of a review key that nobody named, beside the folder of the agent's key.
FOLDER, FILE = "review", "review.json"


def passphrase() -> str | None:
    """The passphrase of the review key, from its own variable."""
    return os.environ.get(PASSPHRASE_VARIABLE)


def private_of(ring: KeyRing, kid: str | None = None) -> PrivateKey:
    """The X25519 private key of a review ring: its subkey for ``review``."""
    return PrivateKey(ring.subkey("review", kid))


def public_of(ring: KeyRing) -> str:
    """The public half of a review ring's current key, 64 hex digits."""
    return bytes(private_of(ring).public_key).hex()


def default_uri(keys: str, home: Path) -> str:
    """Where the private half is made if nobody says: a folder in which nothing lies that the agent needs.

    Args:
        keys: URI of the agent's key ring; a ring in memory has a review key in memory.
        home: the guard's home: a key that lies in it is no place to be beside.
    """
    scheme, _, rest = keys.partition(":")
    if scheme == "memory":
        return f"memory:review-{os.urandom(6).hex()}"
    beside = Path(rest).expanduser().absolute().parent if scheme == "file" else user_file().parent
    if beside.is_relative_to(home):
        beside = user_file().parent
    return f"file:{beside / FOLDER / FILE}"


def prepared(config: Config, home: Path) -> Config:
    """A new home's configuration with its review key: made where there is none, and its public half noted.

    A configuration that names only a public half is left alone: the private one is made elsewhere.

    Raises:
        ConfigError: MG340, the review key is the agent's key; or the key cannot be made or read.
    """
    settings = config.quarantine
    if settings.review_key is None and settings.review_public is not None:
        return config
    uri = _absolute(settings.review_key or default_uri(config.keys or "", home))
    if uri == config.keys:
        raise ConfigError(
            "the review key is the agent's own key.",
            code="MG340",
            where="quarantine.review_key",
            why="Whoever writes memories could then read back what was withheld.",
            do="Name another one: memguard init --review-key file:/elsewhere/review.json",
        )
    public = settings.review_public or made(uri)
    noted = settings.model_copy(update={"review_key": uri, "review_public": public})
    return config.model_copy(update={"quarantine": noted})


def made(uri: str) -> str:
    """The public half of the review key at ``uri``, made if there is none; what exists is never overwritten."""
    return public_of(open_keys(uri, create=True, passphrase=passphrase))


def _absolute(uri: str) -> str:
    """A relative path is relative to where the home is made; the file says where that is."""
    scheme, _, rest = uri.partition(":")
    return f"file:{Path(rest).expanduser().absolute()}" if scheme == "file" else uri


class Sealing:
    """The writing half: seals, and cannot open.

    Args:
        public: 64 hex digits, or None where a home has no review key.
    """

    def __init__(self, public: str | None) -> None:
        self.public = public
        self._box = None if public is None else SealedBox(PublicKey(bytes.fromhex(public)))

    def seal(self, plain: bytes) -> bytes:
        """The bytes, readable by the review key only (X25519 with a key made for them, XSalsa20-Poly1305).

        Raises:
            ConfigError: MG341, this home has no review key.
        """
        if self._box is None:
            raise ConfigError(
                "a write was to be quarantined, and this home has no review key.",
                code="MG341",
                where="quarantine.review_public",
                why="What is withheld is kept sealed to that key or not at all. Nothing was stored.",
                do="memguard quarantine key --apply makes one.",
            )
        return self._box.encrypt(plain)


class Opening:
    """The reading half: opens what was sealed to any key of a review ring."""

    def __init__(self, ring: KeyRing) -> None:
        self.uri = ring.uri
        self._boxes: Mapping[str, SealedBox[PrivateKey]] = {
            bytes(key.public_key).hex(): SealedBox(key) for key in (private_of(ring, kid) for kid in ring.ids)
        }

    @property
    def publics(self) -> frozenset[str]:
        """Public halves of the keys it opens with."""
        return frozenset(self._boxes)

    @classmethod
    def at(cls, uri: str | None) -> Opening:
        """The reading half behind a URI.

        Raises:
            ConfigError: MG342, no URI is known or its key cannot be read here.
        """
        if uri is None:
            raise _absent("No review_key is named.")
        try:
            return cls(open_keys(uri, passphrase=passphrase))
        except ConfigError as error:
            raise _absent(f"{error.code}: {error.what} {error.why or ''}".strip()) from error

    def open(self, public: str, sealed: bytes, record: str) -> bytes:
        """What was sealed.

        Raises:
            UnknownKeyError: MG343, it was sealed to another review key.
            TamperedError: MG344, it does not open.
        """
        box = self._boxes.get(public)
        if box is None:
            raise UnknownKeyError(
                "a quarantined entry is sealed to another review key.",
                case="key",
                code="MG343",
                record=record,
                why=f"It needs the key with public half {public[:16]}...; the one given is another.",
                do="Name the ring that holds it: --review-key URI. A rotated ring keeps its old keys.",
            )
        try:
            plain: bytes = box.decrypt(sealed)
        except (nacl.exceptions.CryptoError, ValueError, TypeError):
            raise TamperedError(
                "a quarantined entry does not open.",
                case="state",
                code="MG344",
                record=record,
                why="Its bytes are not those that were sealed.",
                do="Restore state.db from its backup; the entry can still be dropped.",
            ) from None
        return plain


def _absent(why: str) -> ConfigError:
    return ConfigError(
        "the review key cannot be read here.",
        code="MG342",
        where="quarantine.review_key",
        why=why,
        do="Run this where its private half is, or name it: --review-key file:PATH.",
    )


def described(config: Any) -> str:
    """The review key's URI as it may be printed: the scheme, and the path of a file."""
    uri = config.quarantine.review_key
    if uri is None:
        return "elsewhere" if config.quarantine.review_public else "none"
    scheme, _, rest = uri.partition(":")
    return rest if scheme == "file" else f"{scheme}:"
