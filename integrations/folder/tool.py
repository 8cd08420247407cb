"""Memory tools of a client library (``execute(command)``), guarded without importing that library.

What such a tool does is known from its commands; what it keeps is known where it says in which folder its files are.
The guarded tool answers from those files itself, proved first, and leaves the wrapped one to the client's loop: its
type, its name, its parameters.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from memguard.errors import MemguardError
from memguard.integrations.face import Face
from memguard.integrations.folder.folder import MemoryFolder
from memguard.integrations.folder.guarded import GuardedFolder

#: Attributes of wrapped tools that a client's loop reads.
REACHABLE = ("name", "to_dict", "base_path", "memory_root", "_cache_control")
#: Where the client library keeps the exception that becomes a tool's error result.
_ERRORS = "anthropic.lib.tools"


def folder_of(tool: Any) -> MemoryFolder | None:
    """The memory folder of a tool that says where its files are."""
    root = getattr(tool, "memory_root", None)
    return MemoryFolder(os.fspath(root)) if isinstance(root, (str, os.PathLike)) else None


class GuardedTool(Face):
    """A memory tool whose files cannot be changed behind its back.

    Attributes:
        inner: the wrapped tool. folder: the guarded folder that answers.
    """

    reachable = REACHABLE
    folder: GuardedFolder

    def __init__(self, tool: Any, folder: GuardedFolder) -> None:
        self.inner, self.folder = tool, folder

    def call(self, input: object) -> Any:
        """A tool call as the client's loop makes it."""
        return self.execute(input)

    def execute(self, command: object) -> Any:
        """Carry out a memory command; what cannot be done is raised as the client expects a tool to fail."""
        try:
            return self.folder.execute(command)
        except MemguardError as error:
            raise _failed(error) from error

    def clear_all_memory(self) -> Any:
        """Delete every file."""
        return self.folder.clear_all_memory()


class AsyncGuardedTool(GuardedTool):
    """The same for a tool whose methods are coroutines."""

    async def call(self, input: object) -> Any:
        """A tool call as the client's loop makes it."""
        return await self.execute(input)

    async def execute(self, command: object) -> Any:
        """Carry out a memory command."""
        try:
            return await self.folder.aexecute(command)
        except MemguardError as error:
            raise _failed(error) from error

    async def clear_all_memory(self) -> Any:
        """Delete every file."""
        return await self.folder._arun(self.folder._clear())


def guarded_tool(tool: Any, folder: GuardedFolder) -> GuardedTool:
    """The guarded twin of a tool, with its methods plain or coroutines as the tool's are."""
    is_async = inspect.iscoroutinefunction(type(tool).execute)
    return (AsyncGuardedTool if is_async else GuardedTool)(tool, folder)


def _failed(error: MemguardError) -> Exception:
    """The client library's own kind of failure where it is loaded, with our error as its cause; else our error."""
    module = sys.modules.get(_ERRORS)
    kind = getattr(module, "ToolError", None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        made: Exception = kind(str(error))
        return made
    return error
