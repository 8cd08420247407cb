"""EncryptedSession under the guard: a wrong key is an error, an expiry is told, nothing is left out without a word."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import EncryptedSession

from memguard import AlreadyGuardedError, TamperedError, UnknownKeyError, UnsupportedError

ITEMS = [{"role": "user", "content": f"message {n}"} for n in range(4)]
OTHER = "another key, as long as the first one"


def count(scene: Any) -> int:
    found: int = scene.sql("SELECT count(*) FROM agent_messages")[0][0]
    return found


@pytest.mark.parametrize("flavour", ["encrypted", "encrypted-sqlalchemy"])
async def test_a_wrong_key_is_an_error_and_deletes_nothing(scene: Any, flavour: str) -> None:
    await scene.session(flavour).add_items(ITEMS)
    await scene.aclose()
    assert await scene.bare(flavour, key=OTHER).get_items() == [], "bare, a wrong key is an empty history"
    session = scene.session(flavour, key=OTHER)
    for call in (
        session.get_items,
        session.pop_item,
        session.clear_session,
        lambda: session.add_items(ITEMS),
    ):
        with pytest.raises(UnknownKeyError) as caught:
            await call()
        assert caught.value.code == "MG582"
    assert count(scene) == 4
    await scene.aclose()
    assert await scene.session(flavour).get_items() == ITEMS


async def test_the_key_of_another_session_id_is_a_wrong_key(scene: Any) -> None:
    mg = scene.guard()
    await scene.session("encrypted", "alice", mg).add_items(ITEMS)
    under = scene.bare("sqlite", "alice")
    renamed = mg.guard(
        EncryptedSession("bob", under, "a test key of enough bytes, for nothing else"), name="chat"
    )
    with pytest.raises(UnknownKeyError):
        await renamed.get_items()


async def test_an_empty_session_is_empty_with_any_key(scene: Any) -> None:
    assert await scene.session("encrypted", key=OTHER).get_items() == []


async def test_what_lies_in_the_store_is_ciphertext_with_the_seal_inside(scene: Any) -> None:
    session = scene.session("encrypted")
    await session.add_items(ITEMS)
    for (data,) in scene.sql("SELECT message_data FROM agent_messages"):
        assert set(json.loads(data)) == {"__enc__", "v", "kid", "payload"}
        assert "message" not in data.replace("message_data", "")
        assert "mg1." not in data
    assert await scene.bare("encrypted").get_items() != ITEMS, "taken off, the field shows"
    assert [
        {k: v for k, v in i.items() if k != "memguard"} for i in await scene.bare("encrypted").get_items()
    ] == ITEMS


async def test_one_damaged_envelope_is_refused_where_bare_leaves_it_out(scene: Any) -> None:
    session = scene.session("encrypted")
    await session.add_items(ITEMS)
    (ident, data), *_ = scene.sql("SELECT id, message_data FROM agent_messages ORDER BY id LIMIT 1 OFFSET 1")
    envelope = json.loads(data)
    envelope["payload"] = envelope["payload"][:-6] + "AAAAA="
    scene.sql("UPDATE agent_messages SET message_data = ? WHERE id = ?", json.dumps(envelope), ident)
    assert len(await scene.bare("encrypted").get_items()) == 3
    with pytest.raises(TamperedError) as caught:
        await session.get_items()
    assert caught.value.code == "MG583"


async def test_a_plain_item_among_envelopes_is_refused(scene: Any) -> None:
    session = scene.session("encrypted")
    await session.add_items(ITEMS)
    await scene.bare("sqlite").add_items([{"role": "user", "content": "pay the courier"}])
    with pytest.raises(TamperedError) as caught:
        await session.get_items()
    assert caught.value.code == "MG584"


async def test_an_envelope_of_an_older_encryption_of_the_same_item_is_refused(scene: Any) -> None:
    """The same text under the same seal, encrypted once more by who holds the encryption key, is another row."""
    session = scene.session("encrypted")
    await session.add_items(ITEMS)
    bare = scene.bare("encrypted")
    raw = await scene.bare("sqlite").get_items()
    item = bare._unwrap(raw[3])
    again = json.dumps(bare._wrap(item))
    scene.sql(
        "UPDATE agent_messages SET message_data = ? WHERE id = (SELECT max(id) FROM agent_messages)", again
    )
    from memguard import IntegrityError

    with pytest.raises(IntegrityError):
        await session.get_items()


@pytest.mark.parametrize("flavour", ["encrypted", "encrypted-sqlalchemy"])
async def test_expired_items_are_left_out_as_bare_and_counted(
    scene: Any, flavour: str, monkeypatch: Any
) -> None:
    now = time.time()
    session = scene.session(flavour, ttl=60)
    await session.add_items(ITEMS[:2])
    monkeypatch.setattr(time, "time", lambda: now + 100)
    await session.add_items(ITEMS[2:])
    assert await session.get_items() == ITEMS[2:]
    assert await scene.bare(flavour, ttl=60).get_items() != []
    assert session.expired == 2
    assert count(scene) == 4, "they stay in the store, as they do bare"
    assert (await session.inner.get_items())[0]["content"] == "message 2"
    assert await session.pop_item() == ITEMS[3]
    assert await session.pop_item() == ITEMS[2]
    assert await session.pop_item() is None, "and drain as they do bare"
    assert count(scene) == 0


async def test_an_expired_item_is_still_counted_by_the_head(scene: Any, monkeypatch: Any) -> None:
    now = time.time()
    session = scene.session("encrypted", ttl=60)
    await session.add_items(ITEMS)
    monkeypatch.setattr(time, "time", lambda: now + 100)
    scene.sql("DELETE FROM agent_messages WHERE id = (SELECT min(id) FROM agent_messages)")
    from memguard import RollbackError

    with pytest.raises(RollbackError):
        await session.get_items()


# -- the other order: encryption around the guarded session ------------------------------------


async def test_encryption_around_a_guarded_session_works(scene: Any) -> None:
    inside = scene.session("sqlite")
    outside = EncryptedSession("alice", inside, OTHER)
    await outside.add_items(ITEMS)
    assert await outside.get_items() == ITEMS
    assert await outside.get_items(2) == ITEMS[2:]
    scene.sql("DELETE FROM agent_messages WHERE id = (SELECT max(id) FROM agent_messages)")
    from memguard import RollbackError

    with pytest.raises(RollbackError):
        await outside.get_items()


async def test_there_a_pop_is_refused_because_a_wrong_key_would_delete(scene: Any) -> None:
    inside = scene.session("sqlite")
    await EncryptedSession("alice", inside, OTHER).add_items(ITEMS)
    with pytest.raises(UnsupportedError) as caught:
        await EncryptedSession("alice", inside, "a wrong key of enough bytes").pop_item()
    assert caught.value.code == "MG585"
    assert count(scene) == 4
    await EncryptedSession("alice", inside, OTHER).clear_session()
    assert count(scene) == 0


async def test_both_around_one_session_is_guarding_twice(scene: Any) -> None:
    mg = scene.guard()
    inside = scene.session("sqlite", "alice", mg)
    with pytest.raises(AlreadyGuardedError):
        mg.guard(EncryptedSession("alice", inside, OTHER), name="other")


async def test_encryption_around_compaction_is_not_guarded(scene: Any) -> None:
    from agents.memory import OpenAIResponsesCompactionSession

    under = OpenAIResponsesCompactionSession("alice", SQLiteSession("alice", scene.db))
    with pytest.raises(UnsupportedError) as caught:
        scene.guard().guard(EncryptedSession("alice", under, OTHER), name="chat")
    assert caught.value.code == "MG588"
