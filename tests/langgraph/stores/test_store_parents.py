"""Parents that are named by key: what is derived from them is worth no more than they are."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from memguard import MemGuard, principal, source
from memguard.errors import IntegrityError

ANN, BOB = ("users", "ann"), ("users", "bob")


@pytest.fixture
def mg(tmp_path: Path) -> Any:
    with MemGuard.create(
        tmp_path / "home", anchor=f"file:{tmp_path}/a", keys=f"file:{tmp_path}/k.json"
    ) as made:
        yield made


def sqlite(path: Path) -> SqliteStore:
    made = SqliteStore(sqlite3.connect(path, check_same_thread=False, isolation_level=None))
    made.setup()
    return made


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, mg: MemGuard, tmp_path: Path) -> Any:
    return mg.guard(
        sqlite(tmp_path / "s.db") if request.param == "sqlite" else InMemoryStore(), name="memories"
    )


def fill(store: Any) -> None:
    with source("web:https://x.example"):
        store.put(ANN, "page", {"text": "a page"})
    with source("user:ann"):
        store.put(ANN, "said", {"text": "words of ann"})
    with source("tool:crm"):
        store.put(BOB, "crm", {"text": "a record"})
    with source("system"):
        store.put(ANN, "twice", {"text": "one"})
    with source("web:https://y.example"):
        store.put(BOB, "twice", {"text": "two"})


@pytest.mark.parametrize(
    ("parents", "trust"),
    [
        (["page"], "untrusted"),
        (["said"], "user"),
        (["said", "page"], "untrusted"),
        (["crm"], "tool"),
        (["said", "crm"], "tool"),
        (["twice"], "system"),  # its own namespace has one
        (["nowhere"], "unknown"),
        (["said", "nowhere"], "unknown"),
    ],
)
@pytest.mark.parametrize("kind", ["summary", "system"])
def test_the_least_of_its_parents(
    store: Any, mg: MemGuard, kind: str, parents: list[str], trust: str
) -> None:
    fill(store)
    with source(kind, parents=parents):
        store.put(ANN, "derived", {"text": "put together"})
    label = mg.label(store.get(ANN, "derived"))
    assert label.trust == trust
    assert [parent.id for parent in label.lineage.parents] == parents


def test_of_several_namespaces_with_a_key_the_least(store: Any, mg: MemGuard) -> None:
    fill(store)
    with source("summary", parents=["twice"]):
        store.put(("elsewhere",), "derived", {"text": "put together"})
    assert mg.label(store.get(("elsewhere",), "derived")).trust == "untrusted"


def test_a_parent_of_another_owner_is_none(mg: MemGuard, tmp_path: Path) -> None:
    store = mg.guard(sqlite(tmp_path / "s.db"), name="memories", scope={"user": "namespace.1"})
    with principal(user="bob"), source("user:bob"):
        store.put(BOB, "bobs", {"text": "words of bob"})
    with principal(user="ann"), source("summary", parents=["bobs"]):
        store.put(ANN, "derived", {"text": "put together"})
        assert mg.label(store.get(ANN, "derived")).trust == "unknown"
    with principal(user="bob"), source("summary", parents=["bobs"]):
        store.put(BOB, "derived", {"text": "put together"})
        assert mg.label(store.get(BOB, "derived")).trust == "user"


def test_an_edited_parent_lends_nothing(mg: MemGuard, tmp_path: Path) -> None:
    store = mg.guard(sqlite(tmp_path / "s.db"), name="memories")
    fill(store)
    with sqlite3.connect(tmp_path / "s.db") as conn:
        conn.execute("UPDATE store SET value = replace(value, 'words', 'wards') WHERE key = 'said'")
    conn.close()
    with pytest.raises(IntegrityError), source("summary", parents=["said"]):
        store.put(ANN, "derived", {"text": "put together"})


def test_parents_in_an_event_loop(mg: MemGuard, tmp_path: Path) -> None:
    async def work() -> list[str]:
        async with AsyncSqliteStore.from_conn_string(str(tmp_path / "s.db")) as bare:
            await bare.setup()
            store = mg.guard(bare, name="memories")
            with source("web:https://x.example"):
                await store.aput(ANN, "page", {"text": "a page"})
            with source("summary", parents=["page"]):
                await store.aput(ANN, "near", {"text": "put together"})
                await store.aput(BOB, "far", {"text": "put together"})
            items = await store.asearch(("users",))
            return [f"{item.key} {mg.label(item).trust}" for item in items]

    assert sorted(asyncio.run(work())) == ["far untrusted", "near untrusted", "page untrusted"]
