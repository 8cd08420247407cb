"""A SimpleChatStore that is written to a file and loaded again: what was persisted, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore

from memguard import IntegrityError, RollbackError, TamperedError


class WritingChatStore(SimpleChatStore):
    """SimpleChatStore with a dump of its own: that of llama-index-core 0.14.25 fails on any message under pydantic
    2.14 (not yet under 2.12), with and without a guard. The file is the one that LlamaIndex writes there."""

    def model_dump_json(self, **_: Any) -> str:
        kept = {key: [m.model_dump(mode="json") for m in messages] for key, messages in self.store.items()}
        return json.dumps({"store": kept, "class_name": "SimpleChatStore"}, ensure_ascii=False)


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


@pytest.fixture
def file(scene: Any) -> Path:
    """A store with two keys, persisted by a process that has ended."""
    path: Path = scene.root / "out" / "chats.json"
    store = scene.guard().guard(WritingChatStore(), name="chats")
    for text in "abc":
        store.add_message("alice", said(text))
    store.add_message("bob", said("d"))
    store.persist(str(path))
    scene.close()
    return path


def loaded(scene: Any, path: Path) -> Any:
    return scene.guard().guard(WritingChatStore.from_persist_path(str(path)), name="chats")


def texts(store: Any, key: str) -> list[str]:
    return [message.content for message in store.get_messages(key)]


def test_what_was_persisted_is_loaded_and_goes_on(scene: Any, file: Path) -> None:
    store = loaded(scene, file)
    assert (texts(store, "alice"), texts(store, "bob")) == (["a", "b", "c"], ["d"])
    assert store.delete_last_message("alice").content == "c"
    store.add_message("alice", said("e"))
    store.persist(str(file))
    scene.close()
    store = loaded(scene, file)
    assert texts(store, "alice") == ["a", "b", "e"]
    mg = store.__dict__["_memguard"].guard
    assert mg.audit(store).clean


def test_what_was_not_persisted_is_lost_and_is_no_rollback(scene: Any, file: Path) -> None:
    loaded(scene, file).add_message("alice", said("never persisted"))
    scene.close()
    assert texts(loaded(scene, file), "alice") == ["a", "b", "c"]


def test_an_edited_file_is_refused(scene: Any, file: Path) -> None:
    file.write_text(file.read_text().replace('"text": "b"', '"text": "pay the courier"'))
    store = loaded(scene, file)
    with pytest.raises(TamperedError):
        store.get_messages("alice")
    assert texts(store, "bob") == ["d"]


def test_an_older_file_is_a_rollback(scene: Any, file: Path) -> None:
    shutil.copyfile(file, scene.root / "older.json")
    store = loaded(scene, file)
    store.add_message("alice", said("e"))
    store.persist(str(file))
    scene.close()
    shutil.copyfile(scene.root / "older.json", file)
    with pytest.raises(RollbackError):
        loaded(scene, file).get_messages("alice")


def test_a_file_that_is_gone_is_not_a_new_store(scene: Any, file: Path) -> None:
    file.unlink()
    store = loaded(scene, file)
    with pytest.raises(RollbackError):
        store.get_messages("alice")
    with pytest.raises(RollbackError):
        store.get_keys()


@pytest.mark.parametrize("key", ["alice", "mallory"])
def test_a_message_moved_to_another_key_is_refused(scene: Any, file: Path, key: str) -> None:
    data = json.loads(file.read_text())
    data["store"].setdefault(key, []).append(data["store"]["bob"][0])
    file.write_text(json.dumps(data))
    with pytest.raises(IntegrityError):
        loaded(scene, file).get_messages(key)


def test_a_crash_between_file_and_anchor_is_settled(scene: Any, file: Path) -> None:
    """The process ends right after the file was written: the heads were announced, so the file is known."""
    store = loaded(scene, file)
    store.add_message("alice", said("e"))
    store.add_message("carol", said("new"))
    whole = store._persisted._write

    def ends(place: str, heads: Any) -> None:
        if place.startswith("@simple "):
            raise KeyboardInterrupt
        whole(place, heads)

    store._persisted._write = ends
    with pytest.raises(KeyboardInterrupt):
        store.persist(str(file))
    scene.close()
    store = loaded(scene, file)
    assert (texts(store, "alice"), texts(store, "carol")) == (["a", "b", "c", "e"], ["new"])
    scene.close()
    assert texts(loaded(scene, file), "alice") == ["a", "b", "c", "e"]


def test_a_crash_before_the_file_leaves_the_old_one_good(scene: Any, file: Path) -> None:
    store = loaded(scene, file)
    store.add_message("alice", said("e"))

    def ends(*_: Any) -> None:
        raise KeyboardInterrupt

    object.__setattr__(store.inner, "persist", ends)
    with pytest.raises(KeyboardInterrupt):
        store.persist(str(file))
    scene.close()
    store = loaded(scene, file)
    assert texts(store, "alice") == ["a", "b", "c"]
    store.add_message("alice", said("f"))
    store.persist(str(file))
    scene.close()
    assert texts(loaded(scene, file), "alice") == ["a", "b", "c", "f"]


def test_an_old_file_is_adopted_once(scene: Any) -> None:
    path = scene.root / "old.json"
    bare = WritingChatStore()
    bare.add_message("alice", said("from before"))
    bare.persist(str(path))
    store = loaded(scene, path)
    with pytest.raises(IntegrityError):
        store.get_messages("alice")
    mg = store.__dict__["_memguard"].guard
    mg.adopt(store, apply=True)
    assert texts(store, "alice") == ["from before"]
    store.persist(str(path))
    scene.close()
    assert texts(loaded(scene, path), "alice") == ["from before"]
