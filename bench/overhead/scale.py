"""What grows: first verification of a context, memory of its index, and the cost of one operation as history grows."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

from memguard.bench.overhead.saver import SaverPair, Side, saver_pair
from memguard.bench.overhead.timing import Paired, interleave


@dataclass(frozen=True, slots=True)
class Verification:
    """One first touch of a context.

    ``seconds`` is the first ``get_tuple`` of a newly opened guard less a second one, so that decoding the
    served checkpoint is not counted as verification.
    """

    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows whose tag and metadata were checked, per second."""
        return self.rows / self.seconds


def _reopened(pair: SaverPair) -> Side:
    """The guarded side under a guard that has seen nothing yet."""
    from memguard import unwrap

    inner = unwrap(pair.guarded.saver)
    pair.guarding.reopen()
    return Side(pair.guarding.guard(inner, "overhead"), head=pair.guarded.head)


def first_verification(folder: Path, size: int, rows: int) -> Verification:
    """Fill a thread with ``rows`` checkpoints of ``size`` messages, open it anew and time the first read."""
    with saver_pair(folder, size, sync="bulk") as pair:
        pair.fill(rows, bare=False)
        best = float("inf")
        for _ in range(3):  # the best of three: this is a rate, and only interruptions make it slower
            side = _reopened(pair)
            gc.collect()
            times = []
            for _ in range(2):
                start = time.perf_counter()
                side.get()
                times.append(time.perf_counter() - start)
            best = min(best, max(times[0] - times[1], 1e-9))
        return Verification(rows, best)


def index_megabytes(folder: Path, rows: int) -> float:
    """MB (10**6 bytes) that the guard keeps per 100,000 tracked records, from the growth at first touch.

    Python's own allocations (tracemalloc), measured on ``rows`` checkpoints in one thread and scaled.
    """
    with saver_pair(folder, 1, sync="bulk") as pair:
        pair.fill(rows, bare=False)
        side = _reopened(pair)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            served = side.get()
            del served
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        return grown * (100_000 / rows) / 1e6


def history_growth(folder: Path, short: int, long: int, n: int) -> list[tuple[str, Paired]]:
    """Guarded ``put`` and ``get_tuple`` with ``long`` checkpoints behind them against ``short`` ones.

    Both threads are guarded and interleaved, so "bare" in the answer stands for the short history: a ratio
    of 1 says that the cost does not depend on how much came before.
    """
    with (
        saver_pair(folder / "short", 1, sync="bulk") as few,
        saver_pair(folder / "long", 1, sync="bulk") as many,
    ):
        few.fill(short, bare=False)
        many.fill(long, bare=False)
        puts = (few.puts(n + 3)[1], many.puts(n + 3)[1])
        gets = (few.gets()[1], many.gets()[1])
        return [
            ("put", interleave(*puts, n)),
            ("get_tuple(head)", interleave(*gets, n)),
        ]
