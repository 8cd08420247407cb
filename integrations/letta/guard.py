"""From a Letta client to its guarded twin."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

from memguard.care import Handle
from memguard.collection import Collection, CollectionCare
from memguard.engine import MemGuard
from memguard.errors import ConfigError, UnsupportedError
from memguard.integrations.letta.book import Book
from memguard.integrations.letta.client import Desk, guarded_client, run
from memguard.integrations.letta.memory import Memory, generation
from memguard.integrations.letta.table import LettaTable
from memguard.integrations.letta.wire import Wire

#: File of seals and allowances in the home.
BOOK = "letta.db"
_MODES = ("approve", "read_only", "verify")
_CLIENT = ((1, 12), (2, 0))


class LettaCare(CollectionCare):
    """See :class:`~memguard.care.CareRows`; ``memory`` is what acceptance of changes needs."""

    def __init__(self, collection: Collection, memory: Memory) -> None:
        super().__init__(collection)
        self.memory = memory


def guard_letta(mg: MemGuard, client: Any, name: str | None, overrides: Mapping[str, Any]) -> Any:
    """Guard a ``Letta`` or ``AsyncLetta``. The client itself is unchanged, and no request is made here.

    Args:
        overrides: ``server_edits`` (approve, read_only or verify), and settings of ``[integrity]``.

    Raises:
        ConfigError: MG560, it has no base_url of its own (its default is somebody else's cloud); or a wrong option.
        UnsupportedError: MG562, a version of letta-client that was not tried.
    """
    settings = dict(overrides)
    server_edits = settings.pop("server_edits", mg.config.letta.server_edits)
    if server_edits not in _MODES:
        raise ConfigError(
            f"{str(server_edits)[:40]!r} is no way with the server's edits.",
            code="MG104",
            do=f"server_edits is one of {', '.join(_MODES)}.",
        )
    _supported()
    place = _place(client)
    wire = Wire(client)
    held: list[Collection] = []
    book = Book(mg.home / BOOK, mg.keys, "")
    table = LettaTable(wire, book, lambda context: generation(held[0], context))
    collection = Collection(
        mg, table, text=lambda value: str((value or {}).get("value") or (value or {}).get("text") or "")
    )
    held.append(collection)
    collection.open(client, name, kind="letta", place=place, overrides=settings)
    book.store = collection.store
    memory = Memory(mg, collection, table, book)
    guarded = guarded_client(client, Desk(memory, server_edits))
    handle = Handle(mg, collection.custody, LettaCare(collection, memory), run, client)
    guarded = mg.attach(guarded, handle)
    mg.quarantine.know(collection.store, guarded)
    return guarded


def _place(client: Any) -> str:
    """The server's address, which somebody must have given."""
    url = str(client.base_url).rstrip("/")
    if getattr(client, "_environment", None) == "cloud":
        raise ConfigError(
            "this client has no base_url.",
            code="MG560",
            why="Without one it talks to Letta's cloud, and nothing is sent to a service that nobody named.",
            do='Letta(base_url="http://localhost:8283"); the cloud too is named: base_url="https://api.letta.com".',
        )
    return url


def _supported() -> None:
    version = importlib.metadata.version("letta-client")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    least, below = _CLIENT
    if not least <= numbers < below:
        raise UnsupportedError(
            f"letta-client {version} is not supported.",
            code="MG562",
            why=f"memguard was tried with {least[0]}.{least[1]} up to {below[0]}.0 (exclusive).",
            do="pip install 'memguard-middleware[letta]'",
        )
