"""One open log file: reading on from an offset, appending, cutting a torn tail.

A :class:`LogFile` stands for one inode. It is replaced, never changed to another file, so
a thread that holds a reference can read on while another thread swaps in the successor;
the descriptor closes with the last reference. ``OSError`` passes through to
:mod:`memguard.anchors.file`, which maps it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from memguard.anchors.failures import damaged, failed, rolled_back
from memguard.anchors.framing import (
    END,
    HEADER_SIZE,
    SUPERSEDED,
    Header,
    Scan,
    Stop,
    decode_header,
    durable_after,
    frame,
    scan,
)

#: Space is reserved in steps of this many zero bytes, so that most syncs need not write a
#: new file size: 150 us against 190-250 us for a sync that has to (ext4, measured).
CHUNK = 256 * 1024
_FIRST_READ = 8192
_NEXT_READ = 1 << 20


class LogFile:
    """An open, existing anchor log. Make one with :meth:`open` or :meth:`write_new`."""

    def __init__(self, fd: int, path: str, header: Header, writable: bool) -> None:
        self.fd, self.path, self.header, self.writable = fd, path, header, writable
        status = os.fstat(fd)
        #: Identity of the file; a path that leads to another one was compacted or replaced.
        self.key = (status.st_dev, status.st_ino)
        self.size = status.st_size
        self.seed = header.seed
        #: Up to here (bytes) the log is known to be on stable storage.
        self.durable = header.base
        #: End of the log as last seen, with the 8 bytes around it: CRC of the last record and
        #: the zeros after it. One attribute, so threads never see half of a change.
        self.mark = (HEADER_SIZE, header.encode()[-4:] + END)
        self._prepared = False

    def __del__(self) -> None:
        os.close(self.fd)

    @classmethod
    def open(cls, path: str) -> LogFile:
        """Open the log at ``path``, read-only where it cannot be written.

        Raises:
            OSError: it cannot be opened.
            AnchorError: it is no anchor log.
        """
        writable = True
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as exc:
            if exc.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            fd, writable = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        try:
            header = decode_header(os.pread(fd, HEADER_SIZE, 0))
        except ValueError as exc:
            os.close(fd)
            raise damaged(path, str(exc)) from None
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, path, header, writable)  # closes the descriptor from here on

    @classmethod
    def write_new(cls, path: str, epoch: int, log_id: bytes, payloads: Sequence[bytes]) -> None:
        """Write a whole, durable log to ``path``, which must not exist (the caller renames it).

        Raises:
            OSError, ValueError: a payload is too large.
        """
        body = frame(payloads, seed=0, offset=HEADER_SIZE, durable=0)  # for its length only
        header = Header(epoch, log_id, HEADER_SIZE + len(body))
        seed = header.seed
        data = memoryview(header.encode() + frame(payloads, seed=seed, offset=HEADER_SIZE, durable=0))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while data:
                data = data[os.write(fd, data) :]
            _reserve(fd, header.base, CHUNK)
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_on(self, offset: int, *, full: bool) -> Scan:
        """Complete records from ``offset`` to the end of the log; moves :attr:`mark`.

        Args:
            offset: a record's place, as a cursor states it.
            full: also look at what lies behind the end (done once per file; costs one read).

        Raises:
            AnchorError: damage before the durable end, or the log is shorter than it was.
        """
        known = self.durable
        found, rest = self._scan(offset)
        if found.stop in (Stop.BAD, Stop.SHORT) or (full and found.stop is Stop.END):
            evidence = self._evidence(found.end)
            if evidence > found.end:
                # A writer may have been at work between the two reads; what it then wrote
                # after a sync proves that this place is complete by now. Look once more.
                more, rest = self._scan(found.end)
                if more.end < evidence:
                    raise damaged(
                        self.path,
                        f"The record at byte {more.end} is not valid; a later one says it was durable.",
                    )
                more.payloads[:0] = found.payloads
                more.crc, more.durable = more.crc or found.crc, max(more.durable, found.durable)
                found = more
        if found.end < known:
            raise rolled_back(self.path, f"It ends at byte {found.end}; byte {known} was durable already.")
        self.durable = max(known, found.durable)
        crc = found.crc
        if crc is None:
            end, tail = self.mark
            crc = tail[:4] if end == found.end else os.pread(self.fd, 4, found.end - 4)
        # Only zeros are remembered: a record in the making must show as a change until it is whole.
        self.mark = (found.end, crc + (rest if found.stop is Stop.END else END))
        return found

    def _scan(self, offset: int) -> tuple[Scan, bytes]:
        """All complete records from ``offset``, and up to four bytes of what follows them."""
        block, total = _FIRST_READ, Scan([], offset, Stop.END, 0, None)
        while True:
            data = os.pread(self.fd, block, total.end)
            found = scan(data, seed=self.seed, offset=total.end)
            taken = found.end - total.end
            total.payloads += found.payloads
            total.end, total.stop, total.durable = found.end, found.stop, max(total.durable, found.durable)
            total.crc = found.crc or total.crc
            zeros = found.stop is Stop.END and taken < len(data)
            if zeros or found.stop in (Stop.BAD, Stop.SUPERSEDED) or len(data) < block:
                return total, data[taken : taken + 4]
            block = block * 4 if taken == 0 else _NEXT_READ

    def _evidence(self, end: int) -> int:
        """How much of the log was durable, by what stands behind ``end``."""
        rest = os.pread(self.fd, max(0, os.fstat(self.fd).st_size - end), end)
        if not rest.strip(b"\0"):
            return 0
        return durable_after(rest, seed=self.seed, offset=end)

    def append(self, payloads: Sequence[bytes], *, compared: bool = False) -> int:
        """Write records at the end, in one write; returns the new end. The caller holds the lock.

        Args:
            compared: since the lock was taken, the file was seen to be as :attr:`mark` says.

        Raises:
            OSError: also for a short write (``ENOSPC``).
            AnchorError: the log is not what this process has seen of it.
            ValueError: a payload is too large.
        """
        end, tail = self.mark
        if not (self._prepared and (compared or os.pread(self.fd, 8, end - 4) == tail)):
            end = self.prepare()
        data = frame(payloads, seed=self.seed, offset=end, durable=self.durable)
        new_end = end + len(data)
        if new_end + 8 > self.size:
            self._grow(new_end + 8)
        written = os.pwrite(self.fd, data, end)
        if written != len(data):
            raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes were written")
        self.mark = (new_end, data[-4:] + END)
        return new_end

    def prepare(self) -> int:
        """Find the true end under the lock, and cut a torn tail."""
        if not self.writable:
            raise failed("append to", self.path, OSError(errno.EROFS, "opened for reading only"))
        end, tail = self.mark
        if os.pread(self.fd, 4, end - 4) != tail[:4]:
            raise rolled_back(self.path, f"What stands before byte {end} was changed.")
        found = self.read_on(end, full=True)
        if found.stop is Stop.SUPERSEDED:
            raise damaged(self.path, "The log is marked as replaced, but nothing has replaced it.")
        behind = os.pread(self.fd, max(0, os.fstat(self.fd).st_size - found.end), found.end)
        if behind.strip(b"\0"):
            os.ftruncate(self.fd, found.end)
            self.size = found.end
            self._grow(found.end + 8)
            os.fsync(self.fd)
        end, tail = self.mark
        self.mark = (end, tail[:4] + os.pread(self.fd, 4, end))
        self._prepared = True
        return end

    def _grow(self, need: int) -> None:
        """Reserve zeros up to at least ``need`` bytes, and what others have reserved."""
        self.size = os.fstat(self.fd).st_size
        if need > self.size:
            step = -(-(need - self.size) // CHUNK) * CHUNK
            _reserve(self.fd, self.size, step)
            self.size += step

    def datasync(self) -> None:
        """Make everything written to the file so far durable."""
        end = self.mark[0]
        os.fdatasync(self.fd) if hasattr(os, "fdatasync") else os.fsync(self.fd)
        self.durable = max(self.durable, end)

    def supersede(self) -> None:
        """Tell readers that still hold this file that a compaction replaced it."""
        os.pwrite(self.fd, SUPERSEDED, self.mark[0])


def _reserve(fd: int, size: int, step: int) -> None:
    """Extend a file by ``step`` zero bytes, with disk space where the system can promise it."""
    try:
        os.posix_fallocate(fd, size, step)
    except AttributeError:  # macOS
        os.ftruncate(fd, size + step)
    except OSError as exc:
        if exc.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.ftruncate(fd, size + step)
