"""The key file: made once, private, rotated, wrapped, and named when it is wrong."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memguard.errors import ConfigError, MemguardError, UnknownKeyError
from memguard.keys import open_keys
from memguard.keys.file import FileKeyRing


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMGUARD_PASSPHRASE", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "key.json"


@pytest.fixture
def ring(path: Path) -> FileKeyRing:
    return FileKeyRing.create(path)


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)


def test_a_key_is_made_once_and_never_overwritten(path: Path) -> None:
    first = open_keys(f"file:{path}", create=True)
    content = path.read_text()
    second = open_keys(f"file:{path}", create=True)
    assert path.read_text() == content
    assert first.subkey("row") == second.subkey("row")
    assert re.fullmatch(datetime.now(UTC).strftime("%Y-%m-a-[0-9a-f]{4}"), first.current)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]


def test_the_file_is_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        FileKeyRing.create(path).rotate()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_creating_does_not_replace_a_damaged_file(path: Path) -> None:
    write(path, "{")
    with pytest.raises(ConfigError, match="MG109"):
        FileKeyRing.create(path)
    assert path.read_text() == "{"


def test_racing_processes_agree_on_one_key(path: Path) -> None:
    code = """
import sys
from memguard.keys import open_keys
print(open_keys(sys.argv[1], create=True).subkey("row").hex())
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code, f"file:{path}"], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    assert len({child.communicate(timeout=60)[0] for child in children}) == 1
    assert [child.returncode for child in children] == [0] * 4


def test_a_key_made_meanwhile_is_not_overwritten(path: Path) -> None:
    """Another process makes the file after this one looked and before it writes."""
    others: list[FileKeyRing] = []

    def ask() -> None:
        if not others:
            others.append(FileKeyRing.create(path, passphrase=lambda: None))

    mine = FileKeyRing.create(path, passphrase=ask)
    assert mine.subkey("row") == others[0].subkey("row")
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]


def test_a_missing_file_is_an_error_and_stays_missing(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match="MG108") as caught:
            open_keys(f"file:{path}")
        assert str(path) in str(caught.value)
    assert not path.parent.exists()


def test_rotation_keeps_old_records_verifiable_and_writes_under_the_new_key(
    path: Path, ring: FileKeyRing
) -> None:
    """V47: old rows verify, new rows use the new id, a removed key is unknown and not tampered."""
    old, row, signature = ring.current, ring.subkey("row"), ring.sign(b"head")
    new = ring.rotate()
    assert new != old
    for held in (ring, FileKeyRing.open(path)):
        assert held.current == new
        assert held.ids == (old, new)
        assert held.states == {old: "retired", new: "active"}
        assert held.subkey("row") == held.subkey("row", new) != row
        assert held.subkey("row", old) == row
        assert held.verify(b"head", signature, old)
        assert not held.verify(b"head", signature, new)
        with pytest.raises(ConfigError, match="MG112"):
            held.sign(b"late", old)
    ring.destroy(old)
    for held in (ring, FileKeyRing.open(path)):
        assert held.ids == (new,)
        for call in (held.subkey, lambda _, kid, held=held: held.verify(b"head", signature, kid)):
            with pytest.raises(UnknownKeyError, match="destroyed") as caught:
                call("row", old)
            assert caught.value.code == "MG410"
            assert caught.value.case == "key"
    assert document(path)["keys"][old] == {
        "created": document(path)["keys"][new]["created"],
        "state": "destroyed",
        "destroyed": datetime.now(UTC).date().isoformat(),
    }


def test_an_unknown_key_is_no_tampering_and_no_destruction(ring: FileKeyRing) -> None:
    for kid in ("2020-01-a", "x" * 200, "secret\nvalue"):
        with pytest.raises(UnknownKeyError, match="does not hold") as caught:
            ring.subkey("row", kid)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_ids_are_never_used_again(ring: FileKeyRing) -> None:
    first = ring.current
    second = ring.rotate()
    ring.destroy(first)
    with pytest.raises(ConfigError, match="taken"):
        ring.new(first)
    third = ring.new()
    assert len({first, second, third}) == 3
    for bad in ("", "UP", "a b", "x" * 33, "ä", "a/b"):
        if bad:
            with pytest.raises(ConfigError, match="malformed"):
                ring.new(bad)
    assert ring.new("team-key-7") == "team-key-7"


