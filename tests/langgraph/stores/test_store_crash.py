"""A process that dies in the middle of an operation: what it did is there or not, and nothing alarms."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

ALICE, BOB = ("users", "alice"), ("users", "bob")
_DYING = """
import os, sqlite3, sys
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from memguard import MemGuard
from memguard.bench.suts import vectors
from memguard.custody import Custody
from memguard.integrations.langgraph.store_sqlite import SqliteTable

home, anchor, key, db, point, what = sys.argv[1:]
mg = MemGuard.open(home, anchor=anchor, keys=key)
inner = SqliteStore(vectors.connect(db), index={"dims": vectors.DIMS, "embed": vectors.embed})
inner.setup()
store = mg.guard(inner, name="memories")
store.search(("users",))

def die(*_, **__):
    os._exit(9)
    yield

if point == "before commit":
    SqliteTable.batch = die
elif point == "after commit":
    batch = SqliteTable.batch
    def last(self, ops):
        yield from batch(self, ops)
        os._exit(9)
    SqliteTable.batch = last
else:
    Custody._advance_all = lambda *_: os._exit(9)
A, B = ("users", "alice"), ("users", "bob")
if what == "put":
    store.put(A, "new", {"text": "n"})
elif what == "first":
    store.put(("users", "carol"), "new", {"text": "n"})
elif what == "update":
    store.put(A, "k0", {"text": "n"})
elif what == "delete":
    store.delete(A, "k0")
elif what == "mixed":
    ops = [PutOp(A, "new", {"text": "n"}), PutOp(A, "k0", None), PutOp(A, "k1", {"text": "n"}), PutOp(B, "new", {})]
    store.batch(ops)
os._exit(3)
"""


@pytest.mark.parametrize("what", ["put", "first", "update", "delete", "mixed"])
@pytest.mark.parametrize("point", ["before commit", "after commit", "before head"])
def test_death_in_the_middle(scene: Any, index: Any, point: str, what: str) -> None:
    store = scene.store(index=index)
    for namespace in (ALICE, BOB):
        for number in range(3):
            store.put(namespace, f"k{number}", {"text": f"tea {number}"})
    scene.close()
    place = [str(scene.home), f"file:{scene.anchor}", f"file:{scene.root / 'key.json'}", str(scene.db)]
    assert subprocess.run([sys.executable, "-c", _DYING, *place, point, what], check=False).returncode == 9
    store = scene.store(index=index)
    new = store.get(ALICE, "new"), store.get(("users", "carol"), "new"), store.get(BOB, "new")
    old = store.get(ALICE, "k0"), store.get(ALICE, "k1")
    done = point != "before commit"
    if what == "put":
        assert (new[0] is not None) is done
    elif what == "first":
        assert (new[1] is not None) is done
    elif what == "update":
        assert (old[0].value == {"text": "n"}) is done
    elif what == "delete":
        assert old[0] is None  # an announced delete is finished
    else:
        assert (new[0] is not None, old[0] is None, old[1].value == {"text": "n"}, new[2] is not None) == (
            done,
        ) * 4
    assert len(store.search(("users",), query="tea", limit=50)) >= 5
    store.put(ALICE, "after", {"text": "goes on"})
    store.delete(BOB, "k2")
    report = scene.mg.audit(store)
    assert report.clean, report.findings
    scene.close()
    assert scene.store(index=index).get(ALICE, "after") is not None


def test_a_store_that_refuses_a_write_leaves_no_doubt(scene: Any, index: Any) -> None:
    def failing(texts: Any) -> Any:
        if any("poison" in text for text in texts):
            raise RuntimeError("the embedding service is down")
        return index["embed"](texts)

    store = scene.store(index={**index, "embed": failing})
    store.put(ALICE, "a", {"text": "tea"})
    with pytest.raises(RuntimeError):
        store.put(ALICE, "b", {"text": "poison"})
    assert store.get(ALICE, "b") is None
    assert [item.key for item in store.search(ALICE)] == ["a"]
    store.put(ALICE, "b", {"text": "rain"})
    assert scene.mg.audit(store).clean


@pytest.mark.parametrize("count", [1, 70, 1200])
def test_large_batches(scene: Any, index: Any, count: int) -> None:
    from langgraph.store.base import PutOp

    store = scene.store(index=index)
    syncs = scene.mg.anchor.syncs
    store.batch([PutOp(ALICE, f"k{number}", {"n": number}) for number in range(count)])
    assert scene.mg.anchor.syncs - syncs <= 2  # the announcement of a first operation, and the head
    syncs = scene.mg.anchor.syncs
    store.batch([PutOp((*ALICE, str(number % 3)), f"k{number}", {"n": number}) for number in range(count)])
    store.batch([PutOp(ALICE, f"k{number}", {"n": -number}) for number in range(count)])
    assert scene.mg.anchor.syncs - syncs <= 3
    assert len(store.search(ALICE, limit=5000)) == 2 * count
    store.batch([PutOp(ALICE, f"k{number}", None) for number in range(count)])
    assert len(store.search(ALICE, limit=5000)) == count
    scene.close()
    store = scene.store(index=index)
    assert len(store.search(ALICE, limit=5000)) == count
    assert scene.mg.audit(store).clean


def test_lag_mode(scene: Any) -> None:
    store = scene.store(sync="lag", lag_ops=8, lag_ms=600_000)
    store.put(ALICE, "first", {"n": 0})
    syncs = scene.mg.anchor.syncs
    for number in range(8):
        store.put(ALICE, f"k{number}", {"n": number})
    assert scene.mg.anchor.syncs - syncs <= 2
    scene.close()
    store = scene.store(sync="lag")
    assert len(store.search(ALICE)) == 9
    assert scene.mg.audit(store).clean
