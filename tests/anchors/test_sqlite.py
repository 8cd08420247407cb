"""What only the SQLite anchor does: its file, its damage, its forks and processes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memguard.anchors.sqlite import SqliteAnchor
from memguard.errors import AnchorError
from memguard.ports import Cursor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "anchor.db"


@pytest.fixture
def anchor(path: Path) -> SqliteAnchor:
    return SqliteAnchor.create(path)


def put(anchor: SqliteAnchor, *records: bytes, sync: bool = False) -> Cursor:
    assert anchor.acquire()
    try:
        return anchor.append(records, sync=sync)
    finally:
        anchor.release()


def edit(path: Path, *statements: str) -> None:
    conn = sqlite3.connect(path)
    for statement in statements:
        conn.execute(statement)
    conn.commit()
    conn.close()


def test_files_are_private_and_nothing_is_left_over(path: Path) -> None:
    before = os.umask(0)
    try:
        put(SqliteAnchor.create(path), b"1", sync=True)
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    assert set(modes) >= {"anchor.db", "anchor.db.lock"}
    assert set(modes.values()) == {0o600}
    assert not [name for name in modes if "tmp" in name]


def test_synced_appends_are_full_and_the_rest_is_not(anchor: SqliteAnchor) -> None:
    put(anchor, b"1")
    assert anchor._conn is not None
    assert anchor._conn.execute("PRAGMA synchronous").fetchone() == (1,)
    put(anchor, b"2", sync=True)
    assert anchor._conn.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM record WHERE id = 2",
        "DELETE FROM record WHERE id = 3",
        "DELETE FROM record WHERE id = 1",
        "INSERT INTO record VALUES (4, x'00')",
        "UPDATE record SET id = 9 WHERE id = 3",
    ],
)
def test_missing_and_extra_rows_are_damage(path: Path, anchor: SqliteAnchor, change: str) -> None:
    put(anchor, b"1", b"2", b"3")
    edit(path, change)
    with pytest.raises(AnchorError, match="damaged"):
        anchor.read(None)


def test_a_rollback_is_seen_by_a_running_process(path: Path, anchor: SqliteAnchor, tmp_path: Path) -> None:
    put(anchor, b"1")
    seen = put(anchor, b"2")
    edit(path, "DELETE FROM record WHERE id = 2", "UPDATE anchor SET last = 1")
    assert anchor.changed(seen)
    with pytest.raises(AnchorError, match="rolled back"):
        anchor.read(seen)
    edit(path, "UPDATE anchor SET log_id = 'other'")
    with pytest.raises(AnchorError, match="Another log"):
        anchor.read(None)


def test_a_file_in_its_place_is_refused(path: Path, anchor: SqliteAnchor, tmp_path: Path) -> None:
    seen = put(anchor, b"1", sync=True)
    other = SqliteAnchor.create(tmp_path / "other.db")
    put(other, b"evil")
    other.close()
    os.replace(tmp_path / "other.db", path)
    for call in (anchor.acquire, lambda: anchor.read(seen), lambda: anchor.read(None)):
        with pytest.raises(AnchorError, match="Another file"):
            call()
    path.unlink()
    with pytest.raises(AnchorError, match="exist"):
        anchor.acquire()


@pytest.mark.parametrize("content", [b"", b"x" * 5000, None])
def test_what_is_no_anchor_is_refused(path: Path, content: bytes | None) -> None:
    if content is None:
        edit(path, "CREATE TABLE anchor (x)")
    else:
        path.write_bytes(content)
    with pytest.raises(AnchorError, match="damaged"):
        SqliteAnchor.open(path)
    with pytest.raises(AnchorError, match="already"):
        SqliteAnchor.create(path)


def test_a_failed_commit_poisons(path: Path, anchor: SqliteAnchor) -> None:
    """A real failure of SQLite: the database may not grow."""
    put(anchor, b"1")
    assert anchor._conn is not None
    anchor._conn.execute(f"PRAGMA max_page_count={anchor._conn.execute('PRAGMA page_count').fetchone()[0]}")
    assert anchor.acquire()
    with pytest.raises(AnchorError, match="SQLITE_FULL"):
        anchor.append([bytes(100_000)], sync=True)
    anchor.release()
    for call in (
        anchor.acquire,
        anchor.sync,
        lambda: anchor.read(None),
        lambda: anchor.changed(Cursor(1, 0)),
    ):
        with pytest.raises(AnchorError, match="SQLITE_FULL"):
            call()
    again = SqliteAnchor.open(path)
    put(again, b"2")
    assert again.read(None)[0] == [b"1", b"2"]


def test_a_busy_database_does_not_poison(
    path: Path, anchor: SqliteAnchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anchor._conn is not None
    anchor._conn.execute("PRAGMA busy_timeout=20")
    intruder = sqlite3.connect(path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    with pytest.raises(AnchorError, match="SQLITE_BUSY"):
        put(anchor, b"1")
    intruder.execute("ROLLBACK")
    intruder.close()
    put(anchor, b"1")
    assert anchor.read(None)[0] == [b"1"]


def test_two_processes_lose_no_record(path: Path, anchor: SqliteAnchor) -> None:
    code = """
import sys
from memguard.anchors.sqlite import SqliteAnchor
a = SqliteAnchor.open(sys.argv[1])
for n in range(60):
    a.acquire(); a.append([f"{sys.argv[2]}-{n}".encode(), b"pair"], sync=n % 20 == 0); a.release()
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), str(number)]) for number in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    found = anchor.read(None)[0]
    assert found[1::2] == [b"pair"] * 120
    for number in range(2):
        mine = [record for record in found if record.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, n) for n in range(60)]


def test_a_forked_child_uses_a_connection_of_its_own(path: Path, anchor: SqliteAnchor) -> None:
    put(anchor, b"parent")
    assert anchor.acquire()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            inherited = anchor._conn
            assert not anchor.acquire(blocking=False)
            assert anchor.read(None)[0] == [b"parent"]
            assert anchor._conn is not inherited
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    anchor.append([b"2"], sync=False)
    anchor.release()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            put(anchor, b"child", sync=True)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(anchor, b"4")
    assert anchor.read(None)[0] == [b"parent", b"2", b"child", b"4"]


def test_a_restored_copy_under_the_same_inode_is_rolled_back(
    path: Path, anchor: SqliteAnchor, tmp_path: Path
) -> None:
    put(anchor, b"1", sync=True)
    anchor._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
    shutil.copy(path, tmp_path / "copy")
    seen = put(anchor, b"2", sync=True)
    anchor.close()
    shutil.copyfile(tmp_path / "copy", path)
    for name in ("-wal", "-shm"):
        Path(f"{path}{name}").unlink(missing_ok=True)
    with pytest.raises(AnchorError, match="rolled back"):
        SqliteAnchor.open(path).read(seen)


def test_paths_with_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#x%20ü.db"
    put(SqliteAnchor.create(path), b"1")
    assert path.exists()
    assert SqliteAnchor.open(path).read(None)[0] == [b"1"]
