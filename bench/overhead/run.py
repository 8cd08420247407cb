"""The whole measurement: which pairs are opened, what is timed on them, and the rows that come out.

from memguard.bench.overhead.run import Plan, measure
rows = measure(Plan.quick(), folder)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.overhead import targets
from memguard.bench.overhead.cost import commit_us, hmac_us, sync_us
from memguard.bench.overhead.graph import turns
from memguard.bench.overhead.guarding import Guarding
from memguard.bench.overhead.postgres import postgres_pair, postgres_store_pair
from memguard.bench.overhead.rows import Row
from memguard.bench.overhead.saver import SaverPair, saver_pair
from memguard.bench.overhead.scale import first_verification, history_growth, index_megabytes
from memguard.bench.overhead.store import StorePair, store_pair
from memguard.bench.overhead.timing import Operation, Paired, interleave
from memguard.bench.overhead.work import ROW_SIZES, SIZES

SAVER = "langgraph-sqlite-saver+memguard"
STORE = "langgraph-sqlite-store+memguard"
POSTGRES_SAVER = "langgraph-postgres-saver+memguard"
POSTGRES_STORE = "langgraph-postgres-store+memguard"
#: What is measured unless told otherwise, and what can be.
SUTS = (SAVER, STORE)
KNOWN = (*SUTS, POSTGRES_SAVER, POSTGRES_STORE)
_LISTED = 200
_SETTINGS = (("strict", "off"), ("lag", "off"), ("strict", "on"))


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. A setting is (durability of the anchor, content guards, message sizes)."""

    settings: tuple[tuple[str, str, tuple[str, ...]], ...]
    #: sizes at which ``list`` is measured as well (200 checkpoints of 180 kB take seconds to read)
    list_sizes: tuple[str, ...]
    n: int
    #: repetitions where one takes long (500 messages; list)
    n_slow: int
    items: int
    verify_rows: tuple[tuple[str, int], ...]
    memory_rows: int
    history: tuple[int, int]
    seed: int = 0

    @classmethod
    def full(cls) -> Plan:
        """Everything: about five minutes."""
        return cls(
            settings=tuple((mode, guards, tuple(SIZES)) for mode, guards in _SETTINGS),
            list_sizes=tuple(SIZES),
            n=200,
            n_slow=30,
            items=10_000,
            verify_rows=(("1 msg", 20_000), ("50 msg", 5_000), ("500 msg", 500)),
            memory_rows=20_000,
            history=(100, 10_000),
        )

    @classmethod
    def quick(cls) -> Plan:
        """Enough for a first impression in half a minute; targets printed against it are indicative.

        What takes long is left to the full plan: large states with guards on or in lag mode, long lists of them,
        and stores of ten thousand items, so these rows carry no target here.
        """
        return cls(
            settings=tuple(
                (mode, guards, tuple(SIZES) if (mode, guards) == ("strict", "off") else ("1 msg",))
                for mode, guards in _SETTINGS
            ),
            list_sizes=("1 msg",),
            n=30,
            n_slow=4,
            items=2_000,
            verify_rows=(("1 msg", 2_000), ("50 msg", 200)),
            memory_rows=2_000,
            history=(100, 1_000),
        )


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Prices:
    sync_us: float
    commit_us: float
    hmac_us: float


def _row(
    sut: str,
    operation: str,
    size: str,
    paired: Paired,
    prices: _Prices,
    *,
    history: int,
    mode: str,
    guards: str,
    syncs: float,
) -> Row:
    return Row(
        sut=sut,
        operation=operation,
        size=size,
        history=history,
        mode=mode,
        guards=guards,
        n=paired.n,
        bare_us=paired.bare_us,
        guarded_us=paired.guarded_us,
        ratio=paired.ratio,
        ratio_low=paired.low,
        ratio_high=paired.high,
        cpu_ratio=paired.cpu_ratio,
        anchor_syncs=syncs,
        sync_us=prices.sync_us,
        commit_us=prices.commit_us,
        hmac_us=prices.hmac_us,
        target=targets.ratio_target(operation, size, mode, guards, sut),
    )


def _timed(guarding: Guarding, both: tuple[Operation, Operation], n: int) -> tuple[Paired, float]:
    """The paired medians, and the anchor syncs per guarded operation (counted over every repetition)."""
    warm_up = 3
    before = guarding.syncs
    paired = interleave(*both, n, warm_up=warm_up)
    return paired, (guarding.syncs - before) / (n + warm_up)


def saver_rows(
    plan: Plan, folder: Path, prices: _Prices, say: Progress, sut: str = SAVER, opened: Any = saver_pair
) -> Iterator[Row]:
    """put, put_writes, get_tuple and list for every setting and size; a graph turn for every setting."""
    for mode, guards, sizes in plan.settings:
        for size in sizes:
            say(f"{sut.removesuffix('+memguard')}, {mode}, guards {guards}, {size}")
            n = plan.n if SIZES[size] < 500 else plan.n_slow
            place = folder / f"{sut}-{mode}-{guards}-{SIZES[size]}"
            with opened(place, SIZES[size], sync=mode, guards=guards, seed=plan.seed) as pair:
                yield from _saver_block(plan, pair, size, n, mode, guards, prices, sut)
        with opened(folder / f"{sut}-graph-{mode}-{guards}", 1, sync=mode, guards=guards) as pair:
            paired, syncs = _timed(pair.guarding, turns(pair), plan.n)
            yield _row(
                sut,
                "graph turn",
                "3 nodes",
                paired,
                prices,
                history=0,
                mode=mode,
                guards=guards,
                syncs=syncs,
            )


