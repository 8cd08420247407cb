"""A guarded PostgresSaver over crashes of the client and of the server, and in company that it should not have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row

from memguard import ForgottenError, IntegrityError, MemGuard, TamperedError, UnsupportedError
from memguard.bench.suts.postgres_server import PostgresServer
from memguard.custody.writing import Writing


def place(thread: str, checkpoint: str | None = None) -> Any:
    configurable = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": {**configurable, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


def made(number: int) -> Any:
    checkpoint: Any = empty_checkpoint()
    version = f"{number:032}.0.{number:016}"
    checkpoint.update({"v": 4, "channel_values": {"log": [number]}, "channel_versions": {"log": version}})
    checkpoint["id"] = f"1f000000-0000-6000-8000-{number:012x}"
    return checkpoint


def put(saver: Any, config: Any, number: int) -> Any:
    checkpoint = made(number)
    metadata: Any = {"source": "loop", "step": number, "parents": {}}
    return saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])


def logs(saver: Any, thread: str) -> list[Any]:
    return [item.checkpoint["channel_values"]["log"] for item in saver.list(place(thread))]


# --- crashes of the client ------------------------------------------------------------------------------------

CHILD = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_pg_lifecycle import PgLife, put, place
from memguard.custody.writing import Writing
life = PgLife(Path({root!r}), {uri!r})
saver = life.saver()
config = put(saver, place("t"), 1)
saver.put_writes(config, [("log", 1)], "task")
def die(*_, **__):
    os._exit(7)
{before}
{patch}
{act}
"""


class PgLife:
    """A home and a saver, for a process that will be killed."""

    def __init__(self, root: Path, uri: str) -> None:
        uris = {"anchor": f"file:{root / 'anchor'}", "keys": f"file:{root / 'key.json'}"}
        home = root / "home"
        self.mg = MemGuard.open(home, **uris) if home.exists() else MemGuard.create(home, **uris)
        self.conn = psycopg.connect(uri, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        inner = PostgresSaver(self.conn)
        inner.setup()
        self._inner = inner

    def saver(self) -> Any:
        return self.mg.guard(self._inner, name="checkpoints")


#: What a process does before, and what it dies in.
ACTS = {
    "put": ("", "put(saver, config, 2)"),
    "first put": ("", "put(saver, place('new'), 2)"),
    "put_writes": ("", "saver.put_writes(config, [('log', 2), ('log', 3)], 'task-2')"),
    "delete_thread": ("", "saver.delete_thread('t')"),
    "prune": ("put(saver, config, 2)", "saver.prune(['t'])"),
}
#: Where it dies: after the store's commit and before the head, or after the intent and before the commit.
PATCHES = {"head": "Writing._advance_all = die", "commit": "saver._ops._change = die"}
#: What the thread holds then. An announced deletion is completed; anything else is there whole, or not at all.
LEFT = {
    ("put", "head"): [[2], [1]],
    ("put", "commit"): [[1]],
    ("first put", "head"): [[1]],
    ("put_writes", "head"): [[1]],
    ("delete_thread", "head"): [],
    ("delete_thread", "commit"): [],
    ("prune", "head"): [[2]],
    ("prune", "commit"): [[2], [1]],
}


def died(scene: Any, act: str, where: str) -> None:
    before, what = ACTS[act]
    places = {"tests": str(Path(__file__).parent), "root": str(scene.root), "uri": scene.uri}
    code = CHILD.format(**places, before=before, patch=PATCHES[where], act=what)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize(("act", "where"), LEFT)
def test_a_client_that_dies_in_the_middle_leaves_one_state_or_the_other(
    scene: Any, act: str, where: str
) -> None:
    died(scene, act, where)
    saver = scene.saver()
    assert logs(saver, "t") == LEFT[act, where]
    assert logs(saver, "new") == ([[2]] if act == "first put" else [])
    if act == "put_writes":
        assert len(saver.get_tuple(place("t")).pending_writes) == 3
    if act == "delete_thread":
        with pytest.raises(ForgottenError):
            put(saver, place("t", made(1)["id"]), 9)
    put(saver, place("again"), 5)
    assert logs(saver, "again") == [[5]]
    mg = scene.guard()
    assert mg.audit(mg.guard(scene.bare(), name="checkpoints")).clean


def test_a_transaction_that_a_killed_writer_left_is_waited_for(scene: Any) -> None:
    """Its server process goes on after it: nothing is said of the rows before that ends."""
    died(scene, "put", "commit")
    with psycopg.connect(scene.uri) as left:  # stands for the server process of the one that was killed
        left.execute("DELETE FROM checkpoint_writes WHERE thread_id = 'nobody'")
        saver, answers = scene.saver(), []
        reader = threading.Thread(target=lambda: answers.append(logs(saver, "t")))
        reader.start()
        reader.join(0.7)
        assert answers == []
        left.rollback()
        reader.join(20)
    assert answers == [[[1]]]


# --- the server -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_server_that_goes_away_raises_the_drivers_error_and_loses_nothing(
    tmp_path: Path, how: signal.Signals
) -> None:
    with PostgresServer(durable=True) as server:
        life = PgLife(tmp_path, uri := server.database())
        saver = life.saver()
        config = put(saver, place("t"), 1)
        server.stop(how)
        for call in (
            lambda: put(saver, config, 2),
            lambda: saver.get_tuple(place("t")),
            lambda: logs(saver, "t"),
            lambda: saver.delete_thread("t"),
        ):
            with pytest.raises(psycopg.OperationalError):
                call()
        life.mg.close()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(uri, connect_timeout=2)
        server.start()
        again = PgLife(tmp_path, uri).saver()
        # The deletion was announced before the server was found gone: its caller has the error, and it is completed.
        assert logs(again, "t") in ([[1]], [])
        put(again, place("u"), 3)
        assert logs(again, "u") == [[3]]


