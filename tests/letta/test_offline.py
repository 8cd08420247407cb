"""What needs no server: who is refused, what an error shows, the file of seals, rows as bytes."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

import memguard
from memguard import ConfigError, MemGuard, UnsupportedError
from memguard.errors import TamperedError
from memguard.integrations.letta import Change, MemoryChangedError, rows
from memguard.integrations.letta.book import Allowance, Book, Kept

letta_client = pytest.importorskip("letta_client")

#: Nobody listens there: a port of loopback that needs a privilege.
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def mg(tmp_path: Path) -> MemGuard:
    return MemGuard.create(
        tmp_path / "home", anchor=f"file:{tmp_path}/anchor", keys=f"file:{tmp_path}/key.json"
    )


def test_a_client_of_the_cloud_by_default_is_refused(mg: MemGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LETTA_BASE_URL", raising=False)
    for cls in (letta_client.Letta, letta_client.AsyncLetta):
        with pytest.raises(ConfigError) as caught:
            mg.guard(cls(api_key="none"), name="letta")
        assert caught.value.code == "MG560"
    monkeypatch.setenv("LETTA_BASE_URL", NOWHERE)
    assert str(mg.guard(letta_client.Letta(), name="letta").base_url) == NOWHERE


def test_guarding_changes_nothing_of_the_client_and_sends_nothing(mg: MemGuard) -> None:
    inner = letta_client.Letta(base_url=NOWHERE, default_headers={"x-team": "a"}, max_retries=3)
    resources, http = inner.agents, inner._client
    before = dict(inner.__dict__)
    client = mg.guard(inner, name="letta")
    assert inner.__dict__ == before
    assert client.inner is inner
    assert isinstance(client, letta_client.Letta)
    assert client.agents is not resources
    assert client._client is not http
    assert (client.max_retries, client._custom_headers) == (3, {"x-team": "a"})
    assert repr(client) == "guarded Letta 'letta'"
    assert memguard.unwrap(client) is inner
    with pytest.raises(memguard.AlreadyGuardedError):
        mg.guard(client, name="again")
    with pytest.raises(UnsupportedError):
        client.copy(base_url="http://127.0.0.1:2")
    copy = client.with_options(max_retries=1)
    assert (copy.max_retries, copy._client) == (1, client._client)
    assert memguard.unwrap(copy) is inner
    with pytest.raises(ConfigError):
        mg.guard(letta_client.Letta(base_url=NOWHERE), name="other", server_edits="sometimes")


def test_an_unreachable_server_is_the_clients_own_error_and_care_says_so(mg: MemGuard) -> None:
    client = mg.guard(letta_client.Letta(base_url=NOWHERE, max_retries=0), name="letta")
    with pytest.raises(letta_client.APIConnectionError):
        client.agents.messages.create("agent-1", messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(UnsupportedError) as caught:
        mg.audit(client)
    assert caught.value.code == "MG561"


def test_a_route_that_nobody_knows_is_not_sent(mg: MemGuard) -> None:
    client = mg.guard(letta_client.Letta(base_url=NOWHERE, max_retries=2), name="letta")
    with pytest.raises(UnsupportedError) as caught:
        client.post("/v1/groups/group-1/messages", cast_to=object, body={})
    assert caught.value.code == "MG565"


def test_an_error_lists_changes_and_shows_no_content() -> None:
    secret = {"value": "the code is 4711", "label": "human"}
    change = Change("block", "changed", "block-1", "human", 3, 16, "ab" * 8, "block:block-1", lambda: secret)
    error = MemoryChangedError("memory changed.", agent="agent-1", changes=[change], why=f"Seen: {change}.")
    assert "4711" not in f"{error} {error!r} {error.changes} {change!r} {error.as_dict()}"
    assert str(change) == "block 'human' (block-1) changed, 3 -> 16 characters"
    assert change.content() is secret
    assert isinstance(error, memguard.TamperedError)


def test_seals_are_believed_only_in_their_own_place(mg: MemGuard, tmp_path: Path) -> None:
    path = tmp_path / "letta.db"
    book = Book(path, mg.keys, "letta")
    kept = Kept("block-1", "aa" * 32, "", "seal", '{"chars":3}')
    book.keep("block:1", {"memory": kept})
    assert book.kept("block:1") == {"memory": kept}
    assert b"block-1" not in path.read_bytes()  # nor any text: only names of contexts stand there openly
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO kept SELECT store, 'block:2', key, kid, box FROM kept")
        connection.execute(
            "INSERT INTO kept SELECT 'other', context, key, kid, box FROM kept WHERE context = 'block:1'"
        )
    assert book.kept("block:2") == {}
    assert Book(path, mg.keys, "other").kept("block:1") == {}
    book.drop("block:1", ["memory"])
    assert book.kept("block:1") == {}


def test_a_link_in_the_place_of_the_book_is_not_followed(mg: MemGuard, tmp_path: Path) -> None:
    (tmp_path / "letta.db").symlink_to(tmp_path / "other")
    with pytest.raises(TamperedError) as caught:
        Book(tmp_path / "letta.db", mg.keys, "letta").kept("block:1")
    assert caught.value.code == "MG600"
    assert not (tmp_path / "other").exists()


def test_an_allowance_is_worth_nothing_once_its_context_moved_on(mg: MemGuard, tmp_path: Path) -> None:
    path = tmp_path / "letta.db"
    book = Book(path, mg.keys, "letta")
    made = [book.allow(Allowance("archive:1", "", digest, {}, 3, time.time())) for digest in ("aa", "bb")]
    assert [a.digest for a in book.allowances("archive:1", 3)] == ["aa", "bb"]
    assert book.allowances("archive:1", 4) == []
    with sqlite3.connect(path) as connection:
        (stolen,) = connection.execute("SELECT box FROM allowed WHERE n = ?", (made[0].n,)).fetchone()
    book.close("archive:1", [made[0].n], made[1:], 4)
    assert [a.digest for a in book.allowances("archive:1", 4)] == ["bb"]
    with sqlite3.connect(path) as connection:  # put back by whoever holds the home: it is of an earlier time
        connection.execute(
            "INSERT INTO allowed (store, context, kid, box) VALUES ('letta', 'archive:1', ?, ?)",
            (mg.keys.current, stolen),
        )
    assert [a.digest for a in book.allowances("archive:1", 4)] == ["bb"]
    late = Allowance("archive:1", "", "cc", {}, 4, time.time() - 3600)
    book.allow(late)
    assert [a.digest for a in book.allowances("archive:1", 4)] == ["bb"]


def test_rows_cover_what_reaches_the_model() -> None:
    block = {
        "label": "human",
        "value": "x",
        "description": None,
        "limit": 100,
        "read_only": False,
        "metadata": None,
    }
    same = {
        **block,
        "metadata": {},
        "id": "block-1",
        "tags": ["a"],
        "created_by_id": "user-1",
        "read_only": None,
    }
    assert rows.block_content(same) == rows.block_content(block)
    for name, value in {
        "label": "h",
        "value": "y",
        "description": "d",
        "limit": 1,
        "read_only": True,
        "metadata": {"a": 1},
    }.items():
        assert rows.block_content({**block, name: value}) != rows.block_content(block), name
    passage = {"text": "x", "tags": ["b", "a"], "metadata": {}, "archive_id": "archive-1"}
    for same in ({"tags": ["a", "b", "a"]}, {"text": "x\x00"}):  # what the server makes of them
        assert rows.passage_content({**passage, **same}) == rows.passage_content(passage)
    for name, value in {"text": "y", "tags": ["a"], "metadata": {"a": 1}, "archive_id": "archive-2"}.items():
        assert rows.passage_content({**passage, name: value}) != rows.passage_content(passage), name
    place = {
        "created_at": "2026-01-01T00:00:00Z",
        "embedding": [0.1, 0.2, 0.0, 0.0],
        "embedding_config": None,
    }
    assert rows.passage_place({**place, "embedding": [0.1, 0.2]}) == rows.passage_place(place)  # padding
    assert rows.passage_place({**place, "created_at": "2026-01-01T01:00:00+01:00"}) == rows.passage_place(
        place
    )
    assert rows.passage_place({**place, "embedding": [0.1, 0.2000001]}) != rows.passage_place(place)
    assert rows.passage_place({**place, "created_at": "2026-01-01T00:00:01Z"}) != rows.passage_place(place)


def test_the_command_lines_kind_opens_an_address_and_nothing_else() -> None:
    from memguard import registry

    kind = registry.kinds.get("letta")
    with kind.open(NOWHERE) as inner:
        assert kind.accepts(inner)
        assert str(inner.base_url) == NOWHERE
        assert (kind.path(inner), kind.durable(inner), kind.swept(inner)) == (None, None, None)
    with pytest.raises(ConfigError), kind.open("sqlite:agent.db"):
        pass
