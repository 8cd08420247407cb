"""What an operation asks of the world while it runs, and the two drivers that do it.

An operation is a generator: it yields effects and is sent their results. The sync driver
calls, the async driver awaits; the body is written once (the shape of httpx's auth flows).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar

from memguard.errors import UnsupportedError

T = TypeVar("T")
#: Longest wait for a lock by a sync call inside a running event loop, seconds: the holder may
#: need that very loop to go on.
LOOP_PATIENCE = 10.0


class Lock(Protocol):
    """An exclusive lock that is asked without waiting or with."""

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take it for ``owner``."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class Call:
    """Call the wrapped object: its plain method under the sync driver, its coroutine under the async one."""

    __slots__ = ("args", "fn", "kwargs")

    def __init__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs


class Twin(Call):
    """Call a method of an object that has both sides: ``fn`` under the sync driver, ``twin`` under the async one."""

    __slots__ = ("twin",)

    def __init__(self, fn: Callable[..., Any], twin: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(fn, *args, **kwargs)
        self.twin = twin


class Block:
    """Call something of ours that may wait for a disk; a worker thread under the async driver."""

    __slots__ = ("args", "fn", "kwargs")

    def __init__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs


class Acquire:
    """Take a lock; the generator releases it."""

    __slots__ = ("lock", "owner")

    def __init__(self, lock: Lock, owner: object) -> None:
        self.lock, self.owner = lock, owner


Effect = Call | Block | Acquire
Operation = Generator[Effect, Any, T]


def drive(operation: Operation[T]) -> T:
    """Run an operation with plain calls."""
    send = operation.send
    try:
        effect = send(None)
        while True:
            try:
                if effect.__class__ is Acquire:
                    _take(effect)
                    result = None
                else:
                    result = effect.fn(*effect.args, **effect.kwargs)  # type: ignore[union-attr]
            except BaseException as error:  # noqa: BLE001 - it is the operation's to handle
                effect = operation.throw(error)
            else:
                effect = send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def _take(effect: Acquire) -> None:
    if effect.lock.acquire(effect.owner, False):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        effect.lock.acquire(effect.owner, True)
        return
    until = time.monotonic() + LOOP_PATIENCE
    while not effect.lock.acquire(effect.owner, False):
        if time.monotonic() > until:
            raise UnsupportedError(
                "a synchronous call waited inside an event loop for a guarded store that is busy.",
                code="MG132",
                why="An async operation on the same store may need this loop to finish.",
                do="Use the async methods, or call from another thread.",
            )
        time.sleep(0.001)


async def adrive(operation: Operation[T]) -> T:
    """Run an operation with awaits. Locks are polled, disks waited for in a worker thread."""
    send = operation.send
    try:
        effect = send(None)
        while True:
            try:
                if effect.__class__ is Acquire:
                    await _atake(effect)
                    result = None
                elif effect.__class__ is Block:
                    result = await asyncio.to_thread(effect.fn, *effect.args, **effect.kwargs)
                elif effect.__class__ is Twin:
                    result = await effect.twin(*effect.args, **effect.kwargs)
                else:
                    result = effect.fn(*effect.args, **effect.kwargs)  # type: ignore[union-attr]
                    if inspect.isawaitable(result):
                        result = await result
            except BaseException as error:  # noqa: BLE001 - it is the operation's to handle
                effect = operation.throw(error)
            else:
                effect = send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def _atake(effect: Acquire) -> None:
    pause, since = 0.0, time.monotonic()
    tired = getattr(effect.lock, "tired", None)  # of a lock that is waited for no longer than its owner says
    while not effect.lock.acquire(effect.owner, False):
        if tired is not None and (error := tired(since)) is not None:
            raise error
        await asyncio.sleep(pause)
        pause = min(pause + 0.0002, 0.005)


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work that goes on to its end even if the caller is cancelled; then the cancellation goes on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that the loop does not report it as lost
        raise


async def shielded(operation: Operation[T]) -> T:
    """Run a writing operation to its end even if the caller is cancelled.

    Half of one would leave the store and its head to a recovery that a cancelled request does not deserve.
    """
    return await to_the_end(adrive(operation))
