"""The key file: JSON, mode 0600, optionally wrapped by a passphrase."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex

from memguard.errors import ConfigError
from memguard.keys.document import MAX_DOCUMENT, Wrap, decode, encode
from memguard.keys.keyset import KeySet
from memguard.keys.ring import RootKeyRing

_log = logging.getLogger("memguard.keys")
PASSPHRASE_VARIABLE = "MEMGUARD_PASSPHRASE"  # noqa: S105 - the name of a variable
Passphrase = Callable[[], str | None]


def passphrase_from_environment() -> str | None:
    """The default source of a passphrase."""
    return os.environ.get(PASSPHRASE_VARIABLE)


class FileKeyRing(RootKeyRing):
    """Keys in a file of their own. Make one with :meth:`create` or :meth:`open`.

    A key that another process adds is found when a record first names it; :meth:`refresh`
    takes over the rest (a new current key, destroyed keys).
    """

    def __init__(self, path: str, passphrase: Passphrase) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self._passphrase = passphrase
        keys, self._wrap, self._seen = self._load()
        super().__init__(f"file:{self.path}", keys)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, kid: str | None = None, passphrase: Passphrase | None = None
    ) -> FileKeyRing:
        """Make a file with one random key, if there is none; an existing file is opened as it is.

        Args:
            path: ``~`` is understood; a missing folder is made (0700).
            kid: id of the key; default ``YYYY-MM-a``.
            passphrase: asked once; if it gives one the secrets are wrapped. Default:
                the variable ``MEMGUARD_PASSPHRASE``.

        Raises:
            ConfigError: the file cannot be written, or the existing one cannot be used.
        """
        ask = passphrase or passphrase_from_environment
        target = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not os.path.lexists(target):
            keys, given = KeySet.fresh(kid), ask()
            text = encode(keys, Wrap.of(given) if given else None)
            try:
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                temporary = _write_beside(target, text)
                try:
                    os.link(temporary, target)  # never replaces what another process made meanwhile
                except FileExistsError:
                    pass
                finally:
                    os.unlink(temporary)
                _sync_folder(target)
            except OSError as exc:
                raise _unusable(target, "written", exc) from exc
        return cls(target, ask)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, passphrase: Passphrase | None = None) -> FileKeyRing:
        """Open an existing key file.

        Raises:
            ConfigError: missing (``MG108``), readable by others (``MG110``), malformed
                (``MG109``), or its passphrase is missing or wrong (``MG111``).
        """
        return cls(os.fspath(path), passphrase or passphrase_from_environment)

    def new(self, kid: str | None = None) -> str:
        """Add an active key without writing under it yet; returns its id."""
        return self._change(lambda keys: keys.new(kid))

    def rotate(self, kid: str | None = None) -> str:
        """Write under a new key, or under ``kid``, from now on; the old one is retired, and verifies."""
        return self._change(lambda keys: keys.rotate(kid))

    def retire(self, kid: str) -> None:
        """Let ``kid`` verify only."""
        self._change(lambda keys: (keys.retire(kid), kid))

    def destroy(self, kid: str) -> None:
        """Remove ``kid``'s secret from the file. Its id stays; backups and the medium are not reached."""
        self._change(lambda keys: (keys.destroy(kid), kid))

    def refresh(self) -> bool:
        """Take over what changed in the file; whether anything did."""
        return self._refresh()

    def _refresh(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            return False  # the file is needed at open; a running process keeps its keys
        if self._seen == (status.st_ino, status.st_mtime_ns, status.st_size):
            return False
        keys, self._wrap, self._seen = self._load()
        self._adopt(keys)
        return True

    def _change(self, change: Callable[[KeySet], tuple[KeySet, str]]) -> str:
        """Read, change and replace the file, one process at a time."""
        try:
            while True:
                fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)  # NFS locks writable descriptors only
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX)
                    if os.fstat(fd).st_ino != os.stat(self.path).st_ino:
                        continue  # replaced while this process waited
                    keys, wrap, _ = self._load()
                    changed, kid = change(keys)
                    temporary = _write_beside(self.path, encode(changed, wrap))
                    try:
                        os.rename(temporary, self.path)
                    except BaseException:
                        with suppress(OSError):
                            os.unlink(temporary)
                        raise
                    _sync_folder(self.path)
                    status = os.stat(self.path)
                    self._wrap, self._seen = wrap, (status.st_ino, status.st_mtime_ns, status.st_size)
                    self._adopt(changed)
                    return kid
                finally:
                    os.close(fd)
        except OSError as exc:
            raise _unusable(self.path, "changed", exc) from exc

    def _load(self) -> tuple[KeySet, Wrap | None, tuple[int, int, int]]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = os.fstat(fd)
                _check_private(self.path, status)
                text = os.read(fd, MAX_DOCUMENT + 1)
            finally:
                os.close(fd)
        except FileNotFoundError as exc:
            raise ConfigError(
                "The key file does not exist.",
                code="MG108",
                where=self.path,
                why="Without it nothing that was written can be verified; a new key would not help.",
                do="Bring it back or correct the URI. For a new store: memguard keys new",
            ) from exc
        except OSError as exc:
            raise _unusable(self.path, "read", exc) from exc
        keys, wrap = decode(text, self.path, self._passphrase)
        return keys, wrap, (status.st_ino, status.st_mtime_ns, status.st_size)


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a key file that others can read, unless its mount makes that impossible to mend."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("The key file is not a regular file.", code="MG110", where=path)
    me = os.geteuid()
    if me != 0 and status.st_uid not in (0, me):
        raise ConfigError(
            "The key file belongs to another user.",
            code="MG110",
            where=path,
            do="Use a key file of your own.",
        )
    if status.st_mode & 0o077:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            _log.warning(
                "MG110: key file %s is open to others (mode %o); accepted, as its mount is read-only",
                path,
                stat.S_IMODE(status.st_mode),
            )
            return
        raise ConfigError(
            "The key file is open to group or others.",
            code="MG110",
            where=path,
            why=f"Its mode is {stat.S_IMODE(status.st_mode):o}; whoever reads it can forge every tag.",
            do=f"Run: chmod 600 {path}   If others may have read it, rotate: memguard keys rotate",
        )


def _write_beside(path: str, text: str) -> str:
    """Write ``text`` durably to a new private file in the same folder; returns its name."""
    temporary = f"{path}.{token_hex(6)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    return temporary


def _sync_folder(path: str) -> None:
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unusable(path: str, doing: str, exc: OSError) -> ConfigError:
    return ConfigError(
        f"The key file could not be {doing}.",
        code="MG108",
        where=path,
        why=f"The system says: {exc.strerror or type(exc).__name__}.",
        do="Check the path and its permissions.",
    )
