"""Conversations into real SqliteStores, bare, under a condition and guarded, and every question to each.

All stores of a run use one embedder and the store's own vector search. The bare store's answers are the reference
of every row. Questions whose evidence names no turn, or that have none, count as questions and not as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memguard.bench.conditions.build import PRESETS, Condition, build
from memguard.bench.conditions.protocol import Hit, Model
from memguard.bench.data.conversations import Conversation, Question, Turn
from memguard.bench.reading.embedding import Remembering
from memguard.bench.reading.rows import ReadingRow
from memguard.bench.reading.search import connect
from memguard.context import principal, source
from memguard.decision import Disposition
from memguard.engine import MemGuard
from memguard.errors import UnsupportedError
from memguard.events import Event, ReadDecided, WriteDecided
from memguard.integrations.langgraph.store_rows import name as record_name

K = 10
#: Who the turns are from: the user; nobody who was declared (an application that declares no sources); or mixed, the
#: first speaker's the user's and all others' from the web, so that trusted and untrusted memories meet.
SOURCES = ("user", "unknown", "mixed")


@dataclass
class Answers:
    """Keys served for each question, and what was decided on the way."""

    served: list[tuple[str, ...]]
    act_served: list[tuple[str, ...]] | None = None
    missing: set[str] = field(default_factory=set)
    withheld: list[set[str]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)


def measure(
    conversations: Sequence[Conversation],
    conditions: Sequence[str],
    embedder: Remembering,
    folder: Path,
    *,
    sources: Sequence[str] = SOURCES,
    model: Model | None = None,
    k: int = K,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[ReadingRow]:
    """A row for each conversation, condition and source.

    Args:
        folder: an empty one to work in.
        model: what anomaly, rerank and stacked ask; without it their rows say that they are not measured.
    """
    for conversation in conversations:
        with _store(folder / conversation.id / "bare.db", embedder) as bare:
            for turn in conversation.turns:
                bare.put(_namespace(conversation), turn.id, {"text": turn.memory})
            reference = _asked(bare, conversation, k)
        for kind in sources:
            for name in conditions:
                say(f"{conversation.id}, {name}, source {kind}")
                base = _base(conversation, name, kind, embedder, k, reference)
                place = folder / conversation.id / f"{name.replace('/', '-')}-{kind}"
                try:
                    if name in PRESETS:
                        answers = _guarded(place, conversation, name, kind, embedder, k)
                    else:
                        made = build(name, model=model, embedder=embedder)
                        answers = _conditioned(place, conversation, made, kind, embedder, k)
                except UnsupportedError as error:
                    if error.code != "MG331":
                        raise
                    yield base.model_copy(update={"not_measured": "it asks a model, and none is configured"})
                    continue
                yield _row(base, conversation, reference, answers)


def _base(
    conversation: Conversation, name: str, kind: str, embedder: Remembering, k: int, reference: Sequence[Any]
) -> ReadingRow:
    counted = [q for q in conversation.questions if conversation.evidence(q)]
    bare = [_found(conversation, q, keys) for q, keys in zip(conversation.questions, reference, strict=True)]
    return ReadingRow(
        condition=name,
        source=kind,
        embedder=embedder.name,
        conversation=conversation.id,
        k=k,
        memories=len(conversation.turns),
        questions=len(conversation.questions),
        with_evidence=len(counted),
        hits_bare=sum(bare),
    )


def _row(
    base: ReadingRow, conversation: Conversation, reference: Sequence[tuple[str, ...]], answers: Answers
) -> ReadingRow:
    questions = conversation.questions
    before = [_found(conversation, q, keys) for q, keys in zip(questions, reference, strict=True)]
    after = [_found(conversation, q, keys) for q, keys in zip(questions, answers.served, strict=True)]
    act = None
    if answers.act_served is not None:
        act = sum(_found(conversation, q, s) for q, s in zip(questions, answers.act_served, strict=True))
    hidden = sum(
        bool(set(conversation.evidence(q)) & (answers.missing | gone))
        for q, gone in zip(questions, answers.withheld, strict=True)
    )
    return base.model_copy(
        update={
            "hits": sum(after),
            "lost": sum(b and not a for b, a in zip(before, after, strict=True)),
            "gained": sum(a and not b for b, a in zip(before, after, strict=True)),
            "same_answers": sum(b == a for b, a in zip(reference, answers.served, strict=True)),
            "act_hits": act,
            "evidence_withheld": hidden,
            **answers.numbers,
        }
    )


def _found(conversation: Conversation, question: Question, keys: Sequence[str]) -> bool:
    """Whether all evidence of a question that has any is among the keys."""
    wanted = conversation.evidence(question)
    return bool(wanted) and set(wanted) <= set(keys)


def _namespace(conversation: Conversation) -> tuple[str, ...]:
    return ("memories", conversation.id)


def _who(conversation: Conversation, turn: Turn, kind: str) -> str:
    """The source that a turn is written with."""
    if kind == "unknown":
        return kind
    if kind == "mixed":
        kind = "user" if turn.speaker == conversation.turns[0].speaker else "web"
    return f"{kind}:{turn.speaker}"


def _asked(store: Any, conversation: Conversation, k: int) -> list[tuple[str, ...]]:
    space = _namespace(conversation)
    return [tuple(i.key for i in store.search(space, query=q.text, limit=k)) for q in conversation.questions]


@contextmanager
def _store(path: Path, embedder: Remembering) -> Iterator[Any]:
    """A SqliteStore with the store's own vector index over the member ``text``."""
    from langgraph.store.sqlite import SqliteStore

    path.parent.mkdir(parents=True, exist_ok=True)
    connection = connect(str(path))
    try:
        # Documented as "fields", and read as "text_fields": without both, values are embedded with their braces.
        index: Any = {
            "dims": embedder.dim,
            "embed": embedder.embed,
            "fields": ["text"],
            "text_fields": ["text"],
        }
        store = SqliteStore(connection, index=index)
        store.setup()
        yield store
    finally:
        connection.close()


