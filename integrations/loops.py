"""Operations on objects that live in an event loop, from synchronous code."""

from __future__ import annotations

import asyncio
from typing import Any

from memguard.collection.faces import blocking
from memguard.effects import Operation, adrive
from memguard.errors import UnsupportedError


def driven(operation: Operation[Any], loop: asyncio.AbstractEventLoop | None, inner: object) -> Any:
    """Run an operation on ``inner``: in the loop in which it was used last, or in one of its own.

    Raises:
        UnsupportedError: MG131, the caller is that loop's own thread.
    """
    if loop is None or not loop.is_running():
        return blocking(operation)
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        operation.close()
        raise UnsupportedError(
            f"a synchronous call reached {type(inner).__name__}, which lives in this event loop.",
            code="MG131",
            why="It would wait for a loop that is waiting for it.",
            do="Use the async twins (await mg.aaudit(...)), or call from another thread.",
        )
    return asyncio.run_coroutine_threadsafe(adrive(operation), loop).result()
