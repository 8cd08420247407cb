"""Whoever holds the database and the home, and no key: what hides a row without editing one is refused.

Each case was found by attacking: it hid, reordered or let vanish genuine rows of a guarded saver or store
with no error. Nothing may stand on the framework's tables that it does not make.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from memguard import IntegrityError, MemGuard, TamperedError

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def rebuilt(table: str, change: str, by: str) -> str:
    """SQL that makes a table again with another text, its rows kept."""
    return f"""
    PRAGMA writable_schema = ON;
    UPDATE sqlite_master SET sql = replace(sql, '{change}', '{by}') WHERE type = 'table' AND name = '{table}';
    PRAGMA writable_schema = RESET;"""


SAVER = {
    "view in another case": "ALTER TABLE checkpoints RENAME TO kept; CREATE VIEW CHECKPOINTS AS SELECT * FROM kept;",
    "table in another case with a trigger": (
        "ALTER TABLE checkpoints RENAME TO tmp1; ALTER TABLE tmp1 RENAME TO CHECKPOINTS; "
        "CREATE TRIGGER x AFTER INSERT ON CHECKPOINTS BEGIN SELECT 1; END;"
    ),
    "trigger": "CREATE TRIGGER x AFTER INSERT ON checkpoints BEGIN DELETE FROM checkpoints WHERE rowid = 2; END;",
    "trigger on writes": "CREATE TRIGGER x AFTER INSERT ON writes BEGIN SELECT 1; END;",
    "index of one's own": "CREATE INDEX mine ON checkpoints (checkpoint_id);",
    "index over an expression": "CREATE INDEX mine ON checkpoints (json_extract(CAST(metadata AS TEXT), '$.step'));",
    "unique index": "CREATE UNIQUE INDEX mine ON checkpoints (substr(checkpoint_id, 1, 30));",
    "partial index": "CREATE INDEX mine ON checkpoints (thread_id) WHERE thread_id <> 't';",
    "key the other way round": rebuilt(
        "checkpoints", "checkpoint_ns, checkpoint_id)", "checkpoint_ns, checkpoint_id DESC)"
    ),
    "collation": rebuilt("checkpoints", "thread_id TEXT NOT NULL", "thread_id TEXT COLLATE NOCASE NOT NULL"),
    "generated column": "ALTER TABLE checkpoints ADD COLUMN more TEXT GENERATED ALWAYS AS (thread_id) VIRTUAL;",
}
STORE = {
    "view in another case": "ALTER TABLE store RENAME TO kept; CREATE VIEW STORE AS SELECT * FROM kept;",
    "trigger": "CREATE TRIGGER x AFTER INSERT ON store BEGIN DELETE FROM store WHERE key = 'k1'; END;",
    "index of one's own": "CREATE INDEX mine ON store (updated_at);",
    "unique index": "CREATE UNIQUE INDEX mine ON store (upper(key));",
    "index with another text": (
        "DROP INDEX store_prefix_idx; CREATE INDEX store_prefix_idx ON store (prefix) WHERE prefix <> 'u';"
    ),
}


def opened(folder: Path, kind: str) -> tuple[MemGuard, Any]:
    home = folder / "home"
    if home.exists():
        mg = MemGuard.open(home)
    else:
        mg = MemGuard.create(home, anchor=f"file:{folder}/anchor", keys=f"file:{folder}/key.json")
    if kind == "saver":
        return mg, mg.guard(SqliteSaver(sqlite3.connect(folder / "s.db", check_same_thread=False)), name="s")
    conn = sqlite3.connect(folder / "s.db", check_same_thread=False, isolation_level=None)
    return mg, mg.guard(SqliteStore(conn), name="s")


def fill(guarded: Any, kind: str) -> None:
    config = THREAD
    for step in range(4):
        if kind == "store":
            guarded.put(("u",), f"k{step}", {"text": str(step)})
            continue
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=step))
        config = guarded.put(config, checkpoint, {"source": "loop", "step": step}, {})


def reads(guarded: Any, kind: str) -> list[Any]:
    if kind == "saver":
        return [
            lambda: list(guarded.list(THREAD)),
            lambda: list(guarded.list({"configurable": {"thread_id": "t"}})),
            lambda: list(guarded.list(None)),
            lambda: list(guarded.list(THREAD, filter={"step": 1})),
            lambda: list(guarded.list(THREAD, limit=2)),
        ]
    return [lambda: guarded.search(("u",)), lambda: guarded.search(()), guarded.list_namespaces]


CASES = [pytest.param("saver", s, id=f"saver: {n}") for n, s in SAVER.items()]
CASES += [pytest.param("store", s, id=f"store: {n}") for n, s in STORE.items()]


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize(("kind", "script"), CASES)
def test_what_the_framework_does_not_make_is_refused(
    tmp_path: Path, kind: str, script: str, running: bool
) -> None:
    mg, guarded = opened(tmp_path, kind)
    fill(guarded, kind)
    for read in reads(guarded, kind):
        assert read()  # a clean database is served
    if not running:
        mg.close()
    with sqlite3.connect(tmp_path / "s.db") as conn:
        conn.executescript(script)
    if not running:
        mg, guarded = opened(tmp_path, kind)
    for read in reads(guarded, kind):
        with pytest.raises(IntegrityError):
            read()
    assert not mg.audit(guarded).clean
    mg.close()


@pytest.mark.parametrize("kind", ["saver", "store"])
def test_index_that_lies_is_refused(tmp_path: Path, kind: str) -> None:
    """As many entries as rows, one of them wrong: made by rewriting the schema around another index."""
    mg, guarded = opened(tmp_path, kind)
    fill(guarded, kind)
    mg.close()
    table, key = ("checkpoints", "checkpoint_id") if kind == "saver" else ("store", "prefix")
    with sqlite3.connect(tmp_path / "s.db") as conn:
        (auto, _) = conn.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = ? ORDER BY name",
            (table,),
        ).fetchall()[-1]
        # Entries over a changed copy of the key, then hung in the place of the true index.
        conn.executescript(
            f"CREATE TABLE other AS SELECT * FROM {table}; UPDATE other SET {key} = 'x' || {key} WHERE rowid = 2;"
        )
        columns = [r[2] for r in conn.execute(f"PRAGMA index_info('{auto}')")]
        conn.execute(f"CREATE INDEX bent ON other ({', '.join(columns)})")
        (bent,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'bent'").fetchone()
        conn.executescript(
            f"PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'bent'; "
            f"UPDATE sqlite_master SET rootpage = {bent} WHERE name = '{auto}'; PRAGMA writable_schema = RESET;"
        )
    mg, guarded = opened(tmp_path, kind)
    for read in reads(guarded, kind):
        with pytest.raises(TamperedError):
            read()
    mg.close()


def test_database_from_before_task_path_is_no_foreign_layout(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as conn:
        SqliteSaver(conn).setup()
        (text,) = conn.execute("SELECT sql FROM sqlite_master WHERE name = 'writes'").fetchone()
        conn.executescript("DROP TABLE writes")
        older = "\n".join(line for line in text.split("\n") if "task_path" not in line)
        assert older != text
        conn.execute(older)
    conn.close()
    mg, guarded = opened(tmp_path, "saver")
    fill(guarded, "saver")
    guarded.put_writes(
        {"configurable": {**THREAD["configurable"], "checkpoint_id": "1"}}, [("a", 1)], "task", "path"
    )
    mg.close()
    mg, guarded = opened(tmp_path, "saver")
    assert len(list(guarded.list(THREAD))) == 4
    assert mg.audit(guarded).clean
    mg.close()
