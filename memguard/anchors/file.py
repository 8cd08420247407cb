"""The file anchor: ``DIR/anchor.log``, append-only, and ``DIR/anchor.lock``.

The format is in ``docs/spec/anchor-log.md``. The anchor's worth is where DIR is: on a
volume, host or mount that the store's adversary does not hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from secrets import token_bytes

from memguard.anchors.failures import damaged, failed, misuse, rolled_back
from memguard.anchors.framing import HEADER_SIZE, Stop
from memguard.anchors.locks import PathLock, lock_of
from memguard.anchors.logfile import LogFile
from memguard.errors import AnchorError
from memguard.ports import Cursor

LOG = "anchor.log"
LOCK = "anchor.lock"
_NEW = "anchor.log.new"


class FileAnchor:
    """An anchor in a folder of its own. Make one with :meth:`create` or :meth:`open`.

    Threads may share one object. A forked child may go on using it (the lock it inherits is
    dropped). The lock is not reentrant. Reading needs no lock.
    """

    def __init__(self, folder: str, log: LogFile, lock: PathLock) -> None:
        self.folder = folder
        self.uri = f"file:{folder}"
        self.syncs = 0
        self._path = os.path.join(folder, LOG)
        #: None once closed or poisoned; :attr:`_refusal` then says which.
        self._log: LogFile | None = log
        self._lock = lock
        #: How often the lock was taken; and in which turn which end of the log was compared with the file.
        self._turn = 0
        self._compared: tuple[int, object] = (0, None)
        self._refusal: AnchorError | None = None

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> FileAnchor:
        """Make a new, empty log in ``folder`` (made if absent, 0700).

        Raises:
            AnchorError: there is a log already, or the folder cannot be written.
        """
        root = os.path.abspath(os.fspath(folder))
        path, fresh = os.path.join(root, LOG), os.path.join(root, _NEW)
        try:
            os.makedirs(root, mode=0o700, exist_ok=True)
            lock = lock_of(os.path.join(root, LOCK), create=True)
            lock.acquire(cls)
            try:
                if os.path.lexists(path):
                    raise misuse("There is an anchor already.", path, "Open it, or name an empty folder.")
                with suppress(FileNotFoundError):
                    os.unlink(fresh)
                LogFile.write_new(fresh, 1, token_bytes(16), ())
                os.rename(fresh, path)
                _sync_folder(root)
            finally:
                lock.release()
        except OSError as exc:
            raise failed("create", root, exc) from exc
        return cls.open(root)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FileAnchor:
        """Open the log in ``folder``. Nothing is made that is missing, except the lock file.

        Raises:
            AnchorError: folder or log are missing, unreadable or no anchor log.
        """
        root = os.path.abspath(os.fspath(folder))
        try:
            log = LogFile.open(os.path.join(root, LOG))
            return cls(root, log, lock_of(os.path.join(root, LOCK), create=log.writable))
        except OSError as exc:
            raise failed("open", root, exc) from exc

    def __repr__(self) -> str:
        return f"FileAnchor({self.folder!r})"

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the exclusive lock; notices here that the log was compacted or replaced.

        Raises:
            AnchorError: the log is gone or was replaced by an older one, or locking failed.
        """
        if self._log is None:
            raise self._refuse()
        try:
            if not self._lock.acquire(self, blocking):
                return False
        except OSError as exc:
            raise failed("lock", self.uri, exc) from exc
        self._turn += 1
        try:
            self._follow()
        except BaseException:
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        """Give the lock back.

        Raises:
            AnchorError: this object does not hold it.
        """
        if self._lock.owner is not self:
            self._must_hold("release")
        self._lock.release()

    def changed(self, since: Cursor) -> bool:
        """Whether :meth:`read` would answer anything new: one ``pread`` of the bytes around ``since``.

        Sees appends, a compaction by another process, and a log that was cut or rewritten in
        place. A log that was swapped under its name is seen by ``acquire`` and ``read``; until
        then this object answers from the true log, which it holds open.
        """
        log = self._log
        if log is None:
            raise self._refuse()
        end, tail = mark = log.mark
        turn = self._turn if self._lock.owner is self else 0
        try:
            # Another offset is behind (there is more) or ahead (read settles what that means).
            if since.offset != end or since.epoch != log.header.epoch or os.pread(log.fd, 8, end - 4) != tail:
                return True
        except OSError as exc:
            raise failed("read", self.uri, exc) from exc
        self._compared = (turn, mark)
        return False

    def read(self, since: Cursor | None) -> tuple[list[bytes], Cursor, bool]:
        """Complete records after ``since``; the port's contract.

        Raises:
            AnchorError: damaged, gone, rolled back, or older than ``since``.
        """
        try:
            for _ in range(8):
                log = self._follow()
                epoch = log.header.epoch
                if since is not None and since.epoch > epoch:
                    raise rolled_back(self.uri, f"It is at compaction {epoch}; {since.epoch} was seen.")
                whole = since is None or since.epoch != epoch
                start = HEADER_SIZE if since is None or whole else since.offset
                end, tail = log.mark
                if start == end and os.pread(log.fd, 4, end - 4) != tail[:4]:
                    raise rolled_back(self.uri, f"What stands before byte {end} was changed.")
                found = log.read_on(start, full=whole)
                if not found.payloads and start not in (end, HEADER_SIZE):
                    # Zeros at a place that this object never saw: is it the end, or beyond?
                    true_end = log.read_on(HEADER_SIZE, full=True).end
                    if true_end < start:
                        raise rolled_back(self.uri, f"It ends at byte {true_end}; byte {start} was seen.")
                if found.stop is not Stop.SUPERSEDED:
                    return found.payloads, Cursor(epoch, found.end), whole and since is not None
        except OSError as exc:
            raise failed("read", self.uri, exc) from exc
        raise damaged(self.uri, "The log is marked as replaced, but nothing has replaced it.")

    def append(self, records: Sequence[bytes], *, sync: bool) -> Cursor:
        """Append under the lock; the port's contract. One write, one ``fdatasync`` if ``sync``.

        Raises:
            AnchorError: as the port says. A failure before the first byte (no lock, a record over
                the limit, a log that is not what was read) leaves the anchor usable.
        """
        log = self._log
        if log is None:
            raise self._refuse()
        if self._lock.owner is not self:
            self._must_hold("append")
        try:
            turn, mark = self._compared
            compared = turn == self._turn and mark is log.mark
            end = log.append(records, compared=compared) if records else log.mark[0]
            if sync:
                log.datasync()
                self.syncs += 1
        except OSError as exc:
            raise self._poison("append to", exc) from exc
        except ValueError as exc:
            raise misuse(f"The record was not appended. {exc}", self.uri, "Keep records small.") from None
        return Cursor(log.header.epoch, end)

    def sync(self) -> None:
        """Make everything appended so far durable.

        Raises:
            AnchorError: the sync failed; the anchor is poisoned.
        """
        log = self._log
        if log is None:
            raise self._refuse()
        try:
            log.datasync()
        except OSError as exc:
            raise self._poison("sync", exc) from exc
        self.syncs += 1

    def compact(self, records: Iterable[bytes]) -> Cursor:
        """Replace the log by ``records``, atomically and durably, under the lock.

        Raises:
            AnchorError: not locked, not read to its end, or the replacement could not be
                written (then the old log stands).
        """
        old = self._log
        if old is None:
            raise self._refuse()
        self._must_hold("compact")
        end, tail = old.mark
        try:
            unread = os.pread(old.fd, 8, end - 4) != tail and old.prepare() != end
        except OSError as exc:
            raise failed("compact", self.uri, exc) from exc
        if unread:
            raise misuse("The log holds records that were not read.", self.uri, "Read to its end first.")
        fresh = os.path.join(self.folder, _NEW)
        try:
            with suppress(FileNotFoundError):
                os.unlink(fresh)
            LogFile.write_new(fresh, old.header.epoch + 1, old.header.log_id, tuple(records))
            os.rename(fresh, self._path)
        except (OSError, ValueError) as exc:
            with suppress(OSError):
                os.unlink(fresh)
            if isinstance(exc, ValueError):
                raise misuse(f"The log was not compacted. {exc}", self.uri, "Keep records small.") from None
            raise failed("compact", self.uri, exc) from exc
        try:
            _sync_folder(self.folder)
            self.syncs += 2
            old.supersede()
            self._log = log = LogFile.open(self._path)
            return Cursor(log.header.epoch, log.read_on(HEADER_SIZE, full=True).end)
        except OSError as exc:
            raise self._poison("compact", exc) from exc

    def close(self) -> None:
        """Release handles. Idempotent; gives back a lock that this object holds."""
        if self._lock.owner is self:
            self._lock.release()
        self._refusal = self._refusal or misuse("The anchor is closed.", self.uri, "Open it again.")
        self._log = None

    def _follow(self) -> LogFile:
        """The log to read; swaps in what the path leads to, if it succeeds the file held open."""
        log = self._log
        if log is None:
            raise self._refuse()
        try:
            status = os.stat(self._path)
            if status.st_ino == log.key[1] and status.st_dev == log.key[0]:
                return log
            successor = LogFile.open(self._path)
        except OSError as exc:
            raise failed("find", self.uri, exc) from exc
        if successor.header.log_id != log.header.log_id:
            raise rolled_back(self.uri, "Another log stands in its place.")
        if successor.header.epoch <= log.header.epoch:
            raise rolled_back(
                self.uri,
                f"It was at compaction {log.header.epoch}, now {successor.header.epoch} stands there.",
            )
        self._log = successor
        return successor

    def _must_hold(self, doing: str) -> None:
        if self._lock.owner is not self:
            raise misuse(f"Refused to {doing} without the anchor's lock.", self.uri, "Call acquire() first.")

    def _poison(self, doing: str, exc: OSError) -> AnchorError:
        self._refusal = failed(doing, self.uri, exc, poisoned=True)
        self._log = None
        return self._refuse()

    def _refuse(self) -> AnchorError:
        """A fresh copy of the refusal: one exception object must not be raised by several threads."""
        known = self._refusal
        assert known is not None
        return AnchorError(known.what, case=known.case, record=known.record, why=known.why, do=known.do)


def _sync_folder(folder: str) -> None:
    """Make a rename in ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
