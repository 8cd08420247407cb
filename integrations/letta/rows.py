"""What the server shows of a block, a passage and an agent, as bytes that a tag can cover. Pure."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memguard.integrity.canonical import canonical_json

Row = Mapping[str, Any]
#: The one key of a context that is one block, or the attachments of one agent.
ONE = "memory"
_BLOCK = ("label", "value", "description", "limit", "read_only")
_PLACE = ("file_id", "source_id", "is_deleted")


def block_context(ident: str) -> str:
    """The context of a block."""
    return f"block:{ident}"


def archive_context(ident: str) -> str:
    """The context of an archive's passages."""
    return f"archive:{ident}"


def agent_context(ident: str) -> str:
    """The context of what is attached to an agent."""
    return f"agent:{ident}"


def block_content(row: Row) -> bytes:
    """Everything of a block that reaches the model or says who may change it."""
    held: dict[str, Any] = {name: row.get(name) for name in _BLOCK}
    held["read_only"] = bool(held["read_only"])
    held["metadata"] = row.get("metadata") or {}
    return canonical_json({"block": held})


def passage_content(row: Row) -> bytes:
    """A passage as whoever wrote it meant it; the server drops null characters and keeps a tag once."""
    held = {
        "text": str(row.get("text") or "").replace("\x00", ""),
        "tags": tags_of(row),
        "metadata": row.get("metadata") or {},
    }
    return canonical_json({"passage": held, "archive": row.get("archive_id")})


def tags_of(row: Row) -> list[str]:
    """The tags of a passage, as a set."""
    return sorted({str(tag) for tag in row.get("tags") or ()})


def passage_place(row: Row) -> bytes:
    """What the server adds to a passage: its moment, its vector and how that was made."""
    config = row.get("embedding_config") or {}
    held = {name: row.get(name) or None for name in _PLACE}
    held["created_at"] = moment(row.get("created_at"))
    held["model"] = [config.get("embedding_model"), config.get("embedding_dim")]
    return hashlib.sha256(canonical_json(held) + vector(row.get("embedding"))).digest()


def vector(embedding: Sequence[float] | None) -> bytes:
    """A vector as the database keeps it (float32), without the zeros that the server pads it with."""
    if embedding is None:
        return b"none"
    packed = struct.pack(f"<{len(embedding)}f", *embedding)
    while packed.endswith(b"\0\0\0\0"):
        packed = packed[:-4]
    return packed


def moment(stamp: object) -> str:
    """A time stamp in one spelling; what is none stays what it is."""
    try:
        found = datetime.fromisoformat(str(stamp))
    except ValueError:
        return str(stamp)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def agent_content(blocks: Sequence[str], archives: Sequence[str]) -> bytes:
    """What is attached to an agent."""
    return canonical_json({"blocks": sorted(blocks), "archives": sorted(archives)})


def blocks_of(state: Row) -> list[dict[str, Any]]:
    """The blocks in an agent's state."""
    memory = state.get("memory")
    found = memory.get("blocks") if isinstance(memory, Mapping) else None
    return [dict(block) for block in (found if found is not None else state.get("blocks")) or ()]


def text_of_block(row: Row) -> str:
    """What the content guards read of a block."""
    parts = (row.get("value"), row.get("description"))
    return "\n".join(str(part) for part in parts if part)
