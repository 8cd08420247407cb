"""The texts that a guarded store or checkpointer holds, for a calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memguard.record import text_of

_PAGE = 500


def texts_of(guarded: Any) -> Iterator[str]:
    """What the guard serves: the value of every item, or the messages and strings of every thread's newest state."""
    if hasattr(guarded, "list_namespaces"):
        yield from _of_store(guarded)
    else:
        yield from _of_saver(guarded)


def _of_store(store: Any) -> Iterator[str]:
    for namespace in store.list_namespaces(limit=1_000_000):
        offset = 0
        while page := store.search(namespace, limit=_PAGE, offset=offset):
            # A search takes the namespaces below along; each has its own turn.
            yield from (text_of(item.value) for item in page if tuple(item.namespace) == tuple(namespace))
            offset += len(page)


def _of_saver(saver: Any) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for found in saver.list(None):
        place = found.config["configurable"]
        thread = (place["thread_id"], place.get("checkpoint_ns", ""))
        if thread in seen:  # the newest comes first
            continue
        seen.add(thread)
        for name, value in found.checkpoint["channel_values"].items():
            if name.startswith("__"):
                continue
            parts = value if isinstance(value, list) else [value]
            yield from (text_of(getattr(part, "content", part)) for part in parts)
