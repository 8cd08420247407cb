"""Bad input and hard days: keys, anchors, locks, closed databases, races and deaths, presets that look away."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard import MemGuard, guard, unwrap
from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.errors import (
    AlreadyGuardedError,
    AnchorError,
    ConfigError,
    ForgottenError,
    ForkError,
    IntegrityError,
    RollbackError,
    TamperedError,
    UnknownKeyError,
    UnsupportedError,
)
from memguard.keys.file import FileKeyRing
from memguard.testing.anchors import FaultyAnchor


def value_of(saver: Any, config: Any) -> Any:
    found = saver.get_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]["x"]


# -- keys -------------------------------------------------------------------------------------------


def test_a_missing_key_is_no_new_key(scene: Any, maker: Any, place: Any) -> None:
    maker.put(scene.saver(), place("t"), "v")
    scene.close()
    scene.key.unlink()
    with pytest.raises(ConfigError) as caught:
        scene.guard()
    assert caught.value.code == "MG108"
    assert not scene.key.exists()


def test_another_key_is_unknown_not_tampered_and_not_empty(
    scene: Any, maker: Any, place: Any, new_scene: Any
) -> None:
    maker.put(scene.saver(), place("t"), "v")
    scene.close()
    other = new_scene()
    other.guard()
    with pytest.raises(UnknownKeyError) as caught:
        MemGuard.open(scene.home, anchor=f"file:{scene.anchor}", keys=f"file:{other.key}")
    assert caught.value.case == "key"


def test_rotation_keeps_old_rows_and_a_destroyed_key_is_unknown(scene: Any, maker: Any, place: Any) -> None:
    config = maker.put(scene.saver(), place("t"), "old")
    scene.close()
    keys = FileKeyRing.open(scene.key)
    old, new = keys.current, keys.rotate()
    saver = scene.saver()
    assert value_of(saver, place("t")) == "old"
    mg = saver._memguard.guard
    assert (
        mg._log.head(("checkpoints", '["ck","t",""]'))[0] == new
    )  # the head is under the new key from its first touch
    assert value_of(saver, place("t")) == "old"
    maker.put(saver, config, "new")
    assert mg.audit(saver).clean
    scene.close()
    kids = {
        json.loads(row[0])["memguard"]["seal"].split(".")[1]
        for row in scene.sql("SELECT metadata FROM checkpoints")
    }
    assert kids == {old, new}
    scene.guard()._log.compact()  # nothing of the log names the old key any more
    scene.close()
    FileKeyRing.open(scene.key).destroy(old)
    saver = scene.saver()
    with pytest.raises(UnknownKeyError) as caught:
        saver.get_tuple(config)
    assert caught.value.case == "key"
    assert old in str(caught.value)
    with pytest.raises(UnknownKeyError):
        list(saver.list(place("t")))
    assert saver.get_tuple(place("other")) is None


# -- the anchor -------------------------------------------------------------------------------------


def test_a_missing_anchor_is_an_error_and_is_not_made(scene: Any, maker: Any, place: Any) -> None:
    maker.put(scene.saver(), place("t"), "v")
    scene.close()
    shutil.rmtree(scene.anchor)
    with pytest.raises(AnchorError) as caught:
        scene.guard()
    assert caught.value.case == "anchor"
    assert not scene.anchor.exists()


def test_an_anchor_cut_within_and_cut_to_nothing(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    config = place("t")
    for number in range(4):
        config = maker.put(saver, config, number)
    scene.close()
    log = scene.anchor / "anchor.log"
    whole = log.read_bytes().rstrip(b"\0")  # room is made in advance
    for cut in (len(whole) // 2, 40, 0):
        log.write_bytes(whole[:cut])
        with pytest.raises(AnchorError):
            value_of(scene.saver(), place("t"))
        scene.close()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    log.write_bytes(bytes(flipped))
    with pytest.raises(AnchorError):
        value_of(scene.saver(), place("t"))
    scene.close()
    log.write_bytes(whole)
    assert value_of(scene.saver(), place("t")) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_read_only_anchor_stops_writes_and_serves_reads(scene: Any, maker: Any, place: Any) -> None:
    config = maker.put(scene.saver(), place("t"), "v")
    scene.close()
    (scene.anchor / "anchor.log").chmod(0o400)
    saver = scene.saver()
    assert value_of(saver, place("t")) == "v"
    with pytest.raises(AnchorError):
        maker.put(saver, config, "w")


def faulty(scene: Any, fail_on: dict[str, int]) -> tuple[MemGuard, FaultyAnchor]:
    """The scene's home on an anchor that fails on demand."""
    mg = scene.guard()
    anchor = FaultyAnchor(open_anchor(f"file:{scene.anchor}"), {})
    mg._log.close()
    mg._log = AnchorLog(anchor, mg.keys, harvest=mg._harvest)
    mg.anchor = anchor
    anchor._left = dict(fail_on)
    return mg, anchor


