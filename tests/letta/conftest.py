"""A real Letta server for the tests that need one: `make letta` starts it and names it in the environment.

Without it those tests are skipped, and `make letta` sets MEMGUARD_LETTA_REQUIRED so that there they fail instead.
Each test has an organisation and a user of its own on the server, so that its lists hold nothing of the others.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memguard import MemGuard

REASON = "there is no Letta server here: `make letta` starts one and runs these tests on it"


class Town:
    """One organisation of the server, a home for the guard, and a hand in the server's database."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.url, self.pg = os.environ["MEMGUARD_LETTA_URL"], os.environ["MEMGUARD_LETTA_PG"]
        self.model = os.environ["MEMGUARD_LETTA_MODEL"]
        self.http = httpx.Client(base_url=self.url, timeout=120, trust_env=False)
        organisation = self._made("/v1/admin/orgs/", {"name": f"org-{uuid.uuid4()}"})
        user = self._made("/v1/admin/users/", {"name": "tester", "organization_id": organisation})
        self.headers = {"user_id": user}
        self.http.headers.update(self.headers)
        self.http.post("/v1/tools/add-base-tools").raise_for_status()
        self.folder = folder
        self.mg = MemGuard.create(
            folder / "home", anchor=f"file:{folder}/anchor", keys=f"file:{folder}/key.json", config=config
        )

    def _made(self, path: str, body: dict[str, Any]) -> str:
        response = self.http.post(path, json=body)
        response.raise_for_status()
        return str(response.json()["id"])

    def bare(self, **options: Any) -> Any:
        """A client of this organisation, unguarded."""
        from letta_client import Letta

        return Letta(base_url=self.url, default_headers=self.headers, max_retries=0, timeout=120, **options)

    def abare(self) -> Any:
        """The asynchronous one."""
        from letta_client import AsyncLetta

        return AsyncLetta(base_url=self.url, default_headers=self.headers, max_retries=0, timeout=120)

    def client(self, **overrides: Any) -> Any:
        """A guarded client."""
        return self.mg.guard(self.bare(), name="letta", **overrides)

    def reopened(self) -> None:
        """The guard closed and opened again, as after a restart of the program."""
        self.mg.close()
        self.mg = MemGuard.open(self.folder / "home")

    @property
    def agent(self) -> dict[str, Any]:
        """Arguments for ``agents.create``: the stub model, two blocks."""
        return {
            "name": f"agent-{uuid.uuid4().hex[:8]}",
            "llm_config": {
                "model": "stub",
                "model_endpoint_type": "openai",
                "model_endpoint": f"{self.model}/v1",
                "context_window": 32000,
            },
            "embedding_config": {
                "embedding_model": "stub",
                "embedding_endpoint_type": "openai",
                "embedding_endpoint": f"{self.model}/v1",
                "embedding_dim": 64,
                "embedding_chunk_size": 300,
            },
            "memory_blocks": [
                {"label": "human", "value": "The user is called Alice."},
                {"label": "persona", "value": "I keep the books."},
            ],
        }

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """A statement in the server's own database, behind everybody's back."""
        import psycopg

        with psycopg.connect(self.pg, autocommit=True) as connection:
            done = connection.execute(statement, values)  # type: ignore[arg-type]
            return done.fetchall() if done.description else []

    def shown(self) -> list[Any]:
        """What the model was shown so far, the newest last."""
        with httpx.Client(trust_env=False) as client:
            return list(client.get(f"{self.model}/log").json()["requests"])

    def close(self) -> None:
        """Let go."""
        self.mg.close()
        self.http.close()


class Backup:
    """The memory of one organisation as it stands in the database; put back by the database's own means."""

    def __init__(self, town: Town) -> None:
        self._town, self._mark = town, uuid.uuid4().hex
        (self._organisation,) = town.sql(
            "SELECT organization_id FROM users WHERE id = %s", town.headers["user_id"]
        )[0]
        for table, mine in self._tables().items():
            town.sql(f"CREATE TABLE backup_{table}_{self._mark} AS SELECT * FROM {table} WHERE {mine}")

    def _tables(self) -> dict[str, str]:
        ours = f"organization_id = '{self._organisation}'"
        return {
            "block": ours,
            "archival_passages": ours,
            "blocks_agents": f"agent_id IN (SELECT id FROM agents WHERE {ours})",
        }

    def restore(self) -> None:
        """Put it back, row by row."""
        statements = ["SET session_replication_role = replica"]  # no foreign key is looked at meanwhile
        for table, mine in self._tables().items():
            statements.append(f"DELETE FROM {table} WHERE {mine}")
            statements.append(f"INSERT INTO {table} SELECT * FROM backup_{table}_{self._mark}")
        self._town.sql("; ".join(statements))


@pytest.fixture
def server() -> None:
    """That there is a server."""
    if "MEMGUARD_LETTA_URL" not in os.environ:
        if os.environ.get("MEMGUARD_LETTA_REQUIRED"):
            pytest.fail("MEMGUARD_LETTA_REQUIRED is set and MEMGUARD_LETTA_URL is not: no server was started")
        pytest.skip(REASON)
    pytest.importorskip("letta_client")


@pytest.fixture
def town(server: None, tmp_path: Path) -> Iterator[Town]:
    """An organisation of its own for each test."""
    made = Town(tmp_path)
    yield made
    made.close()


def say(text: str) -> dict[str, Any]:
    """Arguments of a message from the user."""
    return {"messages": [{"role": "user", "content": text}]}
