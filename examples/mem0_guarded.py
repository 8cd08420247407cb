"""Mem0 remembers an approval limit, and somebody edits it where it lies.

No model and no network: the embedder counts words, and memories are stored as they were said. The user sets a limit;
the program ends; somebody who can write the folder moves the limit's vector, then, in a second copy, raises the limit
in Qdrant's own format. The bare Memory serves both. The guarded one refuses both. At the end a pickle that would run a
command stands where a memory was, and is found before it is unpickled.

Run: ``python examples/mem0_guarded.py``
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from memguard import IntegrityError, MemGuard
from memguard.integrations.mem0 import from_config

LIMIT = "the approval limit of alice is 200 euro"


class Words(Embeddings):
    """One axis for each of a few words."""

    axes = ("approval", "limit", "euro", "tea", "likes", "alice")

    def embed_query(self, text: str) -> list[float]:
        return [float(axis in text) + 0.01 for axis in self.axes]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def config(folder: Path) -> dict[str, Any]:
    """Mem0's configuration: everything in one folder."""
    store = {"path": str(folder / "qdrant"), "embedding_model_dims": len(Words.axes), "on_disk": True}
    return {
        "vector_store": {"provider": "qdrant", "config": store},
        "embedder": {
            "provider": "langchain",
            "config": {"model": Words(), "embedding_dims": len(Words.axes)},
        },
        "llm": {"provider": "langchain", "config": {"model": FakeListChatModel(responses=["{}"])}},
        "history_db_path": str(folder / "history.db"),
    }


def ask(folder: Path, mg: MemGuard | None) -> str:
    """What a Memory over the folder says about the limit, guarded or bare."""
    inner = from_config(config(folder))
    memory = inner if mg is None else mg.guard(inner, name="memories")
    try:
        found = memory.search("approval limit", filters={"user_id": "alice"}, top_k=1)["results"]
        return found[0]["memory"] if found else "nothing"
    except IntegrityError as error:
        return f"refused: {type(error).__name__} {error.code}"
    finally:
        inner.close()
        inner.vector_store.client.close()


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    """Change the stored points as somebody with the file would: sqlite3 and pickle."""
    file = folder / "qdrant" / "collection" / "mem0" / "storage.sqlite"
    with closing(sqlite3.connect(file)) as db, db:
        for row, raw in db.execute("SELECT rowid, point FROM points").fetchall():
            point = pickle.loads(raw)
            change(point)
            db.execute("UPDATE points SET point = ? WHERE rowid = ?", (pickle.dumps(point), row))


def raise_limit(point: Any) -> None:
    """Another amount in the text."""
    point.payload["data"] = point.payload["data"].replace("200", "9000")


def hide_limit(point: Any) -> None:
    """The limit's vector turned away from every question; not one letter of text changes."""
    if point.payload["data"] == LIMIT:
        point.vector[""] = [-x for x in point.vector[""]]


class Command:
    """A pickle that runs a command when it is loaded."""

    def __reduce__(self) -> Any:
        return (os.system, ("echo this ran",))


def main() -> None:
    """Tell the story."""
    base = Path(tempfile.mkdtemp())
    os.environ.setdefault(
        "MEM0_DIR", str(base / "mem0")
    )  # Mem0 keeps a file of its own; it is imported below
    logging.disable(logging.WARNING)  # it says what is not installed
    store = base / "store"
    store.mkdir()
    mg = MemGuard.create(base / "home", anchor=f"file:{base}/anchor", keys=f"file:{base}/key.json")
    inner = from_config(config(store))
    memory = mg.guard(inner, name="memories")
    memory.add(LIMIT, user_id="alice", infer=False)
    memory.add("alice likes tea", user_id="alice", infer=False)
    inner.close()
    inner.vector_store.client.close()
    mg.close()

    for what, change in (("the limit raised", raise_limit), ("its vector moved", hide_limit)):
        shutil.rmtree(base / "copy", ignore_errors=True)
        shutil.copytree(store, base / "copy")
        edit(base / "copy", change)
        print(f"{what}, bare:    {ask(base / 'copy', None)}")
        with MemGuard.open(base / "home") as opened:
            print(f"{what}, guarded: {ask(base / 'copy', opened)}")

    with MemGuard.open(base / "home") as opened:
        print(f"untouched, guarded:        {ask(store, opened)}")

    file = store / "qdrant" / "collection" / "mem0" / "storage.sqlite"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE points SET point = ?", (pickle.dumps(Command()),))
    try:
        from_config(config(store))
    except IntegrityError as error:
        print(f"a pickle with a command:   refused before it was loaded: {type(error).__name__} {error.code}")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