def test_a_new_key_waits_until_it_is_rotated_to(ring: FileKeyRing) -> None:
    old = ring.current
    waiting = ring.new()
    assert ring.current == old
    assert ring.ids == (old, waiting)
    assert ring.rotate(waiting) == waiting == ring.current
    with pytest.raises(ConfigError, match="retired"):
        ring.rotate(old)
    assert ring.rotate(waiting) == waiting
    assert ring.states == {old: "retired", waiting: "active"}


def test_the_current_key_cannot_be_retired_or_destroyed(path: Path, ring: FileKeyRing) -> None:
    before = path.read_text()
    for change in (ring.retire, ring.destroy):
        with pytest.raises(ConfigError, match="Rotate first"):
            change(ring.current)
        with pytest.raises(UnknownKeyError):
            change("nobody")
    assert path.read_text() == before


def test_another_process_learns_of_a_rotation(path: Path, ring: FileKeyRing) -> None:
    other = FileKeyRing.open(path)
    old = other.current
    new = ring.rotate()
    assert other.subkey("row", new) == ring.subkey("row")  # a record named it
    assert other.current == new
    assert not other.refresh()
    ring.destroy(old)
    assert other.subkey("row", old)  # still in this process's memory
    assert other.refresh()
    with pytest.raises(UnknownKeyError, match="destroyed"):
        other.subkey("row", old)


def test_two_processes_rotating_lose_no_key(path: Path, ring: FileKeyRing) -> None:
    code = """
import sys
from memguard.keys.file import FileKeyRing
ring = FileKeyRing.open(sys.argv[1])
for n in range(15): ring.rotate(f"{sys.argv[2]}-{n}")
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("p", "q")]
    assert [child.wait(60) for child in children] == [0, 0]
    ring.refresh()
    assert set(ring.ids) >= {f"{name}-{n}" for name in "pq" for n in range(15)}
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_file_open_to_others_is_refused(path: Path, ring: FileKeyRing, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(ConfigError, match="MG110") as caught:
        open_keys(f"file:{path}")
    assert f"chmod 600 {path}" in str(caught.value)
    assert stat.S_IMODE(path.stat().st_mode) == mode, "the guard does not hide that it was open"


def test_a_read_only_mount_is_accepted_and_said(path: Path, ring: FileKeyRing) -> None:
    """A container's secret mount: open to others, and no chmod can mend it."""
    path.chmod(0o444)
    code = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
from memguard.errors import ConfigError
from memguard.keys import open_keys
ring = open_keys(sys.argv[1])
print(ring.subkey("row").hex())
try: ring.rotate()
except ConfigError as error: print(error.code, error.why)
"""
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77; exec "$2" -c "$3" "file:$1/key.json"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", str(path.parent), sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode in (1, 77, 127) and "memguard" not in done.stderr:
        pytest.skip(f"not run: no private mounts here ({done.stderr.strip()[:80]})")
    warned, row, refused = done.stdout.splitlines()[:3]
    assert warned.startswith("WARNING memguard.keys MG110"), done.stderr
    assert "read-only" in warned
    assert row == ring.subkey("row").hex()
    assert refused.startswith("MG108")
    assert "Read-only" in refused


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(path: Path, ring: FileKeyRing) -> None:
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    os.chmod(path.parent, 0o755)
    code = f"""
import os
from memguard.keys.file import _check_private
status = os.stat({str(path)!r})
os.setuid(54321)
try: _check_private("key.json", status)
except Exception as error: print(error.code, error.what)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("MG110 The key file belongs to another user"), done.stderr


def test_a_folder_is_no_key_file(tmp_path: Path) -> None:
    for uri in (f"file:{tmp_path}", "file:"):
        with pytest.raises(ConfigError, match="MG110"):
            open_keys(uri)


