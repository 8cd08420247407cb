"""The steps an edit is made of, how they are run, and how they are printed.

A printed edit is a shell script that does the same thing with the ``sqlite3`` shell and coreutils: anybody can
repeat a cell by hand. Paths are relative to the cell.
"""

from __future__ import annotations

import atexit
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_APPLY = Path(__file__).with_name("apply_sql.py")


class EditFailed(RuntimeError):
    """The tool could not make the edit: the bench's fault, never a verdict."""


class _Tool:
    """The adversary's SQL tool, started once per process of the bench; it serves one request after another."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", str(_APPLY)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)

    def request(self, file: str, script: str) -> str | None:
        """Run a script on a file; None, or what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"file": file, "script": script}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return json.loads(answer)["error"] if answer else "the SQL tool ended"

    def close(self) -> None:
        """End the tool: it stops when its input does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


@cache
def _tool() -> _Tool:
    return _Tool()


@dataclass(frozen=True, slots=True)
class Sql:
    """A SQL script on one database file; with ``keep_log`` the change stays in the write-ahead log beside it."""

    file: str
    script: str
    keep_log: bool = False

    def run(self, cell: Path) -> None:
        """Apply it in an interpreter that has loaded nothing but sqlite3."""
        if self.keep_log:
            command = [sys.executable, "-I", "-S", str(_APPLY), str(cell / self.file)]
            done = subprocess.run(command, input=self.script, capture_output=True, text=True, timeout=60)
            error = done.stderr.strip().splitlines()[-1] if done.returncode else None
        else:
            error = _tool().request(str(cell / self.file), self.script)
        if error:
            raise EditFailed(error)

    def text(self) -> str:
        """The step as a shell command."""
        keep = "PRAGMA wal_autocheckpoint = 0; -- and end the shell with kill -9\n" if self.keep_log else ""
        return f"sqlite3 {self.file} <<'SQL'\n{keep}{self.script}\nSQL"


@dataclass(frozen=True, slots=True)
class Restore:
    """Put an earlier copy of whole folders back, every file and sidecar of them."""

    folders: tuple[str, ...]
    copy: str = "copy"

    def run(self, cell: Path) -> None:
        """Remove each folder and copy the earlier one into its place."""
        for folder in self.folders:
            shutil.rmtree(cell / folder)
            shutil.copytree(cell / self.copy / folder, cell / folder)

    def text(self) -> str:
        """The step as shell commands."""
        return "\n".join(f"rm -rf {f} && cp -a {self.copy}/{f} {f}" for f in self.folders)


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete files or folders."""

    paths: tuple[str, ...]

    def run(self, cell: Path) -> None:
        """Remove each; one that is not there is an error."""
        for path in self.paths:
            target = cell / path
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink()

    def text(self) -> str:
        """The step as a shell command."""
        return "rm -r " + " ".join(self.paths)


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace text inside a file, once."""

    file: str
    old: str
    new: str

    def run(self, cell: Path) -> None:
        """Rewrite the file; it must hold the old text."""
        target = cell / self.file
        text = target.read_text(encoding="utf-8")
        if self.old not in text:
            raise EditFailed(f"{self.file} does not hold the text to replace")
        target.write_text(text.replace(self.old, self.new, 1), encoding="utf-8")

    def text(self) -> str:
        """The step as a shell command."""
        return f"sed -i 's/{self.old}/{self.new}/' {self.file}"


@dataclass(frozen=True, slots=True)
class Copy:
    """Put one file in the place of another."""

    source: str
    target: str

    def run(self, cell: Path) -> None:
        """Copy the bytes."""
        shutil.copyfile(cell / self.source, cell / self.target)

    def text(self) -> str:
        """The step as a shell command."""
        return f"cp {self.source} {self.target}"


@dataclass(frozen=True, slots=True)
class Write:
    """Give a file this content, making it and its folder where they are missing."""

    file: str
    content: bytes

    def run(self, cell: Path) -> None:
        """Write the bytes."""
        target = cell / self.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.content)

    def text(self) -> str:
        """The step as shell commands."""
        folder = self.file.rpartition("/")[0]
        try:
            body = f"printf %s {shlex.quote(self.content.decode('utf-8'))} > {shlex.quote(self.file)}"
        except UnicodeDecodeError:
            body = f"echo {self.content.hex()} | xxd -r -p > {shlex.quote(self.file)}"
        return f"mkdir -p {shlex.quote(folder)} && {body}"


@dataclass(frozen=True, slots=True)
class CopyTree:
    """Put one folder, or file, in the place of another."""

    source: str
    target: str

    def run(self, cell: Path) -> None:
        """Remove what is there and copy."""
        source, target = cell / self.source, cell / self.target
        if target.is_dir():
            shutil.rmtree(target)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)

    def text(self) -> str:
        """The step as shell commands."""
        return f"rm -rf {self.target} && cp -a {self.source} {self.target}"


Step = Sql | Restore | Remove | Replace | Copy | Write | CopyTree


def run(steps: Sequence[Step], cell: Path) -> None:
    """Make the edit."""
    for step in steps:
        step.run(cell)


def script(steps: Sequence[Step]) -> str:
    """The edit as one shell script."""
    return "\n".join(step.text() for step in steps)
