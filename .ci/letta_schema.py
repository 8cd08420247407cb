"""Make the tables of a Letta server in an empty PostgreSQL database.

The released wheel brings the models and not the migrations, so the tables are made from the models; the one
thing that only a migration makes is the sequence behind the order of messages. Runs in Letta's own environment
with ``LETTA_PG_URI`` set: importing the models asks which database they are for.
"""

import asyncio
import importlib
import os
import pkgutil

import letta.orm
from letta.orm.base import Base
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

_STATEMENTS = (
    "create sequence if not exists messages_sequence_id_seq",
    "alter table messages alter column sequence_id set default nextval('messages_sequence_id_seq')",
)


async def main() -> None:
    """Import every model, then make their tables."""
    for module in pkgutil.iter_modules(letta.orm.__path__):
        if module.name != "sqlite_functions":  # wants an extension of SQLite, which is not used here
            importlib.import_module(f"letta.orm.{module.name}")
    uri = os.environ["LETTA_PG_URI"].partition("?")[0].replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(uri + "?ssl=disable")
    async with engine.begin() as connection:
        await connection.execute(text("create extension if not exists vector"))
        await connection.run_sync(Base.metadata.create_all)
        for statement in _STATEMENTS:
            await connection.execute(text(statement))
    await engine.dispose()


asyncio.run(main())