@pytest.mark.parametrize("failure", ["append", "append-after", "sync"])
def test_a_full_or_failing_anchor_loses_nothing_and_other_stores_go_on(
    scene: Any, new_scene: Any, maker: Any, place: Any, failure: str
) -> None:
    config = maker.put(scene.saver(), place("t"), "acknowledged")
    scene.close()
    other = new_scene()
    other_saver = other.saver()
    mg, anchor = faulty(scene, {failure: 0})
    saver = mg.guard(scene.bare(), name="checkpoints")
    with pytest.raises(AnchorError):
        maker.put(saver, config, "in doubt")
    assert anchor.struck == [failure]
    maker.put(other_saver, place("t"), "other")
    assert value_of(other_saver, place("t")) == "other"
    if failure == "append":  # refused before the first byte: the log is as it was, and goes on
        assert value_of(saver, place("t")) in ("acknowledged", "in doubt")
        maker.put(saver, place("u"), "later")
    else:  # unknown what reached the disk: it answers nothing until opened again
        for _ in range(2):
            with pytest.raises(AnchorError):
                value_of(saver, place("t"))
            with pytest.raises(AnchorError):
                maker.put(saver, place("u"), "later")
    scene.close()
    saver = scene.saver()
    assert value_of(saver, place("t")) in ("acknowledged", "in doubt")
    assert saver.get_tuple(config).checkpoint["channel_values"] == {"x": "acknowledged"}
    maker.put(saver, config, "after")
    assert saver._memguard.guard.audit(saver).clean


# -- wiring -----------------------------------------------------------------------------------------


def test_two_stores_may_not_share_a_name(scene: Any, tmp_path: Path) -> None:
    mg = scene.guard()
    mg.guard(scene.bare(), name="checkpoints")
    elsewhere = SqliteSaver(sqlite3.connect(tmp_path / "other.db", check_same_thread=False))
    with pytest.raises(ConfigError) as caught:
        mg.guard(elsewhere, name="checkpoints")
    assert caught.value.code == "MG122"
    mg.guard(elsewhere, name="others")
    elsewhere.conn.close()


def test_two_databases_under_one_home_are_both_healthy(
    scene: Any, maker: Any, place: Any, tmp_path: Path
) -> None:
    mg = scene.guard()
    one = mg.guard(scene.bare(), name="one")
    inner = SqliteSaver(sqlite3.connect(tmp_path / "other.db", check_same_thread=False))
    two = mg.guard(inner, name="two")
    for saver in (one, two):
        maker.put(saver, place("t"), "v")
    assert value_of(one, place("t")) == value_of(two, place("t")) == "v"
    assert mg.audit(one).clean
    assert mg.audit(two).clean
    inner.conn.close()


def test_a_database_of_another_name_is_refused(scene: Any, maker: Any, place: Any) -> None:
    maker.put(scene.saver(), place("t"), "v")
    scene.close()
    with pytest.raises(TamperedError):
        scene.guard().guard(scene.bare(), name="another").get_tuple(place("t"))


def test_guarding_twice_and_a_nameless_store(scene: Any) -> None:
    mg = scene.guard()
    saver = mg.guard(scene.bare(), name="checkpoints")
    for again in (lambda: mg.guard(saver, name="checkpoints"), lambda: guard(saver, name="x")):
        with pytest.raises(AlreadyGuardedError):
            again()
    with pytest.raises(ConfigError) as caught:
        mg.guard(scene.bare())
    assert caught.value.code == "MG123"
    assert unwrap(unwrap(saver)) is saver.inner


