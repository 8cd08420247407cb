"""How the backends' foreign errors become :class:`memguard.errors.AnchorError`."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from memguard.anchors.framing import MAX_RECORD
from memguard.errors import AnchorError

_CAUSES = {
    errno.ENOSPC: ("The disk is full.", "Free space on the anchor's volume, then open the anchor again."),
    errno.EDQUOT: ("The disk quota is used up.", "Raise the quota, then open the anchor again."),
    errno.EFBIG: ("The file may not grow further.", "Compact the anchor or raise the file size limit."),
    errno.EROFS: (
        "The file or its file system is read-only.",
        "Mount the anchor's volume writable, with write permission for this user.",
    ),
    errno.EACCES: ("Permission was denied.", "Give this user read and write permission on the anchor."),
    errno.EPERM: ("The operation is not permitted.", "Check the owner and attributes of the anchor's files."),
    errno.EIO: ("The device reported an input/output error.", "Check the disk first; do not retry."),
    errno.ENOENT: ("It does not exist.", "Bring the anchor back; `memguard anchor recover` if it is lost."),
    errno.ENOTDIR: ("A part of its path is not a folder.", "Check the anchor's URI."),
    errno.EMFILE: ("The process has too many open files.", "Raise the limit of open files."),
}


def failed(doing: str, where: str, exc: OSError, *, poisoned: bool = False) -> AnchorError:
    """The error for an operating-system failure.

    Args:
        doing: the verb phrase, such as ``"append to"``.
        where: the anchor's URI or path.
        exc: what the system said.
        poisoned: whether the anchor refuses every further call because of it.
    """
    cause, do = _CAUSES.get(
        exc.errno or 0,
        (f"The system says: {exc.strerror or type(exc).__name__}.", "Check the anchor's volume."),
    )
    if poisoned:
        cause += " What reached the disk is unknown, so it answers nothing until opened again."
    return AnchorError(f"Could not {doing} the anchor.", case="anchor", record=where, why=cause, do=do)


def damaged(where: str, why: str) -> AnchorError:
    """The anchor's bytes are not a log that memguard wrote."""
    return AnchorError(
        "The anchor is damaged.",
        case="anchor",
        record=where,
        why=why,
        do="Bring the newest copy of it back; `memguard anchor recover` if there is none.",
    )


def rolled_back(where: str, why: str) -> AnchorError:
    """The anchor is older than what this process has seen of it."""
    return AnchorError(
        "The anchor was rolled back or replaced.",
        case="anchor",
        record=where,
        why=why,
        do="Put the newest anchor back, or accept this one on purpose: memguard anchor accept STORE --reason … --apply",
    )


def misuse(what: str, where: str, do: str) -> AnchorError:
    """The caller broke the port's contract (no lock, closed, poisoned)."""
    return AnchorError(what, case="anchor", record=where, do=do)


def within_limit(records: Iterable[bytes], where: str) -> None:
    """Refuse records that no anchor takes, before any of them is written.

    Raises:
        AnchorError: one is larger than :data:`~memguard.anchors.framing.MAX_RECORD`.
    """
    for record in records:
        if len(record) > MAX_RECORD:
            raise misuse(
                f"A record has {len(record)} bytes, more than the limit of {MAX_RECORD}.",
                where,
                "Keep records small.",
            )
