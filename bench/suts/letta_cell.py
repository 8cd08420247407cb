"""The memory of one organisation of a Letta server as a file of the cell, and back in the server's own tables.

A bench copies cells; a server is not copied. So a stopped SUT leaves its rows in ``store/agent.json`` and a started
one puts them back, row by row, into the tables of the running server. Edits are SQL on those tables all the same:
the adversary loads the cell's rows, edits the server's database, and leaves what came of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.errors import ConfigError

#: Beside the store's folder, in nobody's hands: which organisation this cell has, and its agents.
IDS = "letta.json"
TABLES = ("block", "blocks_agents", "archival_passages", "passage_tags")
_OURS = {
    "blocks_agents": "agent_id IN (SELECT id FROM agents WHERE organization_id = %s)",
    "passage_tags": "passage_id IN (SELECT id FROM archival_passages WHERE organization_id = %s)",
}


def place(name: str) -> str:
    """Where the server, its database (``PG``) or its model is.

    Raises:
        ConfigError: nobody said so.
    """
    found = os.environ.get(f"MEMGUARD_LETTA_{name}")
    if not found:
        raise ConfigError(
            "a Letta server is needed for this, and none is named",
            where=f"MEMGUARD_LETTA_{name}",
            do="make letta starts one and measures on it; .ci/letta --serve starts one and prints what to export.",
        )
    return found


def ids(cell: Path) -> dict[str, Any]:
    """Organisation, user and agents of a cell."""
    found: dict[str, Any] = json.loads((cell / IDS).read_text())
    return found


def _connected() -> Any:
    import psycopg

    return psycopg.connect(place("PG"))


def dump(cell: Path, file: Path) -> None:
    """Write the organisation's rows as they stand."""
    organisation, found = ids(cell)["organization"], {}
    with _connected() as connection:
        for table in TABLES:
            sql = f"SELECT row_to_json(t) FROM {table} t WHERE {_mine(table)}"
            found[table] = [row[0] for row in connection.execute(sql, (organisation,)).fetchall()]
    file.write_text(json.dumps(found, sort_keys=True))


def load(cell: Path, file: Path) -> None:
    """Have the organisation's rows be these."""
    organisation, found = ids(cell)["organization"], rows(file)
    with _connected() as connection:
        connection.execute(
            "SET LOCAL session_replication_role = replica"
        )  # no foreign key is looked at meanwhile
        for table in reversed(TABLES):
            connection.execute(f"DELETE FROM {table} WHERE {_mine(table)}", (organisation,))
        for table in TABLES:
            sql = f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, %s::json)"
            connection.execute(sql, (json.dumps(found[table]),))


def edit(cell: Path, file: Path, script: str) -> None:
    """Run a script in the server's database on the rows of a file, and write down what came of it."""
    load(cell, file)
    with _connected() as connection:
        connection.execute(script)
    dump(cell, file)


def rows(file: Path) -> Mapping[str, list[dict[str, Any]]]:
    """The rows of a file, table by table."""
    found: Mapping[str, list[dict[str, Any]]] = json.loads(file.read_text())
    return found


def _mine(table: str) -> str:
    return _OURS.get(table, "organization_id = %s")
