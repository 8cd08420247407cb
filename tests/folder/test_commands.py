"""The commands do what the memory tool's do, bare and guarded alike; paths mean one file or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memguard import MemGuard
from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.folder import MemoryFolder


@pytest.fixture(params=["bare", "guarded"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    inner = MemoryFolder(tmp_path / "memories")
    if request.param == "bare":
        yield inner
        return
    with MemGuard.create(
        tmp_path / "home", anchor=f"file:{tmp_path / 'anchor'}", keys=f"file:{tmp_path / 'key.json'}"
    ) as mg:
        yield mg.guard(inner, name="notes")


def shown(folder: Any, path: str, **more: Any) -> list[str]:
    return [line.partition("\t")[2] for line in folder.view(path, **more).split("\n")[1:]]


def test_a_life_of_commands(folder: Any, tmp_path: Path) -> None:
    folder.create("/memories/a.md", "one\ntwo\n")
    folder.insert("/memories/a.md", 0, "zero\n")
    folder.insert("/memories/a.md", 3, "three")
    answer = folder.str_replace("/memories/a.md", "two", "2")
    assert "     3\t2" in answer
    assert (tmp_path / "memories" / "a.md").read_text() == "zero\none\n2\nthree\n"
    assert shown(folder, "/memories/a.md") == ["zero", "one", "2", "three", ""]
    assert shown(folder, "/memories/a.md", view_range=[2, 3]) == ["one", "2"]
    assert shown(folder, "/memories/a.md", view_range=[3, -1]) == ["2", "three", ""]
    folder.rename("/memories/a.md", "/memories/p/q/b.md")
    folder.create("/memories/p/c.md", "x" * 1536)
    listed = folder.view("/memories").split("\n")[1:]
    assert listed == [
        "1.5K\t/memories",
        "1.5K\t/memories/p/",
        "1.5K\t/memories/p/c.md",
        "17B\t/memories/p/q/",
    ]
    assert folder.view("/memories/p/q").split("\n")[1:] == ["17B\t/memories/p/q", "17B\t/memories/p/q/b.md"]
    folder.rename("/memories/p", "/memories/r")
    assert shown(folder, "/memories/r/q/b.md")[2] == "2"
    folder.delete("/memories/r/q")
    assert not (tmp_path / "memories" / "r" / "q").exists()
    folder.delete("/memories/r/c.md")
    folder.create("/memories/d.md", "")
    folder.clear_all_memory()
    assert sorted(tmp_path.joinpath("memories").rglob("*.md")) == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"command": "view", "path": "/memories/nothing.md"}, "MG611"),
        ({"command": "delete", "path": "/memories/nothing.md"}, "MG611"),
        ({"command": "rename", "old_path": "/memories/no.md", "new_path": "/memories/n.md"}, "MG611"),
        ({"command": "str_replace", "path": "/memories/no.md", "old_str": "a", "new_str": "b"}, "MG611"),
        ({"command": "create", "path": "/memories/a.md", "file_text": "x"}, "MG612"),
        ({"command": "create", "path": "/memories/A.MD", "file_text": "x"}, "MG612"),
        ({"command": "create", "path": "/memories/a.md/b.md", "file_text": "x"}, "MG612"),
        ({"command": "create", "path": "/memories/dir", "file_text": "x"}, "MG612"),
        ({"command": "create", "path": "/memories/DIR/x.md", "file_text": "x"}, "MG612"),
        ({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/dir/b.md"}, "MG612"),
        ({"command": "rename", "old_path": "/memories/dir", "new_path": "/memories/dir/c"}, "MG610"),
        ({"command": "str_replace", "path": "/memories/a.md", "old_str": "l", "new_str": "b"}, "MG613"),
        ({"command": "str_replace", "path": "/memories/a.md", "old_str": "zz", "new_str": "b"}, "MG613"),
        ({"command": "str_replace", "path": "/memories/a.md", "old_str": "", "new_str": "b"}, "MG613"),
        ({"command": "insert", "path": "/memories/a.md", "insert_line": 2, "insert_text": "b"}, "MG613"),
        ({"command": "insert", "path": "/memories/a.md", "insert_line": -1, "insert_text": "b"}, "MG613"),
        ({"command": "view", "path": "/memories/a.md", "view_range": [2, 1]}, "MG613"),
        ({"command": "view", "path": "/memories/a.md", "view_range": [0, 1]}, "MG613"),
        ({"command": "create", "path": "/memories/b.md"}, "MG613"),
        ({"command": "create", "path": "/memories/b.md", "file_text": "\ud800"}, "MG613"),
        ({"command": "create", "path": "/memories/b.md", "file_text": "x" * ((1 << 20) + 1)}, "MG613"),
        ({"command": "format", "path": "/memories/b.md"}, "MG613"),
        ({"command": "delete", "path": "/memories"}, "MG610"),
        ({"command": "delete", "path": "/memories/"}, "MG610"),
    ],
)
def test_what_cannot_be_done_says_so_and_changes_nothing(
    folder: Any, tmp_path: Path, command: dict[str, Any], code: str
) -> None:
    folder.create("/memories/a.md", "hello")
    folder.create("/memories/dir/b.md", "there")
    before = {p: p.read_bytes() for p in tmp_path.joinpath("memories").rglob("*") if p.is_file()}
    with pytest.raises(UnsupportedError) as caught:
        folder.execute(command)
    assert caught.value.code == code
    assert before == {p: p.read_bytes() for p in tmp_path.joinpath("memories").rglob("*") if p.is_file()}
    assert folder.answer(command) == (str(caught.value), True)


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secret.md",
        "/memories/a/../../secret.md",
        "/memoriesx/a.md",
        "/etc/passwd",
        "memories/a.md",
        "/memories/./a.md",
        "/memories/.hidden",
        "/memories/.git/config",
        "/memories/..",
        "/memories/a\\..\\b.md",
        "/memories/a.md ",
        "/memories/ a.md",
        "/memories/a.",
        "/memories/a\x00.md",
        "/memories/a\n.md",
        "/memories/a\u202egpj.md",
        "/memories/a\u200b.md",
        "/memories/e\u0301.md",
        "/memories/\ud800.md",
        "/memories/" + "n" * 201,
        "/memories/" + "é" * 101,
        "/memories/" + "/".join("abcdefghi"),
        None,
        7,
    ],
)
def test_paths_that_could_mean_something_else_are_refused(folder: Any, path: Any) -> None:
    for command in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/b.md"},
    ):
        text, failed = folder.answer(command)
        assert failed
        assert text.startswith(("MG610", "MG613"))
        assert "secret" not in text


def test_names_in_any_script_are_names(folder: Any) -> None:
    for name in ("über.md", "メモ.md", "заметки/день 1.md", "a-b_c (2).md"):
        folder.create(f"/memories/{name}", name)
        assert shown(folder, f"/memories/{name}") == [name]


def link_out(files: Path, outside: Path) -> None:
    (files / "link.md").symlink_to(outside / "secret.md")


def link_in(files: Path, outside: Path) -> None:
    (files / "link.md").symlink_to(files / "a.md")


def folder_link(files: Path, outside: Path) -> None:
    (files / "dir").symlink_to(outside)


def hard_link(files: Path, outside: Path) -> None:
    os.link(outside / "secret.md", files / "link.md")


def pipe(files: Path, outside: Path) -> None:
    os.mkfifo(files / "link.md")


@pytest.mark.parametrize("plant", [link_out, link_in, folder_link, hard_link, pipe])
def test_links_and_devices_are_never_followed(folder: Any, tmp_path: Path, plant: Any) -> None:
    folder.create("/memories/a.md", "hello")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("the secret")
    plant(tmp_path / "memories", outside)
    for command in (
        {"command": "view", "path": "/memories/link.md"},
        {"command": "view", "path": "/memories/dir/secret.md"},
        {"command": "create", "path": "/memories/dir/new.md", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/link.md", "old_str": "secret", "new_str": "b"},
        {"command": "insert", "path": "/memories/dir/secret.md", "insert_line": 0, "insert_text": "b"},
    ):
        try:
            text = folder.execute(command)
        except (UnsupportedError, TamperedError):
            continue
        assert "secret" not in text.replace("secret.md", "")
    assert (outside / "secret.md").read_text() == "the secret"
    assert sorted(p.name for p in outside.iterdir()) == ["secret.md"]