def test_a_pool_finds_its_server_again_and_the_guard_with_it(tmp_path: Path) -> None:
    from psycopg_pool import ConnectionPool

    options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    uris = {"anchor": f"file:{tmp_path / 'anchor'}", "keys": f"file:{tmp_path / 'key.json'}"}
    with PostgresServer(durable=True) as server:
        uri = server.database()
        with ConnectionPool(uri, kwargs=options, min_size=1, max_size=2, timeout=3, open=True) as pool:
            mg = MemGuard.create(tmp_path / "home", **uris)
            saver = mg.guard(PostgresSaver(pool), name="checkpoints")  # type: ignore[arg-type]
            saver.setup()
            config = put(saver, place("t"), 1)
            server.stop(signal.SIGQUIT)
            with pytest.raises(psycopg.OperationalError):
                put(saver, config, 2)
            server.start()
            for _ in range(20):  # connections that broke are found one by one
                try:
                    config = put(saver, config, 2)
                    break
                except psycopg.OperationalError:
                    continue
            put(saver, config, 3)
            assert logs(saver, "t") == [[3], [2], [1]]
            assert mg.audit(saver).clean
            mg.close()


def test_a_session_that_is_ended_in_the_middle_of_a_put_is_settled(scene: Any) -> None:
    saver = scene.saver(way="pool")
    config = put(saver, place("t"), 1)
    scene.sql("ALTER TABLE checkpoints ADD CONSTRAINT slow CHECK (pg_sleep(0.0) IS NOT NULL)")
    scene.sql("ALTER TABLE checkpoints DROP CONSTRAINT slow")
    with psycopg.connect(scene.uri) as holder:
        holder.execute("LOCK TABLE checkpoints IN SHARE MODE")  # the put waits for it, and is ended there
        failed: list[BaseException] = []

        def write() -> None:
            try:
                put(saver, config, 2)
            except Exception as error:
                failed.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        ended = 0
        while not ended:
            ended = len(scene.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND wait_event_type = 'Lock' AND query LIKE '%%INSERT INTO checkpoints%%'"
            ))  # fmt: skip
        holder.rollback()
        writer.join(30)
    assert isinstance(failed[0], psycopg.OperationalError)
    assert logs(saver, "t") == [[1]]
    put(saver, config, 3)
    assert logs(saver, "t") == [[3], [1]]


# --- whom it is not for ---------------------------------------------------------------------------------------


def test_a_shallow_saver_is_refused(scene: Any) -> None:
    scene.set_up()
    with (
        psycopg.connect(scene.uri, autocommit=True, row_factory=dict_row) as conn,
        pytest.warns(DeprecationWarning, match="hallow"),
    ):
        shallow = ShallowPostgresSaver(conn)
    with pytest.raises(UnsupportedError) as caught:
        scene.guard().guard(shallow, name="checkpoints")
    assert caught.value.code == "MG500"


def test_a_saver_with_statements_of_its_own_is_refused(scene: Any) -> None:
    class Elsewhere(PostgresSaver):
        SELECT_SQL = PostgresSaver.SELECT_SQL.replace("from checkpoints", "from my_checkpoints")

    inner = scene.bare()
    with pytest.raises(UnsupportedError) as caught:
        scene.guard().guard(Elsewhere(inner.conn), name="checkpoints")
    assert caught.value.code == "MG500"

    class Plain(PostgresSaver):
        """A subclass that leaves the statements alone is welcome."""

    assert put(scene.guard().guard(Plain(inner.conn), name="other"), place("t"), 1)


def test_writes_that_would_not_be_committed_are_refused_and_nothing_is_counted(scene: Any) -> None:
    scene.set_up()
    with (
        psycopg.connect(scene.uri, row_factory=dict_row) as manual,
        pytest.raises(UnsupportedError) as caught,
    ):
        scene.guard().guard(PostgresSaver(manual), name="checkpoints")
    assert caught.value.code == "MG512"
    saver = scene.saver()
    config = put(saver, place("t"), 1)
    with saver.conn.transaction(force_rollback=True):
        for call in (
            lambda: put(saver, config, 2),
            lambda: saver.put_writes(config, [("log", 2)], "task"),
            lambda: saver.delete_thread("t"),
            lambda: saver.prune(["t"]),
        ):
            with pytest.raises(UnsupportedError):
                call()
        assert logs(saver, "t") == [[1]]  # reading is allowed
    put(saver, config, 2)
    assert logs(saver, "t") == [[2], [1]]