def test_a_config_typo_is_refused_before_anything_is_made(scene: Any) -> None:
    with pytest.raises(ConfigError, match="forks"):
        MemGuard.create(
            scene.home,
            anchor=f"file:{scene.anchor}",
            keys=f"file:{scene.key}",
            config={"integrity": {"fork": "refuse"}},
        )
    assert not scene.home.exists()
    assert not scene.anchor.exists()
    mg = scene.guard()
    with pytest.raises(ConfigError):
        mg.guard(scene.bare(), name="checkpoints", snyc="lag")


async def test_a_sync_call_on_an_async_saver_inside_its_loop(scene: Any, maker: Any, place: Any) -> None:
    async with scene.asaver() as saver:
        made = maker.checkpoint("v")
        for call in (
            lambda: saver.get_tuple(place("t")),
            lambda: saver.put(place("t"), made, {}, {}),
            lambda: list(saver.list(place("t"))),
            lambda: saver._memguard.guard.audit(saver),
        ):
            with pytest.raises(UnsupportedError) as caught:
                call()
            assert caught.value.code == "MG131"
        await asyncio.to_thread(saver.put, place("t"), made, {}, {})  # from another thread it is legal
        assert (await saver.aget_tuple(place("t"))).checkpoint["channel_values"] == {"x": "v"}
        assert (await asyncio.to_thread(saver.get_tuple, place("t"))) is not None


# -- closed, locked, interrupted --------------------------------------------------------------------


