"""What PostgreSQL adds to the contract of anchors: sessions that end, servers that are away, tables that are edited."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.anchors.postgres import OVERHEAD, PostgresAnchor
from memguard.errors import AnchorError, ConfigError
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord
from memguard.keys import open_keys
from memguard.ports import Cursor, SharedAnchor
from memguard.postgres import Address, lock_key
from memguard.slot import NOTHING_NOTED

if TYPE_CHECKING:
    from memguard.bench.suts.postgres_server import PostgresServer

Sql = Callable[[str], str]
OWNER = object()


@pytest.fixture
def anchor(postgres_uri: str) -> Iterator[PostgresAnchor]:
    made = open_anchor(postgres_uri, create=True)
    assert isinstance(made, PostgresAnchor)
    yield made
    made.close()


@pytest.fixture
def other(postgres_uri: str, anchor: PostgresAnchor) -> Iterator[PostgresAnchor]:
    made = open_anchor(postgres_uri)
    assert isinstance(made, PostgresAnchor)
    yield made
    made.close()


@pytest.fixture
def sql(postgres_server: PostgresServer, postgres_uri: str) -> Sql:
    """The adversary's or the administrator's own session."""
    return lambda text: postgres_server.psql(text, postgres_uri.rpartition("/")[2])


def put(anchor: Any, *records: bytes) -> Cursor:
    assert anchor.acquire()
    try:
        made: Cursor = anchor.append(records, sync=True)
        return made
    finally:
        anchor.release()


def cut(anchor: PostgresAnchor, sql: Sql) -> None:
    """End the session on which the anchor holds its locks, as a network or an administrator does."""
    assert "t" in sql(f"SELECT pg_terminate_backend({anchor.session.backend}, 5000)")


# -- addresses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rest",
    [
        "//u:hunter2@h/db",
        "//u@h/db?password=hunter2",
        "//u:hunter2@h1,h2:5433/db",
        "//h/db?sslpassword=hunter2",
    ],
)
def test_a_password_has_no_place_in_an_address_and_in_no_message(rest: str) -> None:
    for create in (True, False):
        with pytest.raises(ConfigError) as caught:
            open_anchor(f"postgresql:{rest}", create=create)
        assert caught.value.code == "MG526"
        assert "hunter2" not in str(caught.value.as_dict())


@pytest.mark.parametrize("schema", ["", "Up", "a-b", "pg_x", "1a", 'x"; DROP', "a" * 49])
def test_a_schema_is_a_plain_name(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        Address(f"//h/db?schema={schema}")


def test_what_is_ours_is_not_given_to_the_driver() -> None:
    made = Address("//u@h/db?schema=mine&patience=2.5&sslmode=require&connect_timeout=3")
    assert (made.schema, made.patience) == ("mine", 2.5)
    assert "schema" not in made.conninfo
    assert "patience" not in made.conninfo
    for part in ("sslmode=require", "connect_timeout=3", "target_session_attrs=read-write"):
        assert part in made.conninfo
    with pytest.raises(ConfigError, match="patience"):
        Address("//h/db?patience=soon")


def test_two_schemas_of_one_database_are_two_anchors(postgres_uri: str, anchor: PostgresAnchor) -> None:
    second = open_anchor(f"{postgres_uri}?schema=second", create=True)
    put(anchor, b"first")
    assert anchor.acquire()
    assert second.acquire(blocking=False), "locks of one keep the other out"
    second.append([b"second"], sync=True)
    second.release()
    anchor.release()
    assert anchor.read(None)[0] == [b"first"]
    assert second.read(None)[0] == [b"second"]
    second.close()
    assert lock_key("a", "b:c") != lock_key("a:b", "c")


def test_the_numbers_of_the_specification(anchor: PostgresAnchor, sql: Sql) -> None:
    """docs/spec/anchor-log.md: other programs that write the log must lock and count as this one does."""
    assert lock_key("memguard", "log") == 4115882566454235002
    put(anchor, b"a", b"", b"abc")
    rows = sql(
        "SELECT string_agg(place || ' ' || encode(payload, 'hex'), ',' ORDER BY place) FROM memguard.record"
    )
    assert rows.strip() == "25 61,49 ,76 616263"
    assert (
        sql("SELECT epoch || ' ' || last || ' ' || length(log_id) FROM memguard.anchor").strip() == "1 76 32"
    )
    assert anchor.acquire()
    anchor.read(None)
    anchor.compact([b"ab"])
    assert (
        sql(
            "SELECT epoch || ' ' || last || ' ' || (SELECT max(place) FROM memguard.record) FROM memguard.anchor"
        ).strip()
        == "2 26 26"
    )
    anchor.release()


# -- a server that is not there, or will not -----------------------------------------------------------------------


def test_an_unreachable_server_is_an_error_of_its_own() -> None:
    with pytest.raises(AnchorError) as caught:
        open_anchor("postgresql://nobody@127.0.0.1:1/none")
    assert caught.value.code == "MG520"
    assert caught.value.why == "Nothing listens there."
    assert caught.value.do


def test_a_database_that_is_not_there(postgres_server: PostgresServer) -> None:
    with pytest.raises(AnchorError) as caught:
        open_anchor(postgres_server.uri("gone"))
    assert (caught.value.code, caught.value.why) == ("MG520", "Its database or role does not exist.")


def test_a_database_without_a_log_is_a_missing_anchor_and_stays_one(postgres_uri: str, sql: Sql) -> None:
    with pytest.raises(AnchorError) as caught:
        open_anchor(postgres_uri)
    assert caught.value.code == "MG411"
    assert sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'memguard'").strip() == "0"


def test_another_format_is_not_guessed_at(postgres_uri: str, anchor: PostgresAnchor, sql: Sql) -> None:
    sql("UPDATE memguard.anchor SET format = 2")
    with pytest.raises(AnchorError) as caught:
        open_anchor(postgres_uri)
    assert caught.value.code == "MG524"


def test_a_server_that_takes_no_writes(postgres_uri: str, anchor: PostgresAnchor, sql: Sql) -> None:
    name = postgres_uri.rpartition("/")[2]
    sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with pytest.raises(AnchorError) as caught:
        open_anchor(postgres_uri)
    assert caught.value.code == "MG523"


def test_a_role_without_rights(
    postgres_server: PostgresServer, postgres_uri: str, anchor: PostgresAnchor, sql: Sql
) -> None:
    put(anchor, b"1")
    sql("CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA memguard TO reader")
    sql("GRANT SELECT ON ALL TABLES IN SCHEMA memguard TO reader")
    try:
        weak = open_anchor(postgres_uri.replace("postgres@", "reader@"))
        assert weak.read(None)[0] == [b"1"]
        assert weak.acquire()
        with pytest.raises(AnchorError) as caught:
            weak.append([b"2"], sync=True)
        assert caught.value.code == "MG525"
        weak.release()
        weak.close()
        assert put(anchor, b"3").offset == 2 * (OVERHEAD + 1)
    finally:
        sql("DROP OWNED BY reader; DROP ROLE reader")


# -- a log that somebody edits ---------------------------------------------------------------------------------------


@pytest.fixture
def log(anchor: PostgresAnchor) -> AnchorLog:
    keys = open_keys("memory:postgres-anchor", create=True)
    AnchorLog.begin(anchor, keys)
    made = AnchorLog(anchor, keys)
    for generation in (1, 2, 3):
        head = Head("c", generation=generation)
        made.write([HeadRecord("s", "put", 1.0, keys.current, head, None)], sync=True)
    return made


def again(log: AnchorLog, postgres_uri: str) -> AnchorLog:
    return AnchorLog(open_anchor(postgres_uri), log.keys)


def test_a_log_cut_short_is_seen_by_those_who_had_read_it(log: AnchorLog, sql: Sql) -> None:
    sql("DELETE FROM memguard.record WHERE place = (SELECT max(place) FROM memguard.record)")
    sql("UPDATE memguard.anchor SET last = (SELECT max(place) FROM memguard.record)")
    with pytest.raises(AnchorError, match="rolled back"):
        log.refresh()
    with pytest.raises(AnchorError, match="rolled back"):
        log.write([HeadRecord("s", "put", 1.0, log.keys.current, Head("c", generation=4), None)], sync=True)
    assert sql("SELECT count(*) FROM memguard.record").strip() == "3", "and nothing was written over it"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("DELETE FROM memguard.record WHERE place = (SELECT max(place) FROM memguard.record)", "missing"),
        ("DELETE FROM memguard.record WHERE place = (SELECT min(place) FROM memguard.record)", "missing"),
        ("INSERT INTO memguard.record SELECT max(place) + 25, 'x' FROM memguard.record", "too many"),
        ("DELETE FROM memguard.record", "missing"),
        (
            "UPDATE memguard.record SET payload = set_byte(payload, 40, 1 + get_byte(payload, 40) % 255)",
            "parse|follow",
        ),
        ("UPDATE memguard.anchor SET last = last + 30", "missing"),
        ("DELETE FROM memguard.anchor", "rolled back|find"),
        ("DROP TABLE memguard.record", "find"),
    ],
)
def test_an_edited_log_is_refused_by_who_opens_it(
    log: AnchorLog, postgres_uri: str, sql: Sql, edit: str, said: str
) -> None:
    sql(edit)
    with pytest.raises(AnchorError, match=f"(?i){said}"):
        again(log, postgres_uri).refresh()


def test_an_older_copy_of_the_tables_is_seen_by_those_who_knew_the_newer(log: AnchorLog, sql: Sql) -> None:
    """What a standby that was promoted without the last transactions looks like."""
    sql("CREATE TABLE public.a AS TABLE memguard.anchor; CREATE TABLE public.r AS TABLE memguard.record")
    log.write([HeadRecord("s", "put", 1.0, log.keys.current, Head("c", generation=4), None)], sync=True)
    sql(
        "BEGIN; DELETE FROM memguard.anchor; INSERT INTO memguard.anchor TABLE public.a; "
        "DELETE FROM memguard.record; INSERT INTO memguard.record TABLE public.r; COMMIT"
    )
    with pytest.raises(AnchorError, match="rolled back"):
        log.refresh()


def test_another_log_in_its_place(postgres_uri: str, anchor: PostgresAnchor, sql: Sql) -> None:
    put(anchor, b"1")
    sql("DROP SCHEMA memguard CASCADE")
    open_anchor(postgres_uri, create=True).close()
    with pytest.raises(AnchorError, match="rolled back or replaced"):
        anchor.read(None)
    with pytest.raises(AnchorError, match="rolled back or replaced"):
        anchor.acquire()


# -- sessions and locks ------------------------------------------------------------------------------------------------


def test_a_lost_idle_connection_is_made_again(anchor: PostgresAnchor, sql: Sql) -> None:
    cursor = put(anchor, b"1")
    sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'memguard'")
    assert not anchor.changed(cursor)
    assert put(anchor, b"2").offset == 2 * (OVERHEAD + 1)
    assert anchor.read(cursor)[0] == [b"2"]


def test_a_writer_whose_session_ended_appends_nothing_and_others_go_on(
    anchor: PostgresAnchor, other: PostgresAnchor, sql: Sql
) -> None:
    assert anchor.acquire()
    anchor.append([b"1"], sync=True)
    cut(anchor, sql)
    assert other.acquire(), "its lock went with its session"
    other.append([b"2"], sync=True)
    other.release()
    for code in ("MG521", "MG527"):
        with pytest.raises(AnchorError) as caught:
            anchor.append([b"lost"], sync=True)
        assert caught.value.code == code
    anchor.release()
    put(anchor, b"3")
    assert other.read(None)[0] == [b"1", b"2", b"3"]


def test_nobody_of_the_process_goes_on_before_every_lost_lock_is_given_back(
    anchor: PostgresAnchor, sql: Sql
) -> None:
    first, second = anchor.lease("a"), anchor.lease("b")
    assert first.acquire(OWNER)
    cut(anchor, sql)
    with pytest.raises(AnchorError) as caught:
        first.write(b"x")
    assert caught.value.code == "MG521"
    assert not second.acquire(OWNER, blocking=False), (
        "a new session while somebody believes to hold the old one's lock"
    )
    with pytest.raises(AnchorError) as caught:
        first.write(b"x")
    assert caught.value.code == "MG527"
    for call in (anchor.acquire, lambda: anchor.lock("table:x").acquire(OWNER)):
        with pytest.raises(AnchorError) as caught:  # at once: it may be the one that lost a lock who asks
            call()
        assert caught.value.code == "MG527"
    first.release()
    assert second.acquire(OWNER, blocking=False)
    second.release()


def test_a_lease_keeps_hosts_apart_and_hands_the_note_on(
    anchor: PostgresAnchor, other: PostgresAnchor
) -> None:
    assert isinstance(anchor, SharedAnchor)
    mine, theirs, elsewhere = anchor.lease("s"), other.lease("s"), other.lease("t")
    assert anchor.lease("s") is mine
    assert mine.acquire(OWNER)
    assert mine.read() == b""
    mine.write(b"about to put")
    assert not theirs.acquire(OWNER, blocking=False)
    assert elsewhere.acquire(OWNER, blocking=False)
    elsewhere.release()
    mine.release()  # interrupted: it never said that it was over
    assert theirs.acquire(OWNER, blocking=False)
    assert theirs.read() == b"about to put"
    assert theirs.same(b"about to put")
    theirs.write(b"mine now")
    theirs.write(NOTHING_NOTED)
    theirs.release()
    assert mine.acquire(OWNER, blocking=False)
    assert mine.read() == NOTHING_NOTED
    mine.release()


def test_a_note_survives_its_writer_and_its_lock_does_not(anchor: PostgresAnchor, postgres_uri: str) -> None:
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        lease = open_anchor(postgres_uri).lease("s")  # type: ignore[attr-defined]
        lease.acquire(OWNER)
        lease.write(b"half-way")
        os.write(go, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    mine = anchor.lease("s")
    assert not mine.acquire(OWNER, blocking=False)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert mine.acquire(OWNER)
    assert mine.read() == b"half-way"
    mine.release()


def test_a_wait_ends_with_an_error_that_says_so(postgres_uri: str, anchor: PostgresAnchor) -> None:
    hasty = open_anchor(f"{postgres_uri}?patience=0.2")
    assert anchor.acquire()
    with pytest.raises(AnchorError) as caught:
        hasty.acquire()
    assert caught.value.code == "MG522"
    anchor.release()
    assert hasty.acquire()
    hasty.release()
    lease, waiting = anchor.lease("s"), hasty.lease("s")  # type: ignore[attr-defined]
    assert lease.acquire(OWNER)
    with pytest.raises(AnchorError, match=r"0\.2 seconds"):
        waiting.acquire(OWNER)
    assert waiting.tired(time.monotonic()) is None
    assert waiting.tired(time.monotonic() - 1).code == "MG522"
    lease.release()
    hasty.close()


def test_threads_of_one_process_take_turns(anchor: PostgresAnchor) -> None:
    """A session may take its advisory lock twice: without a lock in the process two threads would both have it."""
    lease, inside, most = anchor.lease("s"), [0], [0]

    def work() -> None:
        for _ in range(15):
            lease.acquire(OWNER)
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            lease.write(b"x")
            inside[0] -= 1
            lease.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_forked_child_makes_connections_of_its_own(anchor: PostgresAnchor) -> None:
    put(anchor, b"1")
    lease = anchor.lease("s")
    assert lease.acquire(OWNER)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert not lease.acquire(OWNER, blocking=False)  # the parent's
            put(anchor, b"2")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    lease.write(b"still mine")
    lease.release()
    assert anchor.read(None)[0] == [b"1", b"2"]


def test_an_append_beside_the_lock_is_found(anchor: PostgresAnchor, sql: Sql) -> None:
    put(anchor, b"1")
    assert anchor.acquire()
    sql("INSERT INTO memguard.record SELECT last + 25, 'x' FROM memguard.anchor")
    sql("UPDATE memguard.anchor SET last = last + 25")
    with pytest.raises(AnchorError) as caught:
        anchor.append([b"2"], sync=True)
    assert caught.value.code == "MG528"
    anchor.release()
    assert anchor.read(None)[0] == [b"1", b"x"]


def test_a_crash_of_the_server_begins_another_life_and_takes_nothing(tmp_path: Path) -> None:
    from memguard.bench.suts.postgres_server import PostgresServer

    with PostgresServer(durable=True) as server:
        anchor = open_anchor(server.database(), create=True)
        assert isinstance(anchor, PostgresAnchor)
        cursor = put(anchor, b"1", b"2")
        before = anchor.life()
        assert before == anchor.life()
        assert anchor.acquire()
        server.stop(signal.SIGQUIT)
        with pytest.raises(AnchorError) as caught:
            anchor.append([b"3"], sync=True)
        assert caught.value.code == "MG521"
        anchor.release()
        with pytest.raises(AnchorError) as caught:
            anchor.acquire()
        assert caught.value.code == "MG520"
        with pytest.raises(AnchorError) as caught:
            anchor.changed(cursor)
        assert caught.value.code in ("MG520", "MG521")
        server.start()
        assert not anchor.changed(cursor)
        put(anchor, b"3")
        assert anchor.read(cursor)[0] == [b"3"]
        assert anchor.life() != before
        anchor.close()
