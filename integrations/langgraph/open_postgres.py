"""The PostgreSQL kinds of LangGraph as the command line opens them: by URI, of a server that is there already."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from memguard.errors import ConfigError, UnsupportedError
from memguard.integrations.langgraph.open import SaverCanary, StoreCanary

#: Seconds to wait for a server, where the URI says nothing else.
_PATIENCE = "10"
#: Settings under which an acknowledged commit outlives a power cut.
_DURABLE = "SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') NOT IN ('off')"


def shown(uri: str) -> str:
    """A URI for messages: host, port and database, and nothing that may be a secret."""
    from psycopg.conninfo import conninfo_to_dict

    try:
        said = conninfo_to_dict(uri)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, its text is not repeated
        return "(a PostgreSQL URI that does not parse)"
    return f"postgresql://{said.get('host') or ''}:{said.get('port') or 5432}/{said.get('dbname') or ''}"


def checked(uri: str) -> str:
    """The connection string of ``postgresql://...``, with a time limit.

    Raises:
        ConfigError: MG151, it is none; UnsupportedError: MG133, psycopg is not installed.
    """
    if uri.partition("://")[0] not in ("postgresql", "postgres"):
        raise ConfigError(
            "this kind of store is opened by postgresql://HOST/DATABASE",
            code="MG151",
            do='Write uri = "postgresql://agent@db.example/agent"; a password belongs in ~/.pgpass or PGPASSWORD.',
        )
    try:
        from psycopg.conninfo import make_conninfo
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "a PostgreSQL URI needs psycopg, which is not installed",
            code="MG133",
            do="pip install 'memguard-middleware[postgres]'",
        ) from error
    try:
        return make_conninfo(uri, **({} if "connect_timeout" in uri else {"connect_timeout": _PATIENCE}))
    except Exception:  # noqa: BLE001 - as above
        raise ConfigError("the PostgreSQL URI does not parse", code="MG151", where=shown(uri)) from None


def unreachable(uri: str, error: BaseException) -> ConfigError:
    """The error for a server that does not answer, or does not let us in."""
    state = getattr(error, "sqlstate", None)
    return ConfigError(
        "the PostgreSQL server cannot be reached.",
        code="MG503",
        where=shown(uri),
        why=f"{type(error).__name__}{f' {state}' if state else ''}. Nothing was read or changed.",
        do="Start it, or correct host, port, database and role in the uri; psql with the same URI says more.",
    )


class PostgresKind:
    """One kind: see :class:`memguard.cli.stores.StoreKind`.

    Args:
        name: the ``kind`` of ``[stores.NAME]``.
        types: names of the types it stands for.
        table: a table that its setup makes.
        made: a connection to an opened bare object.
        canary: writes, reads and edits one record.
        amade: an asynchronous context manager over a URI, for kinds with an asynchronous type.
    """

    #: What ``memguard doctor`` says of durable commits, and of others.
    durability = (
        "fsync=on, synchronous_commit on",
        "fsync or synchronous_commit is off: a power cut loses acknowledged records",
    )

    def __init__(
        self,
        name: str,
        types: tuple[str, ...],
        table: str,
        made: Callable[[Any], Any],
        canary: Callable[[str], Any],
        amade: Callable[[str], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self.name, self.types, self.canary = name, types, canary
        self._table, self._made, self._amade = table, made, amade

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` (a bare object) is of this kind."""
        return type(inner).__name__ in self.types and "postgres" in type(inner).__module__

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """The bare object over the database that ``uri`` names.

        Raises:
            ConfigError: MG151, no such URI, or a database without its tables; MG503, no server.
        """
        import psycopg
        from psycopg.rows import dict_row

        text = checked(uri)
        try:
            options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            connection = psycopg.connect(text, **options)
        except psycopg.Error as error:
            raise unreachable(uri, error) from None
        with connection:
            found: Any = connection.execute("SELECT to_regclass(%s) AS it", (self._table,)).fetchone()
            if found["it"] is None:
                raise ConfigError(
                    f"the database has no table {self._table}",
                    code="MG151",
                    where=shown(uri),
                    do="Correct the uri in [stores.NAME], or call setup() in the program first.",
                )
            yield self._made(connection)

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The object inside a running loop: of the asynchronous type where there is one.

        Raises:
            ConfigError: MG151, MG503.
        """
        import psycopg

        with self.open(uri) as inner:  # first: what is not there is said in one way
            if self._amade is None:
                yield inner
                return
        try:
            async with self._amade(checked(uri)) as asynchronous:
                yield asynchronous
        except psycopg.OperationalError as error:
            raise unreachable(uri, error) from None

    def path(self, inner: Any) -> Path | None:
        """None: a server's files are not ours to look at."""
        return None

    def durable(self, inner: Any) -> bool | None:
        """Whether commits on its connection outlive a power cut; None if that cannot be asked."""
        import psycopg

        connection = getattr(inner, "conn", None)
        if not isinstance(connection, psycopg.Connection):
            return None
        with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            found = cursor.execute(_DURABLE).fetchone()
        return bool(found and found[0])

    def swept(self, inner: Any) -> bool | None:
        """Whether expired rows are swept: None without a TTL, else whether the sweeper runs."""
        if not getattr(inner, "ttl_config", None):
            return None
        thread, task = getattr(inner, "_ttl_sweeper_thread", None), getattr(inner, "_ttl_sweeper_task", None)
        return bool((thread is not None and thread.is_alive()) or (task is not None and not task.done()))

    def texts(self, guarded: Any) -> Iterator[str]:
        """What a guarded object serves, text by text."""
        from memguard.integrations.langgraph.texts import texts_of

        return texts_of(guarded)

    def copy(self, path: Path, folder: Path) -> str:
        """A server's database has no file that could be copied.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a database on a server is copied by pg_dump.", code="MG148")


class PostgresSaverCanary(SaverCanary):
    """One checkpoint of a thread of its own."""

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the stored frame; whether a row changed."""
        import psycopg

        with psycopg.connect(checked(uri), autocommit=True) as connection:
            done = connection.execute(
                "UPDATE checkpoints SET checkpoint = replace(checkpoint::text, %s, %s)::jsonb "
                "WHERE thread_id = %s AND checkpoint::text LIKE '%%' || %s || '%%'",
                (old, new, self._thread, old),
            )
            return done.rowcount == 1


