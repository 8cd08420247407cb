"""A set of root keys as a value, and the four things that may happen to it. No I/O.

States: an ``active`` key writes and verifies, a ``retired`` one only verifies, of a
``destroyed`` one nothing but the id is left. New records are written under ``current``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from secrets import token_bytes, token_hex
from string import ascii_lowercase
from types import MappingProxyType

from memguard.errors import ConfigError, UnknownKeyError

SECRET_BYTES = 32
#: What a key id may be: it stands in every tag, in reports and in file names.
KEY_ID = re.compile(r"[a-z0-9-]{1,32}")
STATES = ("active", "retired", "destroyed")


@dataclass(frozen=True, slots=True)
class Key:
    """One root key. ``secret`` is None exactly when it was destroyed; it never shows in a repr."""

    created: date
    state: str = "active"
    secret: bytes | None = field(default=None, repr=False)
    destroyed: date | None = None


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by id, oldest first, and the id that new records are written under."""

    current: str
    keys: Mapping[str, Key]

    @classmethod
    def fresh(cls, kid: str | None = None, secret: bytes | None = None) -> KeySet:
        """A set of one key; random unless ``secret`` is given."""
        name = kid or next_id(())
        return cls(name, _frozen({valid_id(name): Key(today(), secret=secret or token_bytes(SECRET_BYTES))}))

    @property
    def usable(self) -> tuple[str, ...]:
        """Ids that can still verify, oldest first."""
        return tuple(kid for kid, key in self.keys.items() if key.secret is not None)

    def new(self, kid: str | None = None) -> tuple[KeySet, str]:
        """Add an active key that nothing is written under yet, so that readers can learn it first.

        Raises:
            ConfigError: the id is malformed or was ever used.
        """
        name = valid_id(kid) if kid else next_id(self.keys)
        if name in self.keys:
            raise ConfigError(
                f"The key id {name!r} is taken.",
                where="keys",
                why="Ids of destroyed keys are never used again.",
                do="Choose another, or give none.",
            )
        added = {**self.keys, name: Key(today(), secret=token_bytes(SECRET_BYTES))}
        return replace(self, keys=_frozen(added)), name

    def rotate(self, kid: str | None = None) -> tuple[KeySet, str]:
        """Make an active key (default: a new one) the current one; the previous one is retired.

        Raises:
            ConfigError: ``kid`` names a key that is retired or destroyed.
        """
        changed, name = (self, kid) if kid in self.keys else self.new(kid)
        assert name is not None
        if changed.keys[name].state != "active":
            raise ConfigError(
                f"Key {name!r} is {changed.keys[name].state}.", where="keys", do="Rotate to a new key."
            )
        if name == self.current:
            return self, name
        changed = replace(changed, current=name)
        return changed._with(self.current, state="retired"), name

    def retire(self, kid: str) -> KeySet:
        """Let a key verify only.

        Raises:
            ConfigError: it is the current one. UnknownKeyError: it is not held.
        """
        self._movable(kid, "retired")
        return self._with(kid, state="retired")

    def destroy(self, kid: str) -> KeySet:
        """Forget a key's secret for good, and keep its id.

        Raises:
            ConfigError: it is the current one. UnknownKeyError: it is not held.
        """
        self._movable(kid, "destroyed")
        return self._with(kid, state="destroyed", secret=None, destroyed=today())

    def _movable(self, kid: str, state: str) -> None:
        key = self.keys.get(kid)
        if key is None or key.secret is None:
            raise unknown_key(kid, self)
        if kid == self.current:
            raise ConfigError(
                f"Key {kid!r} is the current one and cannot be {state}.", where="keys", do="Rotate first."
            )

    def _with(self, kid: str, **changes: object) -> KeySet:
        changed = {**self.keys, kid: replace(self.keys[kid], **changes)}  # type: ignore[arg-type]
        return replace(self, keys=_frozen(changed))


def unknown_key(kid: str, held: KeySet) -> UnknownKeyError:
    """The error for a key id that cannot be served: unknown, or known and destroyed."""
    shown = kid if KEY_ID.fullmatch(kid) else "(malformed id)"
    key = held.keys.get(kid)
    if key is not None and key.state == "destroyed":
        when = f" on {key.destroyed}" if key.destroyed else ""
        return UnknownKeyError(
            f"Key {shown} was destroyed{when}.",
            case="key",
            record=shown,
            why="What was written under it can no longer be verified, by intent.",
            do="Nothing brings the key back; drop these records or write them again.",
        )
    return UnknownKeyError(
        f"This key ring does not hold key {shown}.",
        case="key",
        record=shown,
        why="The record may be sound; without its key nobody can say.",
        do="Add the key file that holds it, or look for a wrong path or variable: memguard keys list",
    )


def valid_id(kid: str) -> str:
    """``kid`` if it may be a key id.

    Raises:
        ConfigError: it may not.
    """
    if not KEY_ID.fullmatch(kid):
        raise ConfigError(
            "A key id is malformed.", where="keys", do="Use 1 to 32 of the characters a-z, 0-9 and '-'."
        )
    return kid


def next_id(taken: Mapping[str, Key] | tuple[()]) -> str:
    """The first free id of this month, and four random digits: ``2026-12-a-7f3c``, …, ``2026-12-aa-09b1``, …

    The digits keep two key files of one month apart: the wrong one is then an unknown key, where the
    same id over another secret would look like tampering.
    """
    month = today().strftime("%Y-%m-")
    used = {"-".join(kid.split("-")[:3]) for kid in taken}
    number = 0
    while True:
        letters, rest = "", number
        while rest >= 0:
            letters, rest = ascii_lowercase[rest % 26] + letters, rest // 26 - 1
        if month + letters not in used:
            return f"{month}{letters}-{token_hex(2)}"
        number += 1


def today() -> date:
    """The date in UTC."""
    return datetime.now(UTC).date()


def _frozen(keys: dict[str, Key]) -> Mapping[str, Key]:
    return MappingProxyType(keys)
