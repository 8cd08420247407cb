"""Vectors: embedded from the caller's own fields, bound to their item, gone with it."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from memguard import IntegrityError

ALICE = ("users", "alice")
VALUES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("whole", {"text": "green tea", "deep": {"x": ["rain", {"y": "sun"}]}}, {}),
    ("empty", {}, {}),
    ("none", {"text": "hidden"}, {"index": False}),
    ("field", {"text": "black tea", "title": "t"}, {"index": ["title"]}),
    ("many", {"tags": ["a b", "c d"], "text": "x"}, {"index": ["tags[*]", "text"]}),
    ("wild", {"one": "first word", "two": "second word"}, {"index": ["*"]}),
    ("picked", {"one": "first word", "two": "second word"}, {"index": ["{one,two}"]}),
    ("seal", {"text": "x"}, {"index": ["memguard", "memguard.seal", "text"]}),
    ("reserved", {"text": "x", "memguard": "y"}, {"index": ["text"]}),
]
FIELDS = [None, ["text"], ["$"], ["*"], ["text", "deep.x[*]"]]


def rows(scene: Any) -> list[Any]:
    found: list[Any] = scene.sql(
        "SELECT prefix, key, field_name, embedding FROM store_vectors ORDER BY 1, 2, 3"
    )
    return found


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_vectors_are_those_of_the_bare_store(new_scene: Any, index: Any, fields: Any) -> None:
    options = {**index, **({"fields": fields, "text_fields": fields} if fields else {})}
    bare, guarded = new_scene(), new_scene({})  # labels on: they must not be embedded either
    stores = (bare.bare(index=options), guarded.store(index=options))
    for key, value, extra in VALUES:
        for store in stores:
            store.put(
                ALICE,
                key,
                {k: v for k, v in value.items() if k != "memguard"} if store is stores[0] else value,
                **extra,
            )
    assert rows(guarded) == rows(bare)
    assert rows(bare)


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_vectors_in_memory_are_those_of_the_bare_store(scene: Any, index: Any, fields: Any) -> None:
    options = {**index, **({"fields": fields} if fields else {})}
    bare, guarded = InMemoryStore(index=options), scene.memory(index=options)
    for key, value, extra in VALUES[:-1]:
        for store in (bare, guarded):
            store.put(ALICE, key, value, **extra)
    assert guarded.inner._vectors == bare._vectors


async def test_vectors_of_the_asynchronous_store(new_scene: Any, index: Any) -> None:
    one, two = new_scene(), new_scene()
    async with one.abare(index=index) as bare, two.astore(index=index) as guarded:
        for key, value, extra in VALUES[:-1]:
            await bare.aput(ALICE, key, value, **extra)
            await guarded.aput(ALICE, key, value, **extra)
        assert rows(two) == rows(one)
        assert (await guarded._memguard.guard.aaudit(guarded)).clean


def fill(store: Any) -> None:
    for number, text in enumerate(("spending limit", "green tea", "rain and wind")):
        store.put(ALICE, f"k{number}", {"text": text})


EDITS = {
    "attract": "UPDATE store_vectors SET embedding = (SELECT embedding FROM store_vectors WHERE key = 'k0') "
    "WHERE key = 'k1'",
    "suppress": "UPDATE store_vectors SET embedding = zeroblob(length(embedding)) WHERE key = 'k1'",
    "dropped": "DELETE FROM store_vectors WHERE key = 'k1'",
    "added": "INSERT INTO store_vectors SELECT prefix, key, 'evil', embedding, created_at, updated_at "
    "FROM store_vectors WHERE key = 'k1'",
    "renamed": "UPDATE store_vectors SET field_name = 'other' WHERE key = 'k1'",
    "as text": "UPDATE store_vectors SET embedding = CAST(embedding AS TEXT) WHERE key = 'k1'",
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "running"])
def test_a_vector_is_bound_to_its_item(scene: Any, index: Any, edit: str, restart: bool) -> None:
    store = scene.store(index=index)
    fill(store)
    assert len(store.search(ALICE, query="tea")) == 3
    scene.sql(EDITS[edit])
    if restart:
        scene.close()
        store = scene.store(index=index)
    with pytest.raises(IntegrityError):
        store.search(ALICE, query="tea")
    with pytest.raises(IntegrityError):
        store.get(ALICE, "k1")
    assert not scene.mg.audit(store).clean


def test_a_store_without_an_index_checks_the_vectors_of_one_with(scene: Any, index: Any) -> None:
    fill(scene.store(index=index))
    scene.close()
    store = scene.store()
    assert store.get(ALICE, "k1").value == {"text": "green tea"}
    store.put(ALICE, "k1", {"text": "white tea"})
    scene.close()
    store = scene.store(index=index)
    assert store.get(ALICE, "k1").value == {"text": "white tea"}
    assert len(store.search(ALICE, query="tea")) == 3
    scene.close()
    scene.sql(EDITS["suppress"])
    with pytest.raises(IntegrityError):
        scene.store().get(ALICE, "k1")


def test_an_index_that_forgets_an_item(scene: Any, index: Any) -> None:
    """A ranked search finds items by the index of keys: swapped for one without an item, it leaves that item out."""
    fill(scene.store(index=index))
    scene.close()
    connection = sqlite3.connect(scene.db)
    connection.execute("CREATE INDEX forged ON store (prefix, key) WHERE key <> 'k1'")
    pages = dict(
        connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'index'").fetchall()
    )
    connection.execute("PRAGMA writable_schema = ON")
    swap = "UPDATE sqlite_master SET rootpage = ? WHERE name = ?"
    connection.execute(swap, (pages["forged"], "sqlite_autoindex_store_1"))
    connection.execute(swap, (pages["sqlite_autoindex_store_1"], "forged"))
    connection.commit()
    connection.close()
    bare = scene.bare(index=index)
    assert "k1" not in {item.key for item in bare.search((), query="tea")}
    assert "k1" in {item.key for item in bare.search(ALICE)}
    store = scene.store(index=index)
    with pytest.raises(IntegrityError):
        store.search((), query="tea")
    assert not scene.mg.audit(store).clean


def test_a_vector_planted_for_a_key_to_come_is_not_taken_in(scene: Any, index: Any) -> None:
    store = scene.store(index=index)
    fill(store)
    scene.sql(
        "INSERT INTO store_vectors SELECT prefix, 'k9', 'evil', embedding, created_at, updated_at "
        "FROM store_vectors WHERE key = 'k0'"
    )
    store.put(ALICE, "k9", {"text": "harmless"})
    assert [row[2] for row in rows(scene) if row[1] == "k9"] == ["$"]
    assert scene.mg.audit(store).clean


def test_a_vector_planted_before_an_update_is_not_taken_in(scene: Any, index: Any) -> None:
    store = scene.store(index=index)
    fill(store)
    scene.sql(EDITS["added"])
    with pytest.raises(IntegrityError):
        store.put(ALICE, "k1", {"text": "harmless"})


@pytest.mark.parametrize("how", ["delete", "sweep"])
def test_a_deleted_item_leaves_no_vector(scene: Any, index: Any, how: str) -> None:
    """The bare SqliteStore leaves it behind: its foreign key is never switched on."""
    import time

    store = scene.store(index=index, ttl={"refresh_on_read": False})
    fill(store)
    store.put(ALICE, "k3", {"text": "brief"}, ttl=0.3 / 60)
    if how == "delete":
        store.delete(ALICE, "k3")
    else:
        time.sleep(1.5)
        assert store.sweep_ttl() == 1
    assert {row[1] for row in rows(scene)} == {"k0", "k1", "k2"}
    assert scene.mg.audit(store).clean


def test_vectors_planted_where_there_was_no_table_of_them(scene: Any, index: Any) -> None:
    """A store that embeds nothing first sees the table when it reads back what it put."""
    store = scene.store()
    store.put(ALICE, "k0", {"text": "spending limit"})
    scene.bare(index=index).put(("other",), "k9", {"text": "attract everything"})
    for key in ("k9", "k0"):
        scene.sql(
            f"INSERT INTO store_vectors SELECT 'users.alice', '{key}', 'evil', embedding, created_at, updated_at "
            "FROM store_vectors WHERE prefix = 'other'"
        )
    scene.sql("DELETE FROM store_vectors WHERE prefix = 'other'")
    scene.sql("DELETE FROM store WHERE prefix = 'other'")
    store.put(ALICE, "k9", {"text": "harmless"})
    assert [row[1] for row in rows(scene)] == ["k0"]
    assert store.get(ALICE, "k9").value == {"text": "harmless"}
    with pytest.raises(IntegrityError):
        store.get(ALICE, "k0")
    with pytest.raises(IntegrityError):
        store.put(ALICE, "k0", {"text": "harmless"})
