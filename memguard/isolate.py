"""Calling code that is not ours (a guard, an observer, a hook) without letting it break the caller.

The only place in the package that catches ``Exception``: everywhere else an unexpected one is a bug
of ours and has to surface. KeyboardInterrupt, SystemExit and task cancellation always pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Raised:
    """What a call raised instead of answering."""

    error: Exception

    @property
    def name(self) -> str:
        """The type only: the message of a foreign exception may quote memory content."""
        return type(self.error).__name__


@dataclass(frozen=True, slots=True)
class Answered(Generic[T_co]):
    """What a call answered."""

    value: T_co


def attempt(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Answered[T] | Raised:
    """Call it; an exception is a value."""
    try:
        return Answered(call(*args, **kwargs))
    except Exception as error:  # noqa: BLE001
        return Raised(error)


async def attempt_async(awaitable: Awaitable[T]) -> Answered[T] | Raised:
    """Await it; an exception is a value."""
    try:
        return Answered(await awaitable)
    except Exception as error:  # noqa: BLE001
        return Raised(error)
