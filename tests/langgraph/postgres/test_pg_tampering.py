# ruff: noqa: E501 - one edit stands on one line
"""Every edit of a PostgreSQL saver's tables is refused on read, by name, before anything of it is decoded.

The edits are SQL of someone who may write to the database and holds no key; each must land.
"""

from __future__ import annotations

import subprocess
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from memguard import IntegrityError, MemGuard, RollbackError, TamperedError

HEAD, OLDER = "1f000000-0000-6000-8000-000000000003", "1f000000-0000-6000-8000-000000000002"
FIRST = "1f000000-0000-6000-8000-000000000001"


def place(thread: str, checkpoint: str | None = None, namespace: str = "") -> Any:
    configurable = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


def fill(saver: Any, threads: tuple[str, ...] = ("alice", "bob")) -> None:
    """Three checkpoints a thread: a value in rows that changes, one that does not, one in the frame; and writes."""
    for thread in threads:
        config = place(thread)
        for number in range(1, 4):
            checkpoint: Any = empty_checkpoint()
            versions = {"log": f"{number:032}.0.{number}", "fixed": "1", "limit": str(number)}
            values = {"log": [f"{thread} said {n}" for n in range(number)], "fixed": {"owner": thread}}
            checkpoint.update({"v": 4, "channel_values": {**values, "limit": 100 + number}})
            checkpoint.update({"channel_versions": versions, "versions_seen": {"n": {"log": "1"}}})
            checkpoint["id"] = f"1f000000-0000-6000-8000-{number:012x}"
            new = versions if number == 1 else {k: versions[k] for k in ("log", "limit")}
            metadata: Any = {"source": "loop", "step": number, "parents": {}, "owner": thread}
            config = saver.put(config, checkpoint, metadata, new)
            saver.put_writes(config, [("log", [f"w{number}"]), ("limit", number)], "task-1", "~a")
            saver.put_writes(config, [("__interrupt__", "sure?")], "task-1", "~a")
            saver.put_writes(config, [("log", ["second"])], "task-2", "~b")


async def afill(saver: Any) -> None:
    """The same through the asynchronous methods."""
    calls: list[tuple[str, tuple[Any, ...]]] = []

    class Recorder:
        def put(self, *args: Any) -> Any:
            calls.append(("aput", args))
            thread = args[0]["configurable"]["thread_id"]
            return place(thread, args[1]["id"])

        def put_writes(self, *args: Any) -> None:
            calls.append(("aput_writes", args))

    fill(Recorder())
    for method, args in calls:
        await getattr(saver, method)(*args)


class Edit(NamedTuple):
    name: str
    sql: tuple[str, ...]
    case: str
    #: Which reads must refuse: the head, an older one by id, the list, a filtered list.
    refused: str = "head list filter"


