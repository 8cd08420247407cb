"""A guarded PostgreSQL store through the command line: audited, edited, looked at by the doctor."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import PostgresStore

from memguard import MemGuard, registry
from memguard.cli.stores import StoreKind

KIND = "langgraph-postgres-store"


@pytest.fixture
def filled(project: Any, postgres_uri: str, run: Any) -> str:
    """A configured store with one record in it; its address."""
    with PostgresStore.from_conn_string(postgres_uri) as store:
        store.setup()
    with (project.home / "memguard.toml").open("a") as file:
        file.write(f'\n[stores.kept]\nkind = "{KIND}"\nuri = "{postgres_uri}"\n')
    assert run("config", "seal", "--apply").exit_code == 0
    kind: StoreKind = registry.kinds.get(KIND)
    with kind.open(postgres_uri) as inner, MemGuard.open(project.home) as mg:
        kind.canary("filled").write(mg.guard(inner, name="kept"), "the limit is 100 euros")
    return postgres_uri


def test_audit_and_repair(filled: str, run: Any, data: Any) -> None:
    clean = run("audit", "kept", "--format", "json")
    assert clean.exit_code == 0, clean.output
    assert data(clean)["records"] == 1
    assert registry.kinds.get(KIND).canary("filled").tamper(filled, "100 euros", "999 euros")
    edited = run("audit", "kept", "--format", "json")
    assert edited.exit_code == 1
    assert "filled" in "".join(row["record"] for row in data(edited)["rows"])
    assert "euros" not in edited.output


async def test_the_canary_and_its_twin(filled: str, project: Any) -> None:
    kind: StoreKind = registry.kinds.get(KIND)
    canary = kind.canary("filled")
    with kind.open(filled) as inner, MemGuard.open(project.home) as mg:
        assert canary.read(mg.guard(inner, name="kept")) == "the limit is 100 euros"
    async with kind.aopen(filled) as inner:
        with MemGuard.open(project.home) as mg:
            assert await canary.aread(mg.guard(inner, name="kept")) == "the limit is 100 euros"


def test_doctor_says_what_the_server_may_lose(filled: str, run: Any, data: Any) -> None:
    result = run("doctor", "kept", "--format", "json")
    rows = {row["check"]: row for row in data(result)["rows"]}
    assert "fsync" in rows["kept: commits are not durable"]["detail"], (
        "the server of the tests is not durable"
    )
    assert rows["kept: canary"]["result"] == "SKIP"


@pytest.mark.parametrize(
    ("uri", "code", "said"),
    [
        ("sqlite:memories.db", "MG151", "postgresql://"),
        ("postgresql://agent:hunter2@127.0.0.1:1/x", "MG503", "reached"),
    ],
)
def test_addresses_that_cannot_be_opened(uri: str, code: str, said: str) -> None:
    with pytest.raises(Exception, match=code) as caught, registry.kinds.get(KIND).open(uri):
        pass
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_database_without_the_table_gets_none(postgres_uri: str) -> None:
    with pytest.raises(Exception, match="no table store"), registry.kinds.get(KIND).open(postgres_uri):
        pass
    with psycopg.connect(postgres_uri) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchone() == (0,)


def test_types_are_known_by_kind(postgres_uri: str) -> None:
    with PostgresStore.from_conn_string(postgres_uri) as store:
        assert registry.kinds.get(KIND).accepts(store)
        assert not registry.kinds.get("langgraph-sqlite-store").accepts(store)
