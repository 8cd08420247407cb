"""A PostgreSQL data folder inside a SUT's cell: a copy of the cell is a copy of the database, and a stopped SUT is one.

The SUT starts a server on the folder and stops it; the adversary's tools do the same while the SUT is stopped, and
use its server while it runs.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memguard.bench.suts.postgres_server import PostgresServer

#: Name of the one database in a cell's data folder.
NAME = "postgres"
#: A cell is copied for every case, so what nothing is made from any more goes: three quarters of the files.
_SMALL = """
UPDATE pg_database SET datistemplate = false WHERE datname LIKE 'template_';
DROP DATABASE IF EXISTS template0;
DROP DATABASE IF EXISTS template1;
"""
_running: dict[Path, PostgresServer] = {}


def start(folder: Path) -> PostgresServer:
    """A running server on a data folder, which is made if missing; the database is :data:`NAME`."""
    folder = folder.resolve()
    server = _running.get(folder)
    if server is None or not server.running:
        new = not (folder / "PG_VERSION").exists()
        server = _running[folder] = PostgresServer(folder).start()
        if new:
            server.psql(_SMALL)
    return server


def there(folder: Path) -> bool:
    """Whether a cell has such a folder. While its server runs, the data may be elsewhere."""
    return folder.resolve() in _running or (folder / "PG_VERSION").exists()


def stop(folder: Path, *, crash: bool = False) -> None:
    """Stop the folder's server, if one runs: cleanly, or as a crash that leaves the changes in its log."""
    server = _running.pop(folder.resolve(), None)
    if server is not None:
        if crash:
            server.stop(signal.SIGQUIT)
        server.close()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The URI of the database for a while; the server is left as it was found, running or stopped."""
    found = folder.resolve() in _running
    try:
        yield start(folder).uri(NAME, tcp=False)
    finally:
        if not found:
            stop(folder)


def run(folder: Path, script: str, *, crash: bool = False) -> str | None:
    """Run a script with psql in one transaction; None, or what went wrong."""
    found = folder.resolve() in _running
    try:
        start(folder).psql(f"BEGIN;\n{script}\nCOMMIT;", NAME)
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip()
    finally:
        _read.pop(folder.resolve(), None)
        if not found:
            stop(folder, crash=crash)
    return None


_read: dict[Path, tuple[bytes, dict[str, list[dict[str, Any]]]]] = {}


def rows(folder: Path, queries: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The answers to some queries as mappings, read in a transaction that cannot write.

    Asked again of a folder that no server touched since, the answers are remembered.
    """
    import psycopg
    from psycopg.rows import dict_row

    folder = folder.resolve()
    if not there(folder):
        return {query: [] for query in queries}
    known = _read.get(folder)
    if folder not in _running and known and known[0] == _state(folder) and known[1].keys() >= set(queries):
        return known[1]
    with serving(folder) as uri, psycopg.connect(uri, row_factory=dict_row) as connection:
        connection.read_only = True
        found = {query: list(connection.execute(query).fetchall()) for query in queries}
    if folder not in _running:  # while it runs, its data may be elsewhere, and change
        _read[folder] = (_state(folder), found)
    return found


def _state(folder: Path) -> bytes:
    """What changes whenever a server ran on the folder."""
    return hashlib.sha256((folder / "global" / "pg_control").read_bytes()).digest()
