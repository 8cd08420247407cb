"""What an operation costs, counted and not timed: syncs, serialisations, decodes. And the harness that times.

Counts are exact and the same on every machine, so they gate; timings are printed by the bench and gate nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import langgraph.checkpoint.sqlite  # noqa: F401 - not installed is a failure and not a skip
import pytest
from click.testing import CliRunner

from memguard import IntegrityError
from memguard.bench.overhead import rows as rows_module
from memguard.bench.overhead.guarding import Guarding
from memguard.bench.overhead.rows import Row, summary, table
from memguard.bench.overhead.run import SAVER, STORE, Plan, measure
from memguard.bench.overhead.saver import Side, connect
from memguard.bench.overhead.store import NAMESPACE
from memguard.bench.overhead.store import connect as connect_store
from memguard.bench.overhead.targets import RATIOS, Target
from memguard.bench.overhead.timing import interleave
from memguard.bench.overhead.work import SIZES, checkpoints, item


class CountingSerde:
    """The saver's own serializer, with its calls counted."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.dumps, self.loads = inner, 0, 0

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        self.dumps += 1
        return self.inner.dumps_typed(value)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.loads += 1
        return self.inner.loads_typed(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Counted:
    """A guarded SqliteSaver whose syncs, serialisations and decodes are counted."""

    def __init__(self, folder: Path, sync: str = "strict") -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        folder.mkdir()
        self.path = folder / "store.db"
        saver = SqliteSaver(connect(self.path))
        saver.setup()
        self.serde = saver.serde = CountingSerde(saver.serde)
        self.guarding = Guarding.create(folder, sync=sync)
        self.side = Side(self.guarding.guard(saver, "overhead"))
        self.source = checkpoints(3)
        self._inner = saver

    def put(self, side: Side | None = None) -> None:
        (side or self.side).put(next(self.source), 1)

    def spent(self, action: Any) -> tuple[int, int, int]:
        """(syncs, serialisations, decodes) of ``action``."""
        before = self.guarding.syncs, self.serde.dumps, self.serde.loads
        action()
        return (
            self.guarding.syncs - before[0],
            self.serde.dumps - before[1],
            self.serde.loads - before[2],
        )

    def reopen(self) -> Side:
        """The same store under a guard that has seen nothing yet."""
        self.guarding.reopen()
        return Side(self.guarding.guard(self._inner, "overhead"), head=self.side.head)

    def close(self) -> None:
        self.guarding.close()
        self._inner.conn.close()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    made = Counted(tmp_path / "counted")
    yield made
    made.close()


def test_a_put_is_one_sync_and_one_serialisation(counted: Counted) -> None:
    counted.put()
    for _ in range(5):
        assert counted.spent(counted.put) == (1, 1, 0)


def test_the_first_operation_of_a_context_is_two_syncs(counted: Counted) -> None:
    assert counted.spent(counted.put)[0] == 2
    other = Side(counted.side.saver, thread="another")
    assert counted.spent(lambda: counted.put(other))[0] == 2
    assert counted.spent(lambda: counted.put(other))[0] == 1


def test_put_writes_is_one_sync_and_one_serialisation_per_write(counted: Counted) -> None:
    counted.put()
    writes = [("messages", ["a"]), ("step", 1), ("other", None)]
    assert counted.spent(lambda: counted.side.put_writes(writes, "task")) == (1, 3, 0)


def test_a_delete_is_two_syncs(counted: Counted) -> None:
    counted.put()
    counted.put()
    assert counted.spent(lambda: counted.side.saver.delete_thread(counted.side.thread))[0] == 2


def test_a_read_is_no_sync_and_serialises_nothing(counted: Counted) -> None:
    for _ in range(4):
        counted.put()
    counted.side.put_writes([("step", 1)], "task")
    syncs, dumps, loads = counted.spent(counted.side.get)
    assert (syncs, dumps) == (0, 0)
    assert loads == 2, "one checkpoint and one pending write"
    syncs, dumps, loads = counted.spent(lambda: counted.side.list(10))
    assert (syncs, dumps) == (0, 0)
    assert loads == 5, "each record once"


def test_the_first_verification_decodes_only_what_is_served(counted: Counted) -> None:
    for _ in range(20):
        counted.put()
    side = counted.reopen()
    syncs, dumps, loads = counted.spent(side.get)
    assert (syncs, dumps, loads) == (0, 0, 1)


def test_lag_mode_syncs_less_and_a_close_makes_the_tail_durable(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "lag", sync="lag")
    try:
        counted.put()
        syncs, dumps, _ = counted.spent(lambda: [counted.put() for _ in range(16)])
        assert dumps == 16
        assert syncs < 16
        counted.reopen()  # raises if the tail were lost
    finally:
        counted.close()


@pytest.mark.parametrize("what", ["checkpoint", "metadata", "type", "write"])
def test_no_byte_whose_tag_failed_is_decoded(counted: Counted, what: str) -> None:
    counted.put()
    counted.side.put_writes([("step", 1)], "task")
    edits = {
        "checkpoint": "UPDATE checkpoints SET checkpoint = CAST(checkpoint || x'00' AS BLOB)",
        "metadata": "UPDATE checkpoints SET metadata = CAST(replace(metadata, 'loop', 'fork') AS BLOB)",
        "type": "UPDATE checkpoints SET type = 'json'",
        "write": "UPDATE writes SET value = CAST(value || x'00' AS BLOB)",
    }
    with sqlite3.connect(counted.path) as other:
        assert other.execute(edits[what]).rowcount == 1
    for side in (counted.side, counted.reopen()):
        for read in (side.get, lambda side=side: side.list(5)):
            before = counted.serde.loads
            with pytest.raises(IntegrityError):
                read()
            # A write is checked with its checkpoint, before either is decoded.
            assert counted.serde.loads == before


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Any, Guarding]]:
    from langgraph.store.sqlite import SqliteStore

    inner = SqliteStore(connect_store(tmp_path / "store.db"))
    inner.setup()
    guarding = Guarding.create(tmp_path)
    yield guarding.guard(inner, "overhead-store"), guarding
    guarding.close()
    inner.conn.close()


