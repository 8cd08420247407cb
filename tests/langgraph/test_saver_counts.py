"""Counted exactly, not timed: syncs of the anchor, serialisations, and bytes that reached a decoder."""

from __future__ import annotations

import fcntl
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from memguard.anchorlog import SIGN_EVERY
from memguard.errors import TamperedError
from memguard.integrity.head import Accumulator
from memguard.integrity.mac import Mac
from memguard.keys.ring import RootKeyRing


class Tally:
    """What one call costs."""

    def __init__(self, mg: Any, serde: Any) -> None:
        self._mg, self._serde = mg, serde

    def of(self, call: Callable[[], Any]) -> dict[str, int]:
        before = self._mg.anchor.syncs, self._serde.made, len(self._serde.decoded)
        call()
        after = self._mg.anchor.syncs, self._serde.made, len(self._serde.decoded)
        return dict(
            zip(
                ("syncs", "made", "decoded"), (b - a for a, b in zip(before, after, strict=True)), strict=True
            )
        )


@pytest.fixture
def setting(scene: Any, counting: Any) -> Any:
    serde = counting()
    mg = scene.guard()
    saver = mg.guard(scene.bare(serde), name="checkpoints")
    return saver, Tally(mg, serde)


def test_what_each_operation_costs(setting: Any, maker: Any, place: Any) -> None:
    saver, tally = setting
    config = place("t")

    def put() -> None:
        nonlocal config
        config = maker.put(saver, config, "v")

    # A context's first operation announces itself durably: without it a power loss could not be told from a forgery.
    assert tally.of(put) == {"syncs": 2, "made": 1, "decoded": 0}
    for _ in range(3):
        assert tally.of(put) == {"syncs": 1, "made": 1, "decoded": 0}  # a put never reads the state back
    writes = [("a", 1), ("b", 2), ("c", 3)]
    assert tally.of(lambda: saver.put_writes(config, writes, "task")) == {"syncs": 1, "made": 3, "decoded": 0}
    assert tally.of(lambda: saver.put_writes(config, writes, "task")) == {"syncs": 0, "made": 3, "decoded": 0}
    resumed = [("__resume__", 1)]
    for _ in range(2):
        assert tally.of(lambda: saver.put_writes(config, resumed, "task")) == {
            "syncs": 1,
            "made": 1,
            "decoded": 0,
        }
    assert tally.of(lambda: saver.get_tuple(place("t"))) == {"syncs": 0, "made": 0, "decoded": 5}
    assert tally.of(lambda: saver.get_tuple(config)) == {"syncs": 0, "made": 0, "decoded": 5}
    assert tally.of(lambda: saver.get_tuple(place("nobody"))) == {"syncs": 0, "made": 0, "decoded": 0}
    assert tally.of(lambda: list(saver.list(place("t")))) == {"syncs": 0, "made": 0, "decoded": 8}
    assert tally.of(lambda: list(saver.list(place("t"), limit=1))) == {"syncs": 0, "made": 0, "decoded": 5}
    assert tally.of(lambda: saver.delete_thread("t")) == {"syncs": 2, "made": 0, "decoded": 0}
    assert tally.of(lambda: saver.delete_thread("t"))["syncs"] == 0  # there is nothing left to delete
    config = place("t")
    assert tally.of(put)["syncs"] == 1  # the context has a head, although it counts nothing


def test_the_cost_of_put_and_get_does_not_grow_with_the_history(setting: Any, maker: Any, place: Any) -> None:
    saver, tally = setting
    config = place("t")
    statements: list[str] = []
    saver.conn.set_trace_callback(statements.append)
    costs = []
    for number in range(60):
        statements.clear()

        def turn(at: Any = config) -> None:
            nonlocal config
            config = maker.put(saver, at, "v" * 10)
            saver.get_tuple(place("t"))

        cost = tally.of(turn)
        if number:
            costs.append((cost, len(statements)))
    assert costs.count(costs[0]) == len(costs)


