"""The files in the home that hold seals beside a store are never followed out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memguard.collection.beside import Kept, Seals
from memguard.errors import TamperedError

ONE = {"a": Kept(b"d" * 32, "seal", b"{}")}


def victim(path: Path) -> Path:
    path.write_bytes(b"")
    path.chmod(0o644)
    return path


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    other, file = victim(tmp_path / "other"), tmp_path / "beside.db"
    file.symlink_to(other)
    with pytest.raises(TamperedError) as caught:
        Seals(file).put("notes", ".", ONE)
    assert caught.value.code == "MG600"
    assert (other.stat().st_mode & 0o777, other.stat().st_size) == (0o644, 0)


def test_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "beside.db"
    file.symlink_to(tmp_path / "nowhere")
    with pytest.raises(TamperedError):
        Seals(file).of("notes", ".")
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_became_a_link_is_refused_while_running(tmp_path: Path) -> None:
    file = tmp_path / "beside.db"
    seals = Seals(file)
    seals.put("notes", ".", ONE)
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.raises(TamperedError):
        seals.of("notes", ".")
    file.unlink()
    (tmp_path / "moved").rename(file)
    assert seals.of("notes", ".") == (ONE, {})
    seals.close()


def test_a_pipe_in_its_place_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "beside.db")
    with pytest.raises(TamperedError):
        Seals(tmp_path / "beside.db").of("notes", ".")
