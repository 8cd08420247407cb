"""Audit, adoption, repair, and the way out."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from memguard import IntegrityError, TamperedError, UnsupportedError, unwrap

ALICE, BOB = ("users", "alice"), ("users", "bob")
#: What takes the seals out again; docs/integrations/langgraph.md prints it.
WAY_OUT = "UPDATE store SET value = CAST(json_remove(CAST(value AS TEXT), '$.memguard') AS BLOB)"


def before_the_guard(scene: Any, index: Any = None) -> None:
    bare = scene.bare(index=index, ttl={"refresh_on_read": False})
    for namespace in (ALICE, BOB):
        for number in range(3):
            value = {"text": f"tea {number}", "n": number, "ü": ["☕", None, 1.5, {"x": True}]}
            bare.put(namespace, f"k{number}", value, ttl=60 if number == 2 else None)
    bare.put(ALICE, "empty", {})
    bare.put(ALICE, "own", {"memguard": "theirs", "text": "x"})
    # written by another program: JSON text with spaces
    scene.sql("UPDATE store SET value = ? WHERE key = 'k0' AND prefix = 'users.bob'", '{ "text" : "spaced" }')


def test_data_from_before_the_guard(scene: Any, index: Any) -> None:
    before_the_guard(scene, index)
    options = {"index": index, "ttl": {"refresh_on_read": False}}
    rows = scene.sql(
        "SELECT prefix, key, created_at, updated_at, expires_at, ttl_minutes FROM store ORDER BY rowid"
    )
    store = scene.store(**options)
    for ask in (
        lambda: store.get(ALICE, "k0"),
        lambda: store.search(BOB),
        lambda: store.put(ALICE, "k0", {}),
    ):
        with pytest.raises(TamperedError, match="adopt"):
            ask()
    plan = scene.mg.adopt(store)
    assert not plan.applied
    records = {action["context"]: action["records"] for action in plan.actions}
    assert records == {'["it","users","alice"]': 5, '["it","users","bob"]': 3}
    with pytest.raises(TamperedError):
        store.get(ALICE, "k0")
    assert scene.mg.adopt(store, apply=True).applied
    assert store.get(ALICE, "k1").value == {"text": "tea 1", "n": 1, "ü": ["☕", None, 1.5, {"x": True}]}
    assert store.get(BOB, "k0").value == {"text": "spaced"}
    assert store.get(ALICE, "empty").value == {}
    assert store.get(ALICE, "own").value == {"text": "x"}
    assert len(store.search(("users",), limit=20)) == 8
    assert len(store.search(("users",), query="tea", limit=20)) == 8
    assert rows == scene.sql(
        "SELECT prefix, key, created_at, updated_at, expires_at, ttl_minutes FROM store ORDER BY rowid"
    )
    assert scene.mg.audit(store).clean
    assert scene.mg.adopt(store, apply=True).actions == ()
    store.put(ALICE, "k0", {"text": "new"})
    store.delete(ALICE, "k1")
    scene.close()
    store = scene.store(**options)
    assert store.get(ALICE, "k0").value == {"text": "new"}
    assert scene.mg.audit(store).clean


def test_an_adopted_item_expires(scene: Any) -> None:
    ttl = {"refresh_on_read": False}
    scene.bare(ttl=ttl).put(ALICE, "short", {"n": 1}, ttl=2.5 / 60)
    scene.bare(ttl=ttl).put(ALICE, "ever", {"n": 1})
    store = scene.store(ttl=ttl)
    scene.mg.adopt(store, apply=True)
    assert store.get(ALICE, "short").value == {"n": 1}
    time.sleep(2.6)
    assert store.get(ALICE, "short") is None
    time.sleep(1)
    assert store.sweep_ttl() == 1
    assert scene.mg.audit(store).clean


def test_rows_that_came_past_the_guard_are_not_adopted(scene: Any) -> None:
    store = scene.store()
    store.put(ALICE, "a", {"n": 1})
    store.inner.put(ALICE, "b", {"n": 2})
    plan = scene.mg.adopt(store, apply=True)
    assert plan.actions == ()
    assert len(plan.refused) == 1
    with pytest.raises(IntegrityError):
        store.search(ALICE)


def test_repair_drops_what_the_head_does_not_count(scene: Any, index: Any) -> None:
    store = scene.store(index=index)
    for number in range(3):
        store.put(ALICE, f"k{number}", {"n": number})
    store.inner.put(ALICE, "stray", {"n": 9})
    scene.sql(
        "INSERT INTO store SELECT prefix, 'copy', value, created_at, updated_at, expires_at, ttl_minutes "
        "FROM store WHERE key = 'k1'"
    )
    report = scene.mg.audit(store)
    assert len(report.findings) == 2
    assert scene.mg.repair(store).actions
    assert scene.mg.repair(store, apply=True).applied
    assert {item.key for item in store.search(ALICE)} == {"k0", "k1", "k2"}
    assert scene.sql("SELECT count(*) FROM store_vectors WHERE key IN ('stray', 'copy')") == [(0,)]
    assert scene.mg.audit(store).clean


def test_an_audit_names_what_is_wrong(scene: Any) -> None:
    store = scene.store()
    for number in range(3):
        store.put(ALICE, f"k{number}", {"n": number, "text": "secret"})
    store.put(BOB, "k0", {"n": 0})
    scene.sql("UPDATE store SET value = replace(CAST(value AS TEXT), 'secret', 'altered') WHERE key = 'k1'")
    scene.sql("DELETE FROM store WHERE key = 'k2'")
    report = scene.mg.audit(store)
    named = {finding.record for finding in report.findings}
    assert any("'k1'" in record for record in named)
    assert any("k2" in record for record in named)
    assert not any("bob" in record for record in named)
    assert report.records == 3
    assert report.contexts == 2


def test_the_order_of_rows_is_audited(scene: Any) -> None:
    store = scene.store()
    for number in range(3):
        store.put(ALICE, f"k{number}", {"n": number})
    scene.sql("UPDATE store SET rowid = rowid + 100 WHERE key = 'k0'")
    assert not scene.mg.audit(store).clean


def test_vacuum_and_dump_change_nothing(scene: Any) -> None:
    store = scene.store()
    for number in range(20):
        store.put(ALICE, f"k{number}", {"n": number, "text": "x" * 500})
    for number in range(0, 20, 3):
        store.delete(ALICE, f"k{number}")
    store.put(ALICE, "k1", {"n": "again"})
    scene.close()
    connection = sqlite3.connect(scene.db)
    connection.execute("VACUUM")
    script = "\n".join(connection.iterdump())
    connection.close()
    store = scene.store()
    assert scene.mg.audit(store).clean
    assert len(store.search(ALICE, limit=50)) == 13
    scene.close()
    scene.db.unlink()
    connection = sqlite3.connect(scene.db)
    connection.executescript(script)
    connection.close()
    store = scene.store()
    assert scene.mg.audit(store).clean
    assert len(store.search(ALICE, limit=50)) == 13


def test_the_way_out(screened: Any, index: Any) -> None:
    store = screened.store(index=index)
    values = [{"text": "ü ☕", "n": 1.5}, {}, {"memguardian": 1, "nested": {"memguard": 2}}]
    for number, value in enumerate(values):
        store.put(ALICE, f"k{number}", value)
    bare = unwrap(store)
    screened.sql(WAY_OUT)
    assert [bare.get(ALICE, f"k{number}").value for number in range(3)] == values
    assert len(bare.search(ALICE, query="x")) == 3
    bare.put(ALICE, "k0", {"n": 2})


def test_stores_that_cannot_be_adopted_say_so(scene: Any) -> None:
    store = scene.memory()
    store.inner.put(ALICE, "a", {"n": 1})
    with pytest.raises(UnsupportedError, match="MG148"):
        scene.mg.adopt(store, apply=True)
    with pytest.raises(TamperedError):
        store.get(ALICE, "a")


# -- several guards, several processes -------------------------------------------------------------


def test_two_guards_of_two_homes_would_be_two_truths_but_two_of_one_home_agree(scene: Any) -> None:
    one, two = scene.store(), scene.store()
    for number in range(5):
        one.put(ALICE, f"a{number}", {"n": number})
        assert two.get(ALICE, f"a{number}").value == {"n": number}
        two.put(ALICE, f"b{number}", {"n": number})
        assert len(one.search(ALICE, limit=50)) == 2 * number + 2
        two.put(ALICE, "same", {"n": number}) if number % 2 else one.put(ALICE, "same", {"n": -number})
        one.delete(ALICE, "same")
        assert two.get(ALICE, "same") is None
    assert scene.mg.audit(two).clean


def test_one_guard_over_two_connections(scene: Any) -> None:
    mg = scene.guard()
    one, two = mg.guard(scene.bare(), name="memories"), mg.guard(scene.bare(), name="memories")
    for number in range(4):
        one.put(ALICE, f"a{number}", {"n": number})
        assert two.get(ALICE, f"a{number}").value == {"n": number}
        two.put(ALICE, f"a{number}", {"n": -number})
        assert one.get(ALICE, f"a{number}").value == {"n": -number}
        assert len(one.search(ALICE)) == len(two.search(ALICE)) == number + 1
        two.delete(ALICE, "a0")
        one.put(ALICE, "a0", {"n": 0})
    assert mg.audit(one).clean


def test_a_store_that_never_rests_is_searched_with_writers_kept_out(scene: Any) -> None:
    store = scene.store()
    for number in range(5):
        store.put(ALICE, f"k{number}", {"n": number})
    table = store._ops.table
    rest, asked = table.hint, []

    def restless(names: Any) -> Any:
        asked.append(names)
        return (yield from rest(names)), len(asked)

    table.hint = restless
    assert len(store.search(ALICE)) == 5
    assert len(asked) >= 6  # before and after, three times
    assert store.list_namespaces() == [ALICE]
    scene.sql("DELETE FROM store WHERE key = 'k3'")
    with pytest.raises(IntegrityError):
        store.search(ALICE)


_WRITER = """
import sqlite3, sys
from langgraph.store.sqlite import SqliteStore
from memguard import MemGuard

