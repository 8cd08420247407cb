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
from memguard.record import Principal, Record, Scope, Source
from memguard.slots import Slot

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


@dataclass(frozen=True, slots=True)
class Spend:
    """Ask to use up a signature, which is good once at one place. The answer is whether it was new.

    ``place`` names what was signed for (source, store, owner, record); ``at`` is its time in milliseconds:
    what is not newer than the last one used at the place is not new.
    """

    place: str
    at: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class Compare:
    """Ask how a record stands against what its scope wrote before; it is remembered unless only looked at.

    The answer is a :class:`Standing`. ``slots`` are what it says is so; only those of trusted records are
    kept and compared with. ``vector`` may be None for a trusted record: the answer then says whether one is
    wanted, since its scope's centre needs a sample of them only.
    """

    store: str
    scope: Scope
    vector: tuple[float, ...] | None
    source: Source
    trusted: bool
    slots: tuple[Slot, ...]
    moment: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a record stands in the history of its scope.

    Attributes:
        count: records of the scope that were seen before.
        nearest: cosine to the most alike of the last ones, in [-1, 1]; None if there are none.
        drift: standard deviations by which it is farther from the scope's centre than its records are.
        burst: records of this source in the last minute.
        usual: the most of them in a minute before that, 0 for a new source.
        known_source: whether the source wrote to this scope before.
        contradicts: whether a trusted record says otherwise of the same thing.
        wanted: whether the vector that was left out is wanted; the record is not remembered before.
    """

    count: int = 0
    nearest: float | None = None
    drift: float = 0.0
    burst: int = 0
    usual: int = 0
    known_source: bool = True
    contradicts: bool = False
    wanted: bool = False


Effect = Fetch | Embed | Ask | Work | Spend | Compare
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
