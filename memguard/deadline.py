"""Calls that may take long or never return (a model, an embedder), made to answer in time.

The call runs in a worker thread under the caller's context. Python cannot stop a thread: one that is late
is left to itself and its answer dropped. Only so many may be stuck at once; beyond that a call is refused at
once, so that a judge that never answers costs its time limit a few times and not a thread per memory.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from memguard.isolate import Answered, Raised, attempt

A = TypeVar("A")
T = TypeVar("T")


class Workers:
    """Runs calls in daemon threads, one at a time each.

    Args:
        seconds: how long a caller waits, > 0.
        most: threads that may be busy at once, late ones included, >= 1.
    """

    def __init__(self, seconds: float, most: int = 8) -> None:
        self.seconds = seconds
        self._free = threading.BoundedSemaphore(most)

    def call(self, fn: Callable[[A], T], argument: A) -> T:
        """``fn(argument)``, in time.

        Raises:
            TimeoutError: no answer in time, or every worker is still busy with late calls.
            Exception: whatever the call raises.
        """
        if not self._free.acquire(blocking=False):
            raise TimeoutError("every worker is busy with a call that is late")
        done: SimpleQueue[Answered[T] | Raised] = SimpleQueue()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                done.put(attempt(context.run, fn, argument))
            finally:
                self._free.release()

        threading.Thread(target=work, name="memguard-effect", daemon=True).start()
        try:
            result = done.get(timeout=self.seconds)
        except Empty:
            raise TimeoutError(f"no answer within {self.seconds:g} s") from None
        if isinstance(result, Raised):
            raise result.error
        return result.value
