"""Every registered kind of store: opened, audited clean and edited, and tried by the doctor's canary."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import langgraph.store.sqlite  # noqa: F401 - not installed is a failure and not a skip
import pytest

from memguard import MemGuard, registry
from memguard.cli.stores import Canary, StoreKind, kind_of

#: The kinds on a file of SQLite that LangGraph lays out; the others have tests beside their integrations.
EDITS = {
    "langgraph-sqlite-saver": "UPDATE checkpoints SET checkpoint = CAST(checkpoint || x'00' AS BLOB)",
    "langgraph-async-sqlite-saver": "DELETE FROM checkpoints",
    "langgraph-sqlite-store": "UPDATE store SET value = replace(value, '100', '999')",
    "langgraph-async-sqlite-store": "DELETE FROM store",
}

KINDS = tuple(EDITS)


@pytest.fixture(params=KINDS)
def kept(request, project):
    """A configured store of the kind with one record in it; its kind, name and file."""
    kind: StoreKind = registry.kinds.get(request.param)
    path = project.folder / "kept.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")  # the command line opens files and makes none
        connection.commit()
    with (project.home / "memguard.toml").open("a") as file:
        file.write(f'\n[stores.kept]\nkind = "{kind.name}"\nuri = "sqlite:kept.db"\n')
    return kind, path


@pytest.fixture
def filled(kept, project, run):
    kind, path = kept
    assert run("config", "seal", "--apply").exit_code == 0
    canary: Canary = kind.canary("filled")
    with kind.open("sqlite:kept.db") as inner, MemGuard.open(project.home) as mg:
        if hasattr(inner, "setup"):
            inner.setup()
        canary.write(mg.guard(inner, name="kept"), "the limit is 100 euros")
    return kind, path


def test_a_kind_is_whole() -> None:
    names = registry.kinds.names()
    assert set(EDITS) < set(names)
    for name in names:
        kind: StoreKind = registry.kinds.get(name)
        assert kind.name == name
        for method in ("open", "aopen", "accepts", "path", "durable", "swept", "copy", "canary"):
            assert callable(getattr(kind, method)), f"{name}.{method}"


def test_audit_and_status(filled, run, data) -> None:
    kind, path = filled
    clean = run("audit", "kept", "--format", "json")
    assert clean.exit_code == 0, clean.output
    assert data(clean)["records"] == 1
    rows = {row["store"]: row for row in data(run("status", "--format", "json"))["rows"]}
    assert rows["kept"]["kind"] == kind.name
    assert rows["kept"]["records"] == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(EDITS[kind.name]).rowcount == 1
    edited = run("audit", "kept", "--format", "json")
    assert edited.exit_code == 1
    assert "filled" in "".join(row["record"] for row in data(edited)["rows"])
    assert "euros" not in edited.output


def test_doctor(filled, run, data) -> None:
    _, path = filled
    before = path.read_bytes()
    result = run("doctor", "kept", "--format", "json")
    assert result.exit_code == 0, result.output
    found = {row["check"]: row["result"] for row in data(result)["rows"]}
    for check in ("a genuine record is served", "an edited record is refused"):
        assert found[f"kept: {check}"] == "PASS"
    for check in ("and served by the asynchronous twin", "and refused by the asynchronous twin"):
        assert found[f"kept: {check}"] == "PASS"
    assert path.read_bytes() == before


def test_a_bare_object_is_recognised(filled) -> None:
    kind, _ = filled
    with kind.open("sqlite:kept.db") as inner:
        found = kind_of(inner)
        assert found is not None
        # An asynchronous kind opens its file by the synchronous type.
        assert found.name == kind.name.replace("async-", "")
        assert kind.durable(inner) is True
        assert kind.swept(inner) is None
        inner.conn.execute("PRAGMA synchronous=NORMAL")
        assert kind.durable(inner) is False


def test_a_sweeper_that_does_not_run_is_noticed(tmp_path) -> None:
    from langgraph.store.sqlite import SqliteStore

    kind: StoreKind = registry.kinds.get("langgraph-sqlite-store")
    with closing(
        sqlite3.connect(tmp_path / "s.db", check_same_thread=False, isolation_level=None)
    ) as connection:
        store = SqliteStore(connection, ttl={"default_ttl": 1, "sweep_interval_minutes": 60})
        store.setup()
        assert kind.swept(store) is False
        store.start_ttl_sweeper()
        assert kind.swept(store) is True
        store.stop_ttl_sweeper(timeout=5)


def test_another_scheme_or_no_file(run) -> None:
    from memguard import ConfigError

    for name in KINDS:
        kind: StoreKind = registry.kinds.get(name)
        for uri in ("postgres://x", "sqlite:", "sqlite:nowhere.db"):
            with pytest.raises(ConfigError, match="MG151"), kind.open(uri):
                pass
