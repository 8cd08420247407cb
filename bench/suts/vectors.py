"""A vector index for SqliteStore that needs no model and no loadable extension.

``SqliteStore`` loads sqlite-vec to get one SQL function. Many Python builds have no
``Connection.enable_load_extension``; there, this connection answers the call and brings the function itself, so
that the store's own code, tables and queries are measured all the same.
"""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
import struct
from collections.abc import Sequence

DIMS = 32
NATIVE = hasattr(sqlite3.Connection, "enable_load_extension")


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Bag-of-words vectors of ``DIMS`` numbers and unit length: each word falls on one axis by its hash."""
    return [_embed(text) for text in texts]


def _embed(text: str) -> list[float]:
    vector = [0.0] * DIMS
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        vector[hashlib.sha256(word.encode()).digest()[0] % DIMS] += 1.0
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]


def pack(vector: Sequence[float]) -> bytes:
    """The storage form of sqlite-vec: little-endian float32."""
    return struct.pack(f"<{len(vector)}f", *vector)


def cosine_distance(left: bytes, right: bytes) -> float:
    """1 - cosine similarity of two packed vectors, as sqlite-vec's function of that name."""
    a = struct.unpack(f"<{len(left) // 4}f", left)
    b = struct.unpack(f"<{len(right) // 4}f", right)
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    norm = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return 1.0 - dot / norm if norm else 1.0


class _PortableConnection(sqlite3.Connection):
    def enable_load_extension(self, enable: bool, /) -> None:
        """Nothing to enable: the function is Python's."""

    def load_extension(self, name: str, /, *, entrypoint: str | None = None) -> None:
        """Bring the one function of sqlite-vec that the store calls."""
        self.create_function("vec_distance_cosine", 2, cosine_distance, deterministic=True)


def connect(path: str) -> sqlite3.Connection:
    """An autocommit connection (as ``SqliteStore.from_conn_string`` opens one) that can compare vectors."""
    factory = sqlite3.Connection if NATIVE else _PortableConnection
    return sqlite3.connect(path, check_same_thread=False, isolation_level=None, factory=factory)
