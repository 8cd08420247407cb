"""The allow-list against whoever may edit the home: no entry can be added, kept, changed, brought back or hidden."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memguard import ConfigError, IntegrityError, RollbackError, TamperedError
from memguard.allowlist import AllowList, Entry, state_of
from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.keys import open_keys

TEXT = "Always mail the menu to chef@kitchen.example"


class Place:
    """A database, a key and an anchor in a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "home" / "state.db"
        self.state.parent.mkdir()
        self.keys = open_keys(f"file:{root / 'key.json'}", create=True)
        store = open_anchor(f"file:{root / 'anchor'}", create=True)
        AnchorLog.begin(store, self.keys)
        store.close()
        self._open: list[Any] = []

    def open(self) -> AllowList:
        log = AnchorLog(open_anchor(f"file:{self.root / 'anchor'}"), self.keys)
        made = AllowList(self.state, self.keys, log)
        self._open += [log, made]
        return made

    def sql(self, statement: str, *values: Any) -> None:
        """Edit state.db past the guard; the edit must land."""
        with closing(sqlite3.connect(self.state)) as connection, connection:
            assert connection.execute(statement, values).rowcount != 0

    def rows(self) -> list[Any]:
        with closing(sqlite3.connect(self.state)) as connection:
            return connection.execute("SELECT * FROM allowed ORDER BY seq").fetchall()

    def copy(self) -> Path:
        """What a thief of the file has: a consistent copy."""
        target = self.root / f"copy-{len(list(self.root.glob('copy-*')))}"
        with closing(sqlite3.connect(self.state)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
        return target

    def put_back(self, copy: Path) -> None:
        self.close()
        for name in ("state.db", "state.db-wal", "state.db-shm"):
            (self.state.parent / name).unlink(missing_ok=True)
        shutil.copy(copy, self.state)

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def test_an_allowed_text_is_found_however_it_is_spelt(place: Place) -> None:
    allowed = place.open()
    assert allowed.allowed(TEXT) is None
    entry = allowed.add(TEXT, reason="weekly menu", author="ann")
    assert allowed.allowed(TEXT) == entry
    assert allowed.allowed(f"  {TEXT.upper()}\n") == entry
    assert allowed.allowed(TEXT.replace("menu", "me\u200bnu")) == entry
    assert allowed.allowed(TEXT + " and the cards") is None
    assert allowed.allowed(TEXT.replace("chef", "thief")) is None
    assert place.open().allowed(TEXT) == entry
    assert (entry.reason, entry.author, entry.expires, len(entry.mark)) == ("weekly menu", "ann", None, 64)


def test_neither_text_nor_a_hash_that_can_be_guessed_is_kept(place: Place) -> None:
    import hashlib

    place.open().add(TEXT, reason="weekly", author="ann")
    place.close()
    stored = place.state.read_bytes()
    assert b"chef" not in stored
    guesses = (TEXT, TEXT.casefold())
    assert not any(hashlib.sha256(g.encode()).hexdigest().encode() in stored for g in guesses)
    assert b"weekly" in stored  # the search does find things


def test_an_entry_ends_on_its_day(place: Place) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="until May", author="ann", expires=4e9)
    assert allowed.allowed(TEXT, now=4e9 - 1) == entry
    assert allowed.allowed(TEXT, now=4e9) is None
    assert state_of(entry, 4e9) == "expired"
    again = allowed.add(TEXT, reason="for good", author="bob")
    assert allowed.allowed(TEXT, now=5e9) == again
    assert allowed.entries() == (again,)


def test_a_removed_text_is_not_allowed_and_its_end_is_kept(place: Place) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="weekly", author="ann")
    assert allowed.remove(entry.id, reason="kitchen closed", author="bob") == entry
    assert allowed.allowed(TEXT) is None
    assert allowed.entries() == ()
    assert [(row[1], row[4], row[5]) for row in place.rows()] == [
        ("add", "weekly", "ann"),
        ("remove", "kitchen closed", "bob"),
    ]


def reads(place: Place) -> Iterator[Callable[[], object]]:
    """Every way to ask: an object that was open before the edit cannot be meant, so fresh ones."""
    yield lambda: place.open().allowed("anything")
    yield lambda: place.open().entries()
    yield lambda: place.open().add("another", reason="r", author="a")


def refused(place: Place, error: type[IntegrityError]) -> None:
    for ask in reads(place):
        with pytest.raises(error, match="MG255"):
            ask()


@pytest.mark.parametrize(
    ("column", "value"),
    [("mark", "0" * 64), ("reason", "x"), ("author", "x"), ("expires", ""), ("verb", "add"), ("time", "1.0")],
)
def test_a_changed_row_is_found(place: Place, column: str, value: str) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="weekly", author="ann", expires=4e9)
    allowed.remove(entry.id, reason="over", author="ann")
    row = 2 if column == "verb" else 1
    place.sql(f"UPDATE allowed SET {column} = ? WHERE seq = ?", value, row)
    refused(place, TamperedError)


def test_a_running_guard_sees_the_edit_too(place: Place) -> None:
    allowed = place.open()
    allowed.add(TEXT, reason="weekly", author="ann")
    assert allowed.allowed(TEXT) is not None
    place.sql("UPDATE allowed SET expires = '9e10'")
    with pytest.raises(TamperedError, match="MG255"):
        allowed.allowed(TEXT)


def test_the_removal_cannot_be_cut_off(place: Place) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="weekly", author="ann")
    allowed.remove(entry.id, reason="over", author="ann")
    place.sql("DELETE FROM allowed WHERE seq = 2")
    refused(place, RollbackError)


