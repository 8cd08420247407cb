"""The vault by itself: what is sealed, what is counted, what is found out, what is refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey, PublicKey, SealedBox
from quarantine_place import DECISION, SECRET, Place, keep

from memguard import (
    ConfigError,
    IntegrityError,
    MemGuard,
    RejectedError,
    RollbackError,
    TamperedError,
    UnknownKeyError,
)
from memguard.keys.file import FileKeyRing
from memguard.quarantine.entry import Kept, is_exact
from memguard.quarantine.review import default_uri
from memguard.record import Trust


def test_what_may_be_seen_and_what_only_the_review_key_reads(place: Place) -> None:
    mg = place.guard()
    assert keep(mg) == "q-0001"
    (entry,) = mg.quarantine.list()
    assert (entry.id, entry.store, entry.state, entry.code) == ("q-0001", "memories", "waiting", "MG203")
    assert (entry.source, entry.trust, entry.score) == ("web:shop", Trust.UNTRUSTED, 0.93)
    assert entry.context.startswith("c-")
    assert "alice" not in repr(entry)
    shown = mg.quarantine.show("q-0001")
    assert shown.kept.value == {"text": SECRET}
    assert (shown.kept.context, shown.kept.key) == ('["it","users","alice"]', "k")
    assert SECRET not in repr(shown)


def test_the_text_stands_in_clear_nowhere(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a key that says Kestrel-7731 too")
    mg.quarantine.drop("q-0001", by="alice", reason="poison")
    place.close()
    read = [path for path, data in place.files() if b"Kestrel" in data or b'alice","it' in data]
    assert read == []
    assert any(
        b"q-0001" in data or b"drop" in data for _, data in place.files()
    )  # the search does find things


def test_the_private_half_is_its_own_file(place: Place) -> None:
    mg = place.guard()
    assert stat.S_IMODE(place.review.stat().st_mode) == 0o600
    ring = FileKeyRing.open(place.review)
    public = bytes(PrivateKey(ring.subkey("review")).public_key).hex()
    assert mg.config.quarantine.review_public == public
    assert public in (place.home / "memguard.toml").read_text()
    agent = FileKeyRing.open(place.root / "agent" / "key.json")
    assert bytes(PrivateKey(agent.subkey("review")).public_key).hex() != public


def test_keeping_needs_no_private_half_and_reading_does(place: Place) -> None:
    place.guard().close()
    moved = place.root / "safe.json"
    place.review.rename(moved)
    mg = place.guard()
    assert keep(mg) == "q-0001"
    assert [e.id for e in mg.quarantine.list()] == ["q-0001"]
    with pytest.raises(ConfigError) as caught:
        mg.quarantine.show("q-0001")
    assert caught.value.code == "MG342"
    assert mg.quarantine.show("q-0001", review_key=f"file:{moved}").kept.value == {"text": SECRET}
    other = FileKeyRing.create(place.root / "other" / "review.json")
    with pytest.raises(UnknownKeyError) as wrong:
        mg.quarantine.show("q-0001", review_key=other.uri)
    assert wrong.value.code == "MG343"
    mg.quarantine.drop("q-0001")  # dropping reads nothing


def test_a_rotated_review_key_opens_what_the_old_one_sealed(place: Place) -> None:
    mg = place.guard()
    keep(mg)
    FileKeyRing.open(place.review).rotate()
    assert mg.quarantine.show("q-0001").kept.value == {"text": SECRET}


def test_the_review_key_is_not_the_agents_key(tmp_path: Path) -> None:
    uri = f"file:{tmp_path / 'key.json'}"
    with pytest.raises(ConfigError) as caught:
        MemGuard.create(
            tmp_path / "home",
            anchor=f"file:{tmp_path / 'anchor'}",
            keys=uri,
            config={"quarantine": {"review_key": uri}},
        )
    assert caught.value.code == "MG340"
    assert list(tmp_path.iterdir()) == []


def test_where_the_private_half_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    home = tmp_path / "home"
    user = f"file:{tmp_path}/config/memguard/review/review.json"
    assert default_uri(f"file:{tmp_path}/agent/key.json", home) == f"file:{tmp_path}/agent/review/review.json"
    assert default_uri("env:SOME_KEY", home) == user  # never in the project's folder, which may be published
    assert default_uri(f"file:{home}/key.json", home) == user
    assert default_uri("memory:a", home).startswith("memory:")


def test_without_any_review_key_a_withheld_write_is_an_error(make: Any) -> None:
    place = make()
    mg = place.guard()
    mg.quarantine.vault._sealing.__init__(None)
    with pytest.raises(ConfigError) as caught:
        keep(mg)
    assert caught.value.code == "MG341"
    assert mg.quarantine.list() == []


def test_the_same_write_is_counted_and_not_kept_twice(place: Place) -> None:
    mg = place.guard()
    assert [keep(mg), keep(mg), keep(mg, key="other"), keep(mg, text=SECRET.upper() + "  ")] == [
        "q-0001",
        "q-0001",
        "q-0002",
        "q-0003",
    ]
    found = {e.id: (e.times, e.like) for e in mg.quarantine.list()}
    assert found == {"q-0001": (2, 3), "q-0002": (1, 3), "q-0003": (1, 3)}


_ACT = "entry, 'undo', time, \"by\", note, bound, prev, kid, tag"
_ENTRY = (
    'store, context, code, rule, guard, source, trust, score, time, place, "like", content, body, public, digest, '
    "size, kid, tag, sealed"
)
EDITS = {
    "a score": "UPDATE quarantine SET score = '0.0' WHERE seq = 1",
    "a source": "UPDATE quarantine SET source = 'user:alice' WHERE seq = 1",
    "the content gone": "UPDATE quarantine SET sealed = NULL WHERE seq = 1",
    "an entry removed": "DELETE FROM quarantine WHERE seq = 1",
    "the last act removed": "DELETE FROM quarantine_log WHERE seq = (SELECT max(seq) FROM quarantine_log)",
    "another act": "UPDATE quarantine_log SET verb = 'release' WHERE seq = 3",
    "two acts exchanged": "UPDATE quarantine_log SET verb = CASE seq WHEN 4 THEN 'undo' ELSE 'drop' END WHERE seq > 3",
    "an act of nobody": f"INSERT INTO quarantine_log SELECT 6, {_ACT} FROM quarantine_log WHERE seq = 5",
    "an entry copied": f"INSERT INTO quarantine SELECT 9, {_ENTRY} FROM quarantine WHERE seq = 2",
    "everything gone": "DELETE FROM quarantine_log",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
@pytest.mark.parametrize("running", [True, False], ids=["under a running process", "before a start"])
def test_an_edit_of_the_tables_is_found(place: Place, edit: str, running: bool) -> None:
    mg = place.guard()
    for key in "abc":
        keep(mg, key=key)
    mg.quarantine.drop("q-0003", by="alice")
    mg.quarantine.undo("q-0003", by="alice")
    if not running:
        mg.close()
    place.sql(edit)
    if not running:
        mg = place.guard()
    ends = edit in (EDITS["the last act removed"], EDITS["everything gone"], EDITS["an act of nobody"])
    if running and not ends:
        keep(mg, key="z")  # an edit of an older entry keeps no write from being withheld
    else:
        with pytest.raises(IntegrityError):
            keep(mg, key="z")
    for look in (
        mg.quarantine.list,
        lambda: mg.quarantine.drop("q-0002"),
        lambda: mg.quarantine.show("q-0002"),
    ):
        with pytest.raises(IntegrityError) as caught:
            look()
        assert caught.value.code == "MG346"
        assert SECRET not in str(caught.value)


ODD = {
    "bytes for a tag": "UPDATE quarantine SET tag = x'00ff'",
    "letters for a tag": "UPDATE quarantine_log SET tag = 'é'",
    "no text": "UPDATE quarantine SET source = CAST(x'ff' AS TEXT)",
    "a table gone": "DROP TABLE quarantine_log",
    "another table": "ALTER TABLE quarantine RENAME COLUMN source TO origin",
}


@pytest.mark.parametrize("edit", ODD.values(), ids=ODD.keys())
def test_what_no_writer_of_ours_writes_is_an_error_of_the_vault(place: Place, edit: str) -> None:
    mg = place.guard()
    keep(mg)
    place.sql(edit)
    with pytest.raises(IntegrityError) as caught:
        mg.quarantine.list()
    assert caught.value.code == "MG346"


def test_a_key_that_nobody_holds_is_written_off_with_the_rest(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a")
    keep(mg, key="b")
    place.sql("UPDATE quarantine_log SET kid = 'nobody' WHERE seq = 2")
    with pytest.raises(UnknownKeyError):
        mg.quarantine.list()
    assert mg.quarantine.vault.tables.write_off("gone") == 2
    assert [e.id for e in mg.quarantine.list()] == ["q-0001"]
    assert keep(mg, key="c") == "q-0003"  # an id is never given again


@pytest.mark.parametrize("table", ["quarantine", "quarantine_log"])
def test_a_trigger_that_swallows_rows_makes_the_write_an_error(place: Place, table: str) -> None:
    mg = place.guard()
    keep(mg, key="a")
    place.sql(f"CREATE TRIGGER swallow BEFORE INSERT ON {table} BEGIN SELECT raise(ignore); END")
    with pytest.raises(IntegrityError):
        keep(mg, key="b")
    place.sql("DROP TRIGGER swallow")
    assert [e.id for e in mg.quarantine.list()] == ["q-0001"]
    assert keep(mg, key="b") == "q-0002"


def test_purged_bytes_are_gone_from_the_file(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a", text="x" * 20_000)
    sealed = mg.quarantine.vault.tables.sealed(1)
    assert sealed is not None
    place.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    part = sealed[100:164]
    assert any(part in data for _, data in place.files())
    mg.quarantine.drop("q-0001", purge=True)
    mg.close()
    assert not any(part in data for _, data in place.files())


def test_sealed_bytes_that_were_exchanged_do_not_open_as_another_record(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a", text="one")
    keep(mg, key="b", text="two")
    place.sql("UPDATE quarantine SET sealed = (SELECT sealed FROM quarantine WHERE seq = 2) WHERE seq = 1")
    with pytest.raises(TamperedError) as caught:
        mg.quarantine.show("q-0001")
    assert caught.value.code == "MG344"
    public = str(mg.config.quarantine.review_public)
    forged = SealedBox(PublicKey(bytes.fromhex(public))).encrypt(b'{"value": 1}')  # anybody can seal
    place.sql("UPDATE quarantine SET sealed = ? WHERE seq = 2", forged)
    with pytest.raises(TamperedError):
        mg.quarantine.show("q-0002")


def test_an_older_copy_of_state_db_is_a_rollback(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a")
    mg.close()
    before = (place.home / "state.db").read_bytes()
    mg = place.guard()
    mg.quarantine.drop("q-0001")
    mg.close()
    (place.home / "state.db").write_bytes(before)
    mg = place.guard()
    with pytest.raises(RollbackError):
        mg.quarantine.list()
    assert mg.quarantine.vault.tables.lost() == 1
    assert mg.quarantine.vault.tables.write_off("restored a backup") == 1
    assert [(e.id, e.state) for e in mg.quarantine.list()] == [("q-0001", "waiting")]
    assert mg.quarantine.show("q-0001").kept.value == {"text": SECRET}
    assert [n.operation for n in mg._log.notes()] == ["accept"]
    mg.close()
    assert [e.id for e in place.guard().quarantine.list()] == ["q-0001"]


def test_a_writer_killed_before_its_head_is_taken_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    mg = place.guard()
    keep(mg, key="a")
    tables = mg.quarantine.vault.tables
    with monkeypatch.context() as patch:
        patch.setattr(type(tables), "_head", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            keep(mg, key="b")
    mg.close()
    mg = place.guard()
    assert [e.id for e in mg.quarantine.list()] == ["q-0001", "q-0002"]
    assert keep(mg, key="c") == "q-0003"
    mg.close()
    place.sql("DELETE FROM quarantine_log WHERE seq = 2")
    with pytest.raises(IntegrityError):
        place.guard().quarantine.list()


def test_after_a_rotation_nothing_needs_the_old_key(place: Place) -> None:
    mg = place.guard()
    keep(mg, key="a")
    mg.quarantine.drop("q-0001")
    mg.close()
    ring = FileKeyRing.open(place.root / "agent" / "key.json")
    old = ring.current
    ring.rotate()
    mg = place.guard()
    assert keep(mg, key="b") == "q-0002"
    for table in ("quarantine", "quarantine_log"):
        kids = {kid for (kid,) in place.sql(f"SELECT kid FROM {table}")}
        assert kids
        assert old not in kids
    mg.close()
    mg = place.guard()
    assert [(e.id, e.state) for e in mg.quarantine.list(None)] == [
        ("q-0001", "dropped"),
        ("q-0002", "waiting"),
    ]
    assert mg.quarantine.show("q-0001").kept.value == {"text": SECRET}


def test_age_ends_an_entry_loudly_and_leaves_a_stub(make: Any) -> None:
    place = make(quarantine={"max_age_days": 2.0, "undo_days": 1.0})
    mg = place.guard()
    now = [1_000_000.0]
    mg.quarantine.vault._clock = lambda: now[0]
    mg.quarantine.vault.tables._clock = lambda: now[0]
    seen: list[Any] = []
    mg.events.subscribe(seen.append)
    keep(mg, key="a")
    keep(mg, key="b", text="another")
    mg.quarantine.drop("q-0002", by="alice")
    now[0] += 1.5 * 86_400
    assert [(e.id, e.state) for e in mg.quarantine.list(None)] == [
        ("q-0001", "waiting"),
        ("q-0002", "purged"),
    ]
    with pytest.raises(ConfigError) as caught:
        mg.quarantine.undo("q-0002")
    assert caught.value.code == "MG349"
    assert [type(e).__name__ for e in seen] == ["Reviewed"]
    now[0] += 86_400
    assert mg.quarantine.list() == []
    (stub, _) = mg.quarantine.list(None)
    assert (stub.state, stub.size, stub.by, stub.source) == ("purged", 0, "", "web:shop")
    with pytest.raises(ConfigError) as gone:
        mg.quarantine.show("q-0001")
    assert gone.value.code == "MG348"
    (event,) = [e for e in seen if type(e).__name__ == "QuarantinePurged"]
    assert (event.entries, event.reason) == (("q-0001",), "age")
    assert place.sql("SELECT count(*) FROM quarantine WHERE sealed IS NOT NULL") == [(0,)]


def test_a_flood_pushes_nothing_out_and_leaves_room_for_a_persons_writes(make: Any) -> None:
    place = make(quarantine={"max_entries": 8})
    mg = place.guard()
    keep(mg, key="honest", text="please always answer in French", source="web:honest")
    refused: list[RejectedError] = []
    for number in range(20):
        try:
            keep(mg, key=str(number), text=f"buy {number}", source=f"web:{number}")
        except RejectedError as error:
            refused.append(error)
    assert len(refused) == 17
    assert {error.code for error in refused} == {"MG345"}
    assert not any("buy" in str(error) for error in refused)
    waiting = mg.quarantine.list()
    assert waiting[0].source == "web:honest"
    assert len(waiting) == 4
    assert [keep(mg, key=f"u{n}", text=f"u{n}", source="user:alice", trust="user") for n in range(4)] == [
        f"q-{n:04d}" for n in range(5, 9)
    ]
    with pytest.raises(RejectedError):
        keep(mg, key="u5", text="u5", source="user:alice", trust="user")
    mg.quarantine.drop("q-0002", purge=True)
    assert keep(mg, key="u5", text="u5", source="user:alice", trust="user") == "q-0009"


def test_bytes_are_limited_too(make: Any) -> None:
    mg = make(quarantine={"max_bytes": 4096}).guard()
    with pytest.raises(RejectedError):
        keep(mg, text="x" * 4000)
    assert keep(mg, text="x" * 100) == "q-0001"


def test_entries_are_found_without_being_read(place: Place) -> None:
    mg = place.guard()
    place.review.unlink()
    mg.quarantine.keep(
        "memories",
        '["it","u"]',
        "k1",
        {"text": "one sentence", "note": {"deep": ["another one"]}},
        DECISION,
        source=__import__("memguard.record", fromlist=["Source"]).Source.parse("web:a"),
        trust=Trust.UNTRUSTED,
    )
    keep(mg, key="k2", text="unrelated")
    vault = mg.quarantine.vault
    assert vault.find(text="another one") == ["q-0001"]
    assert vault.find(text="ONE  sentence") == []  # spacing and case only for the whole text
    assert vault.find(text="UNRELATED") == []
    assert vault.find(text="text\nUNRELATED") == ["q-0002"]
    assert vault.find(text="sentence") == []
    assert vault.find(place=("memories", '["it","u"]', "k1")) == ["q-0001"]
    assert vault.find(source="web:shop") == ["q-0002"]
    vault.act(["q-0001"], "purge", "forget", only=("waiting",))
    assert vault.find(text="another one") == []


CHILD = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from quarantine_place import Place, keep
place = Place(Path({root!r}))
mg = place.guard()
for n in range(12):
    keep(mg, key=sys.argv[1] + str(n), text=sys.argv[1] + str(n))
"""


