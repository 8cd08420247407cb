"""Opening a Memory from its configuration, after a look at what would be unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memguard.integrations.mem0.pickles import check_files


def look(settings: Any) -> int:
    """Look at the files that opening a vector store would unpickle; how many pickles there were.

    Args:
        settings: Mem0's ``MemoryConfig``.

    Raises:
        TamperedError: MG540.
    """
    store = settings.vector_store
    if any(getattr(store.config, remote, None) for remote in ("host", "url", "client")):
        return 0
    return check_files(store.provider, getattr(store.config, "path", None))


def opened(config: Mapping[str, Any], *, asynchronous: bool = False) -> Any:
    """See :func:`memguard.integrations.mem0.from_config`."""
    import mem0  # type: ignore[import-untyped]
    from mem0.configs.base import MemoryConfig  # type: ignore[import-untyped]

    settings = MemoryConfig(**config)
    look(settings)
    return (mem0.AsyncMemory if asynchronous else mem0.Memory)(settings)
