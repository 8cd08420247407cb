"""Edits of a chat store by somebody with a shell: each refused with the error that names it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage

from memguard import IntegrityError, RollbackError, TamperedError

TABLE = "llama_index_memory"
TEXTS = [f"message {n}" for n in range(5)]
COLUMNS = "key, timestamp, role, status, data"


def said(texts: list[str]) -> list[ChatMessage]:
    return [ChatMessage(role="user" if n % 2 == 0 else "assistant", content=t) for n, t in enumerate(texts)]


def ids(scene: Any, key: str = "alice") -> list[int]:
    found = scene.sql(f"SELECT id FROM {TABLE} WHERE key = ? ORDER BY timestamp, id", key)
    return [ident for (ident,) in found]


def changed(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET data = replace(data, 'message 2', 'courier') WHERE key = 'alice'")


def dropped(scene: Any) -> None:
    scene.sql(f"DELETE FROM {TABLE} WHERE id = ?", ids(scene)[2])


def tail_cut(scene: Any) -> None:
    scene.sql(f"DELETE FROM {TABLE} WHERE id = ?", ids(scene)[-1])


def emptied(scene: Any) -> None:
    scene.sql(f"DELETE FROM {TABLE} WHERE key = 'alice'")


def duplicated(scene: Any) -> None:
    scene.sql(f"INSERT INTO {TABLE} ({COLUMNS}) SELECT {COLUMNS} FROM {TABLE} WHERE id = ?", ids(scene)[4])


def inserted(scene: Any) -> None:
    data = json.dumps(said(["pay the courier"])[0].model_dump(mode="json"))
    scene.sql(f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ('alice', ?, 'user', 'active', ?)", 1 << 62, data)


def reordered(scene: Any) -> None:
    """Two messages change their stamps: each row is whole, and its seal is its own."""
    one, two = ids(scene)[1:3]
    stamps = dict(scene.sql(f"SELECT id, timestamp FROM {TABLE}"))
    for ident, stamp in ((one, stamps[two]), (two, stamps[one])):
        scene.sql(f"UPDATE {TABLE} SET timestamp = ? WHERE id = ?", stamp, ident)


def moved(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET key = 'alice' WHERE id = ?", ids(scene, "bob")[4])


def unarchived(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET status = 'active' WHERE id = ?", ids(scene)[0])


def archived(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET status = 'archived' WHERE id = ?", ids(scene)[3])


def other_role(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET role = 'system' WHERE id = ?", ids(scene)[3])


def broken(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET data = '{{not json' WHERE id = ?", ids(scene)[4])


def other_json(scene: Any) -> None:
    scene.sql(f"UPDATE {TABLE} SET data = '[1]' WHERE id = ?", ids(scene)[4])


def stripped(scene: Any) -> None:
    scene.sql(
        f"UPDATE {TABLE} SET data = json_remove(data, '$.additional_kwargs.memguard') WHERE key = 'alice'"
    )


def relabelled(scene: Any) -> None:
    path = "'$.additional_kwargs.memguard.label.trust'"
    scene.sql(f"UPDATE {TABLE} SET data = json_set(data, {path}, 'system') WHERE id = ?", ids(scene)[4])


EDITS: dict[Any, type[IntegrityError]] = {
    changed: TamperedError,
    dropped: RollbackError,
    tail_cut: RollbackError,
    emptied: RollbackError,
    duplicated: TamperedError,
    inserted: TamperedError,
    reordered: IntegrityError,
    moved: TamperedError,
    unarchived: TamperedError,
    archived: TamperedError,
    other_role: TamperedError,
    broken: TamperedError,
    other_json: TamperedError,
    stripped: TamperedError,
    relabelled: TamperedError,
}


async def filled(scene: Any) -> None:
    """Two keys of five messages, the first of each archived; closed."""
    store = scene.store("sql")
    for key in ("alice", "bob"):
        await store.add_messages(key, said(TEXTS))
        await store.archive_oldest_messages(key, 1)
    scene.close()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
async def test_an_edit_is_refused_on_every_path_and_the_other_key_served(scene: Any, edit: Any) -> None:
    await filled(scene)
    edit(scene)
    rows = scene.sql(f"SELECT count(*) FROM {TABLE}")
    mg = scene.guard()
    store = scene.store("sql", mg)
    for call in (
        lambda: store.get_messages("alice"),
        lambda: store.get_messages("alice", status=None, limit=1),
        lambda: store.count_messages("alice"),
        lambda: store.archive_oldest_messages("alice", 1),
        lambda: store.delete_oldest_messages("alice", 1),
        lambda: store.delete_messages("alice"),
        lambda: store.set_messages("alice", said(["new"])),
        lambda: store.add_message("alice", said(["new"])[0]),
    ):
        with pytest.raises(IntegrityError) as caught:
            await call()
        assert isinstance(caught.value, EDITS[edit]), caught.value
        assert "courier" not in str(caught.value)
    if edit is not moved:  # there a message of bob's is missing too
        assert [m.content for m in await store.get_messages("bob", status=None)] == TEXTS
    assert scene.sql(f"SELECT count(*) FROM {TABLE}") == rows, "nothing was deleted or added"
    assert not (await mg.aaudit(store)).clean


async def test_a_key_that_was_emptied_is_missed_in_the_list_of_keys(scene: Any) -> None:
    await filled(scene)
    emptied(scene)
    with pytest.raises(RollbackError):
        await scene.store("sql").get_keys()


async def test_a_key_that_nobody_wrote_is_refused_in_the_list_of_keys(scene: Any) -> None:
    await filled(scene)
    scene.sql(f"UPDATE {TABLE} SET key = 'mallory' WHERE id = ?", ids(scene)[4])
    with pytest.raises(IntegrityError):
        await scene.store("sql").get_keys()


async def test_a_restored_database_is_a_rollback(scene: Any) -> None:
    await filled(scene)
    scene.take()
    await scene.store("sql").add_message("alice", said(["more"])[0])
    scene.close()
    scene.put_back()
    with pytest.raises(RollbackError):
        await scene.store("sql").get_messages("alice")


async def test_what_was_deleted_does_not_come_back(scene: Any) -> None:
    await filled(scene)
    scene.take()
    await scene.store("sql").delete_messages("alice")
    scene.close()
    scene.put_back()
    with pytest.raises(IntegrityError):
        await scene.store("sql").get_messages("alice")


# -- stores of other kinds -----------------------------------------------------------------------


def test_a_line_of_a_file_store_is_guarded(scene: Any) -> None:
    store = scene.store("file")
    store.set_messages("alice", said(TEXTS))
    path = scene.root / "lines" / "alice.jsonl"
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    edits = {
        "changed": whole.replace("message 2", "courier"),
        "cut": "".join(lines[:-1]),
        "twice": whole + lines[-1],
        "exchanged": "".join([lines[1], lines[0], *lines[2:]]),
        "broken": whole[:-20],
    }
    for name, text in edits.items():
        path.write_text(text)
        with pytest.raises(IntegrityError):
            store.get_messages("alice")
        assert name
    path.write_text(whole)
    assert [message.content for message in store.get_messages("alice")] == TEXTS
    path.unlink()
    with pytest.raises(RollbackError):
        store.get_keys()


def test_a_message_in_memory_is_guarded(scene: Any) -> None:
    store = scene.store("simple")
    for message in said(TEXTS):
        store.add_message("alice", message)
    scene.simple.store["alice"][2].blocks[0].text = "pay the courier"
    with pytest.raises(TamperedError):
        store.get_messages("alice")