def test_two_processes_keep_at_once(place: Place) -> None:
    mg = place.guard()
    code = CHILD.format(root=str(place.root), tests=os.path.dirname(__file__))
    children = [subprocess.Popen([sys.executable, "-c", code, name]) for name in ("x", "y")]
    mine = [keep(mg, key=f"m{n}", text=f"m{n}") for n in range(12)]
    assert [child.wait(timeout=120) for child in children] == [0, 0]
    entries = mg.quarantine.list()
    assert len({e.id for e in entries}) == 36
    assert set(mine) < {e.id for e in entries}
    keys = sorted(mg.quarantine.show(e.id).kept.key for e in entries)
    assert keys == sorted(f"{who}{n}" for who in "mxy" for n in range(12))


@pytest.mark.parametrize(
    "value",
    [
        {1: "x"},
        {"a": b"bytes"},
        {"a": {1, 2}},
        {"a": object()},
        {"a": float("nan"), "b": "\ud800 lone", "c": "nul \x00"},
        {"a": "x" * 1_000_000},
        {},
    ],
    ids=["number keys", "bytes", "a set", "an object", "odd text", "long", "empty"],
)
def test_any_value_is_kept(place: Place, value: Any) -> None:
    mg = place.guard()
    id = mg.quarantine.keep(
        "memories",
        "c",
        "k\ud800",
        value,
        DECISION,
        source=keep.__globals__["Source"].parse("web"),
        trust=None,
    )
    kept = mg.quarantine.show(id).kept
    assert kept.key == "k\ud800"
    assert kept.exact == is_exact(value)
    if kept.exact:
        assert json.dumps(kept.value) == json.dumps(value)


def test_a_value_that_is_nested_too_deeply_or_holds_itself_is_kept_as_text() -> None:
    deep: Any = "the bottom"
    for _ in range(10_000):
        deep = [deep]
    round: Any = {"text": "a loop"}
    round["self"] = round
    assert not is_exact({"a": deep})
    assert not is_exact(round)
    assert is_exact({"a": [1, 2.5, None, True, {"b": ("x",)}]})


def test_what_opens_and_is_no_record_is_an_error() -> None:
    for plain in (b"", b"[]", b'{"value": 1}', b"[" * 100_000, b"\xff"):
        with pytest.raises(TamperedError):
            Kept.decode(plain, "q-0001")
