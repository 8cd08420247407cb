"""Edits of every column and table are refused: between two processes, and under a running one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from memguard import IntegrityError, RollbackError, TamperedError

ALICE, BOB = ("users", "alice"), ("users", "bob")
MINE = "WHERE prefix = 'users.alice' AND key = 'k0'"


def fill(store: Any) -> None:
    for namespace in (ALICE, BOB):
        for number in range(4):
            value = {"text": f"{namespace[1]} tea {number} limit=100", "n": number}
            store.put(namespace, f"k{number}", value, ttl=60 if number == 3 else None)
    store.delete(ALICE, "k2")
    store.put(ALICE, "k1", {"text": "alice tea 1 limit=200", "n": 1})


def update(change: str, key: str = "k0") -> str:
    return f"UPDATE store SET {change} WHERE prefix = 'users.alice' AND key = '{key}'"


#: What is done, the key that it touches, and the error.
EDITS: dict[str, tuple[str, str, type[IntegrityError]]] = {
    "content": (update("""value = jsonb_set(value, '{text}', '"limit=999"')"""), "k0", TamperedError),
    "number of another scale": (update("value = jsonb_set(value, '{n}', '0.0')"), "k0", TamperedError),
    "another member": (update("""value = value || '{"zz": 1}'"""), "k0", TamperedError),
    "no seal": (update("value = value - 'memguard'"), "k0", TamperedError),
    "seal of a number": (update("value = jsonb_set(value, '{memguard,seal}', '5')"), "k0", TamperedError),
    "seal of another case": (
        update("value = jsonb_set(value, '{memguard,seal}', to_jsonb(upper(value->'memguard'->>'seal')))"),
        "k0",
        TamperedError,
    ),
    "a member beside the seal": (
        update("""value = jsonb_set(value, '{memguard,label}', '{"trust": "system"}')"""),
        "k0",
        TamperedError,
    ),
    "a list": (update("""value = '["memguard"]'"""), "k0", TamperedError),
    "a scalar": (update("value = '5'"), "k0", TamperedError),
    "null": (update("value = 'null'"), "k0", TamperedError),
    "swapped": (
        "UPDATE store s SET value = o.value FROM store o WHERE s.prefix = 'users.alice' AND o.prefix = s.prefix "
        "AND (s.key, o.key) IN (('k0', 'k1'), ('k1', 'k0'))",
        "k0",
        TamperedError,
    ),
    "from bob": (
        update("value = (SELECT value FROM store WHERE prefix = 'users.bob' AND key = 'k0')"),
        "k0",
        TamperedError,
    ),
    "forged": (
        "INSERT INTO store SELECT prefix, 'k9', value, created_at, updated_at, expires_at, ttl_minutes "
        f"FROM store {MINE}",
        "k9",
        TamperedError,
    ),
    "moved to alice": (
        "UPDATE store SET prefix = 'users.alice' WHERE prefix = 'users.bob' AND key = 'k2'",
        "k2",
        TamperedError,
    ),
    "another key": (update("key = 'kx'"), "k0", IntegrityError),
    "deleted": (f"DELETE FROM store {MINE}", "k0", RollbackError),
    "deleted and inserted": (
        f"WITH gone AS (DELETE FROM store {MINE} RETURNING *) INSERT INTO store SELECT prefix, 'k7', value, "
        "created_at, updated_at, expires_at, ttl_minutes FROM gone",
        "k0",
        IntegrityError,
    ),
    "emptied": ("DELETE FROM store WHERE prefix = 'users.alice'", "k0", RollbackError),
    "renamed": (
        "UPDATE store SET prefix = 'users.mallory' WHERE prefix = 'users.alice'",
        "k0",
        IntegrityError,
    ),
    "created": (update("created_at = '2001-01-01'"), "k0", IntegrityError),
    "created by a microsecond": (
        update("created_at = created_at + interval '1 microsecond'"),
        "k0",
        IntegrityError,
    ),
    "never created": (update("created_at = NULL"), "k0", IntegrityError),
    "updated": (update("updated_at = '2099-01-01'"), "k0", IntegrityError),
    "stamps exchanged": (
        "UPDATE store s SET updated_at = o.updated_at FROM store o WHERE s.prefix = 'users.alice' "
        "AND o.prefix = s.prefix AND (s.key, o.key) IN (('k0', 'k1'), ('k1', 'k0'))",
        "k0",
        IntegrityError,
    ),
    "updated for ever": (update("updated_at = 'infinity'"), "k0", IntegrityError),
    "expiry injected": (update("expires_at = '2001-01-01', ttl_minutes = 1"), "k0", IntegrityError),
    "expiry in the future": (update("expires_at = now() + interval '1 hour'"), "k0", IntegrityError),
    "lifetime only": (update("ttl_minutes = 1"), "k0", IntegrityError),
    "expiry removed": (update("expires_at = NULL, ttl_minutes = NULL", "k3"), "k3", IntegrityError),
    "expiry put off": (update("expires_at = '2099-01-01'", "k3"), "k3", IntegrityError),
    "expiry brought forward": (update("expires_at = '2001-01-01'", "k3"), "k3", IntegrityError),
    "lifetime changed": (update("ttl_minutes = 600", "k3"), "k3", IntegrityError),
}
LISTS: dict[str, Callable[[Any], Any]] = {
    "search": lambda store: store.search(ALICE),
    "above": lambda store: store.search(("users",), limit=100),
    "filtered": lambda store: store.search(ALICE, filter={"n": 1}),
    "namespaces": lambda store: store.list_namespaces(),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_between_two_processes(scene: Any, edit: str) -> None:
    statement, key, error = EDITS[edit]
    fill(scene.store())
    scene.close()
    scene.sql(statement)
    for ask in (*LISTS.values(), lambda store: store.get(ALICE, key)):
        store = scene.store()
        with pytest.raises(error) as caught:
            ask(store)
        assert "limit=" not in str(caught.value)
        if edit != "moved to alice":  # the other namespace goes on working
            assert store.get(BOB, "k0").value["n"] == 0
        scene.close()
    store = scene.store()
    report = scene.mg.audit(store)
    assert not report.clean
    assert all("limit=" not in str(finding) for finding in report.findings)


@pytest.mark.parametrize("edit", EDITS)
def test_edits_under_a_running_process(scene: Any, edit: str) -> None:
    statement, key, error = EDITS[edit]
    store = scene.store()
    fill(store)
    for ask in LISTS.values():
        ask(store)
    scene.sql(statement)
    if edit not in ("updated for ever",):
        with pytest.raises(error):
            store.get(ALICE, key)
    for ask in LISTS.values():
        with pytest.raises(error):
            ask(store)
    with suppress(IntegrityError):
        store.put(ALICE, key, {"text": "newer"})
    with pytest.raises(IntegrityError):  # a genuine write does not make it good
        scene.store().search(ALICE)


@pytest.mark.parametrize("edit", ["content", "deleted", "forged", "updated", "expiry injected"])
@pytest.mark.parametrize("way", ["connection", "pipeline", "pool"])
async def test_edits_under_an_asynchronous_store(scene: Any, edit: str, way: str) -> None:
    statement, key, error = EDITS[edit]
    async with scene.astore(way=way) as store:
        for namespace in (ALICE, BOB):
            await store.aput(namespace, "k0", {"text": "tea limit=100", "n": 0})
        assert len(await store.asearch(ALICE)) == 1
        scene.sql(statement)
        with pytest.raises(error):
            await store.aget(ALICE, key)
        with pytest.raises(error):
            await store.asearch(ALICE)
        assert (await store.aget(BOB, "k0")).value["n"] == 0


VECTORS: dict[str, str] = {
    "moved": "UPDATE store_vectors SET embedding = (SELECT embedding FROM store_vectors WHERE key = 'k1' LIMIT 1) "
    "WHERE key = 'k0'",
    "scaled": "UPDATE store_vectors SET embedding = embedding * embedding WHERE key = 'k0'",
    "negative zero": "UPDATE store_vectors SET embedding = replace(embedding::text, '0,', '-0,')::vector "
    "WHERE key = 'k0'",
    "none": "UPDATE store_vectors SET embedding = NULL WHERE key = 'k0'",
    "deleted": "DELETE FROM store_vectors WHERE key = 'k0'",
    "one more": "INSERT INTO store_vectors SELECT prefix, key, 'extra', embedding, created_at, updated_at "
    "FROM store_vectors WHERE key = 'k0'",
    "field": "UPDATE store_vectors SET field_name = 'other' WHERE key = 'k0'",
    "created": "UPDATE store_vectors SET created_at = '2001-01-01' WHERE key = 'k0'",
    "updated": "UPDATE store_vectors SET updated_at = NULL WHERE key = 'k0'",
    "another item's": "WITH gone AS (DELETE FROM store_vectors WHERE key = 'k1' RETURNING *) "
    "UPDATE store_vectors s SET embedding = gone.embedding FROM gone WHERE s.key = 'k0'",
    "emptied": "DELETE FROM store_vectors",
}


@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("edit", VECTORS)
def test_an_edit_of_vectors_only(scene: Any, index: Any, edit: str, restart: bool) -> None:
    store = scene.store(index=index)
    for number, text in enumerate(("green tea", "rain today", "black coffee")):
        store.put(ALICE, f"k{number}", {"text": text})
    assert store.search(ALICE, query="green tea")[0].key == "k0"
    if restart:
        scene.close()
    scene.sql(VECTORS[edit])
    if restart:
        store = scene.store(index=index)
    for ask in (
        lambda: store.search(ALICE, query="green tea"),
        lambda: store.search(ALICE, query="rain", limit=1),
        lambda: store.search(ALICE),
        lambda: store.get(ALICE, "k0"),
    ):
        with pytest.raises(IntegrityError):
            ask()
    with pytest.raises(IntegrityError):
        store.put(ALICE, "k0", {"text": "newer"})
    assert not scene.mg.audit(store).clean


def test_vectors_planted_for_a_store_without_an_index(scene: Any, index: Any) -> None:
    store = scene.store()
    store.put(ALICE, "k0", {"text": "tea"})
    assert len(store.search(ALICE)) == 1
    scene.set_up(index)  # somebody sets up an index over the same tables
    store.put(ALICE, "k1", {"text": "rain"})
    assert len(store.search(ALICE)) == 2
    scene.sql(
        "INSERT INTO store_vectors SELECT prefix, 'k0', '$', array_fill(0.5, ARRAY[%s])::vector FROM store "
        "WHERE key = 'k0'",
        index["dims"],
    )
    with pytest.raises(IntegrityError):
        store.get(ALICE, "k0")
    with pytest.raises(IntegrityError):
        store.search(ALICE)


def test_vectors_without_an_item_do_not_become_those_of_the_next_put(scene: Any, index: Any) -> None:
    store = scene.store(index=index)
    store.put(ALICE, "k1", {"text": "rain"})
    scene.sql("ALTER TABLE store_vectors DROP CONSTRAINT store_vectors_prefix_key_fkey")
    scene.sql("INSERT INTO store_vectors SELECT prefix, 'k0', 'planted', embedding FROM store_vectors")
    store.put(ALICE, "k0", {"text": "tea"})
    assert scene.sql("SELECT field_name FROM store_vectors WHERE key = 'k0'") == [("$",)]
    store.delete(ALICE, "k0")
    assert scene.sql("SELECT count(*) FROM store_vectors WHERE key = 'k0'") == [(0,)]


def test_a_row_changed_before_it_is_written_over_is_not_made_good(scene: Any) -> None:
    """A put keeps the time of creation, so what was changed of it would become genuine."""
    store = scene.store()
    fill(store)
    scene.close()
    scene.sql(update("created_at = '2001-01-01'"))
    store = scene.store()
    for _ in range(2):
        with pytest.raises(IntegrityError):
            store.put(ALICE, "k0", {"text": "newer"})
    assert scene.sql(f"SELECT value->>'text' FROM store {MINE}") == [("alice tea 0 limit=100",)]


def test_the_time_of_creation_changed_while_a_put_runs(scene: Any) -> None:
    store = scene.store()
    fill(store)
    genuine = store._ops.table._call

    def meanwhile(ops: Any) -> Any:
        scene.sql(update("created_at = '2001-01-01'"))
        return genuine(ops)

    store._ops.table._call = meanwhile
    with pytest.raises(TamperedError, match="just written"):
        store.put(ALICE, "k0", {"text": "newer"})


def _copy(scene: Any) -> None:
    scene.sql("CREATE TABLE kept AS SELECT * FROM store")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE store s SET (value, created_at, updated_at) = (o.value, o.created_at, o.updated_at) FROM kept o "
        "WHERE o.prefix = s.prefix AND o.key = s.key AND s.prefix = 'users.alice' AND s.key = 'k1'",
        "INSERT INTO store SELECT * FROM kept WHERE prefix = 'users.alice' AND key = 'k0'",
        "WITH gone AS (DELETE FROM store RETURNING 1) INSERT INTO store SELECT kept.* FROM kept, "
        "(SELECT count(*) FROM gone) c ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value",
        "MERGE INTO store s USING kept o ON (o.prefix, o.key) = (s.prefix, s.key) WHEN MATCHED THEN UPDATE SET "
        "value = o.value, created_at = o.created_at, updated_at = o.updated_at WHEN NOT MATCHED THEN INSERT VALUES "
        "(o.prefix, o.key, o.value, o.created_at, o.updated_at, o.expires_at, o.ttl_minutes)",
    ],
    ids=["older version", "deleted item", "emptied and filled", "whole store"],
)
@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "running"])
def test_an_earlier_state_put_back(scene: Any, statement: str, restart: bool) -> None:
    store = scene.store()
    fill(store)
    assert len(store.search(ALICE)) == 3
    _copy(scene)
    store.put(ALICE, "k1", {"text": "newer"})
    store.delete(ALICE, "k0")
    if restart:
        scene.close()
    scene.sql(statement)
    if restart:
        store = scene.store()
    for _ in range(2):
        with pytest.raises(IntegrityError):
            store.search(ALICE)
        if restart:  # a genuine write does not launder it
            with pytest.raises(IntegrityError):
                store.get(ALICE, "k1")
            with pytest.raises(IntegrityError):
                store.put(ALICE, "k1", {"text": "newer"})


EVIL = "CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {} RETURN NEW; END$$"


@pytest.mark.parametrize(
    "body",
    [
        "NEW.value = jsonb_set(NEW.value, '{text}', '\"altered\"');",
        "NEW.updated_at = '2099-01-01';",
        "NEW.created_at = NEW.created_at - interval '1 hour';",
        "NEW.ttl_minutes = 5;",
        "RETURN NULL;",
    ],
    ids=["value", "updated", "created", "lifetime", "nothing stored"],
)
def test_a_trigger_that_changes_what_is_put(scene: Any, body: str) -> None:
    store = scene.store()
    fill(store)
    scene.sql(EVIL.format(body))
    scene.sql("CREATE TRIGGER evil BEFORE INSERT ON store FOR EACH ROW EXECUTE FUNCTION evil()")
    with pytest.raises(IntegrityError):
        store.put(ALICE, "k5", {"text": "genuine"})
    with pytest.raises(IntegrityError):
        store.search(ALICE)


SCHEMAS: dict[str, list[str]] = {
    "a view": ["ALTER TABLE store RENAME TO kept", "CREATE VIEW store AS SELECT * FROM kept"],
    "a rule": ["CREATE RULE quiet AS ON DELETE TO store WHERE OLD.key = 'k0' DO INSTEAD NOTHING"],
    "a trigger": [
        EVIL.format("NULL;"),
        "CREATE TRIGGER evil AFTER UPDATE ON store FOR EACH STATEMENT EXECUTE FUNCTION evil()",
    ],
    "a child": ["CREATE TABLE young () INHERITS (store)"],
    "a check": [
        "CREATE FUNCTION fine(jsonb) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RETURN true; END$$",
        "ALTER TABLE store ADD CONSTRAINT fine CHECK (fine(value))",
    ],
    "an index over a function": [
        "CREATE FUNCTION fine(jsonb) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN 'x'; END$$",
        "CREATE INDEX fine ON store (fine(value))",
    ],
    "a partial index over a function": [
        "CREATE FUNCTION fine(jsonb) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN true; END$$",
        "CREATE INDEX fine ON store (key) WHERE fine(value)",
    ],
    "a column more": ["ALTER TABLE store ADD COLUMN more text"],
    "a column of another type": ["ALTER TABLE store ALTER COLUMN ttl_minutes TYPE text"],
    "a column made by a function": [
        "ALTER TABLE store ADD COLUMN more text GENERATED ALWAYS AS (key || 'x') STORED"
    ],
    "another collation": ['ALTER TABLE store ALTER COLUMN key TYPE text COLLATE "C"'],
    "an operator of another schema": [
        "CREATE FUNCTION public.less(jsonb, text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT $1$$",
        "CREATE OPERATOR public.- (FUNCTION = public.less, LEFTARG = jsonb, RIGHTARG = text)",
        "ALTER DATABASE {} SET search_path = public, pg_catalog",
    ],
}


@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("what", SCHEMAS)
def test_what_may_not_stand_on_the_tables(scene: Any, what: str, restart: bool) -> None:
    if what.startswith("an operator") and not restart:
        pytest.skip("a search path is set when a session begins")
    store = scene.store()
    fill(store)
    assert len(store.search(ALICE)) == 3
    if restart:
        scene.close()
    for statement in SCHEMAS[what]:
        with psycopg.connect(scene.uri, autocommit=True) as connection:
            connection.execute(statement.replace("{}", scene.uri.rpartition("/")[2]))
    if restart:
        store = scene.store()
    for ask in (lambda: store.search(ALICE), lambda: store.list_namespaces()):
        with pytest.raises(IntegrityError) as caught:
            ask()
        assert caught.value.case in ("schema", "untagged")
    assert not scene.mg.audit(store).clean


def test_a_column_that_is_gone_is_an_integrity_error(scene: Any) -> None:
    store = scene.store()
    fill(store)
    scene.sql("ALTER TABLE store DROP COLUMN ttl_minutes")
    for ask in (lambda: store.get(ALICE, "k0"), lambda: store.search(ALICE)):
        with pytest.raises(TamperedError):
            ask()


def test_rows_that_a_policy_hides(scene: Any) -> None:
    store = scene.store()
    fill(store)
    scene.sql("ALTER TABLE store ENABLE ROW LEVEL SECURITY")
    assert len(store.search(ALICE)) == 3  # this role sees them all
    scene.sql("CREATE ROLE agent LOGIN")
    try:
        scene.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO agent")
        scene.sql(
            "CREATE POLICY part ON store TO agent USING (key <> 'k0' OR clock_timestamp() < '2001-01-01')"
        )
        scene.uri = scene.uri.replace("postgres@", "agent@")
        scene._set_up.add(False)
        scene.close()
        store = scene.store()
        with pytest.raises(TamperedError, match="row security"):
            store.search(ALICE)
    finally:
        scene.uri = scene.uri.replace("agent@", "postgres@")
        scene.close()
        scene.sql("DROP OWNED BY agent")
        scene.sql("DROP ROLE agent")


def test_an_operators_own_indexes_and_what_vacuum_does(scene: Any, index: Any) -> None:
    store = scene.store(index=index)
    fill(store)
    scene.sql("CREATE INDEX mine ON store USING gin (value)")
    scene.sql("CREATE INDEX lower ON store ((lower(value ->> 'text'))) WHERE jsonb_typeof(value) = 'object'")
    scene.sql("DROP INDEX idx_store_expires_at")
    assert len(store.search(ALICE)) == 3
    assert scene.mg.audit(store).clean
    for statement in (
        "VACUUM FREEZE store",
        "VACUUM FULL store",
        "CLUSTER store USING store_pkey",
        "REINDEX TABLE store",
    ):
        scene.sql(statement)
        assert len(store.search(ALICE, query="tea")) == 3
        assert store.get(ALICE, "k1").value["n"] == 1
        store.put(ALICE, "k1", {"text": "again", "n": 1})
    assert scene.mg.audit(store).clean


def test_an_unknown_item_is_none_and_a_missing_one_is_not(scene: Any) -> None:
    store = scene.store()
    fill(store)
    assert store.get(ALICE, "never") is None
    assert store.get(("nobody",), "k0") is None
    assert store.get(ALICE, "k2") is None
    scene.sql(f"DELETE FROM store {MINE}")
    with pytest.raises(RollbackError):
        store.get(ALICE, "k0")
    assert store.get(ALICE, "never") is None


def test_report_and_off(scene: Any) -> None:
    fill(scene.store())
    scene.close()
    scene.sql(EDITS["content"][0])
    seen: list[Any] = []
    store = scene.store(mode="report")
    scene.mg.events.subscribe(seen.append)
    assert store.get(ALICE, "k0").value["text"] == "limit=999"
    assert len(store.search(ALICE)) == 3
    assert any(getattr(event, "served", False) for event in seen)
    store.put(ALICE, "k0", {"text": "put"})
    scene.close()
    store = scene.store(mode="off")
    assert store.get(ALICE, "k0").value == {"text": "put"}
    assert len(store.search(("users",))) == 7


@pytest.mark.parametrize("level", ["chain", "tag"])
def test_lower_levels_check_rows_one_by_one(scene: Any, level: str) -> None:
    fill(scene.store(level=level))
    scene.close()
    scene.sql(EDITS["content"][0])
    with pytest.raises(TamperedError):
        scene.store(level=level).get(ALICE, "k0")


def test_a_label_is_inside_the_tag(screened: Any) -> None:
    store = screened.store()
    store.put(ALICE, "k0", {"text": "tea"})
    screened.sql("UPDATE store SET value = replace(value::text, '\"unknown\"', '\"system\"')::jsonb")
    with pytest.raises(TamperedError):
        store.get(ALICE, "k0")
