"""Settings that decide what is found, changed in the files; and metadata that come back in another form."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from memguard import IntegrityError, TamperedError, UnsupportedError

World = Any
ALICE = {"user_id": "alice"}


def seeded(world: World) -> None:
    for text in ("one red apple", "two green pears", "three plums"):
        world.memory.add(text, user_id="alice", infer=False)
    world.stop()


def refused(world: World) -> None:
    """Every read and the audit say that the store is not built as Mem0 builds it."""
    world.start()
    with pytest.raises(TamperedError, match="MG543"):
        world.memory.search("apple", filters=ALICE)
    with pytest.raises(TamperedError, match="MG543"):
        world.memory.get_all(filters=ALICE)
    world.restart()
    with pytest.raises(TamperedError, match="MG543"):
        world.mg.audit(world.memory)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Cosine"', '"Euclid"'),
        ('"Cosine"', '"Manhattan"'),
        ('"Cosine"', '"Dot"'),
        ('"datatype": null', '"datatype": "uint8"'),
        ('"modifier": "idf"', '"modifier": null'),
    ],
)
def test_a_collection_of_qdrant_with_other_settings_is_refused(make: Any, old: str, new: str) -> None:
    world = make("qdrant")
    seeded(world)
    file = world.folder / "store/qdrant/meta.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    refused(world)


def _flat(metric: str) -> Callable[[Any, Any], Any]:
    def made(faiss: Any, vectors: Any) -> Any:
        index = faiss.IndexFlat(vectors.shape[1], getattr(faiss, metric))
        index.add(vectors)
        return index

    return made


def _graph(faiss: Any, vectors: Any) -> Any:
    index = faiss.IndexHNSWFlat(vectors.shape[1], 4)
    index.add(vectors)
    return index


def _lists(faiss: Any, vectors: Any) -> Any:
    index = faiss.index_factory(vectors.shape[1], "IVF1,Flat")
    index.train(vectors)
    index.add(vectors)
    index.make_direct_map()
    return index


@pytest.mark.parametrize(
    "other", [_flat("METRIC_INNER_PRODUCT"), _flat("METRIC_Canberra"), _graph, _lists],
    ids=["inner product", "canberra", "graph", "lists"],
)  # fmt: skip
def test_an_index_of_faiss_of_another_kind_is_refused(make: Any, other: Callable[[Any, Any], Any]) -> None:
    import faiss

    world = make("faiss")
    seeded(world)
    file = str(world.folder / "store/faiss/memories.faiss")
    index = faiss.read_index(file)
    faiss.write_index(other(faiss, index.reconstruct_n(0, index.ntotal)), file)
    refused(world)


@pytest.mark.parametrize(
    "script",
    [
        """UPDATE collections SET schema_str = replace(schema_str, '"l2"', '"ip"')""",
        """UPDATE collections SET schema_str = replace(schema_str, '"ef_search":100', '"ef_search":1')""",
        """UPDATE collections SET config_json_str = '{"hnsw": {"space": "cosine"}}'""",
        "INSERT INTO collection_metadata (collection_id, key, str_value)"
        " SELECT id, 'hnsw:space', 'ip' FROM collections",
    ],
)
def test_a_collection_of_chroma_with_other_settings_is_refused(make: Any, script: str) -> None:
    world = make("chroma")
    seeded(world)
    with closing(sqlite3.connect(world.folder / "store/chroma/chroma.sqlite3")) as db, db:
        assert db.execute(script).rowcount
    refused(world)


def test_metadata_named_as_settings_are_metadata(make: Any) -> None:
    """The control: Chroma's schema names every member of metadata."""
    world = make("chroma")
    names = ("space", "ef_search", "spann", "embedding_function", "enabled", "keys")
    world.memory.add("one red apple", user_id="alice", infer=False, metadata=dict.fromkeys(names, "x"))
    world.restart()
    assert world.memory.search("apple", filters=ALICE)["results"]
    assert not world.mg.audit(world.memory).findings


@pytest.mark.parametrize(
    "moment", ["1700000000", "20240501", "1e3", " 7 ", "2024-05-01", 1_700_000_000, 1.7e9, 0.5, True]
)
@pytest.mark.parametrize("provider", ["qdrant", "faiss", "chroma"])
def test_a_moment_that_is_a_number_raises_no_alarm(make: Any, provider: str, moment: Any) -> None:
    world = make(provider)
    made = world.memory.add("one red apple", user_id="alice", infer=False, metadata={"created_at": moment})
    world.memory.add("two green pears", user_id="alice", infer=False)
    world.restart()
    world.memory.add("three plums", user_id="alice", infer=False)
    assert len(world.memory.history(made["results"][0]["id"])) == 1
    assert not world.mg.audit(world.memory).findings


@pytest.mark.parametrize("moment", [2**70, [1], {"a": 1}])
def test_a_moment_that_a_history_cannot_hold_is_refused_before_anything_is_stored(
    make: Any, moment: Any
) -> None:
    world = make("qdrant")
    with pytest.raises(UnsupportedError, match="MG542"):
        world.memory.add("one red apple", user_id="alice", infer=False, metadata={"created_at": moment})
    assert world.memory.get_all(filters=ALICE)["results"] == []
    world.memory.add("two green pears", user_id="alice", infer=False)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**63, 2**70, -(2**63) - 1, [1, 2**63]])
def test_a_number_that_chroma_does_not_hold_is_refused(make: Any, value: Any) -> None:
    world = make("chroma")
    with pytest.raises(UnsupportedError, match="MG542"):
        world.memory.add("one red apple", user_id="alice", infer=False, metadata={"x": value})
    world.memory.add("two green pears", user_id="alice", infer=False)
    assert len(world.memory.get_all(filters=ALICE)["results"]) == 1


@pytest.mark.parametrize("value", [-0.0, 0.1 + 0.2, 2**63 - 1, -(2**63), [1.5, -0.0]])
def test_a_number_that_chroma_holds_raises_no_alarm(make: Any, value: Any) -> None:
    world = make("chroma")
    world.memory.add("one red apple", user_id="alice", infer=False, metadata={"x": value})
    world.restart()
    world.memory.add("two green pears", user_id="alice", infer=False)
    assert len(world.memory.get_all(filters=ALICE)["results"]) == 2


def test_a_text_is_not_the_bytes_that_it_spells(make: Any) -> None:
    world = make("qdrant")
    id = world.memory.add("b'abc'", user_id="alice", infer=False)["results"][0]["id"]
    world.stop()
    with closing(sqlite3.connect(world.folder / "store/history.db")) as db, db:
        assert db.execute("UPDATE history SET new_memory = CAST('abc' AS BLOB)").rowcount == 1
    world.start()
    with pytest.raises(IntegrityError):
        world.memory.history(id)
