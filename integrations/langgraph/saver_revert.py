"""Taking a checkpointer's threads back: to a checkpoint, to a moment, or to before a source was heard.

A checkpoint shows the whole state, so what entered with one is in all that follow. A thread is therefore cut: the
checkpoints from the first one on that holds what must go are deleted in every namespace, with their pending
writes, and so are the pending writes of the newest one that stays: they are the results that led to what was
cut, and a run that is resumed would take them up again instead of making them anew.

A thread that an edit has damaged can still be taken back to a checkpoint that verifies: rows that do not verify
are dropped with the rest, which the plan says.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memguard.care import CareRows, Existing
from memguard.caretaking import Caretaker
from memguard.custody import Change
from memguard.effects import Acquire, Call, Operation
from memguard.engine import MemGuard
from memguard.errors import ConfigError, IntegrityError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.operations import Operations
from memguard.integrity.index import MAIN, MEMBER, newest, split, unpack_key
from memguard.integrity.verifier import Context
from memguard.labels import Label
from memguard.reverting import Draft, Wanted, named

Statement = tuple[str, tuple[Any, ...]]


class Cutting(Protocol):
    """A scan (:mod:`~memguard.integrations.langgraph.scan`) over tables that are known."""

    def deletions(self, context: Context, first: str, last: str | None) -> list[Statement]:
        """What deletes the checkpoints of a context from ``first`` on, and the pending writes of ``last``."""
        ...

    def change(self, statements: Sequence[Statement]) -> Any:
        """Run statements in one transaction."""
        ...


@dataclass(slots=True)
class Cut:
    """One thread: everything from ``first`` on goes, in every namespace of it."""

    thread: str
    first: str
    why: str
    #: Checkpoints by namespace, oldest first, and whether each verifies.
    there: dict[str, dict[str, bool]]
    #: Namespaces in which something does not verify.
    damaged: tuple[str, ...] = ()

    def goes(self, namespace: str) -> list[str]:
        """Checkpoints of a namespace that go."""
        return [key for key in self.there[namespace] if key >= self.first]

    def stays(self, namespace: str) -> str | None:
        """The newest one that stays, of those that verify."""
        found = self.there[namespace]
        return next((key for key in reversed(found) if key < self.first and found[key]), None)

    @property
    def wrong(self) -> int:
        """Checkpoints that stay and do not verify."""
        return sum(
            not good and key < self.first
            for name, ids in self.there.items()
            for key, good in ids.items()
            if name not in self.damaged
        )


class SaverReverting:
    """See :class:`~memguard.reverting.Reverting`; for the savers whose tables memguard knows."""

    def __init__(self, mg: MemGuard, operations: Operations, scan: Cutting, care: CareRows) -> None:
        self._mg, self._ops, self._sql, self._care = mg, operations, scan, care

    # -- finding -----------------------------------------------------------------------------

    def draft(self, wanted: Wanted) -> Operation[Draft]:
        """Look at every thread; what is decided on is verified first."""
        draft, cuts, known = Draft(), [], False
        threads: dict[str, list[str]] = {}
        for context in dict.fromkeys([*self._ops.custody.known(), *(yield from self._care.contexts())]):
            thread, namespace = rows.thread_of(context)
            if wanted.thread is None or wanted.thread == thread:
                threads.setdefault(thread, []).append(namespace)
        for thread, namespaces in threads.items():
            there, damaged = {}, []
            for namespace in namespaces:
                there[namespace], whole = yield from self._checkpoints(thread, namespace)
                if not whole:
                    damaged.append(namespace)
            known = known or any(ids.get(str(wanted.to)) for ids in there.values())
            found = yield from self._first(thread, there, wanted)
            if found is not None:
                cut = Cut(thread, *found, there, tuple(damaged))
                if damaged or any(map(cut.goes, there)):
                    cuts.append(cut)
        if wanted.to is not None and not known:
            raise ConfigError(
                f"no thread holds a checkpoint {wanted.to[:80]!r} that verifies.",
                code="MG358",
                do="Give the id of a checkpoint that stands in the store, or a moment.",
            )
        draft.actions = [line for cut in cuts for line in _lines(cut)]
        if cuts:
            draft.notes.append(
                "runs that are under way on these threads cannot go on: their writes are refused"
            )
        if any(cut.damaged for cut in cuts):
            draft.notes.append(
                "rows that do not verify are dropped with the rest, and what stays of a damaged thread is checked by "
                "tag alone: what is missing from it cannot be told; copy the database first"
            )
        if wrong := sum(cut.wrong for cut in cuts):
            draft.notes.append(f"{wrong} checkpoints that stay do not verify: memguard audit shows which")
        draft.work = cuts
        return draft

    def _checkpoints(self, thread: str, namespace: str) -> Operation[tuple[dict[str, bool], bool]]:
        """Checkpoints of a context, oldest first, with whether tag and bytes of each hold; and whether the context
        is as it was left."""
        name = rows.context_of(thread, namespace)
        whole = True
        try:
            yield from self._ops.custody.alone([name], _nothing)
        except IntegrityError:
            whole = False
        ready = self._ops.custody.peek(name)
        if ready is not None and ready.flawed is not None:
            whole = False
        context, found = self._ops.custody.fresh(name), {}
        for item in (yield from self._care.existing(context)):
            if item.claim.kind == rows.CHECKPOINT:
                found[unpack_key(item.claim.group)] = _good(context, item)
        return dict(sorted(found.items())), whole

    def _first(
        self, thread: str, there: dict[str, dict[str, bool]], wanted: Wanted
    ) -> Operation[tuple[str, str] | None]:
        """From which id on a thread is cut, and why; None if it stays as it is."""
        if wanted.to is not None:
            held = any(ids.get(wanted.to) for ids in there.values())
            return (wanted.to + "\x00", f"newer than checkpoint {wanted.to}") if held else None
        best: tuple[str, str] | None = None
        for namespace in there:
            place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            for item in (yield from self._ops.list(place, None, None, None)):
                key, why = str(item.config["configurable"]["checkpoint_id"]), self._why(item, wanted)
                if why and (best is None or key < best[0]):
                    best = key, why
        return best

    def _why(self, item: Any, wanted: Wanted) -> str:
        """Why a checkpoint is one of those that go; empty if it is not."""
        if wanted.since is not None:
            try:
                moment = datetime.datetime.fromisoformat(str(item.checkpoint["ts"])).timestamp()
            except (KeyError, ValueError):
                return ""
            return "written since" if moment >= wanted.since else ""
        for channel in item.checkpoint["channel_values"].values():
            for message in channel if isinstance(channel, list) else (channel,):
                label = self._mg.label(message)
                if label is not None and heard(label, wanted):
                    return f"holds a message from {label.source}"
        return ""

    # -- doing -------------------------------------------------------------------------------

    def carry_out(self, draft: Draft) -> Operation[int]:
        """Cut each thread. What was written to it since it was drafted goes too: it follows what goes."""
        gone = 0
        for cut in draft.work:
            whole = [namespace for namespace in cut.there if namespace not in cut.damaged]
            if whole:
                gone += yield from self._delete(cut, whole)
            for namespace in cut.damaged:
                gone += yield from self._rebase(cut, namespace)
        return gone

    def _delete(self, cut: Cut, namespaces: Sequence[str]) -> Operation[int]:
        """One operation on all namespaces of a thread, announced: after a crash the next touch settles it."""
        statements: list[Statement] = []
        gone: list[int] = []

        def prepare(contexts: list[Context]) -> list[Change]:
            statements.clear()
            gone.clear()
            changes = []
            for context in contexts:
                change, last = _cut(context, cut.first)
                changes.append(change)
                if not change.empty:
                    statements.extend(self._sql.deletions(context, cut.first, last))
                    gone.append(len({g for g, cell in change.removes if cell[:MEMBER] == MAIN}))
            return changes

        def perform() -> Operation[None]:
            yield Call(self._sql.change, statements)

        names = [rows.context_of(cut.thread, namespace) for namespace in namespaces]
        yield from self._ops.custody.operate(names, prepare, perform)
        return sum(gone)

    def _rebase(self, cut: Cut, namespace: str) -> Operation[int]:
        """A damaged context: what verifies and is old enough stays, under a new head that says so."""
        custody = self._ops.custody
        yield Acquire(custody.lock, self)
        try:
            custody.log.refresh()
            context = custody.fresh(rows.context_of(cut.thread, namespace))
            last, dropped, gone = cut.stays(namespace), [], 0
            for item in (yield from self._care.existing(context)):
                key, main = unpack_key(item.claim.group), item.claim.kind == rows.CHECKPOINT
                if not _good(context, item) or key >= cut.first or (key == last and not main):
                    dropped.append(item)
                    gone += main
            yield from self._care.drop(context, dropped)
            caretaker = Caretaker(custody, self._care, self._mg.keys, custody.log, self._mg._ledger)
            details = {"context": context.id, "first": cut.first, "time": time.time()}
            yield from caretaker._baseline(context, "revert", details, dropped)
            return gone
        finally:
            custody.lock.release()


def heard(label: Label, wanted: Wanted) -> bool:
    """Whether a label is of a source that is meant, or derived from one."""
    return wanted.says(label.source) or any(named(p.id, {}, wanted) for p in label.lineage.parents)


def _good(context: Context, item: Existing) -> bool:
    """Whether a row's tag and bytes hold."""
    try:
        return context.check(item.claim).seal.digest == item.content
    except IntegrityError:
        return False


