"""What changed behind the guard, in words that hold no memory: labels, ids, lengths, digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memguard.errors import TamperedError


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between what the guard left and what the server holds.

    Attributes:
        kind: ``block``, ``passage`` or ``agent`` (what is attached to it).
        what: ``changed``, ``added`` or ``removed``; for a passage ``place`` where only what the server adds differs
            (its moment or its vector); ``unknown`` for what no guard ever sealed.
        id, label: of the block or passage; a passage has no label.
        before, after: characters of the text, None where that is not known or there is none.
        digest: the first 16 hexadecimal digits of SHA-256 over the text as it stands now; empty for none.
    """

    kind: str
    what: str
    id: str
    label: str = ""
    before: int | None = None
    after: int | None = None
    digest: str = ""
    context: str = field(default="", repr=False)
    _content: Callable[[], Any] = field(default=lambda: None, repr=False, compare=False)

    def content(self) -> Any:
        """The block or passage as the server shows it now, for whoever has to decide; None for what is gone.

        Not believed, and never part of a message or a log.
        """
        return self._content()

    def __str__(self) -> str:
        name = f"{self.kind} {self.label!r} ({self.id})" if self.label else f"{self.kind} {self.id}"
        sizes = f", {_size(self.before)} -> {_size(self.after)} characters" if self.what == "changed" else ""
        return f"{name} {_SAID.get(self.what, self.what)}{sizes}"


_SAID = {"place": "has another moment or vector", "unknown": "was sealed by nobody"}


class MemoryChangedError(TamperedError):
    """Blocks or passages of an agent are not as the guard left them.

    Attributes:
        agent: the agent's id.
        changes: what differs, one entry a block or passage.
        answer: for a change found after a message: the response that the server gave, as JSON values; else None.
    """

    def __init__(
        self, what: str, *, agent: str, changes: Sequence[Change], answer: Any = None, **more: Any
    ) -> None:
        super().__init__(what, **more)
        self.agent, self.changes, self.answer = agent, tuple(changes), answer


def digest(text: object) -> str:
    """The digest that a change shows."""
    return hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _size(length: int | None) -> str:
    return "?" if length is None else str(length)
