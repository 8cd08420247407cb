"""The chain: guards in order, each asked once, the answers folded once. No I/O.

A guard that raises, or answers with something that is no decision, has failed: its fail mode gives
the decision (closed rejects, quarantine withholds, open allows) and an event says so. That holds for
a failing effect too, if the guard does not handle it.

Modes. ``observe`` computes everything and changes nothing: the decision allows and says in ``would``
what enforcing had done. ``enforce`` does what the rules say, any other word at most that.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace

from memguard.decision import Decision, Disposition, Evidence, fold
from memguard.errors import ConfigError
from memguard.events import GuardRaised
from memguard.guard import Effect, Guard, GuardContext, Stage
from memguard.isolate import Answered, Raised, attempt
from memguard.record import Record, Trust, did_you_mean
from memguard.registry import Registry
from memguard.settings import PRESETS, Config, FailMode, Mode

#: Code of a decision that a fail mode made.
FAILED = "MG910"

_FAIL: dict[FailMode, Disposition] = {
    "closed": Disposition.REJECT,
    "quarantine": Disposition.QUARANTINE,
    "open": Disposition.ALLOW,
}
_CEILING: dict[Mode, Disposition] = {
    "observe": Disposition.ALLOW,
    "flag": Disposition.FLAG,
    "rewrite": Disposition.REWRITE,
    "quarantine": Disposition.QUARANTINE,
    "reject": Disposition.REJECT,
    "enforce": Disposition.REJECT,
}

#: What the chain is sent for an effect: its result, or what performing it raised.
Result = Answered[object] | Raised


@dataclass(frozen=True, slots=True)
class Seat:
    """A guard's place in a chain."""

    guard: Guard
    mode: Mode = "enforce"
    fail_mode: FailMode = "quarantine"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the chain made of one record."""

    #: All answers as one.
    decision: Decision
    #: One answer per guard that was asked, in order.
    decisions: tuple[Decision, ...]
    #: The record as the last guard left it.
    record: Record
    #: Failures, for the caller to emit.
    events: tuple[GuardRaised, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The guards of one stage. Immutable, so threads may share it."""

    stage: Stage
    seats: tuple[Seat, ...] = ()
    #: Guards that the preset names and this version does not have.
    absent: tuple[str, ...] = field(default=(), compare=False)

    @property
    def observing(self) -> tuple[str, ...]:
        """Names of the guards that only report."""
        return tuple(seat.guard.name for seat in self.seats if seat.mode == "observe")

    def run(self, record: Record, ctx: GuardContext) -> Generator[Effect, Result, Outcome]:
        """Ask every guard about one record; yields effects, is sent results, returns the outcome.

        A rewrite is what the guards after it see, with the trust that those before it left. An enforced
        rejection ends the chain, since nothing can outweigh it.
        """
        decisions: list[Decision] = []
        events: list[GuardRaised] = []
        for seat in self.seats:
            answer = yield from self._ask(seat, record, ctx)
            if isinstance(answer, Raised):
                decision = _failed(seat, answer)
                name, where = seat.guard.name, (self.stage.value, record.store, record.key)
                events.append(GuardRaised(name, *where, answer.name, seat.fail_mode, decision))
            else:
                decision = answer.capped(_CEILING[seat.mode])
            decisions.append(decision)
            if decision.rewritten is not None or decision.trust is not None:
                levels = [t for t in (record.trust, decision.trust) if t is not None]
                content = record.content if decision.rewritten is None else decision.rewritten
                record = replace(record, content=content, trust=Trust.least(levels))
            if decision.disposition is Disposition.REJECT:
                break
        return Outcome(fold(decisions), tuple(decisions), record, tuple(events))

    def _ask(
        self, seat: Seat, record: Record, ctx: GuardContext
    ) -> Generator[Effect, Result, Decision | Raised]:
        answer = attempt(seat.guard.decide, record, ctx)
        if isinstance(answer, Answered) and isinstance(answer.value, Generator):
            answer = yield from _drive(answer.value)
        if isinstance(answer, Answered):
            value: object = answer.value
            if not isinstance(value, Decision):
                return Raised(TypeError(f"a guard answers with a Decision, not {type(value).__name__}"))
            return value if value.guard else replace(value, guard=seat.guard.name)
        return answer


def _drive(
    steps: Generator[Effect, object, Decision],
) -> Generator[Effect, Result, Answered[Decision] | Raised]:
    """Pass a guard's effects up and their results down until it returns or raises."""
    step = attempt(steps.send, None)
    while isinstance(step, Answered):
        result = yield step.value
        if isinstance(result, Raised):
            step = attempt(steps.throw, result.error)
        else:
            step = attempt(steps.send, result.value)
    return Answered(step.error.value) if isinstance(step.error, StopIteration) else step


def _failed(seat: Seat, raised: Raised) -> Decision:
    reason = f"the guard failed and its fail mode is {seat.fail_mode}"
    decision = Decision(
        _FAIL[seat.fail_mode],
        reason,
        FAILED,
        evidence=(Evidence(FAILED, f"{raised.name} in guard {seat.guard.name}"),),
        score=1.0,
        guard=seat.guard.name,
    )
    # A ceiling bounds what the rules may do, not what a failure means; observing changes nothing.
    return decision.capped(Disposition.ALLOW) if seat.mode == "observe" else decision


def assemble(
    config: Config,
    stage: Stage,
    guards: Registry,
    *,
    mode: Mode | None = None,
    plugins: tuple[Seat, ...] = (),
) -> Pipeline:
    """The chain that a configuration describes for a stage.

    ``mode`` overrides every guard's mode, also ``off`` (``mg.check`` asks what the rules say).
    ``plugins`` are seated after the configured guards. A guard that only the preset names and that
    does not exist in this version is listed as absent and not seated.

    Raises:
        ConfigError: MG105 where the configuration itself asks for a guard that does not exist, or
            gives a fail mode to one.
    """
    table = {Stage.WRITE: config.write, Stage.READ: config.read, Stage.ACT: config.act}[stage]
    default = _preset_modes(config.preset, stage)
    for name in config.policy.fail_modes:
        if name not in guards and name not in {seat.guard.name for seat in plugins}:
            raise ConfigError(
                f"policy.fail_modes names a guard {name!r} that does not exist",
                code="MG105",
                do=did_you_mean(name, guards.names()),
            )
    seats: list[Seat] = []
    absent: list[str] = []
    for name, configured in table.modes().items():
        chosen = mode or configured
        if chosen == "off":
            continue
        if name not in guards:
            if configured not in (default[name], "off", "observe"):
                raise ConfigError(
                    f"{stage}.{name} = {configured!r}: this version has no guard of that name",
                    code="MG105",
                    do=f'Set it to "off", or use one of {", ".join(guards.names())}.',
                )
            absent.append(name)
            continue
        guard: Guard = guards.get(name).from_config(config)
        fail_mode = config.policy.fail_modes.get(name, config.policy.fail_mode)
        seats.append(Seat(guard, chosen, fail_mode))
    return Pipeline(stage, (*seats, *plugins), tuple(absent))


def _preset_modes(preset: str, stage: Stage) -> dict[str, Mode]:
    config = Config.model_validate(dict(PRESETS[preset]))
    return {Stage.WRITE: config.write, Stage.READ: config.read, Stage.ACT: config.act}[stage].modes()