def _saver_block(
    plan: Plan, pair: SaverPair, size: str, n: int, mode: str, guards: str, prices: _Prices, sut: str
) -> Iterator[Row]:
    """The four operations of one pair. The thread's first operation costs one sync more and is done untimed."""
    pair.fill(1)

    def row(operation: str, both: tuple[Operation, Operation], count: int, history: int) -> Row:
        paired, syncs = _timed(pair.guarding, both, count)
        return _row(
            sut, operation, size, paired, prices, history=history, mode=mode, guards=guards, syncs=syncs
        )

    yield row("put", pair.puts(n + 3), n, 1)
    yield row("get_tuple(head)", pair.gets(), n, n + 4)
    if size in plan.list_sizes:
        pair.fill(max(0, _LISTED - (n + 4)))
        # About the same time for each size: one list of 200 takes 7 ms, 150 ms and 1.5 s.
        count = {1: plan.n, 50: plan.n_slow}.get(SIZES[size], max(2, plan.n_slow // 6))
        yield row(f"list({_LISTED})", pair.lists(_LISTED), count, max(_LISTED, n + 4))
    # Last, because every write stays pending under the head and would be read by get_tuple and list.
    yield row("put_writes", pair.writes(n + 3), n, pair.made)


def store_rows(
    plan: Plan, folder: Path, prices: _Prices, say: Progress, sut: str = STORE, opened: Any = store_pair
) -> Iterator[Row]:
    """get, put, update and top-10 of a store of many items."""
    size = f"{plan.items} items"
    for mode, guards, _ in plan.settings:
        say(f"{sut.removesuffix('+memguard')}, {mode}, guards {guards}, {size}")
        with opened(folder / f"{sut}-{mode}-{guards}", plan.items, sync=mode, guards=guards) as pair:
            operations: tuple[tuple[str, Callable[[StorePair], tuple[Operation, Operation]]], ...] = (
                ("store get", StorePair.gets),
                ("store put", StorePair.puts),
                ("store update", StorePair.updates),
                ("store search top-10", StorePair.searches),
            )
            pair.guarded.get(("users", "alice"), "k-000000")  # the first touch of the context is not a get
            for operation, both in operations:
                paired, syncs = _timed(pair.guarding, both(pair), plan.n)
                yield _row(
                    sut,
                    operation,
                    size,
                    paired,
                    prices,
                    history=plan.items,
                    mode=mode,
                    guards=guards,
                    syncs=syncs,
                )


def scale_rows(plan: Plan, folder: Path, prices: _Prices, say: Progress) -> Iterator[Row]:
    """First verification, memory, and independence of the length of the history."""
    for size, rows in plan.verify_rows:
        say(f"first verification, {rows} rows of {ROW_SIZES[size]}")
        found = first_verification(folder / f"verify-{SIZES[size]}", SIZES[size], rows)
        yield Row(
            SAVER,
            f"first verification {ROW_SIZES[size]}",
            size,
            rows,
            value=found.rows_per_second,
            unit="rows/s",
            target=targets.Target(targets.FIRST_VERIFICATION, at_most=False) if SIZES[size] <= 50 else None,
            sync_us=prices.sync_us,
            commit_us=prices.commit_us,
            hmac_us=prices.hmac_us,
        )
    say(f"memory of {plan.memory_rows} tracked records")
    yield Row(
        SAVER,
        "memory per 100,000 records",
        "1 msg",
        plan.memory_rows,
        value=index_megabytes(folder / "memory", plan.memory_rows),
        unit="MB",
        target=targets.Target(targets.MEMORY_MB),
        sync_us=prices.sync_us,
        commit_us=prices.commit_us,
        hmac_us=prices.hmac_us,
    )
    short, long = plan.history
    say(f"history of {long} against {short}")
    for operation, paired in history_growth(folder / "history", short, long, plan.n):
        yield Row(
            SAVER,
            f"{operation} at {long} vs {short}",
            "1 msg",
            long,
            mode="bulk",
            n=paired.n,
            value=paired.ratio,
            unit="times",
            target=targets.Target(targets.HISTORY),
            sync_us=prices.sync_us,
            commit_us=prices.commit_us,
            hmac_us=prices.hmac_us,
        )


def measure(
    plan: Plan, folder: Path, *, suts: tuple[str, ...] = SUTS, say: Progress = lambda _: None
) -> list[Row]:
    """Everything of ``plan`` for ``suts``, in ``folder`` (which must be empty and on the volume to be measured)."""
    folder.mkdir(parents=True, exist_ok=True)
    say("cost of one sync and one commit")
    prices = _Prices(sync_us(folder), commit_us(folder), hmac_us())
    rows: list[Row] = []
    if SAVER in suts:
        rows += saver_rows(plan, folder, prices, say)
        rows += scale_rows(plan, folder, prices, say)
    if POSTGRES_SAVER in suts:
        rows += saver_rows(plan, folder, prices, say, POSTGRES_SAVER, postgres_pair)
    if STORE in suts:
        rows += store_rows(plan, folder, prices, say)
    if POSTGRES_STORE in suts:
        rows += store_rows(plan, folder, prices, say, POSTGRES_STORE, postgres_store_pair)
    return rows
