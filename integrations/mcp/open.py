"""The memory file of an MCP server as the command line opens it: ``kind = "mcp-memory"``, ``uri = "file:PATH"``."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from memguard.integrations.local import local
from memguard.integrations.mcp.graph import KnowledgeGraph


def _file(uri: str) -> Path:
    """The file behind ``file:PATH``; raises ConfigError (MG151) if there is none."""
    return local(uri, "file", "memory file", "memory.jsonl")


class GraphCanary:
    """One entity of a name of its own."""

    def __init__(self, token: str) -> None:
        self._name = token

    def write(self, guarded: Any, text: str) -> None:
        """Create an entity that has ``text`` for its observation."""
        entity = {"name": self._name, "entityType": "canary", "observations": [text]}
        guarded.apply("create_entities", {"entities": [entity]})

    def read(self, guarded: Any) -> str | None:
        """Its observation."""
        return self._text(guarded.apply("open_nodes", {"names": [self._name]}))

    async def aread(self, guarded: Any) -> str | None:
        """The same through the asynchronous twin."""
        return self._text(await guarded.aapply("open_nodes", {"names": [self._name]}))

    @staticmethod
    def _text(graph: Any) -> str | None:
        return str(graph["entities"][0]["observations"][0]) if graph["entities"] else None

    def tamper(self, uri: str, old: str, new: str) -> bool:
        """Replace ``old`` by ``new`` in the file; whether it changed."""
        path = _file(uri)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, new), encoding="utf-8")
        return old in text


class GraphKind:
    """See :class:`memguard.cli.stores.StoreKind`."""

    name = "mcp-memory"
    canary = GraphCanary

    def accepts(self, inner: object) -> bool:
        """Whether ``inner`` is a knowledge graph."""
        return isinstance(inner, KnowledgeGraph)

    @contextmanager
    def open(self, uri: str) -> Iterator[KnowledgeGraph]:
        """The graph in the file that ``uri`` names, without its server.

        Raises:
            ConfigError: MG151.
        """
        yield KnowledgeGraph(_file(uri))

    @asynccontextmanager
    async def aopen(self, uri: str) -> AsyncIterator[KnowledgeGraph]:
        """The same inside a running loop."""
        yield KnowledgeGraph(_file(uri))

    def path(self, inner: KnowledgeGraph) -> Path:
        """The file."""
        return inner.path

    def durable(self, inner: KnowledgeGraph) -> bool:
        """The guard has every change on the disk before it is acknowledged."""
        return True

    def swept(self, inner: KnowledgeGraph) -> None:
        """Nothing expires."""
        return None

    def texts(self, guarded: Any) -> Iterator[str]:
        """What it serves, observation by observation."""
        for entity in guarded.apply("read_graph", {})["entities"]:
            yield from entity["observations"]

    def copy(self, path: Path, folder: Path) -> str:
        """A copy in ``folder``; its URI."""
        target = folder / "copy.jsonl"
        shutil.copyfile(path, target)
        return f"file:{target}"


GRAPH = GraphKind()
