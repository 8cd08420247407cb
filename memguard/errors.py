"""The error tree: every exception memguard raises on purpose, drawn once.

    MemguardError
      ConfigError · AlreadyGuardedError · UnsupportedError
      IntegrityError(case, record)
        TamperedError · RollbackError · ForkError · UnknownKeyError · AnchorError
      RefusedError
        RejectedError · QuarantinedError · ScopeError · ForgottenError

Each error says what happened, to which record, why, and what to do. None of the
four ever holds memory content or key material: errors reach logs and trackers.
Codes (``MG1xx`` wiring, ``2xx`` sanitizer, ``3xx`` provenance and anomaly, ``4xx`` integrity,
``5xx`` forget, ``6xx`` tool arguments, ``9xx`` internal) are never reused;
``memguard explain CODE`` prints the page behind one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class MemguardError(Exception):
    """Base of everything memguard raises on purpose.

    Args:
        what: what happened, one sentence, no memory content.
        code: stable rule code such as ``"MG401"``; defaults to the class's own.
        where: the record, file or option concerned (identifiers only).
        why: the reason memguard is sure.
        do: the next step for the person who reads this.
    """

    default_code: ClassVar[str] = "MG900"

    def __init__(
        self,
        what: str,
        *,
        code: str | None = None,
        where: str | None = None,
        why: str | None = None,
        do: str | None = None,
    ) -> None:
        self.what, self.where, self.why, self.do = what, where, why, do
        self.code = code or self.default_code
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.code}: {self.what}"
        if self.where:
            text += f" [{self.where}]"
        if self.why:
            text += f" {self.why}"
        if self.do:
            text += f" -> {self.do}"
        return text

    def as_dict(self) -> Mapping[str, str | None]:
        """The error as plain values, for reports and JSON output."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "do": self.do,
        }


class ConfigError(MemguardError):
    """A configuration, option or argument is wrong; nothing was guarded."""

    default_code = "MG101"


class AlreadyGuardedError(MemguardError):
    """``guard`` was given an object that is guarded already."""

    default_code = "MG120"


class UnsupportedError(MemguardError):
    """The object, call or platform cannot be guarded this way."""

    default_code = "MG130"


class IntegrityError(MemguardError):
    """Something at rest is not as memguard left it. Nothing of it was loaded.

    Args:
        case: the kind of edit by its published name (``"T1"``..``"T9"``), or
            ``"key"``, ``"anchor"``, ``"untagged"``, ``"undecodable"``, ``"state"``.
        record: identifiers of the record concerned, never its content.
    """

    default_code = "MG400"

    def __init__(
        self,
        what: str,
        *,
        case: str = "",
        record: str | None = None,
        code: str | None = None,
        why: str | None = None,
        do: str | None = None,
    ) -> None:
        super().__init__(what, code=code, where=record, why=why, do=do)
        self.case = case
        self.record = record


class TamperedError(IntegrityError):
    """A record's bytes, place, owner or metadata are not what was written."""

    default_code = "MG401"


class RollbackError(IntegrityError):
    """The store is older than its head: records are missing or went back in time."""

    default_code = "MG402"


class ForkError(IntegrityError):
    """Two histories claim one place (only where forks are refused)."""

    default_code = "MG403"


class UnknownKeyError(IntegrityError):
    """A record names a key id that this key ring does not hold: not tampered, not empty."""

    default_code = "MG410"


class AnchorError(IntegrityError):
    """The anchor is missing, damaged, rolled back, unwritable or failed a sync."""

    default_code = "MG411"


class RefusedError(MemguardError):
    """A policy refused the operation; the store is as it was."""

    default_code = "MG200"


class RejectedError(RefusedError):
    """A guard rejected the write."""

    default_code = "MG201"


class QuarantinedError(RefusedError):
    """A guard quarantined the write and ``on_hold="raise"`` is configured."""

    default_code = "MG202"


class ScopeError(RefusedError):
    """An identity is missing, empty, a wildcard, or of another owner."""

    default_code = "MG220"


class ForgottenError(RefusedError):
    """The write names a record that was deleted or forgotten."""

    default_code = "MG501"
