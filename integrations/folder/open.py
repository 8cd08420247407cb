"""Memory folders as the command line opens them: ``uri = "file:FOLDER"``, ``kind = "folder"``."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from memguard.integrations.folder.folder import MemoryFolder
from memguard.integrations.local import local


def _folder(uri: str) -> Path:
    """The folder behind ``file:FOLDER``; raises ConfigError (MG151) if there is none."""
    return local(uri, "file", "folder", "memories")


class FolderCanary:
    """One file in a folder of its own: beside files that no guard has seen, as in doctor's copy, none can be made."""

    def __init__(self, token: str) -> None:
        self._name = f"{token}/canary.md"

    def _path(self, guarded: Any) -> str:
        return f"{guarded.prefix}/{self._name}"

    def write(self, guarded: Any, text: str) -> None:
        """Create a file that holds ``text``."""
        guarded.create(self._path(guarded), text)

    def read(self, guarded: Any) -> str | None:
        """Its text."""
        return self._text(guarded.view(self._path(guarded)))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the asynchronous twin."""
        return self._text(await guarded.aview(self._path(guarded)))

    @staticmethod
    def _text(shown: str) -> str | None:
        lines = [line.partition("\t")[2] for line in shown.split("\n") if "\t" in line]
        return lines[0] if lines else None

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the file; whether it changed."""
        file = _folder(uri) / self._name
        found = file.read_text(encoding="utf-8") if file.is_file() else ""
        if old in found:
            file.write_text(found.replace(old, new), encoding="utf-8")
        return old in found


class FolderKind:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "folder"
    canary = FolderCanary

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is a memory folder."""
        return isinstance(inner, MemoryFolder)

    @contextmanager
    def open(self, uri: str) -> Iterator[MemoryFolder]:
        """The folder that ``uri`` names.

        Raises:
            ConfigError: MG151.
        """
        yield MemoryFolder(_folder(uri))

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[MemoryFolder]:
        """The same inside a running loop."""
        yield MemoryFolder(_folder(uri))

    def path(self, inner: MemoryFolder) -> Path:
        """Where it is."""
        return inner.disk.root

    def durable(self, inner: MemoryFolder) -> bool:
        """Every command ends on the disk."""
        return True

    def swept(self, inner: MemoryFolder) -> None:
        """Nothing expires."""
        return None

    def texts(self, guarded: Any) -> Iterator[str]:
        """What it serves, file by file."""
        yield from guarded.texts()

    def copy(self, path: Path, folder: Path) -> str:
        """A copy in ``folder``, links left out; its URI."""
        target = folder / "copy"
        shutil.copytree(path, target, ignore=_links)
        return f"file:{target}"


def _links(folder: str, names: list[str]) -> list[str]:
    places = [(name, Path(folder) / name) for name in names]
    return [name for name, place in places if place.is_symlink() or not (place.is_file() or place.is_dir())]


FOLDER = FolderKind()