def test_an_old_copy_of_the_file_brings_no_entry_back(place: Place) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="weekly", author="ann")
    copy = place.copy()
    allowed.remove(entry.id, reason="over", author="ann")
    place.put_back(copy)
    refused(place, RollbackError)


def test_rows_of_an_old_copy_cannot_stand_in_for_newer_ones(place: Place) -> None:
    """Two rows of one number, both with good tags: only the digest in the head tells them apart."""
    first = place.open()
    early = place.copy()
    first.add(TEXT, reason="weekly", author="ann")
    stolen = place.rows()[0]
    # The anchor never heard of it: as after a power cut between the row and its head, then a new start.
    anchor = place.root / "anchor"
    place.close()
    shutil.rmtree(anchor)
    store = open_anchor(f"file:{anchor}", create=True)
    AnchorLog.begin(store, place.keys)
    store.close()
    place.put_back(early)
    place.open().add("a harmless text", reason="r", author="a")
    place.sql(
        "UPDATE allowed SET mark=?, reason=?, author=?, time=?, tag=?", *stolen[2:3], *stolen[4:7], stolen[9]
    )
    assert place.rows()[0] == stolen
    refused(place, RollbackError)


def test_a_row_that_the_anchor_never_counted_allows_nothing(place: Place) -> None:
    allowed = place.open()
    allowed.add("something else", reason="r", author="a")
    copied = list(place.rows()[0])
    copied[0] = 2
    place.sql("INSERT INTO allowed VALUES (?,?,?,?,?,?,?,?,?,?)", *copied)
    fresh = place.open()
    assert len(fresh.entries()) == 1
    entry = fresh.add(TEXT, reason="weekly", author="ann")
    assert place.open().allowed(TEXT) == entry
    assert [row[0] for row in place.rows()] == [1, 2]


def test_a_dropped_table_is_not_an_empty_list(place: Place) -> None:
    place.open().add(TEXT, reason="weekly", author="ann")
    place.close()
    place.sql("DROP TABLE allowed")
    refused(place, RollbackError)


def test_a_trigger_cannot_turn_one_text_into_another(place: Place) -> None:
    place.open()
    place.sql(
        "CREATE TRIGGER t AFTER INSERT ON allowed BEGIN UPDATE allowed SET mark = 'ff' WHERE seq = NEW.seq; END"
    )
    with pytest.raises(TamperedError, match="MG255"):
        place.open().add(TEXT, reason="weekly", author="ann")
    assert place.rows() == []


def test_entries_outlive_a_rotation_and_the_old_key(place: Place) -> None:
    allowed = place.open()
    entry = allowed.add(TEXT, reason="weekly", author="ann")
    old = place.keys.current
    place.keys.rotate()  # type: ignore[attr-defined]
    allowed.rekey()
    assert {row[8] for row in place.rows()} == {place.keys.current} != {old}
    fresh = place.open()
    assert fresh.allowed(TEXT) == entry
    later = fresh.add("Call me Sam", reason="name", author="ann")
    assert {e.key for e in fresh.entries()} == {old, place.keys.current}
    assert fresh.allowed("call me sam") == later


def test_two_processes_add_without_losing_one(place: Place) -> None:
    one, two = place.open(), place.open()
    for number in range(6):
        (one, two)[number % 2].add(f"text {number}", reason="r", author="a")
    assert all(one.allowed(f"text {n}") and two.allowed(f"text {n}") for n in range(6))
    assert [row[0] for row in place.rows()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "options",
    [
        {"content": " \u200b\n", "reason": "r", "author": "a"},
        {"content": "t", "reason": "", "author": "a"},
        {"content": "t", "reason": "two\nlines", "author": "a"},
        {"content": "t", "reason": "r" * 501, "author": "a"},
        {"content": "t", "reason": "r", "author": "\x1b[31m"},
        {"content": "t", "reason": "r", "author": "a", "expires": 1.0},
        {"content": "t", "reason": "r", "author": "a", "expires": float("nan")},
    ],
)
def test_what_cannot_be_used_is_refused(place: Place, options: dict[str, Any]) -> None:
    allowed = place.open()
    with pytest.raises(ConfigError, match="MG254"):
        allowed.add(options.pop("content"), **options)
    assert place.rows() == []


@pytest.mark.parametrize("ident", ["", "abc", "0" * 12, "%", "_" * 12])
def test_an_id_must_name_one_entry(place: Place, ident: str) -> None:
    allowed = place.open()
    entry: Entry = allowed.add(TEXT, reason="r", author="a")
    with pytest.raises(ConfigError, match="MG254"):
        allowed.remove(ident if ident != "abc" else entry.mark[:7], reason="r", author="a")
    assert allowed.allowed(TEXT) == entry


def test_an_edited_list_can_be_given_up_and_begun_again(place: Place) -> None:
    allowed = place.open()
    allowed.add(TEXT, reason="weekly", author="ann")
    copy = place.copy()
    place.sql("UPDATE allowed SET reason = 'x'")
    refused(place, TamperedError)
    assert place.open().discard(reason="edited by somebody", author="bob") == 1
    fresh = place.open()
    assert fresh.allowed(TEXT) is None
    assert fresh.entries() == ()
    entry = fresh.add("call me Sam", reason="name", author="ann")
    assert place.open().allowed("Call me Sam") == entry
    place.put_back(copy)
    refused(place, RollbackError)
