"""From a memory folder, or a memory tool on local files, to its guarded twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memguard.care import Handle
from memguard.collection import Collection
from memguard.collection.beside import Beside, seals_of
from memguard.collection.faces import run
from memguard.engine import MemGuard
from memguard.errors import UnsupportedError
from memguard.integrations.folder.care import FolderCare
from memguard.integrations.folder.folder import MemoryFolder
from memguard.integrations.folder.guarded import GuardedFolder
from memguard.integrations.folder.table import FolderTable
from memguard.integrations.folder.tool import GuardedTool, folder_of, guarded_tool

KIND = "folder"


def guard_folder(
    mg: MemGuard, folder: MemoryFolder, store_name: str | None, overrides: Mapping[str, Any]
) -> GuardedFolder:
    """Guard a memory folder. The folder itself is unchanged, and so are its files: their seals lie in the home.

    Raises:
        ConfigError: no name, or one that is another store's.
    """
    guarded, _ = _guarded(mg, folder, folder, store_name, overrides)
    return guarded


def guard_tool(mg: MemGuard, tool: Any, store_name: str | None, overrides: Mapping[str, Any]) -> GuardedTool:
    """Guard a memory tool that keeps its files in a local folder, such as ``BetaLocalFilesystemMemoryTool``.

    Raises:
        UnsupportedError: MG616, it keeps them where memguard cannot see them.
    """
    folder = folder_of(tool)
    if folder is None:
        raise UnsupportedError(
            f"{type(tool).__name__} does not say where its files are.",
            code="MG616",
            why="What it serves cannot be proved by asking it alone.",
            do="Keep the memory in a MemoryFolder and guard that, or give the tool a memory_root.",
        )
    inner, handle = _guarded(mg, folder, tool, store_name, overrides)
    made = guarded_tool(tool, inner)
    made.__dict__["_memguard"] = handle
    mg.quarantine.know(handle.custody.store, made)
    return made


def _guarded(
    mg: MemGuard, folder: MemoryFolder, obj: object, store_name: str | None, overrides: Mapping[str, Any]
) -> tuple[GuardedFolder, Handle]:
    seals = seals_of(mg)
    table = Beside(FolderTable(folder.disk), seals)
    collection = Collection(mg, table)
    collection.open(obj, store_name, kind=KIND, place=str(folder.disk.root), overrides=overrides)
    table.store = collection.store
    collection.custody.closing.append(seals.close)
    guarded = GuardedFolder(folder, collection)
    care = FolderCare(collection, table, folder.disk, mg.home)
    handle = Handle(mg, collection.custody, care, run, obj)
    mg.attach(guarded, handle)
    mg.quarantine.know(collection.store, guarded)
    return guarded, handle
