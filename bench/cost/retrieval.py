"""The offline mode: one conversation into one store, under one condition, and every question to it. Deterministic.

A memory is a turn as it was said, with its date; a question is right where all its evidence is among the first k.
What a read withholds from a condition of seeds/000 is not made up for, as in the paper; memguard's presets do as
they do in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memguard.bench.conditions.build import PRESETS, Condition, build
from memguard.bench.conditions.protocol import Hit
from memguard.bench.cost.cells import Cell, Decided, Decisions, Item
from memguard.bench.cost.memory import Memory, StoreMemory, sqlite_store
from memguard.bench.cost.scoring import hit, ndcg, recall
from memguard.bench.data.conversations import CATEGORIES, Conversation, Question
from memguard.bench.reading.embedding import Remembering
from memguard.context import source
from memguard.decision import Disposition
from memguard.engine import MemGuard
from memguard.events import Event, ReadDecided, WriteDecided
from memguard.lexical import Bm25

#: Who finds: the store's own vector search, or BM25 with what it finds fetched through the store.
RETRIEVERS = ("hashing", "bm25", "minilm")
K = 10
#: Conditions that are a preset of memguard, and what is laid over it. "fused" is not the default: it changes the order.
GUARDED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in PRESETS},
    "balanced-fused": ("balanced", {"read": {"fusion": "lexical"}}),
}
_ABSTAIN = "whether a question without an answer is declined is not measured without a model"
_NO_EVIDENCE = "its evidence names no turn of this conversation"


@dataclass(frozen=True, slots=True)
class Settings:
    """What all cells of a run have in common.

    Attributes:
        retriever: of :data:`RETRIEVERS`.
        k: memories asked for.
        speakers: kind of source that turns are written with.
    """

    retriever: str = "hashing"
    k: int = K
    speakers: str = "user"

    def plain(self) -> dict[str, Any]:
        """For keys and reports."""
        return {"mode": "retrieval", "retriever": self.retriever, "k": self.k, "speakers": self.speakers}


@dataclass
class Arm:
    """What one condition made of one conversation, before it is graded."""

    memories: int
    answers: list[list[str]] = field(default_factory=list)
    withheld: list[set[str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    decisions: Decisions = field(default_factory=Decisions)
    log: list[Decided] = field(default_factory=list)


def measure(
    talk: Conversation,
    condition: str,
    replicate: int,
    *,
    key: str,
    settings: Settings,
    embedder: Remembering,
    folder: Path,
) -> Cell:
    """The cell of a condition on a conversation, in a folder of its own that is empty."""
    started = time.monotonic()
    opened = sqlite_store(folder, None if settings.retriever == "bm25" else embedder)
    if condition in GUARDED:
        arm = _guarded(talk, condition, opened, settings, folder)
    else:
        arm = _conditioned(talk, build(condition, model=None, embedder=embedder), opened, settings)
    items = tuple(
        _item(talk, question, answer, gone, arm.lost)
        for question, answer, gone in zip(talk.questions, arm.answers, arm.withheld, strict=True)
    )
    return Cell(
        key=key,
        condition=condition,
        conversation=talk.id,
        replicate=replicate,
        mode="retrieval",
        memories=arm.memories,
        items=items,
        decisions=arm.decisions,
        log=tuple(arm.log),
        seconds=round(time.monotonic() - started, 3),
    )


def _item(
    talk: Conversation, question: Question, answer: Sequence[str], gone: set[str], lost: set[str]
) -> Item:
    evidence = talk.evidence(question)
    why = _ABSTAIN if question.adversarial else "" if evidence else _NO_EVIDENCE
    return Item(
        id=question.id,
        subset="adversarial" if question.adversarial else "core",
        category=CATEGORIES[question.category],
        grade=None if why else hit(answer, evidence),
        why=why,
        recall=round(recall(answer, evidence), 4) if evidence else None,
        ndcg=round(ndcg(answer, evidence), 4) if evidence else None,
        served=tuple(answer),
        withheld=tuple(sorted(gone)),
        gold_withheld=bool(set(evidence) & (gone | lost)),
    )


def _space(talk: Conversation) -> tuple[str, ...]:
    return ("memories", talk.id)


def _who(kind: str, speaker: str) -> str:
    return f"{kind}:{speaker}"


def _asker(
    memory: Memory, texts: Sequence[tuple[str, str]], settings: Settings
) -> Callable[[str], list[tuple[str, float]]]:
    """What answers a question with ids and scores."""
    if settings.retriever != "bm25":
        return lambda question: memory.search(question, settings.k)
    index = Bm25(texts)

    def ask(question: str) -> list[tuple[str, float]]:
        found = dict(index.ranked(question, settings.k))
        return [(key, found[key]) for key in memory.fetch(list(found))]

    return ask


# -- conditions without memguard -------------------------------------------------------------------------


def _conditioned(
    talk: Conversation, condition: Condition, opened: AbstractContextManager[Any], settings: Settings
) -> Arm:
    """The defences around a bare store: every candidate at the write, the first k at the read."""
    weights: dict[str, float] = {}
    texts: dict[str, str] = {}
    recent: list[str] = []
    log: list[Decided] = []
    with opened as store:
        memory = StoreMemory(store, _space(talk))
        for turn in talk.turns:
            made = condition.write(turn.id, turn.memory, _who(settings.speakers, turn.speaker), recent)
            recent.append(turn.memory)
            if made.text is None:
                log.append(Decided(stage="write", memory=turn.id, disposition="quarantine"))
                continue
            if made.text != turn.memory:
                log.append(Decided(stage="write", memory=turn.id, disposition="rewrite"))
            weights[turn.id], texts[turn.id] = made.weight, made.text
            memory.put(turn.id, made.text)
        arm = Arm(len(texts), log=log)
        ask = _asker(memory, list(texts.items()), settings)
        for question in talk.questions:
            hits = [Hit(key, texts[key], score, weights[key]) for key, score in ask(question.text)]
            kept = [found.key for found in condition.read(question.text, hits)]
            gone = {found.key for found in hits} - set(kept)
            arm.answers.append(kept)
            arm.withheld.append(gone)
            log += [
                Decided(stage="read", memory=key, question=question.id, disposition="quarantine")
                for key in sorted(gone)
            ]
    counts = condition.counts
    arm.lost = set(counts.quarantined_keys)
    arm.decisions = Decisions(
        write_seen=counts.write_seen,
        write_quarantined=counts.write_quarantined,
        write_rewritten=counts.write_rewritten,
        read_seen=counts.read_seen,
        read_quarantined=counts.read_quarantined,
        nonsense=counts.nonsense,
        distinct=tuple(sorted(arm.lost.union(*arm.withheld))),
    )
    return arm


# -- memguard ----------------------------------------------------------------------------------------------


def _guarded(
    talk: Conversation, condition: str, opened: AbstractContextManager[Any], settings: Settings, folder: Path
) -> Arm:
    """The same store behind a preset, every turn written with its source."""
    heard: list[Event] = []
    preset, more = GUARDED[condition]
    with opened as inner:
        mg = MemGuard.create(
            folder / "home",
            preset=preset,
            anchor="memory:",
            keys="memory:",
            config={"integrity": {"sync": "lag"}, **more},
        )
        mg.events.subscribe(heard.append)
        try:
            memory = StoreMemory(mg.guard(inner, name="cost"), _space(talk))
            for turn in talk.turns:
                with source(_who(settings.speakers, turn.speaker)):
                    memory.put(turn.id, turn.memory)
            writes = [e for e in heard if isinstance(e, WriteDecided)]
            arm = Arm(len(talk.turns), log=[_decided("write", memory, e) for e in writes])
            arm.lost = {d.memory for d in arm.log if d.disposition in ("quarantine", "reject")}
            arm.memories -= len(arm.lost)
            texts = [(turn.id, turn.memory) for turn in talk.turns if turn.id not in arm.lost]
            ask = _asker(memory, texts, settings)
            seen = would = 0
            for question in talk.questions:
                heard.clear()
                answer = [key for key, _ in ask(question.text)]
                told = [e for e in heard if isinstance(e, ReadDecided)]
                gone = {memory.key_of(e.record) or e.record for e in told if _held(e)}
                would += sum(e.decision.full >= Disposition.QUARANTINE and not _held(e) for e in told)
                seen += len(answer) + len(gone)
                arm.answers.append(answer)
                arm.withheld.append(gone)
                arm.log += [_decided("read", memory, e, question.id) for e in told]
        finally:
            mg.close()
    arm.decisions = Decisions(
        write_seen=len(talk.turns),
        write_quarantined=len(arm.lost),
        write_rewritten=sum(e.decision.disposition is Disposition.REWRITE for e in writes),
        write_flagged=sum(e.decision.disposition is Disposition.FLAG for e in writes),
        read_seen=seen,
        read_quarantined=sum(map(len, arm.withheld)),
        would_read=would,
        distinct=tuple(sorted(arm.lost.union(*arm.withheld))),
    )
    return arm


def _held(event: WriteDecided | ReadDecided) -> bool:
    return event.decision.disposition >= Disposition.QUARANTINE


def _decided(stage: Any, memory: Memory, event: WriteDecided | ReadDecided, question: str = "") -> Decided:
    said = event.decision
    return Decided(
        stage=stage,
        memory=memory.key_of(event.record) or event.record,
        question=question,
        disposition=str(said.disposition),
        code=said.code or "",
        guard=said.guard or "",
    )
