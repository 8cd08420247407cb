"""Vectors: embedded from the caller's own fields, of either kind and in either index, gone with their item."""

from __future__ import annotations

from typing import Any

import pytest

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
FIELDS = [None, ["text"], ["*"], ["text", "deep.x[*]"]]


def rows(scene: Any) -> list[Any]:
    return scene.sql("SELECT prefix, key, field_name, embedding::text FROM store_vectors ORDER BY 1, 2, 3")


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_vectors_are_those_of_the_bare_store(new_scene: Any, index: Any, fields: Any) -> None:
    options = {**index, **({"fields": fields} if fields else {})}
    bare, guarded = new_scene(), new_scene({})  # labels on: they must not be embedded either
    stores = (bare.bare(index=options), guarded.store(index=options))
    for key, value, extra in VALUES:
        stores[0].put(ALICE, key, {k: v for k, v in value.items() if k != "memguard"}, **extra)
        stores[1].put(ALICE, key, value, **extra)
    assert rows(guarded) == rows(bare)
    assert rows(bare)
    wanted = [(item.key, item.score) for item in stores[0].search(ALICE, query="green tea", limit=4)]
    assert [(item.key, item.score) for item in stores[1].search(ALICE, query="green tea", limit=4)] == wanted


@pytest.mark.parametrize("kind", ["hnsw", "ivfflat", "flat"])
@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
@pytest.mark.parametrize("distance", ["cosine", "l2", "inner_product"])
def test_every_index_that_the_framework_makes(
    scene: Any, index: Any, kind: str, vector_type: str, distance: str
) -> None:
    options = {
        **index,
        "distance_type": distance,
        "ann_index_config": {"kind": kind, "vector_type": vector_type},
    }
    store = scene.store(index=options)
    for number, text in enumerate(("green tea", "rain today", "black coffee")):
        store.put(ALICE, f"k{number}", {"text": text})
    found, wanted = store.search(ALICE, query="green tea"), store.inner.search(ALICE, query="green tea")
    assert [(i.key, i.score) for i in found] == [(i.key, i.score) for i in wanted]
    assert found[0].key == "k0"
    assert scene.mg.audit(store).clean
    scene.sql(
        "UPDATE store_vectors SET embedding = (SELECT embedding FROM store_vectors WHERE key = 'k1') WHERE key = 'k0'"
    )
    with pytest.raises(IntegrityError):
        store.search(ALICE, query="green tea")


def test_an_update_that_leaves_vectors_of_the_old_value(scene: Any, index: Any) -> None:
    """The framework's way: an update with fewer texts, or none to embed, keeps the old value's vectors."""
    store = scene.store(index=index)
    store.put(ALICE, "a", {"tags": ["one", "two"]}, index=["tags[*]"])
    store.put(ALICE, "a", {"tags": ["three"]}, index=["tags[*]"])
    store.put(ALICE, "a", {"tags": []}, index=False)
    assert len(rows(scene)) == 3
    assert store.get(ALICE, "a").value == {"tags": []}
    assert len(store.search(ALICE, query="one")) == 1
    scene.close()
    store = scene.store(index=index)
    assert len(store.search(ALICE, query="one")) == 1
    store.delete(ALICE, "a")
    assert scene.sql("SELECT count(*) FROM store_vectors") == [(0,)]
    assert scene.mg.audit(store).clean


def test_a_store_without_an_index_checks_the_vectors_of_one_with(scene: Any, index: Any) -> None:
    indexed = scene.store(index=index)
    for number in range(3):
        indexed.put(ALICE, f"k{number}", {"text": f"tea {number}"})
    scene.close()
    store = scene.store()
    store.put(ALICE, "k1", {"text": "white tea"})
    store.delete(ALICE, "k2")
    scene.close()
    store = scene.store(index=index)
    assert store.get(ALICE, "k1").value == {"text": "white tea"}
    assert len(store.search(ALICE, query="tea")) == 2
    scene.close()
    scene.sql("UPDATE store_vectors SET embedding = embedding * embedding WHERE key = 'k1'")
    with pytest.raises(IntegrityError):
        scene.store().get(ALICE, "k1")


def test_vectors_that_the_application_reads_as_arrays(scene: Any, index: Any) -> None:
    """pgvector's own adapters on the connection change nothing."""
    from pgvector.psycopg import register_vector

    bare = scene.bare(index=index)
    register_vector(bare.conn)
    store = scene.guard().guard(bare, name="memories")
    store.put(ALICE, "a", {"text": "tea"})
    assert store.search(ALICE, query="tea")[0].key == "a"
    scene.close()
    store = scene.store(index=index)
    assert store.search(ALICE, query="tea")[0].key == "a"
    assert scene.mg.audit(store).clean