def test_an_unguarded_writer_is_reported_with_the_ways_out(scene: Any) -> None:
    saver = scene.saver()
    config = put(saver, place("t"), 1)
    bare = scene.bare()
    put(bare, config, 2)
    put(bare, place("theirs"), 3)
    for read in (
        lambda: saver.get_tuple(place("t")),
        lambda: logs(saver, "t"),
        lambda: saver.get_tuple(place("theirs")),
    ):
        with pytest.raises(TamperedError) as caught:
            read()
        assert (caught.value.case, caught.value.code) == ("untagged", "MG404")
        assert "adopt" in str(caught.value)
        assert "REVOKE" in str(caught.value)
    mg = scene.guard()
    guarded = mg.guard(scene.bare(), name="checkpoints")
    assert {f.case for f in mg.audit(guarded).findings} == {"untagged"}
    # Their own thread is adopted, the row in ours is dropped.
    assert mg.adopt(guarded, apply=True).applied
    assert logs(guarded, "theirs") == [[3]]
    assert mg.repair(guarded, apply=True).applied
    assert logs(guarded, "t") == [[1]]
    assert mg.audit(guarded).clean


def test_tables_that_are_not_there_raise_what_the_bare_saver_raises(
    postgres_uri: str, tmp_path: Path
) -> None:
    with PostgresSaver.from_conn_string(postgres_uri) as inner:
        uris = {"anchor": f"file:{tmp_path / 'anchor'}", "keys": f"file:{tmp_path / 'key.json'}"}
        mg = MemGuard.create(tmp_path / "home", **uris)
        saver = mg.guard(inner, name="checkpoints")
        with pytest.raises(psycopg.errors.UndefinedTable):
            put(saver, place("t"), 1)
        saver.setup()
        put(saver, place("t"), 1)
        assert logs(saver, "t") == [[1]]
        saver.setup()  # again, and on tables with rows
        assert logs(saver, "t") == [[1]]
        mg.close()


# --- graphs ---------------------------------------------------------------------------------------------------


def graph(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("ai", f"answer {len(state['messages'])}")]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def test_a_graph_runs_forks_and_resumes_in_another_process(scene: Any) -> None:
    config = {"configurable": {"thread_id": "g"}}
    compiled = graph(scene.saver(way="pool"))
    for text in ("one", "two"):
        compiled.invoke({"messages": [("user", text)]}, config)
    history = [s.config["configurable"]["checkpoint_id"] for s in compiled.get_state_history(config)]
    scene.close()
    compiled = graph(scene.saver())
    assert [s.config["configurable"]["checkpoint_id"] for s in compiled.get_state_history(config)] == history
    compiled.update_state(
        {"configurable": {"thread_id": "g", "checkpoint_id": history[-2]}}, {"messages": [("user", "fork")]}
    )
    said = [m.content for m in compiled.get_state(config).values["messages"]]
    assert said[-1] == "fork"
    compiled.invoke({"messages": [("user", "three")]}, config)
    mg = scene.guard()
    assert mg.audit(mg.guard(scene.bare(), name="checkpoints")).clean


async def test_an_async_graph_runs_with_sync_calls_from_threads(scene: Any) -> None:
    import asyncio

    config = {"configurable": {"thread_id": "g"}}
    async with scene.asaver(way="pool") as saver:
        assert isinstance(saver, AsyncPostgresSaver)
        compiled = graph(saver)
        await asyncio.gather(
            *(
                compiled.ainvoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": f"g{n}"}})
                for n in range(3)
            )
        )
        await compiled.ainvoke({"messages": [("user", "one")]}, config)
        found = await asyncio.to_thread(saver.get_tuple, place("g"))
        assert [m.content for m in found.checkpoint["channel_values"]["messages"]] == ["one", "answer 1"]
        with pytest.raises(UnsupportedError):
            saver.get_tuple(place("g"))
    assert os.getpid()
    assert Writing is not None


def test_two_processes_on_one_home_see_each_other(scene: Any) -> None:
    code = CHILD.format(
        tests=str(Path(__file__).parent), root=str(scene.root), uri=scene.uri, before="", patch="",
        act="[put(saver, place(f'p{n}'), n) for n in range(2, 12)]",
    )  # fmt: skip
    saver = scene.saver()
    put(saver, place("mine"), 1)
    other = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    for number in range(2, 12):
        put(saver, place(f"m{number}"), number)
        assert logs(saver, "mine") == [[1]]
    assert other.wait(60) == 0, other.stderr
    assert [logs(saver, f"p{n}") for n in range(2, 12)] == [[[n]] for n in range(2, 12)]
    scene.sql("DELETE FROM checkpoints WHERE thread_id = 'p5'")
    with pytest.raises(IntegrityError):
        logs(saver, "p5")
