"""``memguard init`` makes a home once, says where the anchor is, and writes over nothing."""

from __future__ import annotations

import os

import pytest


def test_init_makes_home_key_and_anchor(run, place) -> None:
    result = run("init")
    assert result.exit_code == 0, result.stderr
    key = place.parent / "user" / ".config" / "memguard" / "key.json"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (place / ".memguard" / "memguard.toml").exists()
    assert (place / ".memguard" / "anchor" / "anchor.log").exists()
    assert (place / ".memguard" / ".gitignore").read_text().endswith("*\n")
    assert max(map(len, result.stdout.splitlines())) <= 110
    assert key.read_text().split('"secret": "')[1].split('"')[0] not in result.output


def test_it_tells_the_truth_about_an_anchor_on_the_same_volume(run, data) -> None:
    result = run("init")
    assert "SAME VOLUME" in result.stdout
    assert "WARN MG412 T9" in result.stdout
    assert "memguard anchor set file:" in result.stdout
    assert data(run("init", "--home", "second", "--format", "json"))["t9_covered"] is False


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no second volume at hand")
def test_and_about_one_on_another(run, place, tmp_path, data) -> None:
    import shutil
    import tempfile

    other = tempfile.mkdtemp(dir="/dev/shm")
    try:
        if os.stat(other).st_dev == os.stat(place).st_dev:
            pytest.skip("the two are one volume")
        result = run("init", "--anchor", f"file:{other}/anchor", "--format", "json")
        assert data(result)["t9_covered"] is True
        assert "MG412" not in result.stdout
    finally:
        shutil.rmtree(other)


def test_init_never_overwrites(run, place) -> None:
    assert run("init").exit_code == 0
    files = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    again = run("init")
    assert again.exit_code == 2
    assert "MG103" in again.stderr
    assert "memguard init --home DIR" in again.stderr
    assert {p: p.read_bytes() for p in place.rglob("*") if p.is_file()} == files


def test_a_second_home_uses_the_key_that_is_there(run, place) -> None:
    run("init")
    key = place.parent / "user" / ".config" / "memguard" / "key.json"
    before = key.read_bytes()
    result = run("init", "--home", "second")
    assert result.exit_code == 0, result.stderr
    assert key.read_bytes() == before
    assert "used as it was" in result.stdout


def test_a_folder_with_anything_in_it_is_refused(run, place) -> None:
    (place / "full").mkdir()
    (place / "full" / "notes.txt").write_text("mine")
    assert run("init", "--home", "full").exit_code == 2
    assert [p.name for p in (place / "full").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("preset", ["off", "observe", "balanced", "strict"])
def test_presets(run, preset, data) -> None:
    assert run("init", "--preset", preset).exit_code == 0
    assert data(run("config", "validate", "--format", "json"))["preset"] == preset


def test_a_wrong_preset_or_uri(run, place) -> None:
    assert run("init", "--preset", "strikt").exit_code == 2
    result = run("init", "--anchor", "ftp:somewhere")
    assert result.exit_code == 2
    assert "file:" in result.stderr
    assert not (place / ".memguard").exists()
