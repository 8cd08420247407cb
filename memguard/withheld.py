"""How much of what it read each guard withheld lately, per store; a guard that withholds too much only observes.

A guard whose judgement fits a store badly can hide most of it and look like a working defence. So a share above
``read.max_withheld_ratio`` over the last ``read.withheld_window`` records ends its withholding in that store, with
an event, until the share over the window is back at or below the limit.

Not counted are guards that follow a declaration and judge nothing (scope, validity, provenance), decisions that
a fail mode made, and the purpose filter: what they withhold is what they were told to.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

#: Guards that withhold what somebody declared, not what they suspect.
DECLARED = frozenset(("scope", "validity", "provenance"))
#: (store, guard) pairs that are remembered; the one that was noted longest ago is forgotten first.
MAX_PAIRS = 4096


@dataclass(slots=True)
class _Lately:
    window: deque[bool]
    withheld: int = 0
    observing: bool = field(default=False)


class Gauge:
    """The shares, by store and guard. Threads may share it; all of it is gone with the process.

    Args:
        ratio: the largest share that may be withheld, in [0, 1].
        window: records that are looked back at.
        least: records before a share says anything.
    """

    def __init__(self, ratio: float, *, window: int = 200, least: int = 50) -> None:
        self._ratio, self._window, self._least = ratio, window, min(least, window)
        self._pairs: dict[tuple[str, str], _Lately] = {}
        self._lock = threading.Lock()

    def observing(self, store: str, guard: str) -> bool:
        """Whether the guard only observes in that store for now."""
        lately = self._pairs.get((store, guard))
        return lately is not None and lately.observing

    def counts(self, store: str, guard: str) -> tuple[int, int]:
        """How many records of the window it withheld, or would have, and how many the window holds."""
        lately = self._pairs.get((store, guard))
        return (lately.withheld, len(lately.window)) if lately else (0, 0)

    def note(self, store: str, guard: str, withheld: bool) -> bool | None:
        """Count one record that the guard judged. True or False where it now begins or ends to observe, else None.

        Count what its rules say also while it only observes, or it would never be heard again.
        """
        if guard in DECLARED:
            return None
        with self._lock:
            lately = self._pairs.pop((store, guard), None) or _Lately(deque(maxlen=self._window))
            self._pairs[store, guard] = lately  # put last: the first is the one noted longest ago
            if len(self._pairs) > MAX_PAIRS:
                self._pairs.pop(next(iter(self._pairs)))
            if len(lately.window) == self._window:
                lately.withheld -= lately.window[0]
            lately.window.append(withheld)
            lately.withheld += withheld
            over = len(lately.window) >= self._least and lately.withheld > self._ratio * len(lately.window)
            if over is lately.observing:
                return None
            lately.observing = over
            return over
