"""One lock object per lock file: also while another thread gives the last one up."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

from memguard.anchors.locks import home_lock


def test_a_lock_that_is_given_up_is_nobody_elses(tmp_path: Path) -> None:
    """Threads that ask for a lock only while they need it: the object goes and comes all the time."""
    failed: list[BaseException] = []
    inside, most = [0], [0]

    def one() -> None:
        try:
            for _ in range(400):
                lock = home_lock(tmp_path, "@labels.lock")
                lock.acquire(None)
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                lock.release()
                del lock
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (failed, most) == ([], [1])


def test_a_lock_that_is_given_up_leaves_no_descriptor(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for number in range(50):
        lock = home_lock(tmp_path, f"{number}.lock")
        lock.acquire(None)
        lock.release()
        del lock
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before
