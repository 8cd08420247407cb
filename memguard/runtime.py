"""The two drivers: they run a chain and perform the effects it yields.

``handlers`` maps a type of effect to the function that performs it. Whatever a handler raises goes
back into the guard that asked, and if the guard does not handle it, becomes its fail mode's decision.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import Any, TypeVar

from memguard.errors import UnsupportedError
from memguard.guard import Effect
from memguard.isolate import Answered, Raised, attempt, attempt_async
from memguard.pipeline import Result

T = TypeVar("T")
#: Effect type to the function that performs it; the asynchronous driver also takes coroutine functions.
Handlers = Mapping[type, Callable[[Any], object]]

NO_HANDLERS: Handlers = {}


def run(steps: Generator[Effect, Result, T], handlers: Handlers = NO_HANDLERS) -> T:
    """Drive a chain to its outcome, performing effects in the calling thread."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(_perform(effect, handlers))
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome


async def arun(steps: Generator[Effect, Result, T], handlers: Handlers = NO_HANDLERS) -> T:
    """Drive a chain to its outcome, awaiting effects whose handler is asynchronous.

    Cancellation passes through: the chain is closed and nothing is decided.
    """
    try:
        effect = next(steps)
        while True:
            result = attempt(_handler(effect, handlers), effect)
            if isinstance(result, Answered) and inspect.isawaitable(result.value):
                result = await attempt_async(result.value)
            effect = steps.send(result)
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
    finally:
        steps.close()


def _perform(effect: Effect, handlers: Handlers) -> Result:
    result = attempt(_handler(effect, handlers), effect)
    if isinstance(result, Answered) and inspect.isawaitable(result.value):
        _discard(result.value)
        return Raised(
            UnsupportedError(
                f"{type(effect).__name__} can only be performed asynchronously here",
                code="MG134",
                do="Use the asynchronous twin of the call, or configure a synchronous handler.",
            )
        )
    return result


def _handler(effect: Effect, handlers: Handlers) -> Callable[[Any], object]:
    return handlers.get(type(effect), _unhandled)


def _unhandled(effect: Effect) -> object:
    raise UnsupportedError(
        f"nothing here performs {type(effect).__name__}",
        code="MG134",
        do="Configure what it needs (an embedder, a judge), or switch the guard off.",
    )


def _discard(awaitable: Awaitable[object]) -> None:
    # A coroutine that is dropped without being closed warns much later, from nowhere.
    if isinstance(awaitable, Coroutine):
        awaitable.close()
