"""The two things that happen without being asked: the tail of lag mode is synced, and contexts are scrubbed.

One daemon thread for each, started on first need, that ends with the MemGuard. A failure is an
event and the next touch's error; the thread goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from memguard.errors import MemguardError

#: Seconds after which a flusher with nothing to do ends its thread; the next head starts another.
IDLE = 5.0


class Flusher:
    """Syncs an anchor at most ``seconds`` after the first head that was appended without.

    Its thread ends when it has had nothing to do for a while: an application may guard a saver for each request.
    """

    def __init__(self, flush: Callable[[], None], seconds: float, idle: float = IDLE) -> None:
        self._flush, self._seconds, self._idle = flush, seconds, idle
        self._pending, self._stopped = threading.Event(), threading.Event()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def poke(self) -> None:
        """There is something to sync."""
        if self._pending.is_set():
            return  # the thread is up, and has yet to clear this before it flushes
        with self._mutex:
            self._pending.set()
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="memguard-flush", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread; what is pending is the caller's to flush."""
        self._stopped.set()
        self._pending.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if not self._pending.wait(self._idle):
                with self._mutex:
                    if not self._pending.is_set():
                        self._thread = None
                        return
            if self._stopped.wait(self._seconds):
                return
            self._pending.clear()
            try:
                self._flush()
            except MemguardError:
                return  # the anchor is poisoned: the next operation says so


class Scrubber:
    """Calls ``scrub`` every ``seconds``."""

    def __init__(self, scrub: Callable[[], object], seconds: float) -> None:
        self._scrub, self._seconds = scrub, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memguard-scrub", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._scrub()
            except MemguardError:
                continue  # told to the bus already, and refused at the next read
