"""What a defence of a condition is asked, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memguard.guard import Ask


class Model(Protocol):
    """A model behind a port, such as :class:`memguard.judge.openai_compatible.OpenAICompatible`."""

    def ask(self, effect: Ask) -> str:
        """Its whole answer. A cut-off answer is an error, never a verdict."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """A candidate memory on its way into the store. ``text`` None means that it is quarantined."""

    text: str | None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved memory: its key, its text, its similarity to the question and the weight it was stored with."""

    key: str
    text: str
    score: float
    weight: float = 1.0


class Defence(Protocol):
    """One mechanism. Write defences answer :meth:`write`, read defences :meth:`read`; the other passes through."""

    name: str
    needs_model: bool

    def write(self, text: str, source: str, recent: Sequence[str]) -> Written:
        """What becomes of a candidate.

        Args:
            source: ``kind:id`` of who said it.
            recent: the turns before it, oldest first.
        """
        ...

    def read(self, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], int]:
        """What is left of the retrieved memories, in order, and how many of them were adjudicated."""
        ...


class Passing:
    """A defence that passes everything; the others inherit the side that they do not have."""

    name = "none"
    needs_model = False

    def write(self, text: str, source: str, recent: Sequence[str]) -> Written:
        """Unchanged."""
        return Written(text)

    def read(self, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], int]:
        """Unchanged, none adjudicated."""
        return list(hits), 0


class Nonsense(Exception):
    """A model's answer that is not in the form that was asked for; never taken for a verdict."""


def numbers_in(answer: str, most: int) -> set[int]:
    """Numbers of a list such as ``[2, 5]`` or ``none``, each from 1 to ``most``.

    Raises:
        Nonsense: it is neither, or names a number that was not shown.
    """
    text = answer.strip().strip("`").strip().lower().removesuffix(".")
    if text in ("none", "[]"):
        return set()
    if not re.fullmatch(r"\[?\s*\d{1,4}(?:\s*,\s*\d{1,4})*\s*\]?", text):
        raise Nonsense
    found = {int(n) for n in re.findall(r"\d+", text)}
    if not found or min(found) < 1 or max(found) > most:
        raise Nonsense
    return found


@dataclass(slots=True)
class Counts:
    """What a condition decided in one cell. Model answers that were no verdict are counted, never guessed."""

    write_seen: int = 0
    write_quarantined: int = 0
    write_rewritten: int = 0
    read_seen: int = 0
    read_quarantined: int = 0
    nonsense: int = 0
    quarantined_keys: set[str] = field(default_factory=set)