def test_store_syncs(store: tuple[Any, Guarding]) -> None:
    guarded, guarding = store

    def syncs(action: Any) -> int:
        before = guarding.syncs
        action()
        return guarding.syncs - before

    assert syncs(lambda: guarded.put(NAMESPACE, "a", item(1))) == 2, "the context's first operation"
    assert syncs(lambda: guarded.put(NAMESPACE, "b", item(2))) == 1
    assert syncs(lambda: guarded.put(NAMESPACE, "a", item(3))) == 1
    assert syncs(lambda: guarded.get(NAMESPACE, "a")) == 0
    assert syncs(lambda: guarded.search(NAMESPACE, limit=10)) == 0
    assert syncs(lambda: guarded.delete(NAMESPACE, "a")) == 2


# -- the harness ------------------------------------------------------------------------------------


def test_interleave_alternates_and_flips_the_order() -> None:
    calls: list[tuple[str, int]] = []
    found = interleave(
        lambda i: calls.append(("bare", i)), lambda i: calls.append(("guarded", i)), 4, warm_up=2
    )
    assert [name for name, _ in calls] == ["bare", "guarded", "guarded", "bare"] * 3
    assert [index for _, index in calls[::2]] == list(range(6))
    assert found.n == 4


def test_interleave_sees_a_difference_that_is_there() -> None:
    def slow(_: int) -> None:
        sum(range(200_000))

    found = interleave(lambda _: sum(range(20_000)), slow, 15)
    assert found.ratio > 3
    assert found.low <= found.high


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_repetitions_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        interleave(lambda _: None, lambda _: None, n)


def test_work_is_of_the_published_sizes() -> None:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    for size, (low, high) in {
        "1 msg": (300, 1000),
        "50 msg": (15_000, 21_000),
        "500 msg": (150_000, 210_000),
    }.items():
        source = checkpoints(SIZES[size])
        first, second = next(source), next(source)
        assert low < len(JsonPlusSerializer().dumps_typed(first)[1]) < high
        kept, came = first["channel_values"]["messages"], second["channel_values"]["messages"]
        assert kept[1:] == came[:-1]
        assert came[-1] not in kept
        assert first["id"] < second["id"]