def _cut(context: Context, first: str) -> tuple[Change, str | None]:
    """What goes of a context from ``first`` on, and the newest checkpoint that stays."""
    groups = context.index.groups
    going = [group for group in groups if unpack_key(group) >= first]
    if not going:
        return Change("none"), None
    staying = [g for g in groups if g not in set(going) and context.index.member(g, MAIN) is not None]
    last = newest(staying)
    pairs = [(group, cell) for group in going for cell in split(groups[group])]
    if last:
        pairs += [(last, cell) for cell in split(groups[last]) if cell[:MEMBER] != MAIN]
    change = Change("prune", removes=pairs, candidates=pairs, horizon=newest(going))
    return change, unpack_key(last) if last else None


def _lines(cut: Cut) -> Iterable[dict[str, Any]]:
    for namespace in cut.there:
        ids, stays = cut.goes(namespace), cut.stays(namespace)
        if ids or namespace in cut.damaged:
            yield {
                "context": rows.context_of(cut.thread, namespace),
                "thread": cut.thread,
                "namespace": namespace,
                "records": len(ids),
                "action": f"delete, back to {stays}" if stays else "delete all of it",
                "why": cut.why,
                "first": ids[0] if ids else None,
                "damaged": namespace in cut.damaged,
                "keys": [{"key": key, "why": cut.why} for key in ids],
            }


def _nothing() -> Operation[None]:
    return
    yield
