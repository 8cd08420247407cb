"""An in-memory key ring: for tests, examples and stores that die with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import MappingProxyType

from memguard.errors import ConfigError
from memguard.keys.keyset import Key, KeySet, today, valid_id
from memguard.keys.ring import RootKeyRing

_named: dict[str, MemoryKeyRing] = {}
_guard = threading.Lock()


class MemoryKeyRing(RootKeyRing):
    """Random keys that no file holds. By URI: ``memory:NAME`` is one ring per name in a process.

    Args:
        kid: id of the first key; default ``YYYY-MM-a``.
        secret: its secret, for golden vectors; random by default.
        uri: what :attr:`uri` says.
    """

    def __init__(self, kid: str | None = None, *, secret: bytes | None = None, uri: str = "memory:") -> None:
        super().__init__(uri, KeySet.fresh(kid, secret))

    @classmethod
    def of(cls, secrets: dict[str, bytes], current: str) -> MemoryKeyRing:
        """A ring of given secrets, oldest first: for vectors and for a second ring with the same keys."""
        ring = cls(current, secret=secrets[current])
        keys = {valid_id(kid): Key(today(), secret=secret) for kid, secret in secrets.items()}
        ring._adopt(KeySet(current, MappingProxyType(keys)))
        return ring

    @classmethod
    def create(cls, name: str, *, passphrase: Callable[[], str | None] | None = None) -> MemoryKeyRing:
        """The ring of that name, made if there is none; without a name always a new one."""
        if not name:
            return cls()
        with _guard:
            if name not in _named:
                _named[name] = cls(uri=f"memory:{name}")
            return _named[name]

    @classmethod
    def open(cls, name: str, *, passphrase: Callable[[], str | None] | None = None) -> MemoryKeyRing:
        """The ring of that name.

        Raises:
            ConfigError: this process made none (``MG108``).
        """
        with _guard:
            if name in _named:
                return _named[name]
        raise ConfigError(
            "This process holds no key ring of that name.",
            code="MG108",
            where=f"memory:{name}",
            why="Keys in memory die with their process, and those without a name cannot be opened again.",
            do="Use file: or env: for anything that must outlive a process.",
        )

    def new(self, kid: str | None = None) -> str:
        """Add an active key without writing under it yet; returns its id."""
        return self._take(self._set.new(kid))

    def rotate(self, kid: str | None = None) -> str:
        """Write under a new key, or under ``kid``, from now on; the old one is retired, and verifies."""
        return self._take(self._set.rotate(kid))

    def retire(self, kid: str) -> None:
        """Let ``kid`` verify only."""
        self._adopt(self._set.retire(kid))

    def destroy(self, kid: str) -> None:
        """Forget ``kid``'s secret and keep its id."""
        self._adopt(self._set.destroy(kid))

    def _take(self, changed: tuple[KeySet, str]) -> str:
        self._adopt(changed[0])
        return changed[1]