def test_a_closed_database_is_not_an_integrity_error(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    config = maker.put(saver, place("t"), "v")
    saver.conn.close()
    for call in (
        lambda: maker.put(saver, config, "w"),
        lambda: saver.get_tuple(config),
        lambda: saver.delete_thread("t"),
    ):
        with pytest.raises(sqlite3.ProgrammingError):
            call()
    mg = saver._memguard.guard
    mg.close()
    mg.close()
    scene.close()
    saver = scene.saver()
    assert value_of(saver, place("t")) == "v"
    assert saver._memguard.guard.audit(saver).clean


def test_a_locked_database_is_not_an_integrity_error_and_loses_nothing(
    scene: Any, maker: Any, place: Any
) -> None:
    saver = scene.guard().guard(scene.bare(timeout=0.05), name="checkpoints")
    config = maker.put(saver, place("t"), "v")
    blocker = sqlite3.connect(scene.db, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    for call in (
        lambda: maker.put(saver, config, "w"),
        lambda: saver.put_writes(config, [("a", 1)], "task"),
        lambda: saver.delete_thread("t"),
    ):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            call()
        assert value_of(saver, place("t")) == "v"  # a delete that was refused did not happen
    blocker.execute("ROLLBACK")
    blocker.close()
    assert value_of(saver, place("t")) == "v"
    config = maker.put(saver, config, "w")
    assert value_of(saver, place("t")) == "w"
    assert saver._memguard.guard.audit(saver).clean


def test_after_close_a_guarded_saver_says_so(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    config = maker.put(saver, place("t"), "v")
    saver._memguard.guard.close()
    with pytest.raises(AnchorError):
        maker.put(saver, config, "w")
    assert saver.inner.conn.execute("SELECT count(*) FROM checkpoints").fetchone() == (
        1,
    )  # still open, untouched


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_exception_inside_the_savers_own_put_is_recovered(
    scene: Any, maker: Any, place: Any, when: str, error: type[BaseException]
) -> None:
    class Interrupted(SqliteSaver):
        armed = False

        def put(self, *args: Any) -> Any:
            if Interrupted.armed and when == "before":
                raise error
            answer = super().put(*args)
            if Interrupted.armed:
                raise error
            return answer

    inner = Interrupted(scene.bare().conn)
    saver = scene.guard().guard(inner, name="checkpoints")
    config = maker.put(saver, place("t"), "v")
    Interrupted.armed = True
    with pytest.raises(error):
        maker.put(saver, config, "w")
    Interrupted.armed = False
    expected = "v" if when == "before" else "w"
    assert value_of(saver, place("t")) == expected
    config = saver.get_tuple(place("t")).config
    config = maker.put(saver, config, "x")
    assert value_of(saver, place("t")) == "x"
    assert saver._memguard.guard.audit(saver).clean
    scene.close()
    assert value_of(scene.saver(), place("t")) == "x"


async def test_a_cancelled_put_leaves_a_healthy_context(scene: Any, maker: Any, place: Any) -> None:
    async with scene.asaver() as saver:
        config = await saver.aput(place("t"), maker.checkpoint("first"), {}, {})
        for number in range(12):
            task = asyncio.ensure_future(saver.aput(config, maker.checkpoint(number), {}, {}))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            found = await saver.aget_tuple(place("t"))
            assert found.checkpoint["channel_values"]["x"] in ("first", number, number - 1, *range(number))
        report = await saver._memguard.guard.aaudit(saver)
        assert report.clean, report.as_dict()


# -- one bad thread ---------------------------------------------------------------------------------


def test_one_tampered_thread_leaves_the_others_working(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    for thread in ("good", "bad"):
        maker.put(saver, place(thread), thread)
    scene.sql("UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 'bad'")
    with pytest.raises(TamperedError):
        value_of(saver, place("bad"))
    config = maker.put(saver, saver.get_tuple(place("good")).config, "more")
    assert value_of(saver, place("good")) == "more"
    assert len(list(saver.list(place("good")))) == 2
    with pytest.raises(TamperedError):
        list(saver.list(None))
    saver.put_writes(config, [("a", 1)], "task")
    saver.delete_thread("good")


# -- presets and levels -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE checkpoints SET parent_checkpoint_id = 'zz' WHERE thread_id = 't'",
        "UPDATE writes SET type = 'msgpack' WHERE thread_id = 't'",
        "UPDATE writes SET idx = idx + 10 WHERE thread_id = 't'",
        "DELETE FROM writes WHERE thread_id = 't'",
    ],
)
def test_observe_serves_and_reports(new_scene: Any, maker: Any, place: Any, edit: str) -> None:
    scene = new_scene(preset="observe")
    saver = scene.saver()
    config = maker.put(saver, place("t"), "v")
    saver.put_writes(config, [("a", 1), ("b", 2)], "task")
    scene.close()
    scene.sql(edit)
    saver = scene.saver()
    heard: list[Any] = []
    saver._memguard.guard.events.subscribe(heard.append)
    assert value_of(saver, place("t")) == "v"
    assert len(list(saver.list(place("t")))) == 1
    assert value_of(saver, config) == "v"
    refused = [e for e in heard if type(e).__name__ == "ReadRefused"]
    assert refused
    assert all(e.served for e in refused)
    assert not saver._memguard.guard.audit(saver).clean
    maker.put(saver, config, "w")
    assert value_of(saver, place("t")) == "w"


def test_off_reads_unchecked_and_still_seals(new_scene: Any, maker: Any, place: Any) -> None:
    scene = new_scene(preset="off")
    saver = scene.saver()
    maker.put(saver, place("t"), "v")
    scene.sql("UPDATE checkpoints SET parent_checkpoint_id = 'zz'")
    assert value_of(saver, place("t")) == "v"
    assert len(list(saver.list(place("t")))) == 1
    assert not saver._memguard.guard.audit(saver).clean


@pytest.mark.parametrize(
    ("level", "stops"), [("tag", {"edit"}), ("chain", {"edit", "drop"}), ("head", {"edit", "drop", "cut"})]
)
def test_each_level_stops_what_it_can(
    new_scene: Any, maker: Any, place: Any, level: str, stops: set[str]
) -> None:
    """The ladder: tags stop edits, numbers stop holes, only a head stops a cut at the end."""
    edits = {
        "edit": "UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE rowid = 3",
        "drop": "DELETE FROM checkpoints WHERE rowid = 2",
        "cut": "DELETE FROM checkpoints WHERE rowid = 4",
    }
    for name, edit in edits.items():
        scene = new_scene(config={"integrity": {"level": level}})
        saver = scene.saver()
        config = place("t")
        for number in range(4):
            config = maker.put(saver, config, number)
        assert len(list(saver.list(place("t")))) == 4
        scene.close()
        assert len(list(scene.saver().list(place("t")))) == 4  # the control
        scene.close()
        scene.sql(edit)
        try:
            list(scene.saver().list(place("t")))
            refused = False
        except IntegrityError:
            refused = True
        assert refused == (name in stops), name


# -- forks ------------------------------------------------------------------------------------------


def test_a_fork_is_recorded_or_refused(new_scene: Any, maker: Any, place: Any) -> None:
    for forks in ("record", "refuse"):
        scene = new_scene(config={"integrity": {"forks": forks}})
        saver = scene.saver()
        heard: list[Any] = []
        saver._memguard.guard.events.subscribe(heard.append)
        first = maker.put(saver, place("t"), 0)
        made = maker.checkpoint(1)
        second = saver.put(first, made, {}, {})
        assert saver.put(first, made, {}, {}) == second  # the newest one again is no fork
        if forks == "refuse":
            with pytest.raises(ForkError):
                maker.put(saver, first, "other")
            assert value_of(saver, place("t")) == 1
        else:
            maker.put(saver, first, "other")
            assert value_of(saver, place("t")) == "other"
        recorded = [e for e in heard if type(e).__name__ == "ForkRecorded"]
        assert len(recorded) == (forks == "record")
        assert saver._memguard.guard.audit(saver).clean
        maker.put(saver, saver.get_tuple(place("t")).config, "on")


# -- deletion ---------------------------------------------------------------------------------------


def test_v12_a_late_write_after_the_deletion_is_refused(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    first = maker.put(saver, place("t"), "v")
    config = maker.put(saver, first, "w")
    key = config["configurable"]["checkpoint_id"]
    saver.delete_thread("t")
    for call in (
        lambda: maker.put(saver, config, "late"),
        lambda: maker.put(saver, first, "late"),
        lambda: saver.put_writes(config, [("a", 1)], "task"),
        lambda: maker.put(
            saver, place("t", "sub:1"), "late", parents={"": key}
        ),  # the subgraph of the same run
    ):
        with pytest.raises(ForgottenError) as caught:
            call()
        assert caught.value.code == "MG501"
    assert saver.get_tuple(place("t")) is None
    assert list(saver.list(place("t"))) == []
    assert scene.sql("SELECT count(*) FROM checkpoints") == [(0,)]
    fresh = maker.put(saver, place("t"), "again")  # the id may be used again
    saver.put_writes(fresh, [("a", 1)], "task")
    maker.put(saver, place("t", "sub:1"), "fine", parents={"": fresh["configurable"]["checkpoint_id"]})
    assert value_of(saver, place("t")) == "again"
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 2
    assert saver._memguard.guard.audit(saver).clean


def test_a_delete_leaves_no_counted_namespace_behind(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    maker.fill(saver)
    saver.delete_thread("alice")
    assert list(saver.list(place("alice"))) == []
    assert saver.get_tuple(place("alice", "sub:1")) is None
    assert value_of(saver, place("bob")) is not None
    scene.close()
    saver = scene.saver()
    assert saver.get_tuple(place("alice")) is None
    assert len(list(saver.list(None))) == 2
    assert saver._memguard.guard.audit(saver).clean


# -- several objects, threads and processes ---------------------------------------------------------


def test_a_saver_for_each_request_hears_of_the_others(scene: Any, maker: Any, place: Any) -> None:
    mg = scene.guard()
    savers = [mg.guard(scene.bare(), name="checkpoints") for _ in range(3)]
    config = place("t")
    for number in range(9):
        config = maker.put(savers[number % 3], config, number)
        for saver in savers:
            assert value_of(saver, place("t")) == number
            assert len(list(saver.list(place("t")))) == number + 1
    savers[0].delete_thread("t")
    assert [value_of(s, place("t")) for s in savers] == [None] * 3
    assert mg.audit(savers[2]).clean


def test_two_guards_on_one_database_hear_of_each_other(scene: Any, maker: Any, place: Any) -> None:
    savers = [scene.saver(), scene.saver()]
    config = place("t")
    for number in range(8):
        config = maker.put(savers[number % 2], config, number)
        savers[(number + 1) % 2].put_writes(config, [("a", number)], "task")
        for saver in savers:
            found = saver.get_tuple(place("t"))
            assert found.checkpoint["channel_values"]["x"] == number
            assert found.pending_writes == [("task", "a", number)]
            assert len(list(saver.list(place("t"), limit=3))) == min(number + 1, 3)


def test_one_memory_saver_under_two_guards(new_scene: Any, scene: Any, maker: Any, place: Any) -> None:
    inner = InMemorySaver()
    mg = scene.guard()
    one, two = mg.guard(inner, name="memory"), mg.guard(inner, name="memory")
    failed: list[BaseException] = []

    def work(saver: Any, thread: str) -> None:
        try:
            config = place(thread)
            for number in range(40):
                config = maker.put(saver, config, number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(s, t)) for s, t in ((one, "a"), (two, "b"), (one, "c"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {t: len(list(two.list(place(t)))) for t in "abc"} == {"a": 40, "b": 40, "c": 40}


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_threads_racing_on_one_saver_raise_no_false_alarm(
    scene: Any, maker: Any, place: Any, kind: str
) -> None:
    inner = InMemorySaver() if kind == "memory" else scene.bare()
    saver = scene.guard().guard(inner, name="checkpoints")
    failed: list[BaseException] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        try:
            for step in range(12):
                with lock:  # ids must be in the order in which they are put
                    made = maker.checkpoint((number, step))
                newest = saver.get_tuple(place("shared"))
                config = saver.put(
                    newest.config if newest else place("shared"),
                    made,
                    {"step": step},
                    {"x": made["channel_versions"]["x"]},
                )
                saver.put_writes(config, [("a", step)], f"task-{number}")
                assert saver.get_tuple(config) is not None
                list(saver.list(place("shared"), limit=5))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(list(saver.list(place("shared")))) == 48


PROCESS = """
import sqlite3, sys
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from memguard import MemGuard
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
mg = MemGuard.open(root + "/home")
connection = sqlite3.connect(root + "/agent.db", check_same_thread=False, timeout=30)
saver = mg.guard(SqliteSaver(connection), name="checkpoints")
at = {"configurable": {"thread_id": "shared", "checkpoint_ns": ""}}
for number in range(count):
    newest = saver.get_tuple(at)
    made = empty_checkpoint()
    made["channel_values"], made["channel_versions"] = {"x": [name, number]}, {"x": str(number)}
    config = saver.put(newest.config if newest else at, made, {"step": number}, {"x": str(number)})
    saver.put_writes(config, [("a", number)], "task-" + name)
    assert saver.get_tuple(config).checkpoint["channel_values"]["x"] == [name, number]
    list(saver.list(at, limit=3))
    own = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    saver.put(own, made, {"step": number}, {"x": str(number)})
    if number % 5 == 4:
        saver.delete_thread(name)
mg.close()
print("done")
"""


def test_processes_racing_on_one_database_raise_no_false_alarm(scene: Any, place: Any) -> None:
    scene.guard()
    scene.bare().setup()
    scene.close()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(scene.root), f"p{n}", "10"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(3)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "done\n"), err
    saver = scene.saver()
    assert len(list(saver.list(place("shared")))) == 30
    assert saver.get_tuple(place("p0")) is None
    assert saver._memguard.guard.audit(saver).clean


LATE = """
import sqlite3, sys
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from memguard import MemGuard
from memguard.errors import ForgottenError
root = sys.argv[1]
mg = MemGuard.open(root + "/home")
saver = mg.guard(SqliteSaver(sqlite3.connect(root + "/agent.db", check_same_thread=False)), name="checkpoints")
config = saver.get_tuple({"configurable": {"thread_id": "t"}}).config
print("read", flush=True)
sys.stdin.readline()
refused = 0
for write in (
    lambda: saver.put(config, empty_checkpoint(), {}, {}),
    lambda: saver.put_writes(config, [("a", 1)], "task"),
):
    try:
        write()
    except ForgottenError:
        refused += 1
print(refused)
"""


def test_v12_a_late_write_from_another_process_is_refused(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    maker.put(saver, place("t"), "v")
    with subprocess.Popen(
        [sys.executable, "-c", LATE, str(scene.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as late:
        assert late.stdout is not None
        assert late.stdout.readline() == "read\n"
        saver.delete_thread("t")
        out, _ = late.communicate("go\n", timeout=60)
    assert out == "2\n"
    assert saver.get_tuple(place("t")) is None
    assert saver._memguard.guard.audit(saver).clean


# -- honest data that looks odd ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"abc"),
        b"",
        b"\x00\xff",
        None,
        "",
        "\ud83d\ude00 ok",
        {"a": {1: 2}},
        [float("inf")],
        2**63,
        {3, 1, 2},
    ],
    ids=repr,
)
def test_a_value_that_the_bare_saver_keeps_is_kept(
    new_scene: Any, maker: Any, place: Any, value: Any
) -> None:
    for make in (lambda s: s.bare(), lambda s: InMemorySaver()):
        answers = []
        for guarded in (False, True):
            scene = new_scene()
            saver = make(scene)
            if guarded:
                saver = scene.guard().guard(saver, name="checkpoints")
            try:
                config = maker.put(saver, place("t"), value)
                saver.put_writes(config, [("a", value), ("b", value)], "task")
                found = saver.get_tuple(place("t"))
                answers.append(
                    (
                        found.checkpoint["channel_values"],
                        found.pending_writes,
                        len(list(saver.list(place("t")))),
                    )
                )
            except (TypeError, ValueError) as error:
                answers.append(type(error))
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "metadata",
    [
        {"n": 1.5e300, "big": 10**30, "neg": -0.0},
        {"t": ("a", ["b", None, True])},
        {"lone": "x\ud800y"},
        {"uni": "\u2028é\U0001f600", "nul": "a\x00b"},
        {"memguard": {"seal": "forged"}},
        {"nan": float("inf")},
        {"deep": {"a": [{"b": {"c": [1, 2, {"d": []}]}}]}},
        {"x": 1, "writes": {"node": {"messages": ["hello"]}}},
        {"keys": {1: "one", None: "nothing", 2.5: "two and a half"}},
    ],
    ids=repr,
)
def test_metadata_that_the_bare_saver_keeps_is_kept(
    new_scene: Any, maker: Any, place: Any, metadata: Any
) -> None:
    answers = []
    for guarded in (False, True):
        scene = new_scene()
        saver = scene.saver() if guarded else scene.bare()
        made = maker.checkpoint("v")
        saver.put(place("t"), made, metadata, {"x": "1"})
        for _ in range(2):
            answers.append(saver.get_tuple(place("t")).metadata)
            scene.close()
            saver = scene.saver() if guarded else scene.bare()
    for answer in answers[:2]:
        answer.pop("memguard", None)  # the guard's own field: callers may not set it
    assert answers[0] == answers[1] == answers[2] == answers[3]


@pytest.mark.parametrize(
    "thread", ["", " ", "a/b:c|d", "ü\u202e", "1", "x" * 500, "'; DROP TABLE checkpoints; --", '"],["']
)
def test_odd_thread_names_are_names(scene: Any, maker: Any, place: Any, thread: str) -> None:
    saver = scene.saver()
    maker.put(saver, place(thread, "ns|:1"), "v")
    maker.put(saver, place(thread), "w")
    scene.close()
    saver = scene.saver()
    assert value_of(saver, place(thread, "ns|:1")) == "v"
    assert value_of(saver, place(thread)) == "w"
    assert len(list(saver.list({"configurable": {"thread_id": thread}}))) == 2
    assert saver._memguard.guard.audit(saver).clean


@pytest.mark.parametrize("make", [lambda s: s.bare(), lambda s: InMemorySaver()], ids=["sqlite", "memory"])
def test_a_thread_id_that_is_a_number(scene: Any, maker: Any, make: Any) -> None:
    saver = scene.guard().guard(make(scene), name="checkpoints")
    at = {"configurable": {"thread_id": 7, "checkpoint_ns": ""}}
    config = maker.put(saver, at, "v")
    saver.put_writes(config, [("a", 1)], "task")
    assert value_of(saver, at) == "v"
    assert len(list(saver.list(at))) == 1
    assert len(list(saver.list(None))) == 1
    saver.delete_thread(7)
    assert saver.get_tuple(at) is None


def test_v09_filter_keys_are_checked_whatever_the_backend(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    maker.put(saver, place("t"), "v", user="alice")
    for key in ("user') OR 1=1 --", "a'b", "memguard", "memguard.seal", "", "a b"):
        with pytest.raises(UnsupportedError) as caught:
            list(saver.list(place("t"), filter={key: "x"}))
        assert caught.value.code == "MG140"
    assert len(list(saver.list(place("t"), filter={"user": "alice"}))) == 1
    assert list(saver.list(place("t"), filter={"user": "' OR '1'='1"})) == []


def test_a_deleted_row_of_a_long_list_is_missed(scene: Any, maker: Any, place: Any) -> None:
    """Paged: the hole is on the second page."""
    saver = scene.saver()
    config = place("t")
    for number in range(230):
        config = maker.put(saver, config, number)
    assert [value["channel_values"]["x"] for value in (f.checkpoint for f in saver.list(place("t")))] == list(
        range(229, -1, -1)
    )
    assert len(list(saver.list(place("t"), limit=215))) == 215
    scene.sql("DELETE FROM checkpoints WHERE rowid = 5")
    with pytest.raises(RollbackError):
        list(saver.list(place("t")))
