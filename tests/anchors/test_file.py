"""What only the file anchor does: torn tails on disk, poison, permissions, forks, processes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memguard.anchors.file import LOCK, LOG, FileAnchor
from memguard.anchors.framing import HEADER_SIZE
from memguard.anchors.logfile import CHUNK, LogFile
from memguard.errors import AnchorError, ConfigError
from memguard.ports import Cursor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "anchor"


@pytest.fixture
def anchor(folder: Path) -> FileAnchor:
    return FileAnchor.create(folder)


def put(anchor: FileAnchor, *records: bytes, sync: bool = False) -> Cursor:
    assert anchor.acquire()
    try:
        return anchor.append(records, sync=sync)
    finally:
        anchor.release()


def records(folder: Path) -> list[bytes]:
    return FileAnchor.open(folder).read(None)[0]


@pytest.mark.parametrize("filler", ["nothing", "zeros", "noise"])
def test_a_tail_torn_at_every_byte_is_cut_by_the_next_append(
    folder: Path, anchor: FileAnchor, filler: str
) -> None:
    start = put(anchor, b"kept", sync=True).offset
    end = put(anchor, b"torn record").offset
    anchor.close()
    whole = (folder / LOG).read_bytes()
    for cut in range(start, end):
        behind = {"nothing": b"", "zeros": bytes(CHUNK), "noise": b"\xa5" * 700}[filler]
        torn = whole[:cut] + behind
        if torn[:end] == whole[:end]:
            continue
        (folder / LOG).write_bytes(torn)
        again = FileAnchor.open(folder)
        assert again.read(None)[0] == [b"kept"], cut
        put(again, b"next", sync=True)
        assert again.read(None)[0] == [b"kept", b"next"]
        again.close()
        assert records(folder) == [b"kept", b"next"]
        data = (folder / LOG).read_bytes()
        assert not data[start + 24 + 8 :].strip(b"\0"), "nothing of the torn tail is left"


def test_pages_of_an_unsynced_tail_may_be_lost_in_any_order(folder: Path, anchor: FileAnchor) -> None:
    """A later page on disk and an earlier one not: after a power cut that is a torn tail, not damage."""
    start = put(anchor, b"kept", sync=True).offset
    put(anchor, b"A" * 5000)
    put(anchor, b"B" * 5000)
    anchor.close()
    whole = (folder / LOG).read_bytes()
    for lost in range(start // 512, 10_200 // 512):
        broken = bytearray(whole)
        place = max(lost * 512, start)
        broken[place : (lost + 1) * 512] = bytes((lost + 1) * 512 - place)
        (folder / LOG).write_bytes(broken)
        found = records(folder)
        assert found in ([b"kept"], [b"kept", b"A" * 5000])
        again = FileAnchor.open(folder)
        put(again, b"next")
        assert records(folder) == [*found, b"next"]


def test_damage_before_a_durable_place_is_an_error_for_reader_and_writer(
    folder: Path, anchor: FileAnchor
) -> None:
    first = put(anchor, b"first", sync=True).offset
    second = put(anchor, b"second", sync=True).offset
    put(anchor, b"third")
    anchor.close()
    whole = (folder / LOG).read_bytes()
    for place in range(HEADER_SIZE, second):
        broken = bytearray(whole)
        broken[place] ^= 0x10
        (folder / LOG).write_bytes(broken)
        again = FileAnchor.open(folder)
        with pytest.raises(AnchorError, match="damaged"):
            again.read(None)
        assert again.acquire()
        with pytest.raises(AnchorError, match="damaged"):
            again.append([b"x"], sync=False)
        again.release()
        assert (folder / LOG).read_bytes() == bytes(broken), "evidence is not touched"
    for size in (first - HEADER_SIZE, second - HEADER_SIZE):  # whole records blanked out
        broken = bytearray(whole)
        broken[HEADER_SIZE : HEADER_SIZE + size] = bytes(size)
        (folder / LOG).write_bytes(broken)
        with pytest.raises(AnchorError, match="damaged"):
            records(folder)


def test_damage_in_a_compacted_log_is_an_error_even_before_anything_follows(
    folder: Path, anchor: FileAnchor
) -> None:
    put(anchor, b"x")
    assert anchor.acquire()
    anchor.compact([b"one", b"two", b"three"])
    anchor.release()
    whole = bytearray((folder / LOG).read_bytes())
    for place in range(HEADER_SIZE, HEADER_SIZE + 24 * 3):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        (folder / LOG).write_bytes(broken)
        with pytest.raises(AnchorError):
            records(folder)
    (folder / LOG).write_bytes(whole[: HEADER_SIZE + 24])
    with pytest.raises(AnchorError, match="durable"):
        records(folder)


def test_a_log_that_shrinks_or_changes_under_a_running_process_is_rolled_back(
    folder: Path, anchor: FileAnchor
) -> None:
    put(anchor, b"first", sync=True)
    seen = put(anchor, b"second", sync=True)
    size = (folder / LOG).stat().st_size
    older = HEADER_SIZE + 32
    for shape in ("cut", "zeroed", "other"):
        with (folder / LOG).open("r+b") as file:
            whole = file.read()
            if shape == "cut":
                file.truncate(older)
            else:
                file.seek(older)
                file.write(
                    bytes(seen.offset - older) if shape == "zeroed" else b"\x17" * (seen.offset - older)
                )
        assert anchor.changed(seen), shape
        for since in (None, seen):
            with pytest.raises(AnchorError, match="rolled back"):
                anchor.read(since)
        assert anchor.acquire()
        with pytest.raises(AnchorError):
            anchor.append([b"x"], sync=False)
        anchor.release()
        (folder / LOG).write_bytes(whole)
        assert (folder / LOG).stat().st_size == size
        assert anchor.read(None)[0] == [b"first", b"second"], "put right again, it goes on"


def test_a_restored_copy_in_its_place_is_rolled_back(
    folder: Path, anchor: FileAnchor, tmp_path: Path
) -> None:
    put(anchor, b"first")
    shutil.copytree(folder, tmp_path / "copy")
    seen = put(anchor, b"second", sync=True)
    shutil.rmtree(folder)
    with pytest.raises(AnchorError, match="exist"):
        anchor.acquire()
    with pytest.raises(AnchorError, match="exist"):
        anchor.read(seen)
    shutil.copytree(tmp_path / "copy", folder)
    with pytest.raises(AnchorError, match="rolled back or replaced"):
        anchor.acquire()
    with pytest.raises(AnchorError, match="rolled back or replaced"):
        anchor.read(seen)


def test_a_successor_must_be_of_the_same_log_and_newer(
    folder: Path, anchor: FileAnchor, tmp_path: Path
) -> None:
    put(anchor, b"1")
    shutil.copy(folder / LOG, tmp_path / "old")
    assert anchor.acquire()
    anchor.compact([b"2"])
    anchor.release()
    os.replace(tmp_path / "old", folder / LOG)
    with pytest.raises(AnchorError, match="rolled back or replaced"):
        anchor.read(None)
    stranger = FileAnchor.create(tmp_path / "stranger")
    for _ in range(3):
        assert stranger.acquire()
        stranger.compact([b"evil"])
        stranger.release()
    os.replace(tmp_path / "stranger" / LOG, folder / LOG)
    with pytest.raises(AnchorError, match="Another log"):
        anchor.acquire()
    assert anchor._lock.owner is None, "a failed acquire does not keep the lock"


def test_a_compaction_that_never_marked_the_old_file_is_found_at_the_next_lock(
    folder: Path, anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the rename and the mark on the old file."""
    other = FileAnchor.open(folder)
    seen = put(anchor, b"1")
    other.read(None)
    monkeypatch.setattr("memguard.anchors.logfile.LogFile.supersede", lambda self: None)
    assert anchor.acquire()
    anchor.compact([b"2"])
    anchor.release()
    assert other.acquire()
    assert other.changed(seen)
    assert other.read(seen)[0] == [b"2"]
    other.release()