class PostgresStoreCanary(StoreCanary):
    """One item of a namespace of its own."""

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the stored value; whether a row changed."""
        import psycopg

        with psycopg.connect(checked(uri), autocommit=True) as connection:
            done = connection.execute(
                "UPDATE store SET value = replace(value::text, %s, %s)::jsonb "
                "WHERE prefix = %s AND strpos(value::text, %s) > 0",
                (old, new, ".".join(self._namespace), old),
            )
            return done.rowcount == 1


def _saver(connection: Any) -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver

    return PostgresSaver(connection)


@asynccontextmanager
async def _async_saver(text: str) -> AsyncIterator[Any]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(text) as saver:
        yield saver


# The asynchronous type writes the same tables, so an audit opens its database synchronously.
POSTGRES_SAVER = PostgresKind(
    "langgraph-postgres-saver", ("PostgresSaver",), "checkpoints", _saver, PostgresSaverCanary
)
ASYNC_POSTGRES_SAVER = PostgresKind(
    "langgraph-async-postgres-saver",
    ("AsyncPostgresSaver",),
    "checkpoints",
    _saver,
    PostgresSaverCanary,
    _async_saver,
)


def _store(connection: Any) -> Any:
    from langgraph.store.postgres import PostgresStore

    return PostgresStore(connection)


@asynccontextmanager
async def _async_store(text: str) -> AsyncIterator[Any]:
    from langgraph.store.postgres import AsyncPostgresStore

    async with AsyncPostgresStore.from_conn_string(text) as store:
        yield store


POSTGRES_STORE = PostgresKind(
    "langgraph-postgres-store",
    ("PostgresStore", "AsyncPostgresStore"),
    "store",
    _store,
    PostgresStoreCanary,
    _async_store,
)
