"""The throw-away server that every PostgreSQL test stands on."""

from __future__ import annotations

import signal

import psycopg
import pytest

from memguard.bench.suts.postgres_server import PostgresServer


def test_each_test_has_an_empty_database_with_pgvector_at_hand(postgres_uri: str) -> None:
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        counted = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert counted == (0,)
        connection.execute("CREATE EXTENSION vector")
        near = connection.execute("SELECT '[1,2]'::vector <-> '[1,5]'::vector").fetchone()
        assert near == (3.0,)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_it_keeps_port_and_acknowledged_rows_over_every_way_to_stop(how: signal.Signals) -> None:
    with PostgresServer(durable=True) as server:
        uri = server.database()
        with psycopg.connect(uri) as connection:
            connection.execute("CREATE TABLE kept (n int)")
            connection.execute("INSERT INTO kept VALUES (7)")
        server.restart(how)
        with psycopg.connect(uri) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(7,)]
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(uri, connect_timeout=2)