def test_a_left_over_of_a_crashed_compaction_is_ignored(folder: Path, anchor: FileAnchor) -> None:
    put(anchor, b"1")
    (folder / (LOG + ".new")).write_bytes(b"half")
    assert records(folder) == [b"1"]
    assert anchor.acquire()
    anchor.compact([b"2"])
    anchor.release()
    assert records(folder) == [b"2"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([LOG, LOCK])


def test_a_failed_compaction_leaves_the_log_as_it_was(
    folder: Path, anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(anchor, b"1")
    assert anchor.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _raising(errno.EIO))
        with pytest.raises(AnchorError, match="input/output"):
            anchor.compact([b"2"])
    anchor.append([b"3"], sync=True)
    anchor.release()
    assert records(folder) == [b"1", b"3"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([LOG, LOCK])


def _raising(code: int):  # type: ignore[no-untyped-def]
    def fail(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EBADF])
def test_a_failed_write_or_sync_poisons_until_reopened(
    folder: Path, anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    cursor = put(anchor, b"1", sync=True)
    assert anchor.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _raising(code))
        with pytest.raises(AnchorError) as caught:
            anchor.append([b"2"], sync=True)
    assert caught.value.code == "MG411"
    assert caught.value.where
    assert caught.value.why
    assert caught.value.do
    anchor.release()  # giving the lock back still works
    for again in (
        anchor.acquire,
        anchor.sync,
        lambda: anchor.read(None),
        lambda: anchor.changed(cursor),
        lambda: anchor.append([b"3"], sync=False),
    ):
        with pytest.raises(AnchorError, match="MG411"):
            again()
    fresh = FileAnchor.open(folder)
    put(fresh, b"4", sync=True)
    assert records(folder) in ([b"1", b"4"], [b"1", b"2", b"4"])


def test_a_failed_sync_alone_poisons(anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch) -> None:
    put(anchor, b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _raising(errno.EIO))
        with pytest.raises(AnchorError):
            anchor.sync()
    syncs = anchor.syncs
    with pytest.raises(AnchorError):
        anchor.sync()
    assert anchor.syncs == syncs == 0


def test_a_short_write_poisons_and_its_tail_is_cut_on_reopening(
    folder: Path, anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(anchor, b"1")
    real = os.pwrite
    assert anchor.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, place: real(fd, data[:21], place))
        with pytest.raises(AnchorError, match="full"):
            anchor.append([b"two"], sync=False)
    anchor.release()
    with pytest.raises(AnchorError):
        anchor.acquire()
    assert records(folder) == [b"1"]
    put(FileAnchor.open(folder), b"3")
    assert records(folder) == [b"1", b"3"]


def test_a_full_device_is_an_anchor_error(tmp_path: Path) -> None:
    """The real thing: a file size limit stands in for a full disk in a child process."""
    code = """
import resource, sys
from memguard.anchors.file import FileAnchor
from memguard.errors import AnchorError
a = FileAnchor.create(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
a.acquire()
try:
    for n in range(1000):
        a.append([b"%d" % n + bytes(1000)], sync=False)
except AnchorError as error:
    print(n, error.why)
"""
    done = run(code, tmp_path / "anchor")
    written, why = done.split(" ", 1)
    assert "may not grow" in why
    assert 200 < int(written) < 300
    assert len(records(tmp_path / "anchor")) == int(written)


def test_two_processes_lose_no_record(folder: Path, anchor: FileAnchor) -> None:
    code = """
import sys
from memguard.anchors.file import FileAnchor
a = FileAnchor.open(sys.argv[1])
cursor = None
for n in range(300):
    a.acquire()
    fresh, cursor, reset = a.read(cursor)
    if n % 100 == 50 and sys.argv[2] == "0":
        cursor = a.compact(a.read(None)[0])
    cursor = a.append([f"{sys.argv[2]}-{n}".encode(), b"pair"], sync=n % 50 == 0)
    a.release()
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(folder), str(number)]) for number in range(3)
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    found = records(folder)
    assert found[1::2] == [b"pair"] * 900, "batches stand together"
    for number in range(3):
        assert [r for r in found if r.startswith(b"%d-" % number)] == [
            b"%d-%d" % (number, n) for n in range(300)
        ]


def test_a_killed_writer_leaves_whole_records_and_a_free_lock(folder: Path, anchor: FileAnchor) -> None:
    code = """
import sys
from memguard.anchors.file import FileAnchor
a = FileAnchor.open(sys.argv[1])
a.acquire()
print("locked", flush=True)
n = 0
while True:
    a.append([b"%d" % n * 50], sync=False); n += 1
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"locked\n"
    assert not anchor.acquire(blocking=False)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    put(anchor, b"after")
    found = records(folder)
    assert found == [b"%d" % n * 50 for n in range(len(found) - 1)] + [b"after"]


def test_a_forked_child_has_a_lock_of_its_own(folder: Path, anchor: FileAnchor) -> None:
    put(anchor, b"parent")
    assert anchor.acquire()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            free = anchor.acquire(blocking=False)
            mine = FileAnchor.open(folder).acquire(blocking=False)
            with pytest.raises(AnchorError, match="lock"):
                anchor.append([b"x"], sync=False)
            code = 0 if not free and not mine else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not FileAnchor.open(folder).acquire(blocking=False), (
        "the child's end did not free the parent's lock"
    )
    anchor.append([b"parent again"], sync=False)
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
    put(anchor, b"parent last")
    assert records(folder) == [b"parent", b"parent again", b"child", b"parent last"]


def test_files_are_private_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        anchor = FileAnchor.create(folder)
        put(anchor, b"1")
        assert anchor.acquire()
        anchor.compact([b"1"])
        anchor.release()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {LOG: 0o600, LOCK: 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_opening_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="exist"):
        FileAnchor.open(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnchorError, match="exist"):
        FileAnchor.open(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(AnchorError, match="not a folder"):
        FileAnchor.open(tmp_path / "file")


@pytest.mark.parametrize("content", [b"", b"short", bytes(4096), b"MGANCHOR" + bytes(100), os.urandom(4096)])
def test_a_file_that_is_no_log_is_damaged(folder: Path, content: bytes) -> None:
    folder.mkdir()
    (folder / LOG).write_bytes(content)
    with pytest.raises(AnchorError, match="damaged"):
        FileAnchor.open(folder)
    assert (folder / LOG).read_bytes() == content
    with pytest.raises(AnchorError, match="already"):
        FileAnchor.create(folder)


def test_space_is_reserved_ahead_and_the_log_outgrows_it(folder: Path, anchor: FileAnchor) -> None:
    assert (folder / LOG).stat().st_size == HEADER_SIZE + CHUNK
    big = os.urandom(CHUNK // 2 + 100)
    put(anchor, big, big, big, sync=True)
    put(anchor, b"end")
    assert records(folder) == [big, big, big, b"end"]
    assert (folder / LOG).stat().st_size >= HEADER_SIZE + 3 * CHUNK // 2


def test_errors_name_the_anchor_and_no_content(folder: Path, anchor: FileAnchor) -> None:
    put(anchor, b"hunter2", sync=True)
    put(anchor, b"hunter3", sync=True)
    data = bytearray((folder / LOG).read_bytes())
    data[HEADER_SIZE + 17] ^= 1
    (folder / LOG).write_bytes(data)
    with pytest.raises(AnchorError) as caught:
        records(folder)
    assert "hunter" not in str(caught.value.as_dict())
    assert str(folder) in str(caught.value)
    assert not isinstance(caught.value, ConfigError)


def test_a_record_in_the_making_shows_once_it_is_whole(folder: Path, anchor: FileAnchor) -> None:
    """A reader may look between two halves of another process's write."""
    put(anchor, b"1", sync=True)
    reader = FileAnchor.open(folder)
    seen = reader.read(None)[1]
    end = put(anchor, b"a second record").offset
    with (folder / LOG).open("r+b") as file:
        whole = file.read()
        for half in range(seen.offset + 1, end):
            if not whole[half:end].strip(b"\0"):
                break
            file.seek(half)
            file.write(bytes(end - half))
            file.flush()
            reader.read(None)
            assert reader.read(seen) == ([], seen, False)
            file.seek(half)
            file.write(whole[half:end])
            file.flush()
            assert reader.changed(seen), half
            assert reader.read(seen)[0] == [b"a second record"]


def test_a_writer_between_two_looks_of_a_reader_is_no_damage(
    folder: Path, anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader sees half a record, then finds a later one that says it was durable: it looks again."""
    first = put(anchor, b"1", sync=True)
    second = put(anchor, b"2", sync=True)
    whole = (folder / LOG).read_bytes()
    (folder / LOG).write_bytes(whole[: second.offset - 9] + bytes(9) + whole[second.offset :])
    reader = FileAnchor.open(folder)
    evidence = LogFile._evidence

    def late(self: LogFile, end: int) -> int:
        monkeypatch.setattr(LogFile, "_evidence", evidence)
        (folder / LOG).write_bytes(whole)
        writer = FileAnchor.open(folder)
        put(writer, b"3", sync=True)
        put(writer, b"4")  # states that all before it was durable
        return evidence(self, end)

    monkeypatch.setattr(LogFile, "_evidence", late)
    assert reader.read(first)[0] == [b"2", b"3", b"4"]


def test_what_is_durable_is_synced_in_the_order_that_makes_it_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing sync shows only after a power cut; so the calls themselves are looked at."""
    seen: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(*args: object, **kw: object) -> object:
            what = os.readlink(f"/proc/self/fd/{args[0]}") if isinstance(args[0], int) else str(args[0])
            seen.append(f"{name} {Path(what).name}")
            return real(*args, **kw)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "pwrite", "fsync", "fdatasync", "rename", "ftruncate"):
        watch(name)
    replaced = [f"write {LOG}.new", f"fsync {LOG}.new", f"rename {folder / (LOG + '.new')}", "fsync anchor"]
    replaced[2] = f"rename {LOG}.new"
    anchor = FileAnchor.create(folder)
    assert seen == replaced
    seen.clear()
    put(anchor, b"1", b"2")
    assert seen == [f"pwrite {LOG}"]
    seen.clear()
    put(anchor, b"3", b"4", sync=True)
    assert seen == [f"pwrite {LOG}", f"fdatasync {LOG}"]
    seen.clear()
    anchor.sync()
    assert seen == [f"fdatasync {LOG}"]
    seen.clear()
    assert anchor.acquire()
    anchor.compact([b"5"])
    anchor.release()
    assert seen[:4] == replaced
    assert len(seen) == 5, "and the mark on the old file, after the new one is in place"
    assert seen[4].startswith("pwrite")
    anchor.close()
    with (folder / LOG).open("r+b") as file:
        file.seek(FileAnchor.open(folder).read(None)[1].offset)
        file.write(b"torn tail")
    again = FileAnchor.open(folder)
    seen.clear()
    put(again, b"6", sync=True)
    assert seen == [f"ftruncate {LOG}", f"fsync {LOG}", f"pwrite {LOG}", f"fdatasync {LOG}"]


def test_a_read_only_mount_can_be_read_and_locked_but_not_written(folder: Path, anchor: FileAnchor) -> None:
    """An auditor's view of another host's anchor."""
    cursor = put(anchor, b"1", sync=True)
    code = """
import sys
from memguard.anchors.file import FileAnchor
from memguard.errors import AnchorError
a = FileAnchor.open(sys.argv[1])
records, cursor, _ = a.read(None)
print(records, cursor.offset, a.changed(cursor), a.acquire())
try: a.append([b"2"], sync=True)
except AnchorError as error: print(error.why)
"""
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77; exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", str(folder), sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode in (1, 77, 127) and "FileAnchor" not in done.stderr:
        pytest.skip(f"not run: no private mounts here ({done.stderr.strip()[:80]})")
    lines = done.stdout.splitlines()
    assert lines[0] == f"[b'1'] {cursor.offset} False True", done.stderr
    assert "read-only" in lines[1]
    assert records(folder) == [b"1"]


def test_a_folder_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("not run: root may write everywhere; the read-only mount above covers it")
    tmp_path.chmod(0o500)
    with pytest.raises(AnchorError, match="Permission"):
        FileAnchor.create(tmp_path / "anchor")


def test_two_names_of_one_folder_are_one_lock(folder: Path, anchor: FileAnchor, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    other = FileAnchor.open(tmp_path / "link")
    assert anchor.acquire()
    assert not other.acquire(blocking=False)
    anchor.release()
    put(other, b"1")
    assert anchor.read(None)[0] == [b"1"]


def test_a_folder_made_anew_gets_a_lock_of_its_own(folder: Path, anchor: FileAnchor) -> None:
    assert anchor.acquire()
    shutil.rmtree(folder)
    fresh = FileAnchor.create(folder)
    assert fresh.acquire(blocking=False), "the old lock file is another file"
    fresh.release()
    anchor.release()


def test_no_descriptor_is_left_open(folder: Path, anchor: FileAnchor) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        other = FileAnchor.open(folder)
        put(other, b"1")
        assert other.acquire()
        other.compact([b"1"])
        other.release()
        anchor.read(None)
        other.close()
        if number % 3 == 0:
            with pytest.raises(AnchorError):
                FileAnchor.open(folder / "none")
    assert len(os.listdir("/proc/self/fd")) == before


def run(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