GOOD = {
    "schema": "memguard.keys/1",
    "current": "k1",
    "keys": {
        "k1": {
            "secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "created": "2026-12-01",
            "state": "active",
        }
    },
}
ENTRY = GOOD["keys"]["k1"]  # type: ignore[index]


def changed(**fields: object) -> dict[str, object]:
    return {**GOOD, **fields}


def entry(**fields: object) -> dict[str, object]:
    return changed(keys={"k1": {k: v for k, v in {**ENTRY, **fields}.items() if v is not ...}})


TEXT_KEY = "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZSBwbGVhc2U"  # base64url of a sentence
BAD: list[tuple[object, str]] = [
    ("", "document is not JSON"),
    ("{", "document is not JSON"),
    ("\x00\xff", "document is not JSON"),
    ("[" * 100_000, "document is not JSON"),
    ("[]", "document is not an object"),
    ("{}", "field current is missing"),
    (changed(schema="memguard.keys/2"), "field schema is not"),
    (changed(schema=None), "field schema is not"),
    (changed(extra=1), "has a field other than"),
    (changed(current="k2"), "field current does not name an active key"),
    (changed(current=["k1"]), "field current does not name"),
    (changed(keys={}), "field keys is not an object of 1"),
    (changed(keys=[]), "field keys is not an object of 1"),
    (changed(keys={"Bad Id": ENTRY}), "keys, entry 1 has a malformed id"),
    (changed(keys={"k1": "secret"}), "field keys.k1 is not an object"),
    (entry(secret=...), "keys.k1.secret is missing"),
    (entry(created=...), "keys.k1.created is missing"),
    (entry(state=...), "keys.k1.state is missing"),
    (entry(state="paused"), "keys.k1.state is not one of"),
    (entry(state="retired"), "field current does not name an active key"),
    (entry(state="destroyed"), "keys.k1.secret stands beside state destroyed"),
    (entry(state=["active"]), "keys.k1.state is not one of"),
    (entry(created="yesterday"), "keys.k1.created is not a date"),
    (entry(created="2026-13-01"), "keys.k1.created is not a date"),
    (entry(created=20261201), "keys.k1.created is not a date"),
    (entry(password="x"), "has a field other than"),
    (entry(wrapped="AAAA"), "has a field other than"),
    (entry(secret="AAAA"), "keys.k1.secret has fewer than 32 bytes"),
    (entry(secret=""), "keys.k1.secret is not base64url"),
    (entry(secret=7), "keys.k1.secret is not base64url"),
    (entry(secret="!" * 43), "keys.k1.secret is not base64url"),
    (entry(secret="AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9"), "keys.k1.secret is not base64url"),
    (entry(secret="A" * 43), "text or a pattern"),
    (entry(secret=TEXT_KEY), "text or a pattern"),
    (changed(wrap={"kdf": "argon2id"}), "field wrap.mem_kib is missing"),
    (changed(wrap={"kdf": "md5", "ops": 1, "mem_kib": 8, "salt": "AA"}), "wrap.kdf is not"),
    (changed(wrap={"kdf": "argon2id", "ops": 10**9, "mem_kib": 8, "salt": "AA"}), "wrap.ops is not"),
    (changed(wrap={"kdf": "argon2id", "ops": True, "mem_kib": 8, "salt": "AA"}), "wrap.ops is not"),
    (changed(wrap={"kdf": "argon2id", "ops": 1, "mem_kib": 10**9, "salt": "AA"}), "wrap.mem_kib is not"),
    (changed(wrap={"kdf": "argon2id", "ops": 1, "mem_kib": 8, "salt": "AA"}), "wrap.salt is not 16 bytes"),
    ("x" * 1_100_000, "is larger than"),
]


@pytest.mark.parametrize(("content", "why"), BAD, ids=[why for _, why in BAD])
def test_a_damaged_document_is_named_by_file_and_field(path: Path, content: object, why: str) -> None:
    write(path, content)
    with pytest.raises(ConfigError) as caught:
        open_keys(f"file:{path}")
    error = caught.value
    assert error.code == "MG109"
    assert why in str(error.why)
    assert error.where == str(path)
    for secret in (ENTRY["secret"], TEXT_KEY, "yesterday", "password", "paused"):
        assert str(secret) not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__, (
        "the traceback of the parser, which may quote, is not shown"
    )


