"""Anchors by URI: ``file:DIR``, ``sqlite:PATH``, ``postgresql://…``, ``memory:NAME``, and what plug-ins register.

An anchor keeps the newest heads of guarded stores in a place that the stores' adversary
does not hold. The port is :class:`memguard.ports.Anchor`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import cast

from memguard.errors import ConfigError
from memguard.ports import Anchor

__all__ = ["SCHEMES", "open_anchor", "register"]

#: URI scheme to ``"module:Class"``. The class has ``create(rest)`` and ``open(rest)``.
SCHEMES: dict[str, str] = {
    "file": "memguard.anchors.file:FileAnchor",
    "memory": "memguard.testing.anchors:MemoryAnchor",
    "postgres": "memguard.anchors.postgres:PostgresAnchor",
    "postgresql": "memguard.anchors.postgres:PostgresAnchor",
    "sqlite": "memguard.anchors.sqlite:SqliteAnchor",
}


def register(scheme: str, target: str) -> None:
    """Add an anchor backend.

    Args:
        scheme: what stands before the colon of its URIs: lower-case letters, digits, ``+-.``.
        target: ``"module:Class"``, imported on first use; the class needs the class methods
            ``create(rest: str)`` and ``open(rest: str)``, each returning an anchor.

    Raises:
        ConfigError: the scheme is malformed or taken by another target.
    """
    if not re.fullmatch("[a-z][a-z0-9+.-]*", scheme):
        raise ConfigError(f"{scheme!r} is not a URI scheme.", do="Use lower-case letters and digits.")
    if ":" not in target:
        raise ConfigError(f"{target!r} does not name a class.", do='Write it as "module:Class".')
    if SCHEMES.get(scheme, target) != target:
        raise ConfigError(f"The anchor scheme {scheme!r} is registered already, for {SCHEMES[scheme]}.")
    SCHEMES[scheme] = target


def open_anchor(uri: str, *, create: bool = False) -> Anchor:
    """The anchor that ``uri`` names.

    Args:
        uri: ``scheme:rest``.
        create: make a new, empty anchor; one that is there already is an error, never emptied.

    Raises:
        ConfigError: no such scheme, or the backend cannot be imported.
        AnchorError: the anchor is missing, damaged, or (``create``) there already.
    """
    scheme, colon, rest = uri.partition(":")
    target = SCHEMES.get(scheme)
    if not colon or target is None:
        raise ConfigError(
            f"No anchor backend for {scheme if colon else uri!r}.",
            where="anchor",
            do=f"Use one of {', '.join(f'{name}:…' for name in sorted(SCHEMES))}.",
        )
    module, _, name = target.partition(":")
    try:
        backend = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"The anchor backend {target} cannot be imported: {exc}.", where="anchor") from exc
    return cast(Anchor, backend.create(rest) if create else backend.open(rest))
