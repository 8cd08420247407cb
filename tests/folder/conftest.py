"""A home and a folder that can be closed and opened again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memguard import MemGuard
from memguard.integrations.folder import MemoryFolder


class Kept:
    """A guarded folder over restarts."""

    def __init__(self, base: Path, **config: Any) -> None:
        self.base, self.files, self.home = base, base / "memories", base / "home"
        MemGuard.create(
            self.home,
            anchor=f"file:{base / 'anchor'}",
            keys=f"file:{base / 'key.json'}",
            config=config or None,
        ).close()
        self.open()

    def open(self) -> Any:
        self.mg = MemGuard.open(self.home)
        self.folder: Any = self.mg.guard(MemoryFolder(self.files), name="notes")
        return self.folder

    def again(self) -> Any:
        """After a restart."""
        self.mg.close()
        return self.open()

    def text(self, path: str) -> str:
        """What a file holds, as it is served and without the numbers."""
        lines = self.folder.view(path).split("\n")[1:]
        return "\n".join(line.partition("\t")[2] for line in lines)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.mg.close()
