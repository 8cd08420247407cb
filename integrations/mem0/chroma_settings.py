"""How Chroma ranks: the settings of a collection, as Mem0 leaves them to Chroma's defaults.

They stand in Chroma's own tables, in one of three places by its version: a configuration, a schema, or metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

#: What an index must say where it says anything; the rest of its settings change no answer.
MADE = {
    "space": ("l2",),
    "ef_search": (100, 10),  # 10 before Chroma 1.0
    "ef_construction": (100,),
    "max_neighbors": (16,),
}
VECTORS = "#embedding"


def as_made(said: Any) -> bool:
    """Whether a configuration or a schema holds no setting but Chroma's own."""
    if not isinstance(said, dict):
        return said is None
    if said.get("spann") is not None:  # another kind of index, which a folder has no use for
        return False
    if any(name in MADE and value not in MADE[name] for name, value in _plain(said)):
        return False
    index = said.get("keys", {}).get(VECTORS)
    return index is None or index["float_list"]["vector_index"]["enabled"] is True


def stored_as_made(connection: Any, id: str) -> bool:
    """The same of what the file says of the collection with this identifier."""
    with closing(connection.execute("SELECT * FROM collections WHERE id = ?", (id,))) as cursor:
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    try:
        for row in rows:
            for name in ("config_json_str", "schema_str"):
                if not as_made(json.loads(row.get(name) or "null")):
                    return False
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return False
    older = connection.execute(
        "SELECT key FROM collection_metadata WHERE collection_id = ? UNION ALL SELECT key FROM segment_metadata"
        " WHERE segment_id IN (SELECT id FROM segments WHERE collection = ?)",
        (id, id),
    )
    return not any(str(key).startswith("hnsw:") for (key,) in older.fetchall())


def _plain(said: Any) -> Iterator[tuple[str, Any]]:
    """Every member of a tree whose value is no tree: the name of a user's own metadata always has one under it."""
    for name, value in said.items():
        if isinstance(value, dict):
            yield from _plain(value)
        else:
            yield name, value
