"""LangGraph's PostgresStore, bare or guarded, with a pgvector index, on a server whose data folder lies in the cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memguard.bench.suts import postgres_cell, vectors
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.langgraph_store import StoreSut
from memguard.bench.suts.names import Name

_PACKAGES = ("langgraph-checkpoint-postgres", "langgraph-checkpoint", "langgraph", "psycopg")


class PostgresStoreSut(StoreSut):
    """PostgresStore with its semantic index on. It stamps to the microsecond: nobody waits for the next second."""

    kind = "postgres-store"

    def __init__(self, cell: Path, name: Name) -> None:
        Guarded.__init__(self, cell, name, "memories")
        self._conn: Any = None
        self._store: Any = None

    @property
    def edits(self) -> Any:
        """The adversary's edits of these tables."""
        from memguard.bench.integrity.edits.postgres_store_cases import KIND

        return KIND

    def versions(self) -> dict[str, str]:
        """Versions of the store, of LangGraph, of the driver and, where used, of the guard."""
        return self.package_versions(*_PACKAGES, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """The server's version."""
        from memguard.bench.suts.postgres_server import version

        return f"PostgreSQL {version()} with pgvector"

    def start(self) -> None:
        """Start the server, connect, build the store, guard it."""
        import psycopg
        from langgraph.store.postgres import PostgresStore
        from psycopg.rows import dict_row

        uri = postgres_cell.start(self.database).uri(postgres_cell.NAME, tcp=False)
        self._conn = psycopg.connect(uri, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        index: Any = {
            "dims": vectors.DIMS,
            "embed": vectors.embed,
            "fields": ["text"],
            "ann_index_config": {"kind": "flat"},  # an exact answer, which two runs share
        }
        inner = PostgresStore(self._conn, index=index, ttl={"refresh_on_read": False})
        inner.setup()
        self._store = self.wrap(inner)

    def stop(self) -> None:
        """Close the guard, the connection and the server."""
        super().stop()
        postgres_cell.stop(self.database)

    def _tick(self, context: str) -> None:
        return None

    def sister(self, context: str) -> None:
        """The same life in a second database."""
        Guarded.sister(self, context)


def postgres(cell: Path, name: Name) -> PostgresStoreSut:
    """PostgresStore."""
    return PostgresStoreSut(cell, name)
