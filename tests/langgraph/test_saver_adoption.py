"""Into the guard with data that was there before, and out again: a plan first, a signed act, nothing lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from memguard import unwrap
from memguard.errors import TamperedError, UnsupportedError


def rows(scene: Any) -> dict[str, list[Any]]:
    return {
        table: scene.sql(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in ("checkpoints", "writes")
    }


def answers(saver: Any) -> list[Any]:
    found = list(saver.list(None))
    for item in found:
        item.metadata.pop("memguard", None)
    return found


@pytest.fixture
def old(scene: Any, maker: Any) -> Iterator[Any]:
    """A database that a bare saver has filled."""
    saver = scene.bare()
    scene.last = maker.fill(saver)
    maker.put(
        saver, {"configurable": {"thread_id": "café", "checkpoint_ns": ""}}, "é", note="ü\u2028", nul=None
    )
    scene.before = answers(saver)
    scene.close()
    scene.stored = rows(scene)
    yield scene
    scene.close()


def test_before_adoption_every_thread_is_refused_and_new_ones_work(old: Any, maker: Any, place: Any) -> None:
    saver = old.saver()
    for call in (
        lambda: saver.get_tuple(place("bob")),
        lambda: list(saver.list(place("bob"))),
        lambda: maker.put(saver, place("bob"), "more"),
        lambda: saver.delete_thread("bob"),
    ):
        with pytest.raises(TamperedError) as caught:
            call()
        assert caught.value.case == "untagged"
        assert "adopt" in str(caught.value)
    maker.put(saver, place("carol"), "new")
    assert saver.get_tuple(place("carol")) is not None
    assert rows(old)["writes"] == old.stored["writes"]


def test_a_dry_run_changes_nothing(old: Any) -> None:
    saver = old.saver()
    mg = saver._memguard.guard
    files = {p: p.read_bytes() for p in sorted(old.anchor.iterdir())}
    plan = mg.adopt(saver)
    assert not plan.applied
    assert sorted(a["context"] for a in plan.actions) == [
        '["ck","alice",""]',
        '["ck","alice","sub:1"]',
        '["ck","bob",""]',
        '["ck","café",""]',
    ]
    assert sum(a["records"] for a in plan.actions) == sum(map(len, old.stored.values()))
    assert not plan.refused
    assert rows(old) == old.stored
    assert {p: p.read_bytes() for p in sorted(old.anchor.iterdir())} == files
    with pytest.raises(TamperedError):
        list(saver.list(None))


def test_adopted_data_reads_as_before_and_is_proved_from_then_on(old: Any, maker: Any, place: Any) -> None:
    saver = old.saver()
    mg = saver._memguard.guard
    heard: list[Any] = []
    mg.events.subscribe(heard.append)
    assert mg.adopt(saver, apply=True).applied
    assert [type(e).__name__ for e in heard if type(e).__name__ == "Adopted"] == ["Adopted"]
    assert answers(saver) == old.before
    report = mg.audit(saver)
    assert report.clean, report.as_dict()
    again = mg.adopt(saver, apply=True)  # one time: there is nothing left to adopt
    assert again.actions == ()
    assert again.refused == ()
    notes = [n for n in mg._log.notes() if n.operation == "adopt"]
    assert len(notes) == 4
    assert all(n.details["records"] for n in notes)
    signed, bad, open_ = mg._log.signatures()
    assert signed > 2 * len(notes)  # an operator's act is signed at once, with the head that it sets
    assert (bad, open_) == (0, 0)
    config = maker.put(saver, saver.get_tuple(place("bob")).config, "after")
    saver.put_writes(config, [("x", 1)], "task")
    old.close()
    saver = old.saver()
    assert saver.get_tuple(place("bob")).checkpoint["channel_values"] == {"x": "after"}
    assert len(answers(saver)) == len(old.before) + 1
    old.close()
    old.sql("UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 'alice' AND checkpoint_ns = ''")
    with pytest.raises(TamperedError):
        old.saver().get_tuple(place("alice"))


def test_rows_that_come_bare_after_the_adoption_are_not_adopted_with_a_thread_that_has_a_head(
    old: Any, place: Any
) -> None:
    saver = old.saver()
    mg = saver._memguard.guard
    mg.adopt(saver, apply=True)
    key = saver.get_tuple(place("bob")).config["configurable"]["checkpoint_id"]
    old.sql(
        "INSERT INTO writes SELECT thread_id, checkpoint_ns, checkpoint_id, 'forged', task_path, idx, channel, "
        "'msgpack', value FROM writes WHERE checkpoint_id = ? AND idx = 0 AND task_id = 'task-1'",
        key,
    )
    plan = mg.adopt(saver, apply=True)
    assert plan.actions == ()
    assert [r["context"] for r in plan.refused] == ['["ck","bob",""]']
    with pytest.raises(TamperedError):
        saver.get_tuple(place("bob"))
    assert [f.case for f in mg.audit(saver).findings] == ["untagged"]
    assert (
        mg.repair(saver, apply=True).actions[0]["records"] == 1
    )  # the stray row goes, the rest is as it was
    assert answers(saver) == old.before


@pytest.mark.parametrize("stop", ["intent", "first seals", "seals", "notes"])
def test_a_crash_in_the_middle_can_be_gone_on_from(old: Any, stop: str, place: Any) -> None:
    """The process dies at four places of the adoption; the next one finishes it."""
    saver = old.saver()
    mg = saver._memguard.guard
    care = saver._memguard.rows
    count = 0

    class Died(BaseException):
        pass

    seals, write = care.write_seals, mg._log.write

    def write_seals(context: Any, sealed: Any) -> Any:
        nonlocal count
        count += 1
        if stop == "intent" and count == 2:
            raise Died
        yield from seals(context, sealed)
        if stop == "first seals" or (stop == "seals" and count == 3):
            raise Died

    def log_write(items: Any, **options: Any) -> None:
        if stop == "notes" and len(items) == 2:
            raise Died
        write(items, **options)

    care.__class__ = type("Dying", (type(care),), {"write_seals": lambda self, c, s: write_seals(c, s)})
    mg._log.write = log_write
    with pytest.raises(Died):
        mg.adopt(saver, apply=True)
    old.close()
    saver = old.saver()
    mg = saver._memguard.guard
    mg.adopt(saver, apply=True)
    assert answers(saver) == old.before
    assert mg.audit(saver).clean
    old.close()
    assert answers(old.saver()) == old.before


def test_a_memory_saver_cannot_be_adopted_row_by_row(scene: Any, maker: Any, place: Any) -> None:
    inner = InMemorySaver()
    maker.put(inner, place("t"), "v")
    mg = scene.guard()
    saver = mg.guard(inner, name="memory")
    with pytest.raises(UnsupportedError) as caught:
        mg.adopt(saver, apply=True)
    assert caught.value.code == "MG148"


# -- the way out -----------------------------------------------------------------------------------

#: What docs/quickstart.md tells to run once the guard is taken off.
TAKE_OFF = (
    "UPDATE writes SET type = substr(type, 1, instr(type, '|mg1.') - 1) WHERE instr(type, '|mg1.') > 0",
    "UPDATE checkpoints SET metadata = CAST(json_remove(CAST(metadata AS TEXT), '$.memguard') AS BLOB)",
)


def test_a_bare_saver_reads_checkpoints_at_once_and_everything_after_one_statement(
    scene: Any, maker: Any, place: Any
) -> None:
    saver = scene.saver()
    maker.fill(saver)
    maker.put(saver, place("plain"), "no writes")
    guarded = answers(saver)
    assert unwrap(saver).get_tuple(place("plain")).checkpoint["channel_values"] == {"x": "no writes"}
    scene.close()
    scene.sql(TAKE_OFF[0])
    assert answers(scene.bare()) == guarded
    scene.close()
    scene.sql(TAKE_OFF[1])
    bare = scene.bare()
    assert list(bare.list(None)) == guarded  # not even the guard's own field is left
    assert list(bare.list(None, filter={"user": "bob"}))
    config = maker.put(bare, bare.get_tuple(place("bob")).config, "on without a guard")
    bare.put_writes(config, [("x", 1)], "task")


def test_in_and_out_leaves_the_rows_as_they_were(old: Any) -> None:
    saver = old.saver()
    saver._memguard.guard.adopt(saver, apply=True)
    old.close()
    for statement in TAKE_OFF:
        old.sql(statement)
    after = rows(old)
    assert after["writes"] == old.stored["writes"]
    for new, was in zip(after["checkpoints"], old.stored["checkpoints"], strict=True):
        assert new[:6] == was[:6]  # all but metadata: SQLite writes its JSON without spaces
    assert answers(old.bare()) == old.before


def test_what_was_taken_off_is_refused_until_it_is_taken_in_again(scene: Any, maker: Any, place: Any) -> None:
    saver = scene.saver()
    maker.put(saver, place("t"), "v")
    scene.close()
    for statement in TAKE_OFF[1:]:
        scene.sql(statement)
    saver = scene.saver()
    with pytest.raises(TamperedError):
        saver.get_tuple(place("t"))
    plan = saver._memguard.guard.adopt(saver, apply=True)
    assert plan.actions == ()  # it has a head: whoever strips tags may not have the rest adopted
    assert plan.refused
    connection = sqlite3.connect(scene.db)
    assert b"memguard" not in connection.execute("SELECT metadata FROM checkpoints").fetchone()[0]
    connection.close()
