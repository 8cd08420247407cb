"""The files under a memory folder, read and written so that no link leads out of it. Blocking; no policy.

Every part of a path is opened below the one before and never through a link, so a folder that is exchanged for a link
between two looks changes nothing; the same holds for the memory folder itself. A file is a plain file of one name, or
it is not read.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from memguard.errors import TamperedError, UnsupportedError

#: Names of files that are on their way.
TEMPORARY = ".memguard-"
#: A change within this time of another may have the same time stamp (nanoseconds; kernels stamp by the tick).
_TICK = 50_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Passes through folders that one may enter and not list; 0 where the system has no such thing.
_PASS: int = getattr(os, "O_PATH", 0)


class Look(NamedTuple):
    """One entry: its path below the folder, its status, and what is wrong with it."""

    name: str
    status: os.stat_result
    flaw: str = ""


class Disk:
    """The files below one folder.

    Args:
        root: made if it is missing, for its owner only. Links above it are followed once, here.
        max_bytes: of one file.
        max_files: that are looked at.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_bytes: int, max_files: int) -> None:
        path = Path(root).expanduser().absolute()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root = path.resolve()
        self.max_bytes, self.max_files = max_bytes, max_files

    def looks(self) -> list[Look]:
        """Every file below the folder, sorted; hidden entries are left out.

        Raises:
            TamperedError: MG614, there are more than ``max_files``, or the folder became a link.
        """
        found: list[Look] = []
        fd = self._root()
        try:
            self._walk(fd, "", found)
        finally:
            os.close(fd)
        return sorted(found)

    def _walk(self, fd: int, under: str, found: list[Look]) -> None:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
        for name in names:
            path = f"{under}{name}"
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    below = os.open(name, _FOLDER, dir_fd=fd)
                    try:
                        self._walk(below, f"{path}/", found)
                    finally:
                        os.close(below)
                    continue
            except FileNotFoundError:
                continue  # gone since
            found.append(Look(path, status, _flaw(status)))
            if len(found) > self.max_files:
                raise _flawed(self.root.name, f"the folder holds more than {self.max_files} files")

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None if it is not there.

        Raises:
            TamperedError: MG614, what stands there is no plain file of one name, or too large.
        """
        folder, _, last = name.rpartition("/")
        try:
            with self._folder(folder) as fd:
                # Without blocking: a pipe in the place of a file would wait for ever.
                opened = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _flawed(name, f"it cannot be opened as a plain file ({error.strerror})") from None
        try:
            status = os.fstat(opened)
            if stat.S_ISDIR(status.st_mode):
                return None
            flaw = _flaw(status) or ("it is too large" if status.st_size > self.max_bytes else "")
            if flaw:
                raise _flawed(name, flaw)
            parts, left = [], self.max_bytes + 1
            while left and (part := os.read(opened, min(left, 1 << 20))):
                parts.append(part)
                left -= len(part)
            if not left:
                raise _flawed(name, "it is too large")
            return b"".join(parts)
        finally:
            os.close(opened)

    def write(self, name: str, data: bytes) -> None:
        """Put a file there, whole or not at all, on the disk when this returns."""
        folder, _, last = name.rpartition("/")
        with self._folder(folder, make=True) as fd:
            mode = 0o600
            with suppress(FileNotFoundError):
                mode = stat.S_IMODE(os.stat(last, dir_fd=fd, follow_symlinks=False).st_mode)
            temporary = f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
            out = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=fd)
            try:
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(out, view) :]
                    os.fchmod(out, mode & 0o777)
                    os.fsync(out)
                finally:
                    os.close(out)
                os.rename(temporary, last, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=fd)
                raise
            os.fsync(fd)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, on the disk when this returns."""
        (here, _, last), (there, _, name) = old.rpartition("/"), new.rpartition("/")
        with self._folder(here) as source, self._folder(there, make=True) as target:
            os.rename(last, name, src_dir_fd=source, dst_dir_fd=target)
            os.fsync(target)
            os.fsync(source)

    def remove(self, name: str) -> None:
        """Remove a file that is there, or a link in its place."""
        folder, _, last = name.rpartition("/")
        with suppress(FileNotFoundError), self._folder(folder) as fd:
            os.unlink(last, dir_fd=fd)
            os.fsync(fd)

    def prune(self, name: str) -> None:
        """Remove a folder and those in it, as far as they are empty."""
        folder, _, last = name.rpartition("/")
        with suppress(OSError), self._folder(folder) as fd:
            for _, below, _, at in os.fwalk(last, topdown=False, dir_fd=fd):
                for one in below:
                    with suppress(OSError):
                        os.rmdir(one, dir_fd=at)
            os.rmdir(last, dir_fd=fd)

    def is_folder(self, name: str) -> bool:
        """Whether a folder stands there."""
        try:
            with self._folder(name):
                return True
        except OSError:
            return False

    def signature(self) -> object:
        """Differs after a file came, went, or changed; None where it was changed too lately to tell."""
        now, seen = time.time_ns(), []
        for name, status, _ in self.looks():
            stamps = status.st_mtime_ns, status.st_ctime_ns
            if max(stamps) > now - _TICK:
                return None
            seen.append((name, status.st_ino, status.st_size, *stamps))
        return tuple(seen)

    def _root(self) -> int:
        """A descriptor of the folder itself. Its path was free of links when the folder was opened first; a link that
        stands in it now was put there since, and would lead reads and writes elsewhere.

        Raises:
            TamperedError: MG614, the folder or one above it is a link, or a file.
        """
        try:
            if not _PASS or len(self.root.parts) == 1:
                return os.open(self.root, _FOLDER)
            fd = os.open(self.root.anchor, _PASS | _FOLDER)
            for at, part in enumerate(self.root.parts[1:], 2):
                try:
                    below = os.open(
                        part, _FOLDER if at == len(self.root.parts) else _PASS | _FOLDER, dir_fd=fd
                    )
                finally:
                    os.close(fd)
                fd = below
            return fd
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise _flawed(
                self.root.name,
                "the memory folder itself, or a folder above it, is a link or no folder now",
                "Put the folder back in its place.",
            ) from None

    @contextmanager
    def _folder(self, name: str, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder below the root, opened part by part."""
        fd = self._root()
        try:
            for part in name.split("/") if name else ():
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=fd)
                        os.fsync(fd)
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


def _flaw(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "it is no plain file"
    return "it has a second name (a hard link)" if status.st_nlink != 1 else ""


def _flawed(name: str, why: str, do: str = "Look at it, and move it out of the folder.") -> TamperedError:
    return TamperedError(
        "something in a memory folder is no file that memory is kept in.",
        case="T5",
        record=name,
        code="MG614",
        why=f"{why[0].upper()}{why[1:]}.",
        do=do,
    )


def flaw_of(look: Look) -> TamperedError | None:
    """What is wrong with an entry, as an error."""
    return _flawed(look.name, look.flaw) if look.flaw else None


def not_text(name: str) -> UnsupportedError:
    """A file that is no text cannot be shown or edited."""
    return UnsupportedError(
        "a file is no text in UTF-8.", code="MG615", where=name, do="Move it out of the folder."
    )
