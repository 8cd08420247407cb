"""A folder of Markdown files as an agent's memory: view, create, str_replace, insert, delete, rename."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from memguard.errors import MemguardError
from memguard.integrations.folder import edits
from memguard.integrations.folder.disk import Disk, not_text
from memguard.integrations.folder.paths import collides, inner, refuse

#: The commands, and the members of each.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
#: Text of a file at most, in bytes of UTF-8, and files of a folder at most.
MAX_BYTES, MAX_FILES = 1 << 20, 10_000


class MemoryFolder:
    """The files of one folder, behind the commands of Claude's memory tool.

    Used as it is, it keeps paths inside the folder and files whole; ``mg.guard(MemoryFolder(...), name=...)`` proves
    what is read, screens what is written and labels what is served.

    Args:
        path: the folder; made if it is missing, for its owner only.
        prefix: what it is called in paths (``/memories``).
        source: where text is from that the commands write while the program declares nothing.
        max_bytes: of one file. max_files: of the folder.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        prefix: str = "/memories",
        source: str = "assistant",
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self.prefix, self.source = prefix.rstrip("/"), source
        self.disk = Disk(path, max_bytes=max_bytes, max_files=max_files)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.disk.root)!r})"

    @property
    def path(self) -> str:
        """Where the folder is."""
        return str(self.disk.root)

    # -- commands ----------------------------------------------------------------------------

    def view(self, path: str, view_range: Any = None) -> str:
        """A file with line numbers, or what is in a folder.

        Args:
            view_range: first and last line, from 1; -1 for the last one.

        Raises (as every command): UnsupportedError (MG610 to MG615); TamperedError where something in the folder is
        no plain file.
        """
        name = inner(path, self.prefix)
        data = self.disk.read(name) if name else None
        if data is not None:
            return f"{path}, with line numbers:\n{edits.numbered(_text(name, data), view_range)}"
        under = f"{name}/" if name else ""
        sizes = {
            look.name[len(under) :]: look.status.st_size
            for look in self.disk.looks()
            if look.name.startswith(under)
        }
        if not sizes and name and not self.disk.is_folder(name):
            raise edits.missing()
        return edits.listing(path.rstrip("/"), sizes)

    def create(self, path: str, file_text: str) -> str:
        """Make a file that is not there yet."""
        name, data = self._file(path), self.encoded(file_text)
        self._free(name)
        self.disk.write(name, data)
        return f"{path} was created."

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace the only occurrence of a text."""
        name = self._file(path)
        text, line = edits.replaced(self._read(name), old_str, new_str)
        self.disk.write(name, self.encoded(text))
        return f"{path} was edited. Around the change:\n{edits.around(text, line)}"

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text after a line (0: in front)."""
        name = self._file(path)
        text = edits.inserted(self._read(name), insert_line, insert_text)
        self.disk.write(name, self.encoded(text))
        return f"{path} was edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with all that is in it."""
        name = self._file(path)
        names = [n for n in self.names() if n == name or n.startswith(f"{name}/")]
        if not names and not self.disk.is_folder(name):
            raise edits.missing()
        for one in names:
            self.disk.remove(one)
        self.disk.prune(name)
        return f"{path} was deleted."

    def rename(self, old_path: str, new_path: str) -> str:
        """Give a file or a folder another path."""
        old, new = self._file(old_path), self._file(new_path)
        names = [n for n in self.names() if n == old or n.startswith(f"{old}/")]
        if not names:
            raise edits.missing()
        if new == old or new.startswith(f"{old}/"):
            refuse("a folder cannot be moved into itself.")
        self._free(new, but=names)
        for one in names:
            self.disk.rename(one, new + one[len(old) :])
        self.disk.prune(old)
        return f"{old_path} is now {new_path}."

    def clear_all_memory(self) -> str:
        """Delete every file."""
        for name in self.names():
            self.disk.remove(name)
            self.disk.prune(name.partition("/")[0])
        return "All memory was deleted."

    # -- the command as a tool's input -----------------------------------------------------------

    def execute(self, command: object) -> str:
        """Carry out a command as the memory tool has it: a mapping, or an object with these attributes.

        Raises:
            UnsupportedError: MG613, there is no such command or a member of it is missing.
        """
        name, members = taken_apart(command)
        method: Callable[..., str] = getattr(self, name)
        return method(**members)

    def answer(self, command: object) -> tuple[str, bool]:
        """:meth:`execute` for a loop of one's own: the text for the model, and whether it is an error."""
        try:
            return self.execute(command), False
        except MemguardError as error:
            return str(error), True

    # -- inside ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Paths of all files below the folder."""
        return [look.name for look in self.disk.looks()]

    def encoded(self, text: object) -> bytes:
        """The bytes of a text that may be stored.

        Raises:
            UnsupportedError: MG613, it is none, or too long.
        """
        if not isinstance(text, str):
            edits.unusable("the text of a file is missing.")
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            edits.unusable("a text holds half a character, which no file can hold.")
        if len(data) > self.disk.max_bytes:
            edits.unusable(f"a file would be longer than {self.disk.max_bytes} bytes.", "Split it.")
        return data

    def _file(self, path: str) -> str:
        return inner(path, self.prefix) or refuse("the folder itself is not what this command is for.")

    def _read(self, name: str) -> str:
        data = self.disk.read(name)
        if data is None:
            raise edits.missing()
        return _text(name, data)

    def _free(self, name: str, but: list[str] | None = None) -> None:
        there = [n for n in self.names() if n not in (but or ())]
        check_free(name, there)
        if self.disk.is_folder(name):
            raise edits.taken("there is a folder at this path already.")


def check_free(name: str, there: list[str]) -> None:
    """That a file may get this name.

    Raises:
        UnsupportedError: MG612.
    """
    if name in there or any(n.startswith(f"{name}/") or name.startswith(f"{n}/") for n in there):
        raise edits.taken()
    if collides(name, there):
        raise edits.taken("a file or folder has this name in another case or spelling.")


def taken_apart(command: object) -> tuple[str, dict[str, Any]]:
    """The name of a command and its members.

    Raises:
        UnsupportedError: MG613.
    """
    name = edits.fields(command, ["command"]).get("command")
    if not isinstance(name, str) or name not in COMMANDS:
        edits.unusable("there is no such memory command.", f"Commands are {', '.join(COMMANDS)}.")
    members = edits.fields(command, COMMANDS[name])
    optional = {"view_range", "new_str"}
    left = [member for member in COMMANDS[name] if member not in members and member not in optional]
    if left:
        edits.unusable(f"{name} needs {' and '.join(left)}.")
    return name, members


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise not_text(name) from None
