"""One embedder for every store of a run, each text embedded once."""

from __future__ import annotations

from collections.abc import Sequence

from memguard.ports import Embedder


class Remembering:
    """An embedder that keeps what it made, so that all stores of a run get the same vectors at the cost of one."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name, self.dim = inner.name, inner.dim
        self._made: dict[str, list[float]] = {}

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        new = [text for text in dict.fromkeys(texts) if text not in self._made]
        self._made.update(zip(new, self._inner.embed(new), strict=True))
        return [self._made[text] for text in texts]

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """For LangGraph, which takes a function."""
        return self.embed(texts)
