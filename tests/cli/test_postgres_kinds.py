"""``[stores.NAME]`` on PostgreSQL: opened by URI, audited, looked at by the doctor; and a server that is not there."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from memguard import MemGuard, registry
from memguard.cli.stores import StoreKind, kind_of
from memguard.errors import ConfigError

KINDS = ("langgraph-postgres-saver", "langgraph-async-postgres-saver")


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest, project: Any, run: Any, postgres_uri: str) -> StoreKind:
    """A configured store of the kind with one record in it."""
    kind: StoreKind = registry.kinds.get(request.param)
    with (project.home / "memguard.toml").open("a") as file:
        file.write(f'\n[stores.kept]\nkind = "{kind.name}"\nuri = "{postgres_uri}"\n')
    assert run("config", "seal", "--apply").exit_code == 0
    with PostgresSaver.from_conn_string(postgres_uri) as inner:
        inner.setup()
    with kind.open(postgres_uri) as inner, MemGuard.open(project.home) as mg:
        kind.canary("filled").write(mg.guard(inner, name="kept"), "the limit is 100 euros")
    return kind


def test_audit_finds_an_edit_and_status_the_store(
    kept: StoreKind, run: Any, data: Any, postgres_uri: str
) -> None:
    clean = run("audit", "kept", "--format", "json")
    assert (clean.exit_code, data(clean)["rows"]) == (0, [])
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        done = connection.execute(
            "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values,canary}', '9')"
        )
        assert done.rowcount == 1
    found = run("audit", "kept", "--format", "json")
    assert found.exit_code == 1
    assert [row["case"] for row in data(found)["rows"]] == ["T1"]


def test_the_doctor_says_what_it_can_of_a_server(kept: StoreKind, run: Any) -> None:
    report = run("doctor", "kept")
    assert "fsync or synchronous_commit is off" in report.stdout  # the test server waits for no disk
    assert "it has no file that could be copied" in report.stdout
    assert "synchronous=FULL" not in report.stdout


async def test_the_canary_and_the_async_way(kept: StoreKind, project: Any, postgres_uri: str) -> None:
    canary = kept.canary("filled")
    with MemGuard.open(project.home) as mg:
        async with kept.aopen(postgres_uri) as inner:
            assert kind_of(inner) is not None
            assert await canary.aread(mg.guard(inner, name="kept")) == "the limit is 100 euros"
    assert canary.tamper(postgres_uri, "the limit is 100 euros", "the limit is 999 euros")
    assert not canary.tamper(postgres_uri, "the limit is 100 euros", "the limit is 999 euros")


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("sqlite:agent.db", "MG151"),
        ("postgresql://agent:hunter2@127.0.0.1:1/agent", "MG503"),
        ("postgresql://agent:hunter2@no-such-host.invalid/agent?connect_timeout=2", "MG503"),
        ("postgresql://agent:hunter2@127.0.0.1:port/agent", "MG503"),
        ("postgresql://agent:hunter2@127.0.0.1/agent?nonsense=1", "MG151"),
    ],
)
def test_a_uri_that_leads_nowhere_is_a_typed_error_without_its_secrets(uri: str, code: str) -> None:
    for name in KINDS:
        kind: StoreKind = registry.kinds.get(name)
        with pytest.raises(ConfigError) as caught, kind.open(uri):
            pass
        assert caught.value.code == code
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_database_without_the_tables_is_refused_and_nothing_is_made(postgres_uri: str) -> None:
    kind: StoreKind = registry.kinds.get(KINDS[0])
    with pytest.raises(ConfigError) as caught, kind.open(postgres_uri):
        pass
    assert caught.value.code == "MG151"
    with psycopg.connect(postgres_uri) as connection:
        made = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert made == (0,)
