"""One contract, every anchor: file, SQLite, memory, PostgreSQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memguard.anchors import open_anchor
from memguard.errors import AnchorError
from memguard.ports import Anchor, Cursor

KINDS = ("file", "sqlite", "memory", "postgresql")
Opener = Callable[[], Anchor]


@pytest.fixture(params=KINDS)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        made: str = request.getfixturevalue("postgres_uri")
        return made
    return {
        "file": f"file:{tmp_path / 'anchor'}",
        "sqlite": f"sqlite:{tmp_path / 'anchor.db'}",
        "memory": f"memory:{uuid4()}",
    }[request.param]


@pytest.fixture
def anchor(uri: str) -> Iterator[Anchor]:
    made = open_anchor(uri, create=True)
    yield made
    made.close()


@pytest.fixture
def other(uri: str, anchor: Anchor) -> Iterator[Anchor]:
    second = open_anchor(uri)
    yield second
    second.close()


def put(anchor: Anchor, *records: bytes, sync: bool = False) -> Cursor:
    assert anchor.acquire()
    try:
        return anchor.append(records, sync=sync)
    finally:
        anchor.release()


class TestContract:
    def test_it_is_an_anchor(self, anchor: Anchor, uri: str) -> None:
        assert isinstance(anchor, Anchor)
        assert anchor.uri == uri

    def test_a_new_log_is_empty(self, anchor: Anchor) -> None:
        records, cursor, reset = anchor.read(None)
        assert (records, reset) == ([], False)
        assert not anchor.changed(cursor)
        assert anchor.read(cursor) == ([], cursor, False)

    def test_records_come_back_in_order_whatever_their_bytes(self, anchor: Anchor, other: Anchor) -> None:
        wanted = [b"a", b"", bytes(3), b"\xff" * 4096, b"MGr1" * 9, b"MGx1", os.urandom(100_001)]
        cursor = put(anchor, *wanted[:3])
        cursor = put(anchor, *wanted[3:])
        assert other.read(None) == (wanted, cursor, False)
        assert all(type(record) is bytes for record in other.read(None)[0])

    def test_read_goes_on_from_a_cursor(self, anchor: Anchor, other: Anchor) -> None:
        first = put(anchor, b"1", b"2")
        seen = other.read(None)[1]
        assert seen == first
        assert not other.changed(seen)
        last = put(anchor, b"3")
        assert other.changed(seen)
        assert other.read(seen) == ([b"3"], last, False)
        assert not other.changed(last)
        assert anchor.changed(first)
        assert not anchor.changed(last)
        assert other.changed(first)  # an old cursor stays usable

    def test_an_empty_append_changes_nothing(self, anchor: Anchor) -> None:
        before = put(anchor, b"1")
        assert put(anchor) == before
        assert not anchor.changed(before)

    def test_syncs_are_counted(self, anchor: Anchor) -> None:
        before = anchor.syncs
        put(anchor, b"1")
        assert anchor.syncs == before
        put(anchor, b"2", b"3", sync=True)
        assert anchor.syncs == before + 1
        anchor.sync()
        assert anchor.syncs == before + 2

    def test_the_lock_excludes_objects_and_threads(self, anchor: Anchor, other: Anchor) -> None:
        assert anchor.acquire()
        assert not other.acquire(blocking=False)
        assert not anchor.acquire(blocking=False)
        taken = threading.Event()

        def wait() -> None:
            assert other.acquire()
            taken.set()
            other.release()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not taken.wait(0.05)
        anchor.release()
        thread.join(5)
        assert taken.is_set()
        assert anchor.acquire(blocking=False)
        anchor.release()

    def test_writing_needs_the_lock(self, anchor: Anchor, other: Anchor) -> None:
        with pytest.raises(AnchorError, match="lock"):
            anchor.append([b"1"], sync=False)
        with pytest.raises(AnchorError, match="lock"):
            anchor.compact([])
        with pytest.raises(AnchorError, match="lock"):
            anchor.release()
        assert other.acquire()
        with pytest.raises(AnchorError, match="lock"):
            anchor.append([b"1"], sync=False)
        other.release()
        assert anchor.read(None)[0] == []

    def test_threads_lose_no_record(self, uri: str, anchor: Anchor, other: Anchor) -> None:
        def work(which: Anchor, name: int) -> None:
            for number in range(40):
                put(which, f"{name}-{number}".encode())

        threads = [threading.Thread(target=work, args=(a, n)) for n, a in enumerate((anchor, anchor, other))]
        for thread in threads:
            thread.start()
        cursor, tail = other.read(None)[1], list[bytes]()
        while any(
            thread.is_alive() for thread in threads
        ):  # a reader without the lock sees whole records only
            fresh, cursor, reset = anchor.read(cursor)
            assert not reset
            tail += fresh
        for thread in threads:
            thread.join()
        records = other.read(None)[0]
        assert sorted(records) == sorted(f"{n}-{i}".encode() for n in range(3) for i in range(40))
        for name in range(3):
            mine = [record for record in records if record.startswith(f"{name}-".encode())]
            assert mine == [f"{name}-{i}".encode() for i in range(40)]
        tail += anchor.read(cursor)[0]
        assert records[len(records) - len(tail) :] == tail

    def test_a_compaction_is_seen_by_others(self, anchor: Anchor, other: Anchor) -> None:
        put(anchor, b"1", b"2", b"3")
        seen = other.read(None)[1]
        assert anchor.acquire()
        cursor = anchor.compact([b"kept"])
        anchor.release()
        assert cursor.epoch == seen.epoch + 1
        assert other.changed(seen)
        assert other.read(seen) == ([b"kept"], cursor, True)
        assert other.read(cursor) == ([], cursor, False)
        last = put(other, b"4")
        assert anchor.read(cursor) == ([b"4"], last, False)
        assert anchor.read(None) == ([b"kept", b"4"], last, False)

    def test_an_append_after_a_compaction_by_another_goes_to_the_new_log(
        self, anchor: Anchor, other: Anchor
    ) -> None:
        put(other, b"1")
        anchor.read(None)
        assert anchor.acquire()
        anchor.compact([])
        anchor.release()
        put(other, b"2")  # other has not read since
        assert anchor.read(None)[0] == [b"2"]

    def test_compaction_refuses_to_lose_what_was_not_read(
        self, anchor: Anchor, other: Anchor, uri: str
    ) -> None:
        if uri.startswith("memory:"):
            pytest.skip("in memory there is nothing that this object has not seen")
        anchor.read(None)
        put(other, b"1")
        assert anchor.acquire()
        with pytest.raises(AnchorError, match="not read"):
            anchor.compact([])
        assert anchor.read(None)[0] == [b"1"]
        anchor.compact([b"1"])
        anchor.release()

    def test_a_cursor_from_the_future_is_a_rolled_back_anchor(self, anchor: Anchor) -> None:
        cursor = put(anchor, b"1")
        for ahead in (
            Cursor(cursor.epoch + 1, cursor.offset),
            Cursor(cursor.epoch, cursor.offset + 64),
            Cursor(cursor.epoch, cursor.offset + 8_000_000),
        ):
            assert anchor.changed(ahead)
            with pytest.raises(AnchorError, match="rolled back"):
                anchor.read(ahead)

    def test_closing_twice_is_fine_and_using_after_is_not(self, uri: str, anchor: Anchor) -> None:
        cursor = put(anchor, b"1")
        assert anchor.acquire()
        anchor.close()
        anchor.close()
        calls: list[Callable[[], object]] = [
            anchor.acquire,
            lambda: anchor.read(None),
            lambda: anchor.changed(cursor),
            anchor.sync,
            lambda: anchor.append([b"2"], sync=False),
        ]
        for call in calls:
            with pytest.raises(AnchorError, match="closed"):
                call()
        again = open_anchor(uri)  # the lock was given back, the log is still there
        assert put(again, b"2").epoch == cursor.epoch
        assert again.read(None)[0] == [b"1", b"2"]
        again.close()

    def test_creating_over_an_anchor_is_refused(self, uri: str, anchor: Anchor) -> None:
        put(anchor, b"1")
        with pytest.raises(AnchorError, match="already"):
            open_anchor(uri, create=True)
        assert anchor.read(None)[0] == [b"1"]

    def test_a_missing_anchor_is_an_error_and_stays_missing(self, uri: str) -> None:
        for _ in range(2):
            with pytest.raises(AnchorError) as caught:
                open_anchor(uri)
            assert caught.value.case == "anchor"
            assert caught.value.code == "MG411"
            assert caught.value.why
            assert caught.value.do

    def test_a_record_over_the_limit_is_refused_and_harms_nothing(
        self, anchor: Anchor, uri: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if uri.startswith("memory:"):
            pytest.skip("memory has no limit of its own")
        monkeypatch.setattr("memguard.anchors.framing.MAX_RECORD", 100)
        monkeypatch.setattr("memguard.anchors.failures.MAX_RECORD", 100)
        with pytest.raises(AnchorError, match="limit"):
            put(anchor, b"small", b"x" * 101)
        assert put(anchor, b"y" * 100)
        assert anchor.read(None)[0] == [b"y" * 100]

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(batches=st.lists(st.lists(st.binary(max_size=60), max_size=4), max_size=5), data=st.data())
    def test_any_history_reads_the_same_from_any_cursor(
        self, anchor: Anchor, other: Anchor, batches: list[list[bytes]], data: st.DataObject
    ) -> None:
        cursors = [anchor.read(None)[1]]
        already = len(anchor.read(None)[0])
        for batch in batches:
            cursors.append(put(anchor, *batch))
        which = data.draw(st.integers(0, len(batches)))
        expected = [record for batch in batches[which:] for record in batch]
        reader = data.draw(st.sampled_from([anchor, other]))
        if expected:
            assert reader.changed(cursors[which])  # it may cry wolf about a place it never saw, once
        assert reader.read(cursors[which]) == (expected, cursors[-1], False)
        assert not reader.changed(cursors[-1])
        assert len(reader.read(None)[0]) == already + sum(map(len, batches))
