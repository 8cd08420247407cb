"""The agent that is attacked: a stand-in without a model.

It obeys and believes every word that stands outside of a fence and every memory that was served to it for
action, in whatever encoding, and nothing inside a fence. So it shows what the memory layer let through, and
nothing about models: a real one ignores some of what is unfenced and may follow some of what is fenced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from memguard.bench.attack.encoding import says

_FENCED = re.compile(r"\[(memory-[0-9a-f]{16}) begin: [^\n]*\]\n(?:\| [^\n]*\n?)*\[\1 end\]")


def unfenced(prompt: str) -> str:
    """What of a rendered prompt is not quoted data.

    Only a whole fence as :func:`memguard.render` makes it counts: a text that writes one of its own kind into
    itself stays outside.
    """
    return _FENCED.sub("", prompt)


class Agent:
    """Answers a request from a prompt with memories and from memories that it may act on."""

    def act(self, request: str, prompt: str, acting: Iterable[str]) -> Sequence[str]:
        """The steps that it takes: one for each line it goes by. The request itself is never one of them.

        Args:
            prompt: memories as the program puts them into the prompt.
            acting: texts that were served for action.
        """
        lines = [*unfenced(prompt).splitlines(), *(line for text in acting for line in text.splitlines())]
        return [line for line in dict.fromkeys(lines) if line.strip()]

    def did(self, steps: Sequence[str], marks: Iterable[str]) -> bool:
        """Whether the steps hold all marks of an attack."""
        return all(any(says(step, mark) for step in steps) for mark in marks)
