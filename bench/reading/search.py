"""The one SQL function that SqliteStore's vector search calls, fast enough for a thousand questions.

``SqliteStore`` loads sqlite-vec for it. Many Python builds cannot load extensions, so every store of this bench gets
the function from here instead: the tables, the queries and the order of results are the store's own, and the same
for all.
"""

from __future__ import annotations

import sqlite3
import struct
from functools import lru_cache
from operator import mul


class _Connection(sqlite3.Connection):
    def enable_load_extension(self, enable: bool, /) -> None:
        """Nothing to enable: the function is Python's."""

    def load_extension(self, name: str, /, *, entrypoint: str | None = None) -> None:
        """Bring the function that the store calls."""
        self.create_function("vec_distance_cosine", 2, distance, deterministic=True)


def connect(path: str) -> sqlite3.Connection:
    """An autocommit connection, as ``SqliteStore.from_conn_string`` opens one."""
    return sqlite3.connect(path, check_same_thread=False, isolation_level=None, factory=_Connection)


def distance(left: bytes, right: bytes) -> float:
    """1 - cosine similarity of two vectors in sqlite-vec's storage form (little-endian float32)."""
    a, b = _unit(left), _unit(right)
    return 1.0 - float(sum(map(mul, a, b)))


@lru_cache(maxsize=8192)
def _unit(packed: bytes) -> tuple[float, ...]:
    vector = struct.unpack(f"<{len(packed) // 4}f", packed)
    length = sum(map(mul, vector, vector)) ** 0.5
    return tuple(x / length for x in vector) if length else vector
