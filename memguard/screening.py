"""The chains of a home: what its guards say of a record, counted, told, and open to the program's own word.

Adapters ask :meth:`Screening.write` before they store and :meth:`Screening.read` after verification. Around
the chain stand three things that are no guards: the allow-list (a text that a person has reviewed), the hook
``on_decision`` (the program's own policy over a finished decision), and the effects that guards ask for,
each performed within a time limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol

from memguard import context, registry
from memguard.deadline import Workers
from memguard.decision import Decision, Disposition, Evidence
from memguard.errors import IntegrityError
from memguard.events import Bus, GuardRaised, Observing, ReadRefused
from memguard.guard import GuardContext, Stage, Work
from memguard.isolate import Raised, attempt
from memguard.pipeline import FAILED, Outcome, Pipeline, Seat, assemble
from memguard.recall import Recall
from memguard.record import Record, Source, Trust, text_of
from memguard.runtime import arun, run
from memguard.settings import Config, Mode
from memguard.tally import Tally, today

#: Code of a decision that the allow-list turned into allow, and of one that the program's hook changed.
ALLOWED, HOOKED = "MG240", "MG241"

#: Names of a value's only member that say no more of it than that it is a text.
_TEXT_MEMBERS = ("text", "content", "memory", "value")

#: Values inside values that are looked at for strings to rewrite.
DEEPEST = 50

#: The program's own word on a finished decision: another disposition, or None for no opinion.
Hook = Callable[[Decision, Record], Disposition | None]


class Allowed(Protocol):
    """The allow-list (:mod:`memguard.allowlist`)."""

    def allowed(self, content: str) -> object | None:
        """The entry that allows this text, None if there is none."""
        ...


class Screening:
    """What the guards of one home say.

    Args:
        config: names the guards, their modes and limits.
        bus: hears of failed guards.
        tally: counts decisions; None counts nothing (``check`` of a program that has no home).
        allowlist: texts that a person has reviewed.
        hook: ``on_decision``.
        recall: tells text that came out of what is trusted less, and is told of what was served.
    """

    def __init__(
        self,
        config: Config,
        bus: Bus,
        *,
        tally: Tally | None = None,
        allowlist: Allowed | None = None,
        hook: Hook | None = None,
        recall: Recall | None = None,
    ) -> None:
        self.recall = recall
        self._config, self._bus, self._tally = config, bus, tally
        self.writing = chain(config, Stage.WRITE)
        self.reading = chain(config, Stage.READ)
        self._allowlist, self.hook = allowlist, hook
        self._workers = Workers(config.policy.effect_seconds)
        self._handlers: dict[type, Callable[[Any], object]] = {}
        self._ahandlers: dict[type, Callable[[Any], object]] = {}
        self._lookers: dict[type, Callable[[Any], object]] = {}
        self.perform(Work, _do, timed=True)
        self._rules: Pipeline | None = None
        self._noted: object = None

    @property
    def writes(self) -> bool:
        """Whether any write guard is on."""
        return bool(self.writing.seats)

    @property
    def observing(self) -> tuple[str, ...]:
        """Names of the guards that only report, of both chains."""
        return (*self.writing.observing, *self.reading.observing)

    @property
    def absent(self) -> tuple[str, ...]:
        """Guards that the configuration names and this version does not have."""
        return (*self.writing.absent, *self.reading.absent)

    def perform(
        self,
        effect: type,
        performer: Callable[[Any], object],
        *,
        timed: bool = False,
        look: Callable[[Any], object] | None = None,
    ) -> None:
        """Say who performs a type of effect.

        Args:
            timed: in a worker and within ``policy.effect_seconds``; else where the caller is, as stores need.
            look: performs it for :meth:`check`, where nothing may be remembered or used up.
        """
        workers = self._workers
        self._handlers[effect] = (lambda e: workers.call(performer, e)) if timed else performer
        self._ahandlers[effect] = _aside(workers, performer) if timed else performer
        self._lookers[effect] = look or self._handlers[effect]

    # -- the chains ------------------------------------------------------------------------------

    def write(self, record: Record, **about: Any) -> Outcome:
        """What the write chain says of one record; ``about`` are fields of the guards' context."""
        record = record if self.recall is None else self.recall.attached(record)
        chain, moment = self.writing, self._moment(Stage.WRITE, about)
        return self._settled(chain, run(chain.run(record, moment), self._handlers), record)

    async def awrite(self, record: Record, **about: Any) -> Outcome:
        """Async :meth:`write`."""
        record = record if self.recall is None else self.recall.attached(record)
        chain, moment = self.writing, self._moment(Stage.WRITE, about)
        return self._settled(chain, await arun(chain.run(record, moment), self._ahandlers), record)

    def read(self, record: Record, **about: Any) -> Outcome:
        """What the read chain says of one record that verified."""
        chain, moment = self.reading, self._moment(Stage.READ, about)
        return self._settled(chain, run(chain.run(record, moment), self._handlers), record)

    def reread(self, outcome: Outcome, record: Record) -> Outcome:
        """:meth:`read` of a record of which it is known what the chain says, as of another with the same label."""
        return self._settled(self.reading, replace(outcome, record=record), record)

    async def aread(self, record: Record, **about: Any) -> Outcome:
        """Async :meth:`read`."""
        chain, moment = self.reading, self._moment(Stage.READ, about)
        return self._settled(chain, await arun(chain.run(record, moment), self._ahandlers), record)

    def check(self, record: Record) -> Decision:
        """What the rules say, whatever the mode; neither counted nor open to the hook."""
        if self._rules is None:
            self._rules = chain(self._config, Stage.WRITE, mode="enforce")
        outcome = run(self._rules.run(record, self._moment(Stage.WRITE, {})), self._lookers)
        return self._reviewed(outcome.decision, record)

    def rewritten(self, value: Any, record: Record, decision: Decision) -> tuple[Any, Decision]:
        """A value of several texts, each rewritten for itself, and what is decided about it then.

        A span that reaches over several members, or stands in a key, cannot be cut out: the value is withheld
        as it came. So is one of which more than a flag is said once it is cut: what is left on both sides of a
        span may read as one order.
        """

        def cut(node: Any, depth: int) -> Any:
            if isinstance(node, str):
                said = self._said(node, record.source).rewritten
                return node if said is None else said
            if depth < DEEPEST and isinstance(node, dict):
                return {key: cut(inner, depth + 1) for key, inner in node.items()}
            if depth < DEEPEST and isinstance(node, list):
                return [cut(inner, depth + 1) for inner in node]
            return node

        made = cut(value, 0)
        text = text_of(made, max_items=self._config.guards.limits.max_nodes)
        if made != value and self._said(text, record.source).disposition < Disposition.REWRITE:
            return made, decision
        return value, replace(decision, disposition=Disposition.QUARANTINE, rewritten=None)

    def _said(self, text: str, source: Source) -> Decision:
        """What the write chain says of a text, without counting or remembering it."""
        steps = self.writing.run(Record(text, source=source), self._moment(Stage.WRITE, {}))
        return run(steps, self._lookers).decision

    def trust(self, source: Source) -> Trust | None:
        """The level that the write chain gives a source, from its name alone."""
        return run(self.writing.run(Record("", source=source), self._moment(Stage.WRITE, {}))).decision.trust

    def _moment(self, stage: Stage, about: dict[str, Any]) -> GuardContext:
        return GuardContext(stage, context.current_principal(), time.time(), **about)

    def _settled(self, chain: Pipeline, outcome: Outcome, record: Record) -> Outcome:
        """The outcome after review and hook; events told, the decision counted."""
        for event in outcome.events:
            self._bus.emit(event)
        decision = self._reviewed(outcome.decision, record)
        if self.hook is not None:
            decision = self._asked(self.hook, decision, outcome.record, chain.stage)
        if decision is not outcome.decision:
            kept = (
                outcome.record
                if decision.rewritten is not None
                else replace(outcome.record, content=record.content)
            )
            outcome = replace(outcome, decision=decision, record=kept)
        if chain.stage is Stage.READ and self.recall is not None:
            self.recall.note(outcome.record, decision.trust or record.trust or Trust.UNKNOWN)
        if self._tally is not None:
            for what in ("recalled", "repeated"):
                if chain.stage is Stage.WRITE and record.data.get(what):
                    self._tally.note(record.store, what)
            self._tally.add(record.store, chain.stage.value, decision)
            if chain.observing and self._noted != (day := today()):
                self._noted = day
                self._bus.emit(Observing(chain.observing, *self._tally.withheld_if_enforced()))
        return outcome

    # -- review and hook ---------------------------------------------------------------------------

    def _reviewed(self, decision: Decision, record: Record) -> Decision:
        """An allowed text is not held or flagged for what it says. Its trust stays: only its source gives that.

        A guard that failed and a forged label are no matter of what the text says.
        """
        if self._allowlist is None or not decision.flagged or not _about_content(decision):
            return decision
        try:
            if not any(map(self._allowlist.allowed, _reviewable(record.content))):
                return decision
        except IntegrityError as error:  # an edited list allows nothing, and the write goes on without it
            self._bus.emit(ReadRefused("@allow", "allow", error.record or "", error.case, error.code))
            return decision
        note = Evidence(ALLOWED, "a person has reviewed this text and allowed it")
        return Decision(evidence=(*decision.evidence, note), trust=decision.trust, guard=decision.guard)

    def _asked(self, hook: Hook, decision: Decision, record: Record, stage: Stage) -> Decision:
        """The decision as the program's own hook leaves it; a hook that raises is a guard that failed."""
        answer = attempt(hook, decision, record)
        if isinstance(answer, Raised) or not isinstance(answer.value, Disposition | None):
            name = answer.name if isinstance(answer, Raised) else "TypeError"
            mode = self._config.policy.fail_mode
            floor = {"closed": Disposition.REJECT, "quarantine": Disposition.QUARANTINE}.get(mode)
            if floor is not None and decision.disposition < floor:
                decision = replace(
                    decision,
                    disposition=floor,
                    code=FAILED,
                    reason=f"on_decision failed and the fail mode is {mode}",
                    rewritten=None,
                    guard="on_decision",
                    score=1.0,
                )
            self._bus.emit(
                GuardRaised("on_decision", stage.value, record.store, record.key, name, mode, decision)
            )
            return decision
        if answer.value is None or answer.value is decision.disposition:
            return decision
        note = Evidence(HOOKED, f"on_decision made {decision.disposition} {answer.value}")
        changed = replace(
            decision,
            disposition=answer.value,
            evidence=(*decision.evidence, note),
            code=decision.code or HOOKED,
        )
        if answer.value is Disposition.REWRITE and decision.rewritten is None:
            return replace(changed, disposition=Disposition.FLAG)  # nothing to rewrite it to
        return changed if answer.value is Disposition.REWRITE else replace(changed, rewritten=None)