# -- conditions without memguard -------------------------------------------------------------------------


def _conditioned(
    folder: Path, conversation: Conversation, condition: Condition, kind: str, embedder: Remembering, k: int
) -> Answers:
    """The defences around a bare store: every candidate at the write, the first k at the read."""
    weights: dict[str, float] = {}
    texts: dict[str, str] = {}
    space, recent = _namespace(conversation), list[str]()
    with _store(folder / "store.db", embedder) as store:
        for turn in conversation.turns:
            made = condition.write(turn.id, turn.memory, _who(conversation, turn, kind), recent)
            recent.append(turn.memory)
            if made.text is not None:
                weights[turn.id], texts[turn.id] = made.weight, made.text
                store.put(space, turn.id, {"text": made.text})
        served, withheld = [], []
        for question in conversation.questions:
            found = store.search(space, query=question.text, limit=k)
            hits = [Hit(i.key, texts[i.key], i.score or 0.0, weights[i.key]) for i in found]
            kept = condition.read(question.text, hits)
            served.append(tuple(hit.key for hit in kept))
            withheld.append({hit.key for hit in hits} - set(served[-1]))
    counts = condition.counts
    return Answers(
        served,
        None,
        set(counts.quarantined_keys),
        withheld,
        {
            "write_seen": counts.write_seen,
            "write_withheld": counts.write_quarantined,
            "write_rewritten": counts.write_rewritten,
            "read_seen": counts.read_seen,
            "read_withheld": counts.read_quarantined,
        },
    )


# -- memguard ----------------------------------------------------------------------------------------------


def _guarded(
    folder: Path, conversation: Conversation, preset: str, kind: str, embedder: Remembering, k: int
) -> Answers:
    """The same store behind a preset, every turn written with its source."""
    folder.mkdir(parents=True)
    space = _namespace(conversation)
    keys = {record_name(space, turn.id): turn.id for turn in conversation.turns}
    heard: list[Event] = []
    with _store(folder / "store.db", embedder) as inner:
        mg = MemGuard.create(
            folder / "home",
            preset=preset,
            anchor=f"file:{folder / 'anchor'}",
            keys=f"file:{folder / 'key.json'}",
        )
        mg.events.subscribe(heard.append)
        try:
            store = mg.guard(inner, name="reading")
            for turn in conversation.turns:
                with source(_who(conversation, turn, kind)):
                    store.put(space, turn.id, {"text": turn.memory})
            writes = [e for e in heard if isinstance(e, WriteDecided)]
            heard.clear()
            served, withheld, reads = [], [], list[ReadDecided]()
            for question in conversation.questions:
                served.append(tuple(i.key for i in store.search(space, query=question.text, limit=k)))
                told = [e for e in heard if isinstance(e, ReadDecided)]
                withheld.append({keys[e.record] for e in told if _held(e)})
                reads += told
                heard.clear()
            with principal(user="reader", purpose="act"):
                act = _asked(store, conversation, k)
        finally:
            mg.close()
    gone = {keys[e.record] for e in writes if _held(e)}
    return Answers(
        served,
        act,
        gone,
        withheld,
        {
            "write_seen": len(conversation.turns),
            "write_withheld": len(gone),
            "write_rewritten": sum(e.decision.disposition is Disposition.REWRITE for e in writes),
            "write_flagged": sum(e.decision.disposition is Disposition.FLAG for e in writes),
            "read_seen": sum(map(len, served)) + sum(map(len, withheld)),
            "read_withheld": sum(map(len, withheld)),
            "would_read": sum(e.decision.full >= Disposition.QUARANTINE and not _held(e) for e in reads),
            "read_flagged": sum(e.decision.disposition is Disposition.FLAG for e in reads),
        },
    )


def _held(event: WriteDecided | ReadDecided) -> bool:
    return event.decision.disposition >= Disposition.QUARANTINE
