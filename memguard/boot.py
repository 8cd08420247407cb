"""Which boot of which machine this is: rows ahead of a head may be an unfinished write only after a new one."""

from __future__ import annotations

import functools
import hashlib
import time
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def boot_id() -> bytes:
    """Sixteen bytes that stay the same until the machine starts again.

    Linux says so itself. Elsewhere the time of the start, to the minute, has to do: a clock that is set
    by more than a minute then looks like a new boot, which costs a scan and is safe.
    """
    try:
        text = _LINUX.read_text(encoding="ascii").strip()
    except OSError:
        text = str(round((time.time() - time.monotonic()) / 60))
    return hashlib.sha256(b"memguard/boot/1" + text.encode()).digest()[:16]
