"""Key rings by URI: ``file:PATH``, ``env:NAME``, ``memory:NAME``, and what plug-ins register.

The port is :class:`memguard.ports.KeyRing`. A key is random and stands in a place of its
own; it is never derived from a configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import cast

from memguard.errors import ConfigError
from memguard.keys.ring import verify_signature
from memguard.ports import KeyRing

__all__ = ["SCHEMES", "open_keys", "register", "verify_signature"]

#: URI scheme to ``"module:Class"``. The class has ``create(rest)`` and ``open(rest)``.
SCHEMES: dict[str, str] = {
    "env": "memguard.keys.env:EnvKeyRing",
    "file": "memguard.keys.file:FileKeyRing",
    "memory": "memguard.testing.keys:MemoryKeyRing",
}


def register(scheme: str, target: str) -> None:
    """Add a key backend.

    Args:
        scheme: what stands before the colon of its URIs: lower-case letters, digits, ``+-.``.
        target: ``"module:Class"``, imported on first use; the class needs the class methods
            ``create(rest, *, passphrase)`` and ``open(rest, *, passphrase)``, each returning a ring.

    Raises:
        ConfigError: the scheme is malformed or taken by another target.
    """
    if not re.fullmatch("[a-z][a-z0-9+.-]*", scheme):
        raise ConfigError(f"{scheme!r} is not a URI scheme.", do="Use lower-case letters and digits.")
    if ":" not in target:
        raise ConfigError(f"{target!r} does not name a class.", do='Write it as "module:Class".')
    if SCHEMES.get(scheme, target) != target:
        raise ConfigError(f"The key scheme {scheme!r} is registered already, for {SCHEMES[scheme]}.")
    SCHEMES[scheme] = target


def open_keys(
    uri: str, *, create: bool = False, passphrase: Callable[[], str | None] | None = None
) -> KeyRing:
    """The key ring that ``uri`` names.

    Args:
        uri: ``scheme:rest``.
        create: make a new random key where there is none; what exists is opened, never overwritten.
        passphrase: asked if the keys are wrapped, or to wrap new ones; default: the variable
            ``MEMGUARD_PASSPHRASE``.

    Raises:
        ConfigError: no such scheme, or the keys are missing, malformed, readable by others or
            closed to this passphrase. The text of ``uri`` is not printed: it may be a secret.
    """
    scheme, colon, rest = uri.partition(":")
    target = SCHEMES.get(scheme)
    if not colon or target is None:
        raise ConfigError(
            "The key URI names no key backend.",
            where="keys",
            why="A key itself is never given in a configuration or argument.",
            do=f"Write one of {', '.join(f'{name}:…' for name in sorted(SCHEMES))}.",
        )
    module, _, name = target.partition(":")
    try:
        backend = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"The key backend {target} cannot be imported: {exc}.", where="keys") from exc
    opener = backend.create if create else backend.open
    return cast(KeyRing, opener(rest, passphrase=passphrase))
