"""Names of conditions to their defences, and the chain that asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memguard.bench.conditions.defences import Anomaly, ProvenanceWeights, Rerank, Sanitize
from memguard.bench.conditions.offline import AnomalyOffline, RerankOffline
from memguard.bench.conditions.protocol import Counts, Defence, Hit, Model, Nonsense, Written
from memguard.errors import ConfigError, UnsupportedError
from memguard.ports import Embedder
from memguard.record import did_you_mean

#: memguard's own presets, which the bench runs as a guarded store.
PRESETS = ("observe", "balanced", "strict")
#: Conditions without memguard. "a/a" is "none" a second time: what differs between the two is noise.
_MADE: dict[str, tuple[str, ...]] = {
    "none": (),
    "a/a": (),
    "sanitize": ("sanitize",),
    "provenance": ("provenance",),
    "anomaly": ("anomaly",),
    "rerank": ("rerank",),
    "stacked": ("sanitize", "provenance", "anomaly", "rerank"),
    "anomaly-offline": ("anomaly-offline",),
    "rerank-offline": ("rerank-offline",),
    "stacked-offline": ("sanitize", "provenance", "anomaly-offline", "rerank-offline"),
}
NAMES = (*_MADE, *PRESETS)
NEED_A_MODEL = frozenset(name for name, parts in _MADE.items() if {"anomaly", "rerank"} & set(parts))


def build(name: str, *, model: Model | None, embedder: Embedder) -> Condition:
    """The condition of that name, new, with nothing counted.

    Raises:
        ConfigError: MG105, there is none.
        UnsupportedError: MG331, it asks a model and there is none.
    """
    if name not in _MADE:
        raise ConfigError(
            f"{name[:60]!r} is no condition that runs without a guarded store",
            code="MG105",
            do=did_you_mean(name, _MADE),
        )
    if name in NEED_A_MODEL and model is None:
        raise UnsupportedError(
            f"the condition {name!r} asks a model, and none is configured.",
            code="MG331",
            why="It is not replaced by something else, which would be another measurement.",
            do=f"Configure the judge, or use {name}-offline, which is another mechanism.",
        )
    made: list[Defence] = []
    for part in _MADE[name]:
        if part == "sanitize":
            made.append(Sanitize())
        elif part == "provenance":
            made.append(ProvenanceWeights())
        elif part == "anomaly-offline":
            made.append(AnomalyOffline(embedder))
        elif part == "rerank-offline":
            made.append(RerankOffline())
        elif model is not None:
            made.append(Anomaly(model) if part == "anomaly" else Rerank(model))
    return Condition(name, tuple(made))


@dataclass(slots=True)
class Condition:
    """The defences of a condition in order, and what they decided so far."""

    name: str
    defences: tuple[Defence, ...]
    counts: Counts = field(default_factory=Counts)

    def write(self, key: str, text: str, source: str, recent: Sequence[str]) -> Written:
        """What becomes of a candidate. An answer that is no verdict keeps it, and is counted."""
        made = Written(text)
        self.counts.write_seen += 1
        for defence in self.defences:
            assert made.text is not None
            try:
                said = defence.write(made.text, source, recent)
            except Nonsense:
                self.counts.nonsense += 1
                continue
            made = Written(said.text, made.weight * said.weight)
            if made.text is None:
                self.counts.write_quarantined += 1
                self.counts.quarantined_keys.add(key)
                return made
        self.counts.write_rewritten += made.text != text
        return made

    def read(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """What is left of the retrieved memories. An answer that is no verdict keeps all, and is counted."""
        left = list(hits)
        for defence in self.defences:
            try:
                kept, seen = defence.read(question, left)
            except Nonsense:
                self.counts.nonsense += 1
                continue
            self.counts.read_seen += seen
            gone = {hit.key for hit in left} - {hit.key for hit in kept}
            self.counts.read_quarantined += len(gone)
            left = kept
        return left
