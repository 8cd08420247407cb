"""Taking records back out: everything of a source with all that was derived from it, or everything since a moment.

A plan first, always. What a plan says is found in verified data only: labels are under the tags. Records go
through the guard like any deletion, so heads follow and the history keeps the operation; a signed note in the
anchor's log says who asked for it and what for. Nothing is erased from history.

What this cannot do is make a text again: a store keeps one value a key, so a value that was overwritten by a
poisoned one is gone, and so is what was deleted. Plans say how many such there are.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from memguard.anchorlog import AnchorLog
from memguard.care import Plan
from memguard.effects import Block, Operation
from memguard.errors import ConfigError, UnsupportedError
from memguard.integrity.logview import Note
from memguard.labels import Label
from memguard.ports import Ledger
from memguard.record import Source

#: Operations of a history that took records away.
_TAKING = ("delete", "remove", "prune")
_KINDS_END = "*"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be taken out; exactly one of the three.

    Attributes:
        source: ``kind:id``, where ``*`` stands for any characters; ``kind:*`` is the whole kind.
        since: seconds since the epoch; everything from then on.
        to: id of a checkpoint, whose state is to be the newest of its thread again.
        thread: of a checkpointer, this one only.
    """

    source: str | None = None
    since: float | None = None
    to: str | None = None
    thread: str | None = None

    @classmethod
    def of(
        cls,
        source: str | None = None,
        since: str | float | datetime.datetime | None = None,
        to: str | float | datetime.datetime | None = None,
        thread: str | None = None,
    ) -> Wanted:
        """What a caller's words mean. ``to=TIME`` is ``since`` the moment after.

        Raises:
            ConfigError: MG357, not exactly one of them, or one that cannot be read.
        """
        given = [
            name for name, value in (("source", source), ("since", since), ("to", to)) if value is not None
        ]
        if len(given) != 1:
            raise ConfigError(
                f"revert needs one of source, since and to, and was given {' and '.join(given) or 'none'}.",
                code="MG357",
                do="Say revert(target, source=...), since=... or to=...",
            )
        if source is not None:
            Source.parse(source)  # a kind that does not exist matches nothing, and says so
            return cls(source=source, thread=thread)
        if since is not None:
            moment = moment_of(since)
            if moment is None:
                raise ConfigError(
                    "since is not a moment.",
                    code="MG357",
                    do='Write it as "2026-12-01T09:30:00" (UTC) or seconds.',
                )
            return cls(since=moment, thread=thread)
        moment = moment_of(to)
        if moment is not None:
            return cls(since=moment, thread=thread)
        return cls(to=str(to), thread=thread)

    def says(self, source: Source) -> bool:
        """Whether a source is one of those that are meant."""
        if self.source is None:
            return False
        kind, _, ident = self.source.partition(":")
        if ident == _KINDS_END and source.kind == kind:
            return True
        pattern = ".*".join(re.escape(part) for part in self.source.split("*"))
        return re.fullmatch(pattern, str(source), re.DOTALL) is not None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without what was not given."""
        values = {"source": self.source, "since": self.since, "to": self.to, "thread": self.thread}
        return {name: value for name, value in values.items() if value is not None}


def moment_of(value: object) -> float | None:
    """Seconds since the epoch of a number, a datetime or ISO 8601 text; None for any other text. Naive is UTC."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if not re.match(r"\d{4}-\d{2}-\d{2}", value) or re.match(r"[0-9a-f]{8}-", value):
            return None
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    return None


class Found(NamedTuple):
    """A verified record of a store, as far as a revert looks at it.

    Attributes:
        context, key: its place.
        label: its label, if it has one.
        created, updated: seconds since the epoch, by the store's clock, under the head.
        replaced: whether it was written over another value.
        state: what says that it is still this one when the plan is carried out.
    """

    context: str
    key: str
    label: Label | None
    created: float
    updated: float
    replaced: bool
    state: Any


def chosen(records: Sequence[Found], wanted: Wanted) -> dict[int, str]:
    """Which records go, by their number in the sequence, and why. Pure.

    Lineage is followed to its end: a record goes if a parent of it goes. Parents are named by the key of a record,
    or, where they had none, by their source.
    """
    if wanted.source is None:
        # Stores stamp whole seconds: what was written in the same one goes too.
        moment = int(wanted.since) if wanted.since is not None else float("inf")
        return {at: "written since" for at, record in enumerate(records) if record.updated >= moment}
    why: dict[int, str] = {}
    ids: dict[str, str] = {}
    for at, record in enumerate(records):
        if record.label is not None and wanted.says(record.label.source):
            why[at] = f"from {record.label.source}"
            ids[record.key] = record.key
            ids[str(record.label.source)] = str(record.label.source)
    derived = {
        at: [parent.id for parent in record.label.lineage.parents]
        for at, record in enumerate(records)
        if at not in why and record.label is not None and record.label.lineage
    }
    # A parent that many records name is looked at once; a round looks only at children of what went in the last.
    meant = {parent: named(parent, ids, wanted) for parents in derived.values() for parent in parents}
    children: dict[str, list[int]] = {}
    for at, parents in derived.items():
        for parent in parents:
            children.setdefault(parent, []).append(at)
    new = [parent for parent, goes in meant.items() if goes]
    while new:
        found = sorted({at for parent in new for at in children.get(parent, ())} - why.keys())
        for at in found:
            why[at] = f"derived from {next(p for p in derived[at] if meant[p])}"
        new = [key for key in dict.fromkeys(records[at].key for at in found) if not meant.get(key)]
        meant.update(dict.fromkeys(new, True))
    return why


