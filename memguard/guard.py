"""What a guard is: a name, its stages, and one method that answers or asks for something first.

    class Length:
        name = "length"
        stages = (Stage.WRITE,)

        @classmethod
        def from_config(cls, config): return cls()

        def decide(self, record, ctx):
            return Decision()            # or: vectors = yield Embed((record.content,))

A guard does no I/O. It yields an effect instead and is sent the result, so that one body serves the
synchronous and the asynchronous driver (:mod:`memguard.runtime`). A guard never wraps another one
or the store, and keeps no state from one record to the next unless it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from memguard.decision import Decision
from memguard.record import Principal, Record

if TYPE_CHECKING:  # pydantic is not worth its import time to somebody who only types ``import memguard``
    from memguard.settings import Config


class Stage(StrEnum):
    """Where in a memory's life a guard is asked."""

    WRITE = "write"
    READ = "read"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask for the provenance of records. The answer maps each id that the guarded stores know to its
    :class:`~memguard.record.Provenance`; ids that are missing or do not verify are left out."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Embed:
    """Ask for vectors. The answer is one sequence of floats per text, in order."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the judge model. The answer is its text; a cut-off answer is an error, never a verdict.

    ``purpose`` is what the tokens are booked under, ``max_tokens`` the explicit limit.
    """

    purpose: str
    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Work:
    """Ask for a slow call of the guard's own, such as another library's detector: ``fn(*args)`` in a worker,
    within the time limit of effects. The answer is what it returns; what it raises comes back into the guard."""

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()


Effect = Fetch | Embed | Ask | Work
#: A guard that needs something: yields effects, is sent their results, returns its decision.
Steps = Generator[Effect, Any, Decision]


@dataclass(frozen=True, slots=True)
class GuardContext:
    """What a guard may know about the moment: nothing it could use to reach around the chain."""

    stage: Stage
    principal: Principal | None = None
    #: Seconds since the epoch, taken once per record.
    now: float = 0.0


@runtime_checkable
class Guard(Protocol):
    """One rule of policy over records."""

    @property
    def name(self) -> str:
        """Its name in the configuration and in decisions."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages it can be seated in."""
        ...

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The guard that a configuration describes."""
        ...

    def decide(self, record: Record, ctx: GuardContext) -> Decision | Steps:
        """Answer about one record, or yield effects and then answer."""
        ...
