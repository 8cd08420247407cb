"""Interleaved timing: the bare and the guarded operation alternate in one run, so drift hits both alike.

Two runs one after the other measure the machine's mood as much as the code: caches warm, governors step,
neighbours wake. Here each repetition times one bare and one guarded operation back to back, and the order
flips every time. Medians are compared, since a sync that meets a busy disk is an outlier and not the cost.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles

Operation = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Paired:
    """Medians of one interleaved run, in microseconds per operation.

    ``cpu`` is process time, threads included, so that work moved to a background thread is not called free.
    ``low`` and ``high`` are the quartiles of the paired ratios.
    """

    n: int
    bare_us: float
    guarded_us: float
    bare_cpu_us: float
    guarded_cpu_us: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Guarded over bare, wall clock."""
        return self.guarded_us / self.bare_us

    @property
    def cpu_ratio(self) -> float | None:
        """Guarded over bare, CPU; None where the clock is too coarse to see the bare operation."""
        return self.guarded_cpu_us / self.bare_cpu_us if self.bare_cpu_us > 0 else None


@contextmanager
def quiet_heap() -> Iterator[None]:
    """Collect first and keep the collector out of the timed section."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def timed(operation: Operation, index: int) -> tuple[float, float]:
    """Wall and CPU microseconds of ``operation(index)``."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    operation(index)
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    return wall / 1000, cpu / 1000


def interleave(bare: Operation, guarded: Operation, n: int, *, warm_up: int = 3) -> Paired:
    """Run both ``n`` times, alternating and flipping the order; the first ``warm_up`` pairs are not counted.

    Operations get a running index, so that each repetition can touch a fresh record.
    """
    if n < 2:
        raise ValueError("n must be at least 2: quartiles need two pairs")
    samples: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with quiet_heap():
        for index in range(n + warm_up):
            if index % 2:
                second = timed(guarded, index)
                first = timed(bare, index)
            else:
                first = timed(bare, index)
                second = timed(guarded, index)
            if index >= warm_up:
                samples.append((first, second))
    ratios = quantiles([g[0] / b[0] for b, g in samples], n=4)
    return Paired(
        n=n,
        bare_us=median(b[0] for b, _ in samples),
        guarded_us=median(g[0] for _, g in samples),
        bare_cpu_us=median(b[1] for b, _ in samples),
        guarded_cpu_us=median(g[1] for _, g in samples),
        low=ratios[0],
        high=ratios[2],
    )


def median_us(operation: Operation, n: int, *, warm_up: int = 3) -> float:
    """Median wall microseconds of ``operation`` alone."""
    with quiet_heap():
        samples = [timed(operation, index)[0] for index in range(n + warm_up)]
    return median(samples[warm_up:])
