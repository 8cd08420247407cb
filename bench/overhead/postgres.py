"""A bare and a guarded PostgresSaver or PostgresStore side by side, on one durable server on the measured volume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memguard.bench.overhead.guarding import Guarding
from memguard.bench.overhead.saver import SaverPair, Side
from memguard.bench.overhead.store import StorePair
from memguard.bench.suts.postgres_server import PostgresServer


@contextmanager
def postgres_pair(
    folder: Path, size: int, *, sync: str = "strict", guards: str = "off", seed: int = 0
) -> Iterator[SaverPair]:
    """Open both savers, each over a connection as ``from_conn_string`` makes it; everything ends afterwards."""
    from langgraph.checkpoint.postgres import PostgresSaver

    folder.mkdir(parents=True)
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(folder / "data", durable=sync != "bulk"))
        bare, inner = (
            stack.enter_context(PostgresSaver.from_conn_string(server.database(name)))
            for name in ("bare", "guarded")
        )
        bare.setup()
        inner.setup()
        guarding = Guarding.create(folder, sync=sync, guards=guards)
        stack.callback(guarding.close)
        yield SaverPair(Side(bare), Side(guarding.guard(inner, "overhead")), guarding, size, seed)


@contextmanager
def postgres_store_pair(
    folder: Path, items: int, *, sync: str = "strict", guards: str = "off"
) -> Iterator[StorePair]:
    """Open both stores, each over a connection as ``from_conn_string`` makes it, and fill them."""
    from langgraph.store.postgres import PostgresStore

    folder.mkdir(parents=True)
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(folder / "data", durable=sync != "bulk"))
        bare, inner = (
            stack.enter_context(PostgresStore.from_conn_string(server.database(name)))
            for name in ("bare", "guarded")
        )
        bare.setup()
        inner.setup()
        guarding = Guarding.create(folder, sync=sync, guards=guards)
        stack.callback(guarding.close)
        pair = StorePair(bare, guarding.guard(inner, "overhead-store"), guarding, items)
        pair.fill()
        yield pair