def test_every_target_names_a_row_that_is_measured(tmp_path: Path) -> None:
    """A tiny plan through the whole measurement: the rows carry the published fields, and no target is orphaned."""
    small = Plan(
        settings=(("strict", "off", ("1 msg",)), ("lag", "off", ("1 msg",)), ("strict", "on", ("1 msg",))),
        list_sizes=("1 msg",),
        n=2,
        n_slow=2,
        items=30,
        verify_rows=(("1 msg", 20),),
        memory_rows=30,
        history=(2, 10),
    )
    found = measure(small, tmp_path / "run")
    keys = {
        "sut", "operation", "size", "history", "bare_us", "guarded_us", "ratio", "cpu_ratio", "anchor_syncs",
        "sync_us", "commit_us",
    }  # fmt: skip
    for row in found:
        data = row.as_dict()
        json.dumps(data, allow_nan=False)
        assert keys <= set(data)
        assert data["sync_us"] > 0
        assert data["commit_us"] > 0
    assert {row.sut for row in found} == {SAVER, STORE}
    measured = {(row.operation, row.mode) for row in found if row.guards == "off"}
    assert {(operation, mode) for operation, _, mode in RATIOS} <= measured
    by_name = {(row.operation, row.mode, row.guards): row for row in found}
    assert by_name["put", "strict", "off"].anchor_syncs == 1.0
    assert by_name["put_writes", "strict", "off"].anchor_syncs == 1.0
    assert by_name["get_tuple(head)", "strict", "off"].anchor_syncs == 0.0
    assert by_name["list(200)", "strict", "off"].anchor_syncs == 0.0
    assert by_name["put", "lag", "off"].anchor_syncs <= 1.0
    text = table(found) + "\n" + summary(found)
    assert max(map(len, text.splitlines())) <= 110
    assert "\n" + SAVER in "\n" + text


def test_the_plans_cover_what_the_targets_speak_of() -> None:
    full = Plan.full()
    sizes = {(mode, size) for mode, guards, sizes in full.settings if guards == "off" for size in sizes}
    for operation, size, mode in RATIOS:
        if operation in ("put", "get_tuple(head)"):
            assert (mode, size) in sizes
        if operation == "list(200)":
            assert size in full.list_sizes
        if operation.startswith("store"):
            assert size == f"{full.items} items"
    assert full.history[1] == 10_000


def test_met_and_missed_are_words_and_never_an_exit_code() -> None:
    assert Target(2.0).words(1.5) == "<= 2 met"
    assert Target(2.0).words(2.5) == "<= 2 missed"
    assert Target(60_000, at_most=False).words(70_000.0) == ">= 60,000 met"
    assert Target(2.0).words(None) == "<= 2 not measured"
    missed = Row(
        "s",
        "put",
        "1 msg",
        1,
        bare_us=1.0,
        guarded_us=9.0,
        ratio=9.0,
        sync_us=1,
        commit_us=1,
        target=Target(2),
    )
    assert "missed" in table([missed])
    assert "0 of 1 met" in summary([missed])
    assert rows_module.summary([]) == "nothing was measured"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memguard.cli.app import cli

    row = Row(
        SAVER,
        "put",
        "1 msg",
        1,
        bare_us=1.0,
        guarded_us=9.0,
        ratio=9.0,
        sync_us=1,
        commit_us=1,
        target=Target(2),
    )
    monkeypatch.setattr("memguard.bench.overhead.run.measure", lambda *a, **k: [row])
    out, run = tmp_path / "o.json", tmp_path / "run"
    done = CliRunner().invoke(cli, ["bench", "overhead", "--quick", "--json", str(out), "--run", str(run)])
    assert done.exit_code == 0, done.output
    document = json.loads(out.read_text())
    assert document == json.loads((run / "result.json").read_text())
    assert document["schema"] == "memguard.bench/1"
    assert document["bench"] == "overhead"
    assert document["rows"][0]["met"] is False
    assert len(document["config_digest"]) == 64
    assert "missed" in done.stdout
    # What is there is not measured again, and only for the same plan.
    monkeypatch.setattr("memguard.bench.overhead.run.measure", lambda *a, **k: [])
    arguments = ["bench", "overhead", "--run", str(run), "--resume"]
    again = CliRunner().invoke(cli, [*arguments, "--quick"])
    assert again.stdout == done.stdout
    other = CliRunner().invoke(cli, [*arguments, "--quick", "--seed", "1"])
    assert "nothing was measured" in other.stdout
    wrong = CliRunner().invoke(cli, ["bench", "overhead", "--sut", "nothing"])
    assert wrong.exit_code == 2