def test_lag_mode_syncs_once_in_its_window(scene: Any, maker: Any, place: Any) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints", sync="lag", lag_ops=10, lag_ms=600_000)
    config = maker.put(saver, place("t"), "first")
    before = mg.anchor.syncs
    for _ in range(30):
        config = maker.put(saver, config, "v")
    assert 2 <= mg.anchor.syncs - before <= 4
    before = mg.anchor.syncs
    maker.put(saver, config, "tail")
    mg.close()
    assert mg.anchor.syncs == before + 1  # close makes the tail durable
    scene.close()
    assert scene.saver().get_tuple(place("t")).checkpoint["channel_values"] == {"x": "tail"}


@pytest.mark.parametrize("sync", ["strict", "lag"])
def test_what_a_write_computes_and_asks_of_the_system(
    scene: Any, maker: Any, place: Any, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    counts: Counter[str] = Counter()

    gc.collect()
    here = threading.get_ident()

    def count(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            # What other guards of this process still finish in threads of their own is not this write's.
            if threading.get_ident() == here:
                counts[name] += 1
            return inner(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(Mac, "digest")
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints", sync=sync, lag_ops=1000, lag_ms=600_000)
    config = maker.put(saver, place("t"), "first")
    for owner, name in (
        (Accumulator, "term"), (RootKeyRing, "sign"), (os, "pwrite"), (os, "pread"), (os, "stat"),
        (os, "fdatasync"), (fcntl, "flock"),
    ):  # fmt: skip
        count(owner, name)
    # The note, the record, and the note taken back; the tail looked at under either lock, and the note.
    system = {
        "pwrite": 3,
        "pread": 3,
        "stat": 1,
        "flock": 4,
        **({"fdatasync": 1} if sync == "strict" else {}),
    }
    for _ in range(3):
        counts.clear()
        config = maker.put(saver, config, "v")
        assert counts == {**system, "digest": 4}  # the row's tag, the note, the history, the link of the log
        counts.clear()
        saver.put_writes(config, [("a", 1), ("b", 2)], "task")
        assert counts == {**system, "digest": 5}
    counts.clear()
    for _ in range(2 * SIGN_EVERY):
        config = maker.put(saver, config, "v")
    assert counts["sign"] == 2
    _, bad, waiting = mg._log.signatures()
    assert bad == 0
    assert waiting < SIGN_EVERY
    mg.close()  # what this process wrote is signed to its end
    scene.close()
    assert scene.guard()._log.signatures()[1:] == (0, 0)


def test_a_memory_saver_is_serialised_once_for_each_value(
    scene: Any, maker: Any, place: Any, counting: Any
) -> None:
    serde = counting()
    saver = scene.guard().guard(InMemorySaver(serde=serde), name="memory")
    maker.put(saver, place("t"), "v")
    bare = counting()
    maker.put(InMemorySaver(serde=bare), place("t"), "v")
    assert serde.made == bare.made
    assert serde.decoded == []


@pytest.mark.parametrize("column", ["checkpoint", "metadata", "parent_checkpoint_id", "type"])
def test_nothing_of_a_row_whose_tag_failed_is_decoded(
    scene: Any, maker: Any, place: Any, counting: Any, column: str
) -> None:
    serde = counting()
    saver = scene.saver(serde)
    config = maker.put(saver, place("t"), "v")
    saver.put_writes(config, [("a", 1)], "task")
    scene.sql(f"UPDATE checkpoints SET {column} = x'00'")
    for call in (
        lambda: saver.get_tuple(place("t")),
        lambda: saver.get_tuple(config),
        lambda: list(saver.list(None)),
    ):
        with pytest.raises(TamperedError):
            call()
    assert serde.decoded == []


def test_lag_mode_syncs_after_its_time_and_leaves_no_thread_behind(
    scene: Any, maker: Any, place: Any
) -> None:
    """A saver for each request, in lag mode: the tail of each becomes durable, and nothing of it stays."""
    mg = scene.guard()
    config = maker.put(mg.guard(scene.bare(), name="checkpoints"), place("t"), "first")
    for number in range(3):
        saver = mg.guard(scene.bare(), name="checkpoints", sync="lag", lag_ops=100, lag_ms=1)
        flusher = saver._memguard.custody._flusher
        flusher._idle = 0.01
        before = mg.anchor.syncs
        config = maker.put(saver, config, number)
        until = time.monotonic() + 20
        while (mg.anchor.syncs == before or flusher._thread is not None) and time.monotonic() < until:
            time.sleep(0.005)
        assert mg.anchor.syncs == before + 1
        assert flusher._thread is None
