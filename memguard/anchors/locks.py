"""One exclusive lock per lock file, across threads, objects, processes and forks.

``flock`` belongs to an open file description, so two descriptors of one process do not
exclude each other and a forked child shares its parent's lock. Hence one
:class:`PathLock` per lock file (by device and inode) in a process, with a thread lock in
front of the ``flock``; a forked child drops the descriptors it inherited, without
unlocking them, and opens its own when it next asks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from memguard.errors import TamperedError

_registry: WeakValueDictionary[tuple[int, int], PathLock] = WeakValueDictionary()
_registry_guard = threading.Lock()


class PathLock:
    """The lock of one lock file in this process. Get it from :func:`lock_of`. Not reentrant.

    Methods raise ``OSError`` as it comes; the anchor maps it.
    """

    def __init__(self, path: str, fd: int, key: tuple[int, int]) -> None:
        self.path, self.key = path, key
        self._hold(fd)
        self._mutex = threading.Lock()
        #: The object that holds the lock, if it is held in this process.
        self.owner: object | None = None

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take the lock for ``owner``; False only if not ``blocking`` and it is taken."""
        if not self._mutex.acquire(blocking):
            return False
        try:
            if self._fd < 0:
                self._reopen()
            fcntl.flock(self._fd, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._mutex.release()
            return False
        except BaseException:
            self._mutex.release()
            raise
        self.owner = owner
        return True

    def release(self) -> None:
        """Give the lock back; the caller is the owner."""
        self.owner = None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def _reopen(self) -> None:
        """Open the lock file again in a forked child; it must be the same file."""
        fd = _open(self.path, create=False)
        if _key(os.fstat(fd)) != self.key:
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "the lock file was replaced since it was opened", self.path)
        self._hold(fd)

    def _hold(self, fd: int) -> None:
        """Keep a descriptor until this object is gone.

        Not by ``__del__``: while that runs, the registry still hands the object to another thread.
        """
        self._fd = fd
        self._closing = finalize(self, os.close, fd)
        self._closing.atexit = False

    def _after_fork(self) -> None:
        """Forget, in a child, what the parent holds. Closing does not unlock; LOCK_UN would."""
        fd, self._fd = self._fd, -1
        self._closing.detach()
        self._mutex = threading.Lock()
        self.owner = None
        if fd >= 0:
            os.close(fd)


def lock_of(path: str, *, create: bool, alone: bool = False) -> PathLock:
    """The process's lock for the lock file at ``path``.

    Args:
        create: make the file (0600) if it is missing.
        alone: the file must have this one name: no link to it, nor it to another.

    Raises:
        OSError: the file cannot be opened.
    """
    with _registry_guard:
        status = None
        with suppress(FileNotFoundError):
            status = os.lstat(path) if alone else os.stat(path)
        if status is not None:
            if alone and (not stat.S_ISREG(status.st_mode) or status.st_nlink != 1):
                raise OSError(errno.EMLINK, "it is no file of its own", path)
            known = _registry.get(_key(status))
            if known is not None:
                return known  # without a second descriptor: closing one may free a lock on NFS
        fd = _open(path, create, os.O_NOFOLLOW if alone else 0)
        key = _key(os.fstat(fd))
        lock = _registry[key] = PathLock(path, fd, key)
        return lock


def home_lock(home: Path, name: str) -> PathLock:
    """The lock of a store or a table, in ``home/locks``; folder and file are made if they are missing.

    Whoever may write the home could make two names of one lock, and a program would wait for itself for ever.

    Raises:
        TamperedError: MG433, the file is no file of its own, or cannot be made.
    """
    folder = home / "locks"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return lock_of(str(folder / name), create=True, alone=True)
    except OSError as error:
        raise TamperedError(
            "a lock of the home cannot be opened.",
            case="state",
            record=str(folder / name),
            code="MG433",
            why=f"{error.strerror}.",
            do="Remove it while nothing runs, or make the home writable; memguard makes a new one.",
        ) from None


def _open(path: str, create: bool, flags: int = 0) -> int:
    """A descriptor of the lock file; writable where possible, because NFS asks for that."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    except OSError as exc:
        if exc.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return os.open(path, flags | os.O_RDONLY)


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _child() -> None:
    global _registry_guard
    _registry_guard = threading.Lock()
    for lock in list(_registry.values()):
        lock._after_fork()


os.register_at_fork(after_in_child=_child)


class ThreadLock:
    """The lock of a store that lives in this process only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, owner: object, blocking: bool = True) -> bool:
        """Take it."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()