def no_checkpoints(wanted: Wanted, what: str) -> None:
    """Refuse a checkpoint's id for a store that has none.

    Raises:
        UnsupportedError: MG358.
    """
    if wanted.to is not None:
        raise UnsupportedError(
            f"{what} has no checkpoints to go back to.",
            code="MG358",
            why="It keeps one value a key; what was overwritten is gone.",
            do="Give to=TIME or since=TIME: what was written from then on is deleted.",
        )


def named(parent: str, ids: Mapping[str, str], wanted: Wanted) -> bool:
    """Whether a parent is one of these records, or a source that is meant."""
    if parent in ids:
        return True
    try:
        return wanted.says(Source.parse(parent))
    except ConfigError:
        return False  # a record's key that is no source


@dataclass(slots=True)
class Draft:
    """What an adapter would do: one action a context, what it cannot help, and how to go on."""

    actions: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: The adapter's own.
    work: Any = None

    @classmethod
    def of(cls, records: Sequence[Found], wanted: Wanted) -> Draft:
        """Of a store that keeps one value a key: its ``work`` is the chosen records with the reason, by context."""
        by_context: dict[str, list[tuple[Found, str]]] = {}
        for at, reason in chosen(records, wanted).items():
            by_context.setdefault(records[at].context, []).append((records[at], reason))
        draft = cls([action(context, found) for context, found in by_context.items()], work=by_context)
        lost = sum(line["lost"] for line in draft.actions)
        if lost:
            draft.notes.append(
                f"{lost} of them were written over an earlier value, whose text cannot be restored"
            )
        return draft


class Reverting(Protocol):
    """What an adapter offers."""

    def draft(self, wanted: Wanted) -> Operation[Draft]:
        """Find what would go, in verified data. Changes nothing."""
        ...

    def carry_out(self, draft: Draft) -> Operation[int]:
        """Do it; how many records went. What was changed since it was drafted stays."""
        ...


def revert(
    handle: Any, wanted: Wanted, ledger: Ledger, *, apply: bool, by: str, reason: str = ""
) -> Operation[Plan]:
    """A plan, or with ``apply`` the act.

    Args:
        handle: of the guarded object.

    Raises:
        UnsupportedError: MG352, its adapter cannot take records out.
        IntegrityError: the store is not as it was left; audit it first.
    """
    store = handle.custody.store
    reverting: Reverting | None = getattr(handle.rows, "reverting", None)
    if reverting is None:
        raise UnsupportedError(
            "records of this kind of store cannot be taken out one by one.",
            code="MG352",
            where=store,
            do="Delete the thread, or copy what is good into a new store.",
        )
    log: AnchorLog = handle.custody.log
    draft = yield from reverting.draft(wanted)
    notes = list(draft.notes)
    if wanted.since is not None and log.recorded:
        log.harvest()
        lost = deleted_since(ledger, store, wanted.since)
        if lost:
            notes.append(f"{lost} deletions were made since then: what they took cannot be restored")
    if apply and draft.actions:
        gone = yield from reverting.carry_out(draft)
        details = {**wanted.as_dict(), "records": gone, "by": by, "reason": reason, "at": time.time()}
        yield Block(log.write, [Note(store, "revert", details)], sync=True)
    return Plan("revert", store, apply, tuple(draft.actions), tuple(draft.refused), tuple(notes))


def deleted_since(ledger: Ledger, store: str, since: float) -> int:
    """Operations on a store that took records away, by its history."""
    return sum(
        entry.context.partition(" ")[0] == store and entry.operation in _TAKING and entry.time >= since
        for entry in ledger.entries()
    )


def action(context: str, found: Iterable[tuple[Found, str]]) -> dict[str, Any]:
    """The line of a plan for the records of one context."""
    keys = [{"key": r.key, "why": why, "replaced": r.replaced} for r, why in found]
    lost = sum(bool(item["replaced"]) for item in keys)
    return {"context": context, "records": len(keys), "action": "delete", "keys": keys, "lost": lost}
