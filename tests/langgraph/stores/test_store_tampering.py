"""Every kind of edit at rest is refused with the right error: after a restart, and in a running process."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from memguard import IntegrityError, RollbackError, TamperedError

ALICE, BOB = ("users", "alice"), ("users", "bob")
A, B = "users.alice", "users.bob"


def fill(store: Any) -> None:
    for namespace in (ALICE, BOB):
        for number in range(4):
            value = {"text": f"{namespace[1]} tea {number} limit=100", "n": number}
            store.put(namespace, f"k{number}", value, ttl=60 if number == 3 else None)
    store.delete(ALICE, "k2")
    store.put(ALICE, "k1", {"text": "alice tea 1 limit=200", "n": 1})


def value_of(scene: Any, prefix: str, key: str) -> bytes:
    ((value,),) = scene.sql("SELECT value FROM store WHERE prefix = ? AND key = ?", prefix, key)
    return bytes(value)


def put_value(scene: Any, prefix: str, key: str, value: bytes) -> None:
    scene.sql("UPDATE store SET value = ? WHERE prefix = ? AND key = ?", value, prefix, key)


def content(scene: Any) -> None:
    put_value(scene, A, "k0", value_of(scene, A, "k0").replace(b"limit=100", b"limit=999"))


def spaces(scene: Any) -> None:
    put_value(scene, A, "k0", value_of(scene, A, "k0").replace(b'"n":0', b'"n": 0'))


def twice(scene: Any) -> None:
    """A member that stands twice: a filter sees the first, a parser keeps the last."""
    put_value(scene, A, "k0", b'{"n":77,' + value_of(scene, A, "k0")[1:])


def as_text(scene: Any) -> None:
    scene.sql("UPDATE store SET value = CAST(value AS TEXT) WHERE prefix = ? AND key = 'k0'", A)


def no_seal(scene: Any) -> None:
    value = json.loads(value_of(scene, A, "k0"))
    del value["memguard"]
    put_value(scene, A, "k0", json.dumps(value, separators=(",", ":")).encode())


def all_seals(scene: Any) -> None:
    for key in ("k0", "k1", "k3"):
        value = json.loads(value_of(scene, A, key))
        del value["memguard"]
        put_value(scene, A, key, json.dumps(value, separators=(",", ":")).encode())


def member_behind_the_seal(scene: Any) -> None:
    put_value(scene, A, "k0", value_of(scene, A, "k0")[:-1] + b',"n":5}')


def undecodable(scene: Any) -> None:
    put_value(scene, A, "k0", b"{not json")


def not_utf8(scene: Any) -> None:
    scene.sql("UPDATE store SET created_at = CAST(x'fffe' AS TEXT) WHERE prefix = ? AND key = 'k0'", A)


def swapped(scene: Any) -> None:
    one, two = value_of(scene, A, "k0"), value_of(scene, A, "k1")
    put_value(scene, A, "k0", two)
    put_value(scene, A, "k1", one)


def from_bob(scene: Any) -> None:
    put_value(scene, A, "k0", value_of(scene, B, "k0"))


def forged(scene: Any) -> None:
    scene.sql(
        "INSERT INTO store SELECT prefix, 'k9', value, created_at, updated_at, expires_at, ttl_minutes "
        "FROM store WHERE prefix = ? AND key = 'k0'",
        A,
    )


def moved_to_alice(scene: Any) -> None:
    scene.sql("UPDATE store SET prefix = ?, key = 'k2' WHERE prefix = ? AND key = 'k2'", A, B)


def deleted(scene: Any) -> None:
    scene.sql("DELETE FROM store WHERE prefix = ? AND key = 'k0'", A)


def emptied(scene: Any) -> None:
    scene.sql("DELETE FROM store WHERE prefix = ?", A)


def renamed(scene: Any) -> None:
    scene.sql("UPDATE store SET prefix = 'users.mallory' WHERE prefix = ?", A)


def created(scene: Any) -> None:
    scene.sql("UPDATE store SET created_at = '2001-01-01 00:00:00' WHERE prefix = ? AND key = 'k0'", A)


def updated(scene: Any) -> None:
    scene.sql("UPDATE store SET updated_at = '2099-01-01 00:00:00' WHERE prefix = ? AND key = 'k0'", A)


def stamp_as_blob(scene: Any) -> None:
    """The same characters in another storage class sort after all others."""
    scene.sql("UPDATE store SET updated_at = CAST(updated_at AS BLOB) WHERE prefix = ? AND key = 'k0'", A)


def expiry_injected(scene: Any) -> None:
    scene.sql(
        "UPDATE store SET expires_at = '2001-01-01', ttl_minutes = 1.0 WHERE prefix = ? AND key = 'k0'", A
    )


def expiry_only(scene: Any) -> None:
    scene.sql("UPDATE store SET expires_at = '2001-01-01 00:00:00' WHERE prefix = ? AND key = 'k0'", A)


def expiry_removed(scene: Any) -> None:
    scene.sql("UPDATE store SET expires_at = NULL, ttl_minutes = NULL WHERE prefix = ? AND key = 'k3'", A)


def expiry_put_off(scene: Any) -> None:
    scene.sql("UPDATE store SET expires_at = '2099-01-01 00:00:00' WHERE prefix = ? AND key = 'k3'", A)


def expiry_brought_forward(scene: Any) -> None:
    scene.sql("UPDATE store SET expires_at = '2001-01-01 00:00:00' WHERE prefix = ? AND key = 'k3'", A)


def rows_reordered(scene: Any) -> None:
    """Items of one second are listed in the order of their rows."""
    scene.sql("UPDATE store SET rowid = rowid + 1000 WHERE prefix = ? AND key = 'k0'", A)


EDITS: dict[Callable[[Any], None], type[IntegrityError]] = {
    content: TamperedError,
    spaces: TamperedError,
    twice: TamperedError,
    as_text: TamperedError,
    no_seal: TamperedError,
    all_seals: TamperedError,
    member_behind_the_seal: TamperedError,
    undecodable: TamperedError,
    not_utf8: TamperedError,
    swapped: TamperedError,
    from_bob: TamperedError,
    forged: TamperedError,
    moved_to_alice: TamperedError,
    deleted: RollbackError,
    emptied: RollbackError,
    renamed: IntegrityError,
    created: IntegrityError,
    updated: IntegrityError,
    stamp_as_blob: IntegrityError,
    expiry_injected: IntegrityError,
    expiry_only: IntegrityError,
    expiry_removed: IntegrityError,
    expiry_put_off: IntegrityError,
    expiry_brought_forward: IntegrityError,
    rows_reordered: TamperedError,
}
#: What each edit touches; any key of the context is refused after a restart, the touched one always.
TOUCHED = {
    "forged": "k9",
    "moved_to_alice": "k2",
    "expiry_removed": "k3",
    "expiry_put_off": "k3",
    "expiry_brought_forward": "k3",
}
LISTS: dict[str, Callable[[Any], Any]] = {
    "search": lambda store: store.search(ALICE),
    "above": lambda store: store.search(("users",), limit=100),
    "filtered": lambda store: store.search(ALICE, filter={"n": 1}),
    "namespaces": lambda store: store.list_namespaces(),
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_edits_between_two_processes(scene: Any, edit: Callable[[Any], None]) -> None:
    fill(scene.store())
    scene.close()
    edit(scene)
    for ask in (*LISTS.values(), lambda store: store.get(ALICE, TOUCHED.get(edit.__name__, "k0"))):
        store = scene.store()
        with pytest.raises(EDITS[edit]) as caught:
            ask(store)
        assert "limit=" not in str(caught.value)
        # the other namespace goes on working
        if edit is not moved_to_alice:
            assert store.get(BOB, "k0").value["n"] == 0
        scene.close()
    report = scene.store()._memguard.guard.audit(scene.store())
    assert not report.clean
    assert all("limit=" not in str(finding) for finding in report.findings)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_edits_under_a_running_process(scene: Any, edit: Callable[[Any], None]) -> None:
    store = scene.store()
    fill(store)
    for ask in LISTS.values():
        ask(store)
    edit(scene)
    if edit is not rows_reordered:  # an item read by key has no order
        with pytest.raises(EDITS[edit]):
            store.get(ALICE, TOUCHED.get(edit.__name__, "k0"))
    for ask in LISTS.values():
        with pytest.raises(EDITS[edit]):
            ask(store)


@pytest.mark.parametrize(
    "edit", [content, deleted, forged, updated, expiry_injected], ids=lambda edit: edit.__name__
)
async def test_edits_of_an_asynchronous_store(scene: Any, edit: Callable[[Any], None]) -> None:
    async with scene.astore() as store:
        for namespace in (ALICE, BOB):
            await store.aput(namespace, "k0", {"text": "tea limit=100", "n": 0})
        edit(scene)
        with pytest.raises(IntegrityError):
            await store.aget(ALICE, TOUCHED.get(edit.__name__, "k0"))
        with pytest.raises(IntegrityError):
            await store.asearch(ALICE)
        assert (await store.aget(BOB, "k0")).value["n"] == 0


def test_an_unknown_item_is_none_and_a_missing_one_is_not(scene: Any) -> None:
    store = scene.store()
    fill(store)
    assert store.get(ALICE, "never") is None
    assert store.get(("nobody",), "k0") is None
    assert store.get(ALICE, "k2") is None
    deleted(scene)
    with pytest.raises(RollbackError):
        store.get(ALICE, "k0")
    assert store.get(ALICE, "never") is None


def _back(scene: Any, statement: str) -> None:
    """Attach the earlier copy of the database as ``old``, and run a statement."""
    connection = sqlite3.connect(scene.db)
    connection.execute("ATTACH ? AS old", (str(scene.root / "old.db"),))
    assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store SET (value, created_at, updated_at) = (SELECT value, created_at, updated_at FROM old.store o "
        "WHERE o.prefix = store.prefix AND o.key = store.key) WHERE prefix = 'users.alice' AND key = 'k1'",
        "INSERT INTO store SELECT * FROM old.store WHERE prefix = 'users.alice' AND key = 'k0'",
        "INSERT OR REPLACE INTO store SELECT * FROM old.store",
    ],
    ids=["older version", "deleted item", "whole store"],
)
def test_an_earlier_state_put_back(scene: Any, statement: str) -> None:
    store = scene.store()
    fill(store)
    scene.close()
    (scene.root / "old.db").write_bytes(scene.db.read_bytes())
    store = scene.store()
    store.put(ALICE, "k1", {"text": "newer"})
    store.delete(ALICE, "k0")
    scene.close()
    _back(scene, statement)
    store = scene.store()
    for _ in range(2):
        with pytest.raises(IntegrityError):
            store.search(ALICE)
        with pytest.raises(IntegrityError):
            store.get(ALICE, "k1")
        with pytest.raises(IntegrityError):  # a genuine write does not launder it
            store.put(ALICE, "k1", {"text": "newer"})


def test_a_trigger_that_rewrites_what_is_put(scene: Any) -> None:
    store = scene.store()
    fill(store)
    scene.sql("SELECT 1")
    connection = sqlite3.connect(scene.db)
    connection.execute(
        "CREATE TRIGGER later AFTER INSERT ON store BEGIN "
        "UPDATE store SET value = REPLACE(CAST(NEW.value AS TEXT), 'genuine', 'altered') "
        "WHERE prefix = NEW.prefix AND key = NEW.key; END"
    )
    connection.close()
    with pytest.raises(TamperedError, match="just written"):
        store.put(ALICE, "k5", {"text": "genuine"})
    with pytest.raises(IntegrityError):
        store.get(ALICE, "k5")


def test_a_trigger_that_dates_what_is_put(scene: Any) -> None:
    store = scene.store()
    fill(store)
    connection = sqlite3.connect(scene.db)
    connection.execute(
        "CREATE TRIGGER later AFTER INSERT ON store BEGIN UPDATE store SET updated_at = '2099-01-01 00:00:00' "
        "WHERE prefix = NEW.prefix AND key = NEW.key; END"
    )
    connection.close()
    with pytest.raises(TamperedError, match="just written"):
        store.put(ALICE, "k5", {"text": "genuine"})


@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "running"])
def test_a_view_in_place_of_the_table(scene: Any, restart: bool) -> None:
    """It shows every row when it is checked, and may hide one when it is asked."""
    store = scene.store()
    fill(store)
    assert len(store.search(ALICE)) == 3
    if restart:
        scene.close()
    connection = sqlite3.connect(scene.db)
    connection.executescript(
        "ALTER TABLE store RENAME TO kept; CREATE VIEW store AS SELECT rowid, * FROM kept;"
    )
    connection.close()
    if restart:
        store = scene.store()
    with pytest.raises(TamperedError, match="a view 'store' stands"):
        store.search(ALICE)
    with pytest.raises(TamperedError, match="a view 'store' stands"):
        store.list_namespaces()
    assert {finding.case for finding in scene.mg.audit(store).findings} == {"schema"}


def test_a_label_is_inside_the_tag(screened: Any) -> None:
    store = screened.store()
    store.put(ALICE, "k0", {"text": "tea"})
    put_value(screened, A, "k0", value_of(screened, A, "k0").replace(b'"unknown"', b'"system"'))
    with pytest.raises(TamperedError):
        store.get(ALICE, "k0")


def test_report_mode_serves_and_says_so(scene: Any) -> None:
    fill(scene.store())
    scene.close()
    content(scene)
    seen: list[Any] = []
    store = scene.store(mode="report")
    scene.mg.events.subscribe(seen.append)
    assert store.get(ALICE, "k0").value["text"].endswith("limit=999")
    assert len(store.search(ALICE)) == 3
    assert any(getattr(event, "served", False) for event in seen)


def test_off_mode_looks_at_nothing(scene: Any) -> None:
    fill(scene.store())
    scene.close()
    content(scene)
    store = scene.store(mode="off")
    assert store.get(ALICE, "k0").value == {"text": "alice tea 0 limit=999", "n": 0}
    assert len(store.search(("users",))) == 7


@pytest.mark.parametrize("level", ["chain", "tag"])
def test_lower_levels_check_rows_one_by_one(scene: Any, level: str) -> None:
    fill(scene.store(level=level))
    scene.close()
    content(scene)
    with pytest.raises(TamperedError):
        scene.store(level=level).get(ALICE, "k0")


def test_an_in_memory_store_that_was_reached_into(scene: Any) -> None:
    store = scene.memory()
    for number in range(3):
        store.put(ALICE, f"k{number}", {"text": f"tea {number}"})
    items = store.inner._data[ALICE]
    items["k0"].value["text"] = "changed"
    with pytest.raises(TamperedError):
        store.get(ALICE, "k0")
    items["k0"].value["text"] = "tea 0"
    del items["k1"]
    with pytest.raises(RollbackError):
        store.search(ALICE)
    with pytest.raises(RollbackError):
        store.get(ALICE, "k1")
    assert not scene.mg.audit(store).clean