home, anchor, key, db, who, count = sys.argv[1:]
mg = MemGuard.open(home, anchor=anchor, keys=key)
store = SqliteStore(sqlite3.connect(db, check_same_thread=False, isolation_level=None, timeout=30))
store.setup()
store = mg.guard(store, name="memories")
for number in range(int(count)):
    store.put(("users", "alice"), f"{who}{number}", {"n": number})
    assert store.get(("users", "alice"), f"{who}{number}").value == {"n": number}
    if number % 4 == 3:
        store.delete(("users", "alice"), f"{who}{number}")
    found = store.search(("users",), limit=1000)
    assert len({item.key for item in found if item.key.startswith(who)}) == number + 1 - (number + 1) // 4
mg.close()
"""


def test_several_processes_at_once(scene: Any) -> None:
    scene.store().put(ALICE, "first", {"n": 0})
    place = [str(scene.home), f"file:{scene.anchor}", f"file:{scene.root / 'key.json'}", str(scene.db)]
    count = 12
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(_WRITER), *place, who, str(count)])
        for who in "xyz"
    ]
    assert [worker.wait(120) for worker in workers] == [0, 0, 0]
    store = scene.store()
    assert len(store.search(ALICE, limit=1000)) == 3 * (count - count // 4) + 1
    assert scene.mg.audit(store).clean
