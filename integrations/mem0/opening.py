"""Opening a Memory from its configuration, after a look at what would be unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memguard.integrations.mem0.pickles import check_files


def look(config: Mapping[str, Any]) -> int:
    """Look at the files that opening this configuration would unpickle; how many pickles there were.

    Raises:
        TamperedError: MG540.
    """
    store = config.get("vector_store") or {}
    provider, settings = store.get("provider", "qdrant"), store.get("config") or {}
    collection = settings.get("collection_name", "mem0")
    if any(settings.get(remote) for remote in ("host", "url", "client")):
        return 0
    path = settings.get("path") or {"qdrant": "/tmp/qdrant", "faiss": f"/tmp/faiss/{collection}"}.get(provider)
    return check_files(provider, path, collection)


def opened(config: Mapping[str, Any], *, asynchronous: bool = False) -> Any:
    """See :func:`memguard.integrations.mem0.from_config`."""
    look(config)
    import mem0

    return (mem0.AsyncMemory if asynchronous else mem0.Memory).from_config(dict(config))
