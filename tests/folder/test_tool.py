"""The client library's own memory tool under the guard: the same type, the same calls, its own kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memguard import AlreadyGuardedError, MemGuard, UnsupportedError, unwrap
from memguard.care import handled

_REASON = "the anthropic client is not installed; it is no dependency of memguard"
tools = pytest.importorskip("anthropic.tools.memory", reason=_REASON)
library = pytest.importorskip("anthropic.lib.tools", reason=_REASON)


@pytest.fixture
def mg(tmp_path: Path) -> Iterator[MemGuard]:
    with MemGuard.create(
        tmp_path / "home", anchor=f"file:{tmp_path / 'anchor'}", keys=f"file:{tmp_path / 'key.json'}"
    ) as made:
        yield made


COMMANDS: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 3, "insert_text": "three"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2"},
    {"command": "create", "path": "/memories/p/b.md", "file_text": "x"},
    {"command": "rename", "old_path": "/memories/p/b.md", "new_path": "/memories/q/c.md"},
    {"command": "create", "path": "/memories/d.md", "file_text": "gone"},
    {"command": "delete", "path": "/memories/d.md"},
    {"command": "create", "path": "/memories/a.md", "file_text": "again"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "nothing", "new_str": "x"},
    {"command": "view", "path": "/memories/../secret"},
    {"command": "delete", "path": "/memories/nothing.md"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/a.md"},
    {"command": "view", "path": "/memories/a.md", "view_range": [2, 3]},
]


def outcome(tool: Any, command: dict[str, Any]) -> str:
    """Whether a call was an error, and of a view of a file the lines."""
    try:
        text = tool.call(command)
        if asyncio.iscoroutine(text):
            text = asyncio.run(text)
    except library.ToolError:
        return "error"
    if command["command"] == "view" and command["path"].endswith(".md"):
        return "\n".join(line for line in str(text).split("\n")[1:])
    return "done"


def files(base: Path) -> dict[str, bytes]:
    root = base / "memories"
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["BetaLocalFilesystemMemoryTool", "BetaAsyncLocalFilesystemMemoryTool"])
def test_it_does_what_the_bare_tool_does(mg: MemGuard, tmp_path: Path, name: str) -> None:
    kind = getattr(tools, name)
    bare, inner = kind(str(tmp_path / "bare")), kind(str(tmp_path / "guarded"))
    guarded: Any = mg.guard(inner, name="notes")
    assert isinstance(guarded, kind)
    assert unwrap(guarded) is inner
    assert guarded.to_dict() == bare.to_dict()
    assert guarded.name == bare.name
    for command in COMMANDS:
        assert outcome(guarded, command) == outcome(bare, command), command
    assert files(tmp_path / "guarded") == files(tmp_path / "bare")
    with pytest.raises(AlreadyGuardedError):
        mg.guard(guarded, name="notes")


def test_an_edit_behind_it_is_a_tool_error_that_names_it(mg: MemGuard, tmp_path: Path) -> None:
    guarded: Any = mg.guard(tools.BetaLocalFilesystemMemoryTool(str(tmp_path)), name="notes")
    guarded.call({"command": "create", "path": "/memories/a.md", "file_text": "the limit is 100"})
    file = tmp_path / "memories" / "a.md"
    file.write_text("the limit is 999")
    with pytest.raises(library.ToolError) as caught:
        guarded.call({"command": "view", "path": "/memories/a.md"})
    assert "MG401" in str(caught.value)
    assert "a.md" in str(caught.value)
    assert "999" not in str(caught.value)
    assert not mg.audit(guarded).clean
    assert mg.adopt(guarded, apply=True).applied
    assert "999" in guarded.call({"command": "view", "path": "/memories/a.md"})
    assert handled(guarded).inner is guarded.inner


def test_a_tool_with_a_backend_of_its_own_is_refused(mg: MemGuard) -> None:
    class Elsewhere(tools.BetaAbstractMemoryTool):  # type: ignore[misc]
        """Keeps its memory in a service."""

        view = create = str_replace = insert = delete = rename = lambda self, command: "done"

    with pytest.raises(UnsupportedError) as caught:
        mg.guard(Elsewhere(), name="notes")
    assert caught.value.code == "MG616"