OF = "thread_id = 'alice' AND checkpoint_id"
ROW = f"WHERE {OF} = '{HEAD}'"
LOG3 = "thread_id = 'alice' AND channel = 'log' AND right(version, 1) = '3'"
COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
WRITE = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"
EDITS = (
    Edit("value changed", (f"UPDATE checkpoint_blobs SET blob = set_byte(blob, 12, 90) WHERE {LOG3}",), "T1"),
    Edit(
        "value of an older version put in its place",
        (f"UPDATE checkpoint_blobs b SET blob = o.blob FROM checkpoint_blobs o WHERE b.{LOG3.replace(' AND ', ' AND b.').replace('b.right(', 'right(b.')} "
         "AND o.thread_id = 'alice' AND o.channel = 'log' AND right(o.version, 1) = '2'",),
        "T1",
    ),
    Edit(
        "value of another tenant put in its place",
        ("UPDATE checkpoint_blobs b SET blob = o.blob FROM checkpoint_blobs o WHERE b.thread_id = 'alice' AND "
         "b.channel = 'fixed' AND o.thread_id = 'bob' AND o.channel = 'fixed'",),
        "T1",
        "head older list filter",
    ),
    Edit("type of a value changed", (f"UPDATE checkpoint_blobs SET type = 'pickle' WHERE {LOG3}",), "T1"),
    Edit("value taken out", (f"DELETE FROM checkpoint_blobs WHERE {LOG3}",), "T1"),
    Edit("value emptied", (f"UPDATE checkpoint_blobs SET type = 'empty', blob = NULL WHERE {LOG3}",), "T1"),
    Edit(
        "value put over one of the frame",
        ("INSERT INTO checkpoint_blobs VALUES ('alice', '', 'limit', '3', 'msgpack', '\\xcd270f')",),
        "T1",
    ),
    Edit("plain value changed", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_values,limit}}', '999') {ROW}",), "T1"),
    Edit("plain value to another type", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_values,limit}}', '103.0') {ROW}",), "T1"),
    Edit("plain value added", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_values,role}}', '\"admin\"') {ROW}",), "T1"),
    Edit("plain value taken out", (f"UPDATE checkpoints SET checkpoint = checkpoint #- '{{channel_values,limit}}' {ROW}",), "T1"),
    Edit(
        "version set back",
        (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_versions,log}}', '\"{2:032}.0.2\"') {ROW}",),
        "T1",
    ),
    Edit("versions seen changed", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{versions_seen,n,log}}', '\"2\"') {ROW}",), "T1"),
    Edit("format changed", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{v}}', '3') {ROW}",), "T1"),
    Edit("frame made a scalar", (f"UPDATE checkpoints SET checkpoint = '7' {ROW}",), "undecodable"),
    Edit("versions made a scalar", (f"UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_versions}}', '7') {ROW}",), "undecodable"),
    Edit("metadata changed", (f"UPDATE checkpoints SET metadata = jsonb_set(metadata, '{{owner}}', '\"bob\"') {ROW}",), "T1"),
    Edit("member added to memguard's own", (f"UPDATE checkpoints SET metadata = jsonb_set(metadata, '{{memguard,label}}', '{{\"x\": 1}}') {ROW}",), "T1"),
    Edit("tag stripped", (f"UPDATE checkpoints SET metadata = metadata - 'memguard' {ROW}",), "untagged"),
    Edit("tag made a number", (f"UPDATE checkpoints SET metadata = jsonb_set(metadata, '{{memguard,seal}}', '7') {ROW}",), "untagged"),
    Edit("metadata made a list", (f"UPDATE checkpoints SET metadata = '[1]' {ROW}",), "untagged"),
    Edit("parent changed", (f"UPDATE checkpoints SET parent_checkpoint_id = '{FIRST}' {ROW}",), "T4"),
    Edit("parent taken off", (f"UPDATE checkpoints SET parent_checkpoint_id = NULL {ROW}",), "T4"),
    Edit("head deleted", (f"DELETE FROM checkpoints {ROW}",), "T2"),
    Edit("older one deleted", (f"DELETE FROM checkpoints WHERE {OF} = '{OLDER}'",), "T3 T2", "older list filter"),
    Edit(
        "copied under a new id",
        (f"INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, '1f000000-0000-6000-8000-00000000000f', "
         f"checkpoint_id, type, checkpoint, metadata FROM checkpoints {ROW}",),
        "T1 T4",
    ),
    Edit("renamed", (f"UPDATE checkpoints SET checkpoint_id = '1f000000-0000-6000-8000-00000000000f' {ROW}",), "T1"),
    Edit(
        "two exchanged",
        (f"UPDATE checkpoints SET checkpoint_id = CASE checkpoint_id WHEN '{HEAD}' THEN '{OLDER}x' ELSE '{HEAD}' END "
         f"WHERE {OF} IN ('{HEAD}', '{OLDER}') AND checkpoint_id = '{HEAD}'",
         f"UPDATE checkpoints SET checkpoint_id = '{HEAD}' WHERE {OF} = '{OLDER}'",
         f"UPDATE checkpoints SET checkpoint_id = '{OLDER}' WHERE {OF} = '{OLDER}x'"),
        "T1 T4",
        "head older list filter",
    ),
    Edit(
        "put in from another thread",
        (f"DELETE FROM checkpoints {ROW}",
         f"INSERT INTO checkpoints SELECT 'alice', checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, "
         f"metadata FROM checkpoints WHERE thread_id = 'bob' AND checkpoint_id = '{HEAD}'"),
        "T1",
    ),
    Edit(
        "thread given to another owner",
        tuple(f"DELETE FROM {t} WHERE thread_id = 'alice'" for t in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"))
        + tuple(f"UPDATE {t} SET thread_id = 'alice' WHERE thread_id = 'bob'" for t in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")),
        "T1",
        "head older list filter",
    ),
    Edit("write changed", (f"UPDATE checkpoint_writes SET blob = '\\x91a1ff' WHERE {OF} = '{HEAD}' AND task_id = 'task-2'",), "T1", "head list"),
    Edit("write deleted", (f"DELETE FROM checkpoint_writes WHERE {OF} = '{HEAD}' AND task_id = 'task-2'",), "T3"),
    Edit("interrupt deleted", (f"DELETE FROM checkpoint_writes WHERE {OF} = '{HEAD}' AND idx = -3",), "T3"),
    Edit(
        "answer forged",
        (f"INSERT INTO checkpoint_writes SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, -4, '__resume__', type, "
         f"blob, task_path FROM checkpoint_writes WHERE {OF} = '{HEAD}' AND idx = -3",),
        "T1 T4 T5",
    ),
    Edit(
        "answer forged without a tag",
        (f"INSERT INTO checkpoint_writes ({WRITE}) VALUES ('alice', '', '{HEAD}', 'task-1', '~a', -4, '__resume__', "
         "'msgpack', '\\xc3')",),
        "untagged",
    ),
    Edit("channel of a write changed", (f"UPDATE checkpoint_writes SET channel = '__resume__' WHERE {OF} = '{HEAD}' AND idx = -3",), "T1"),
    Edit("tag of a write stripped", (f"UPDATE checkpoint_writes SET type = split_part(type, '|', 1) WHERE {OF} = '{HEAD}' AND idx = 0",), "untagged"),
    Edit("writes of two tasks in another order", (f"UPDATE checkpoint_writes SET task_path = '~0' WHERE {OF} = '{HEAD}' AND task_id = 'task-2'",), "T4"),
    Edit("index of a write changed", (f"UPDATE checkpoint_writes SET idx = 7 WHERE {OF} = '{HEAD}' AND task_id = 'task-2'",), "T4", "list"),
    Edit(
        "write moved to another checkpoint",
        (f"UPDATE checkpoint_writes SET checkpoint_id = '{HEAD}', task_id = 'task-9' WHERE {OF} = '{OLDER}' AND task_id = 'task-2'",),
        "T1",
        "head older list filter",
    ),
    Edit("writes without a value", (f"UPDATE checkpoint_writes SET type = NULL WHERE {OF} = '{HEAD}' AND idx = 0",), "untagged undecodable"),
    Edit(
        "a view in the place of the table",
        ("ALTER TABLE checkpoints RENAME TO kept",
         f"CREATE VIEW checkpoints AS SELECT * FROM kept WHERE checkpoint_id < '{HEAD}'"),
        "schema T2",
    ),
)  # fmt: skip


def refusals(saver: Any) -> dict[str, str]:
    """Case by read; a read that serves is not in it."""
    reads = {
        "head": lambda: saver.get_tuple(place("alice")),
        "older": lambda: saver.get_tuple(place("alice", OLDER)),
        "list": lambda: list(saver.list(place("alice"))),
        "filter": lambda: list(saver.list(None, filter={"owner": "alice"})),
    }
    found = {}
    for name, read in reads.items():
        try:
            read()
        except IntegrityError as error:
            found[name] = error.case
    return found


# Every edit under a running process; every third one between two, where the first touch scans.
CASES = [
    (e, w)
    for n, e in enumerate(EDITS)
    for w in ("while it runs", "between runs")
    if w[0] == "w" or n % 3 == 0
]


@pytest.mark.parametrize(("edit", "when"), CASES, ids=lambda e: e if isinstance(e, str) else e.name)
def test_every_edit_is_refused_on_read(scene: Any, kit: Any, edit: Edit, when: str) -> None:
    serde = kit.CountingSerde()
    saver = scene.saver(serde)
    fill(saver)
    for statement in edit.sql:
        scene.sql(statement)
        assert scene.changed != 0, statement
    if when == "between runs":
        scene.close()
        saver = scene.saver(serde)
    serde.decoded.clear()
    found = refusals(saver)
    assert set(edit.refused.split()) <= set(found), found
    assert set(found.values()) <= set(edit.case.split()) | {"T2", "T3", "T5", "T7"}, found
    assert any(case in edit.case.split() for case in found.values()), found
    assert b"\x91a1ff" not in b"".join(serde.decoded)
    if "bob" not in str(edit.sql) and "view" not in edit.name:  # another tenant is not touched
        assert saver.get_tuple(place("bob")) is not None


@pytest.mark.parametrize("edit", EDITS[::5], ids=lambda e: e.name)
async def test_the_async_saver_refuses_them_too(scene: Any, edit: Edit) -> None:
    async with scene.asaver() as saver:
        await afill(saver)
        for statement in edit.sql:
            scene.sql(statement)
        reads = {"head": None, "older": OLDER}
        refused = set()
        for name, key in reads.items():
            try:
                await saver.aget_tuple(place("alice", key))
            except IntegrityError:
                refused.add(name)
        with pytest.raises(IntegrityError):
            _ = [item async for item in saver.alist(place("alice"))]
        assert refused >= set(edit.refused.split()) & set(reads)


def test_a_row_that_was_replaced_is_not_served_in_its_older_form(scene: Any) -> None:
    saver = scene.saver()
    fill(saver)
    scene.sql(f"CREATE TABLE kept AS SELECT * FROM checkpoints {ROW}")
    state = saver.get_tuple(place("alice", HEAD)).checkpoint
    saver.put(place("alice", OLDER), {**state, "channel_values": {**state["channel_values"], "limit": 1}},
              {"source": "update", "step": 9, "parents": {}}, {})  # fmt: skip
    scene.sql("UPDATE checkpoints c SET checkpoint = k.checkpoint, metadata = k.metadata FROM kept k "
              "WHERE c.thread_id = k.thread_id AND c.checkpoint_id = k.checkpoint_id")  # fmt: skip
    assert refusals(saver)["head"] == "T7"


def test_a_deleted_thread_that_comes_back_is_refused(scene: Any) -> None:
    saver = scene.saver()
    fill(saver)
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
        scene.sql(f"CREATE TABLE kept_{table} AS SELECT * FROM {table} WHERE thread_id = 'alice'")
    saver.delete_thread("alice")
    assert saver.get_tuple(place("alice")) is None
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
        scene.sql(f"INSERT INTO {table} SELECT * FROM kept_{table}")
    with pytest.raises(IntegrityError):
        saver.get_tuple(place("alice"))
    with pytest.raises(IntegrityError):
        list(saver.list(None))


def test_a_copy_of_the_whole_database_that_is_put_back_is_a_rollback(
    scene: Any, postgres_server: Any, new_database: Any
) -> None:
    saver = scene.saver()
    fill(saver)
    name = scene.uri.rpartition("/")[2]
    scene.close()
    copy = postgres_server.database(template=name)
    again = scene.saver()
    again.put_writes(place("alice", HEAD), [("log", ["later"])], "task-3")
    scene.close()
    scene.uri = copy
    try:
        with pytest.raises(RollbackError):
            scene.saver().get_tuple(place("alice"))
    finally:
        scene.close()
        postgres_server.drop(copy.rpartition("/")[2])


def test_a_value_that_was_swapped_before_a_put_is_not_taken_over(scene: Any) -> None:
    """The next checkpoint would show it: a put in a new process seals what a verified checkpoint shows, or refuses."""
    saver = scene.saver()
    fill(saver)
    scene.close()
    scene.sql(
        "UPDATE checkpoint_blobs SET blob = set_byte(blob, 5, 90) WHERE thread_id = 'alice' AND channel = 'fixed'"
    )
    saver = scene.saver()
    checkpoint: Any = {
        **empty_checkpoint(), "v": 4, "id": "1f000000-0000-6000-8000-000000000004",
        "channel_values": {"fixed": {"owner": "alice"}}, "channel_versions": {"fixed": "1"},
    }  # fmt: skip
    for parent in (HEAD, None):
        with pytest.raises(TamperedError):
            saver.put(place("alice", parent), checkpoint, {"source": "loop", "step": 4, "parents": {}}, {})
    assert scene.sql("SELECT count(*) FROM checkpoints WHERE thread_id = 'alice'") == [(3,)]


def test_a_value_that_was_put_there_first_is_not_taken_over(scene: Any) -> None:
    saver = scene.saver()
    fill(saver)
    scene.sql("INSERT INTO checkpoint_blobs VALUES ('alice', '', 'log', '77', 'msgpack', '\\x91a46576696c')")
    checkpoint: Any = {
        **empty_checkpoint(), "v": 4, "id": "1f000000-0000-6000-8000-000000000004",
        "channel_values": {"log": ["mine"]}, "channel_versions": {"log": "77"},
    }  # fmt: skip
    with pytest.raises(TamperedError) as caught:
        saver.put(
            place("alice", HEAD), checkpoint, {"source": "loop", "step": 4, "parents": {}}, {"log": "77"}
        )
    assert caught.value.case == "T5"


def test_what_an_administrator_may_do_raises_no_alarm(scene: Any) -> None:
    saver = scene.saver()
    fill(saver)
    before = [repr(item) for item in saver.list(None)]
    for statement in (
        "VACUUM FULL checkpoints", "REINDEX TABLE checkpoint_writes", "ANALYZE", "CLUSTER checkpoints USING checkpoints_pkey",
        "CREATE INDEX mine ON checkpoints ((metadata ->> 'owner'))", "VACUUM (FREEZE) checkpoint_blobs",
        "CREATE TABLE elsewhere (n int)", "COMMENT ON TABLE checkpoints IS 'guarded'",
    ):  # fmt: skip
        scene.sql(statement)
        assert [repr(item) for item in saver.list(None)] == before, statement
    scene.close()
    again = scene.saver()
    assert [repr(item) for item in again.list(None)] == before
    assert MemGuard is not None


def test_an_edit_with_generic_tools_is_refused(scene: Any, postgres_server: Any) -> None:
    """pg_dump and psql: another program's text format, rows in another order, none of it an alarm; one edit is."""
    saver = scene.saver()
    fill(saver)
    before = [repr(item) for item in saver.list(None)]
    scene.close()
    name = scene.uri.rpartition("/")[2]
    tool = postgres_server._bin / "pg_dump"
    dump = subprocess.run([str(tool), "-d", scene.uri], capture_output=True, text=True, check=True).stdout
    for text, clean in ((dump, True), (dump.replace('"owner": "alice"', '"owner": "mallo"'), False)):
        restored = postgres_server.database("restored")
        postgres_server.psql(
            text.replace("\\restrict", "--").replace("\\unrestrict", "--"), restored.rpartition("/")[2]
        )
        scene.uri = restored
        again = scene.saver()
        if clean:
            assert [repr(item) for item in again.list(None)] == before
        else:
            with pytest.raises(TamperedError):
                list(again.list(None))
        scene.close()
        postgres_server.drop(restored.rpartition("/")[2])
    assert name