def test_the_good_document_of_the_table_is_good(path: Path) -> None:
    write(path, GOOD)
    assert open_keys(f"file:{path}").current == "k1"


class TestPassphrase:
    @pytest.fixture
    def wrapped(self, path: Path) -> FileKeyRing:
        return FileKeyRing.create(path, passphrase=lambda: "open sesame")

    def test_the_secret_is_wrapped_and_comes_back(self, path: Path, wrapped: FileKeyRing) -> None:
        content = document(path)
        assert content["wrap"].keys() == {"kdf", "ops", "mem_kib", "salt"}
        assert content["keys"][wrapped.current].keys() == {"created", "state", "wrapped"}
        again = open_keys(f"file:{path}", passphrase=lambda: "open sesame")
        assert again.subkey("row") == wrapped.subkey("row")

    def test_the_variable_gives_it_too(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMGUARD_PASSPHRASE", "pp")
        made = open_keys(f"file:{path}", create=True)
        assert "wrap" in document(path)
        assert open_keys(f"file:{path}").subkey("row") == made.subkey("row")

    def test_a_wrong_or_missing_passphrase_is_a_typed_error_and_touches_nothing(
        self, path: Path, wrapped: FileKeyRing
    ) -> None:
        """V34: a wrong key is an error of its own, not an empty ring, and nothing is written."""
        before = path.read_text()
        for given, said in (
            ("open says me", "does not open"),
            (None, "no passphrase"),
            ("", "no passphrase"),
        ):
            for create in (False, True):
                with pytest.raises(ConfigError, match="MG111") as caught:
                    open_keys(f"file:{path}", create=create, passphrase=lambda given=given: given)
                assert said in str(caught.value)
                assert "says me" not in str(caught.value)
        assert path.read_text() == before

    def test_rotation_keeps_wrapping(self, path: Path, wrapped: FileKeyRing) -> None:
        old = wrapped.current
        row, new = wrapped.subkey("row"), wrapped.rotate()
        assert all("wrapped" in item for item in document(path)["keys"].values())
        again = open_keys(f"file:{path}", passphrase=lambda: "open sesame")
        assert (again.ids, again.subkey("row", old)) == ((old, new), row)

    def test_wrapped_secrets_cannot_trade_places_or_be_changed(
        self, path: Path, wrapped: FileKeyRing
    ) -> None:
        old, new = wrapped.current, wrapped.rotate()
        content = document(path)
        a, b = content["keys"][old], content["keys"][new]
        a["wrapped"], b["wrapped"] = b["wrapped"], a["wrapped"]
        write(path, content)
        with pytest.raises(ConfigError, match="MG111"):
            open_keys(f"file:{path}", passphrase=lambda: "open sesame")


def test_no_secret_in_repr_str_dict_or_pickle(path: Path, ring: FileKeyRing) -> None:
    import copy
    import pickle

    secret = document(path)["keys"][ring.current]["secret"]
    ring.subkey("row")
    ring.sign(b"m")
    shown = repr(ring) + str(ring) + f"{ring!r}" + repr(ring._set)
    assert secret not in shown
    assert repr(ring._set.keys[ring.current].secret) not in shown
    assert ring.current in repr(ring)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(ring, protocol)
    assert copy.copy(ring) is ring
    assert copy.deepcopy({"a": ring})["a"] is ring


def test_a_failed_write_leaves_the_old_file(
    path: Path, ring: FileKeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, current = path.read_text(), ring.current

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match="MG108"):
            ring.rotate()
    assert path.read_text() == before
    assert ring.current == current
    assert [p.name for p in path.parent.iterdir()] == ["key.json"]


def test_every_refusal_is_a_memguard_error_with_advice(path: Path) -> None:
    for uri in (f"file:{path}", "env:NO_SUCH_VARIABLE_HERE", "memory:none", "", "k"):
        with pytest.raises(MemguardError) as caught:
            open_keys(uri)
        assert caught.value.do