def _reviewable(content: str) -> tuple[str, ...]:
    """A record's text, and the text of ``{"text": ...}`` without that word.

    A person allows the text that they saw, and not the value in which it is stored. What stands in any other
    member, or in more than one, was not reviewed with it.
    """
    name, line, rest = content.partition("\n")
    return (content, rest) if line and name in _TEXT_MEMBERS else (content,)


def _about_content(decision: Decision) -> bool:
    """Whether everything that speaks against the record is what it says: codes MG2xx, but for scope's MG22x."""
    codes = {decision.code, *(item.rule for item in decision.evidence)}
    return all(code.startswith("MG2") and not code.startswith("MG22") for code in codes)


def _do(effect: Work) -> object:
    return effect.fn(*effect.args)


def _aside(
    workers: Workers, performer: Callable[[Any], object]
) -> Callable[[Any], Coroutine[Any, Any, object]]:
    async def perform(effect: Any) -> object:
        return await asyncio.to_thread(workers.call, performer, effect)

    return perform


def chain(config: Config, stage: Stage, mode: Mode | None = None) -> Pipeline:
    """The guards of a stage: those that the configuration names, then what plug-ins brought, enforced."""
    named = {*config.write.modes(), *config.read.modes(), *config.act.modes()}
    brought = [
        registry.guards.get(name).from_config(config) for name in registry.guards.names() if name not in named
    ]
    fail = config.policy.fail_modes
    seats = tuple(
        Seat(guard, "enforce", fail.get(guard.name, config.policy.fail_mode))
        for guard in brought
        if stage in guard.stages
    )
    return assemble(config, stage, registry.guards, mode=mode, plugins=seats)
