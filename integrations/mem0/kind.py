"""Mem0 as the command line opens it: ``kind = "mem0"``, ``uri = "file:mem0.json"``.

The file holds the configuration that the program gives to ``Memory.from_config``, as JSON or TOML. Only its vector
store and its history are opened: an audit asks no model, so no key of one is needed. ``file:FOLDER`` of a local Qdrant,
FAISS or Chroma store works too where it holds one collection; then the history is at Mem0's default place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from memguard.errors import ConfigError
from memguard.integrations.mem0.opening import look

_FULL = 2
_FOLDER_HISTORY = "history.db"


class Offline:
    """An embedder for records that the guard's own checks write: from words to axes, no model."""

    def __init__(self, dims: int) -> None:
        self._dims = dims

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        """A vector of unit length."""
        vector = [0.0] * self._dims
        for word in text.split() or [""]:
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % self._dims] += 1.0
        length = sum(x * x for x in vector) ** 0.5
        return [x / length for x in vector]


class Mem0Kind:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "mem0"

    def canary(self, token: str) -> Canary:
        """See the protocol."""
        return Canary(token)

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is a Memory or an AsyncMemory."""
        return any(
            cls.__name__ in ("Memory", "AsyncMemory") and cls.__module__ == "mem0.memory.main"
            for cls in type(inner).__mro__
        )

    @contextmanager
    def open(self, uri: str) -> Iterator[Any]:
        """A Memory over the vector store and the history that ``uri`` names, without its models.

        Raises:
            ConfigError: MG151.
            TamperedError: MG540, a file of it holds more than plain values; it was not opened.
        """
        memory = _bare(configuration(uri), uri)
        try:
            yield memory
        finally:
            memory.close()
            client = getattr(memory.vector_store, "client", None)
            if client is not None and hasattr(client, "close"):
                client.close()

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[Any]:
        """The same inside a running loop."""
        with self.open(uri) as memory:
            yield memory

    def path(self, inner: Any) -> Path | None:
        """The folder of the vector store, None for one on a server."""
        found = getattr(inner.config.vector_store.config, "path", None)
        remote = any(getattr(inner.config.vector_store.config, n, None) for n in ("host", "url"))
        return None if found is None or remote else Path(found)

    def durable(self, inner: Any) -> bool | None:
        """Whether the history is committed with synchronous=FULL; FAISS promises nothing."""
        if inner.config.vector_store.provider == "faiss":
            return False
        return int(inner.db.connection.execute("PRAGMA synchronous").fetchone()[0]) >= _FULL

    def swept(self, inner: Any) -> bool | None:
        """Expired memories are hidden, not deleted."""
        return None

    def texts(self, guarded: Any) -> Iterator[str]:
        """What the memories say, text by text."""
        from memguard.effects import drive
        from memguard.integrations.mem0.owners import MEMORY

        keeping = guarded._calls.keeping
        for context in drive(keeping.of_kind(MEMORY)):
            for entry in drive(keeping.all(context)):
                yield str(entry.value.get("data") or "")

    def copy(self, path: Path, folder: Path) -> str:
        """A copy of the vector store in ``folder``, with a history of its own; its URI."""
        target = folder / path.name
        shutil.copytree(path, target, ignore=shutil.ignore_patterns(".lock"))
        config = _config_of_folder(target)
        config["history_db_path"] = str(folder / _FOLDER_HISTORY)
        (folder / "mem0.json").write_text(json.dumps(config), encoding="utf-8")
        return f"file:{folder / 'mem0.json'}"


class Canary:
    """One memory of an owner of its own."""

    def __init__(self, token: str) -> None:
        self._owner = token

    def write(self, guarded: Any, text: str) -> None:
        """Store ``text`` as it stands."""
        guarded.add([{"role": "user", "content": text}], user_id=self._owner, infer=False)

    def read(self, guarded: Any) -> str | None:
        """The memory's text."""
        found = guarded.get_all(filters={"user_id": self._owner})["results"]
        return str(found[0]["memory"]) if found else None

    async def aread(self, guarded: Any) -> str | None:
        """The same inside a running loop."""
        return self.read(guarded)

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` (of the same length) in the store's files; whether the edit landed."""
        config = configuration(uri)
        settings = config["vector_store"]["config"]
        folder = Path(settings["path"])
        provider, collection = config["vector_store"]["provider"], settings["collection_name"]
        if provider == "faiss":
            file = folder / f"{collection}.json"
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(old, new), encoding="utf-8")
            return old in text
        if provider == "chroma":
            with closing(sqlite3.connect(folder / "chroma.sqlite3")) as connection, connection:
                done = connection.execute(
                    "UPDATE embedding_metadata SET string_value = replace(string_value, ?, ?)"
                    " WHERE key = 'data' AND instr(string_value, ?) > 0",
                    (old, new, old),
                )
                return done.rowcount > 0
        file = folder / "collection" / collection / "storage.sqlite"
        with closing(sqlite3.connect(file)) as connection, connection:
            landed = False
            for row, raw in connection.execute("SELECT rowid, point FROM points").fetchall():
                if old.encode() in raw:
                    edited = raw.replace(old.encode(), new.encode())
                    connection.execute("UPDATE points SET point = ? WHERE rowid = ?", (edited, row))
                    landed = True
            return landed


def configuration(uri: str) -> dict[str, Any]:
    """Mem0's configuration behind ``file:PATH``.

    Raises:
        ConfigError: MG151, another scheme, nothing there, or nothing that Mem0 could be made of.
    """
    scheme, _, rest = uri.partition(":")
    path = Path(rest).expanduser()
    if scheme != "file" or not rest:
        raise _unusable(uri, "this kind of store is opened by file:PATH", 'Write uri = "file:mem0.json".')
    if path.is_dir():
        return _config_of_folder(path)
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError:
        why = "there is no configuration of Mem0 at this path"
        raise _unusable(str(path), why, "Correct the uri in [stores.NAME].") from None
    except ValueError as error:
        why = f"this is no {path.suffix or 'TOML'} file ({type(error).__name__})"
        raise _unusable(str(path), why, "Write what Memory.from_config takes, as JSON or TOML.") from None
    if not isinstance(found, dict) or not isinstance(found.get("vector_store"), dict):
        raise _unusable(str(path), "it names no vector_store", "Write what Memory.from_config takes.")
    return found


def _config_of_folder(path: Path) -> dict[str, Any]:
    """A configuration for the one collection in a folder."""
    settings: dict[str, Any] = {"path": str(path)}
    if (path / "meta.json").is_file():
        provider = "qdrant"
        held = json.loads((path / "meta.json").read_text(encoding="utf-8"))["collections"]
        names = sorted(held)
    elif (path / "chroma.sqlite3").is_file():
        provider = "chroma"
        with closing(
            sqlite3.connect(f"{(path / 'chroma.sqlite3').resolve().as_uri()}?mode=ro", uri=True)
        ) as db:
            names = sorted(str(name) for (name,) in db.execute("SELECT name FROM collections"))
    else:
        provider, names = "faiss", sorted(file.stem for file in path.glob("*.faiss"))
    own = [name for name in names if not name.endswith("_entities")]
    if len(own) != 1:
        why = f"the folder holds {len(own) or 'no'} collections"
        raise _unusable(str(path), why, 'Name a configuration: uri = "file:mem0.json".')
    settings["collection_name"] = own[0]
    if provider == "qdrant":
        settings |= {"embedding_model_dims": held[own[0]]["vectors"]["size"], "on_disk": True}
    if provider == "faiss":
        import faiss

        index = faiss.read_index(str(path / f"{own[0]}.faiss"))
        settings["embedding_model_dims"] = index.d
        if index.metric_type == faiss.METRIC_INNER_PRODUCT:
            settings["distance_strategy"] = "inner_product"  # nothing but the index says so here
    return {"vector_store": {"provider": provider, "config": settings}}


def _bare(config: Mapping[str, Any], uri: str) -> Any:
    """A Memory with its stores and without its models."""
    from mem0.configs.base import MemoryConfig  # type: ignore[import-untyped]
    from mem0.memory.main import Memory  # type: ignore[import-untyped]
    from mem0.memory.storage import SQLiteManager  # type: ignore[import-untyped]
    from mem0.utils.factory import VectorStoreFactory  # type: ignore[import-untyped]

    parts = {k: v for k, v in config.items() if k in ("vector_store", "history_db_path", "version")}
    try:
        settings = MemoryConfig(**parts)
    except ValueError as error:
        raise _unusable(uri, f"Mem0 refuses it ({type(error).__name__})", "Correct it.") from None
    look(settings)
    store = settings.vector_store
    local = getattr(store.config, "path", None)
    remote = any(getattr(store.config, name, None) for name in ("host", "url", "connection_string"))
    if local is not None and not remote and not Path(local).exists():
        raise _unusable(
            local, "there is no vector store at this path", "Correct the path in the configuration."
        )
    if not os.path.exists(settings.history_db_path) and not uri.endswith("mem0.json"):
        why = "there is no history at this path"
        raise _unusable(settings.history_db_path, why, "Name it: history_db_path.")
    memory = Memory.__new__(Memory)
    memory.config = settings
    try:
        memory.vector_store = VectorStoreFactory.create(store.provider, store.config)
    except RuntimeError:
        why = "another process has this vector store open"
        raise _unusable(str(local), why, "Stop the program, or audit from within it.") from None
    memory.db = SQLiteManager(settings.history_db_path)
    memory.embedding_model = Offline(_dims(memory))
    memory.llm = memory.reranker = memory.custom_instructions = memory._entity_store = None
    memory.collection_name, memory.api_version = store.config.collection_name, settings.version
    return memory


def _dims(memory: Any) -> int:
    """Numbers in a vector of the collection; Chroma learns it from the first one."""
    named = getattr(memory.config.vector_store.config, "embedding_model_dims", None)
    model = getattr(getattr(memory.vector_store, "collection", None), "_model", None)
    return int(named or getattr(model, "dimension", None) or 8)


def _unusable(where: str, what: str, do: str) -> ConfigError:
    return ConfigError(what, code="MG151", where=where, do=do)


MEM0 = Mem0Kind()
