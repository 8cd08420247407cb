"""Letta servers as the command line opens them: ``kind = "letta"``, ``uri = "http://localhost:8283"``.

Credentials come from the environment as for any client (``LETTA_API_KEY``); what they can list is what is looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from memguard.errors import ConfigError, UnsupportedError


class LettaKind:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "letta"

    def canary(self, token: str) -> Any:
        """There is none: nothing of a server can be copied to try an edit on.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a Letta server has no canary.", code="MG130", do="make letta tries one.")

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is a client of either sort."""
        return any(
            cls.__module__.partition(".")[0] == "letta_client" and cls.__name__ in ("Letta", "AsyncLetta")
            for cls in type(inner).__mro__
        )

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """A client of the server at ``uri``; nothing is asked of it yet.

        Raises:
            ConfigError: MG151, this is no address.
        """
        from letta_client import Letta

        _address(uri)
        with Letta(base_url=uri) as client:
            yield client

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The asynchronous client."""
        from letta_client import AsyncLetta

        _address(uri)
        async with AsyncLetta(base_url=uri) as client:
            yield client

    def path(self, inner: Any) -> Path | None:
        """It has no local file."""
        return None

    def durable(self, inner: Any) -> bool | None:
        """The server's business."""
        return None

    def swept(self, inner: Any) -> bool | None:
        """Nothing expires."""
        return None

    def copy(self, path: Path, folder: Path) -> str:
        """A server cannot be copied.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("a Letta server cannot be copied.", code="MG130", do="make letta tries one.")

    def texts(self, guarded: Any) -> Iterator[str]:
        """What blocks and passages say, each checked first."""
        memory = guarded.__dict__["_memguard"].rows.memory
        collection = memory.collection
        run = guarded.__dict__["_memguard"].run
        for context in run(collection.names()):
            if not context.startswith("agent:"):
                for entry in run(collection.all(context)):
                    yield str(entry.value.get("value") or entry.value.get("text") or "")


def _address(uri: str) -> None:
    if uri.partition("://")[0] not in ("http", "https"):
        raise ConfigError(
            "this kind of store is opened by the address of its server",
            code="MG151",
            where=uri,
            do='Write uri = "http://localhost:8283".',
        )


LETTA = LettaKind()
