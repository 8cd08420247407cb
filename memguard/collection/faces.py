"""How operations on a collection are run from synchronous and asynchronous code."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from memguard.effects import Operation, adrive, drive, shielded, to_the_end


def run(operation: Operation[Any]) -> Any:
    """On a wrapped object whose methods are plain."""
    return drive(operation)


async def arun(operation: Operation[Any]) -> Any:
    """On a wrapped object whose methods are plain, from a coroutine: in a worker thread, to its end."""
    return await to_the_end(asyncio.to_thread(drive, operation))


async def awaited(operation: Operation[Any]) -> Any:
    """On a wrapped object whose methods are coroutines: in this loop, to its end even if the caller is cancelled."""
    return await shielded(operation)


def blocking(operation: Operation[Any]) -> Any:
    """On a wrapped object whose methods are coroutines, from synchronous code: in a loop of its own.

    Only for objects that are tied to no loop. Inside a running loop the work is done in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(adrive(operation))
    answer: list[Any] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(asyncio.run(adrive(operation)))
        except BaseException as error:  # noqa: BLE001 - it is the caller's to see
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return answer[0]
