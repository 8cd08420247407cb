"""LangGraph's PostgreSQL checkpointers, on a server whose data folder lies in the cell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from memguard.bench.suts import postgres_cell
from memguard.bench.suts.langgraph_saver import AsyncSaverSut, SaverSut
from memguard.bench.suts.names import Name

_PACKAGES = ("langgraph-checkpoint-postgres", "langgraph-checkpoint", "langgraph", "psycopg")


class PostgresSaverSut(SaverSut):
    """A synchronous PostgreSQL checkpointer, bare or guarded."""

    kind = "postgres-saver"
    component = "langgraph-checkpoint-postgres"

    @property
    def edits(self) -> Any:
        """The adversary's edits of these tables."""
        from memguard.bench.integrity.edits.postgres_cases import KIND

        return KIND

    def versions(self) -> dict[str, str]:
        """Versions of the saver, of LangGraph, of the driver and, where used, of the guard."""
        return self.package_versions(*_PACKAGES, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """The server's version."""
        return _backend()

    def features(self) -> dict[str, str]:
        """The guard."""
        return {"encryption (EncryptedSerializer, AES-EAX)": "off (off by default)", **self.guard_features()}

    def start(self) -> None:
        """Start the server, connect, build the saver, guard it."""
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row

        uri = postgres_cell.start(self.database).uri(postgres_cell.NAME, tcp=False)
        self._conn = psycopg.connect(uri, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        inner = PostgresSaver(self._conn)
        inner.setup()
        self._saver = self.wrap(inner)

    def stop(self) -> None:
        """Close the guard, the connection and the server."""
        super().stop()
        postgres_cell.stop(self.database)


class AsyncPostgresSaverSut(AsyncSaverSut, PostgresSaverSut):
    """The asynchronous PostgreSQL checkpointer; one event loop per life of the SUT."""

    kind = "postgres-saver"

    def versions(self) -> dict[str, str]:
        """See :class:`PostgresSaverSut`."""
        return PostgresSaverSut.versions(self)

    def start(self) -> None:
        """Open a loop, start the server, connect, build the saver, guard it."""
        self._runner = asyncio.Runner()
        uri = postgres_cell.start(self.database).uri(postgres_cell.NAME, tcp=False)

        async def begin() -> None:
            import psycopg
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
            from psycopg.rows import dict_row

            self._conn = await psycopg.AsyncConnection.connect(
                uri, autocommit=True, prepare_threshold=0, row_factory=dict_row
            )
            inner: Any = AsyncPostgresSaver(self._conn)
            await inner.setup()
            self._saver = self.wrap(inner)

        self._do(begin())

    def stop(self) -> None:
        """Close the guard, the connection, the loop and the server."""
        AsyncSaverSut.stop(self)
        postgres_cell.stop(self.database)


def _backend() -> str:
    from memguard.bench.suts.postgres_server import version

    return f"PostgreSQL {version()}"


def postgres(cell: Path, name: Name) -> PostgresSaverSut:
    """PostgresSaver."""
    return PostgresSaverSut(cell, name)


def async_postgres(cell: Path, name: Name) -> AsyncPostgresSaverSut:
    """AsyncPostgresSaver."""
    return AsyncPostgresSaverSut(cell, name)
