"""The reference MCP memory server, bare or behind the proxy's guard: a context is an entity, a record an observation.

The server is the real one (node; ``make mcp`` puts it there). The guarded side is what ``memguard mcp-proxy`` runs,
without the client's pipes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.document_cases import GRAPH_KIND
from memguard.bench.integrity.edits.documents import HERE, META, Doc, observation, parsed_observation
from memguard.bench.integrity.seeding import OWNERS
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import HOME, Item, Record
from memguard.errors import ConfigError, MemguardError
from memguard.integrations.mcp.profiles import GraphProfile
from memguard.integrations.mcp.server import Server

#: Where ``make mcp`` puts the server, below the working directory, and the variable that says another place.
INSTALLED = ".venv/mcp-server/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
VARIABLE = "MEMGUARD_MCP_SERVER"
#: Seconds for an answer: a bench may share its machine.
_SECONDS = 60.0
_LIMIT = 16 << 20


def server_file() -> Path:
    """The file that node runs.

    Raises:
        ConfigError: node or the server is not here.
    """
    found = Path(os.environ.get(VARIABLE) or INSTALLED)
    if shutil.which("node") is None or not found.is_file():
        raise ConfigError(
            "the reference MCP memory server is not here",
            where=str(found),
            do=f"make mcp installs it (node and npm are needed); {VARIABLE} names another place.",
        )
    return found.absolute()


class McpSut(Guarded):
    """The reference memory server, through its tools."""

    kind = "mcp-memory"
    edits = GRAPH_KIND

    def __init__(self, cell: Path, name: Name) -> None:
        super().__init__(cell, name, "memories")
        self._file = HERE
        self._entry = server_file()
        self._server: Server | None = None
        self._tools: Any = None

    def versions(self) -> dict[str, str]:
        """The server's package, and the guard's where it is used."""
        package = json.loads((self._entry.parents[1] / "package.json").read_text(encoding="utf-8"))
        found = {"@modelcontextprotocol/server-memory": str(package["version"])}
        return found | (self.package_versions("memguard-middleware") if self.guarded else {})

    def backend(self) -> str:
        """A JSONL file."""
        return "JSONL file, written whole by the server"

    def features(self) -> dict[str, str]:
        """Only the guard."""
        return self.guard_features()

    def start(self) -> None:
        """Start the server, guard it, and greet it as a client does."""
        os.environ["MEMORY_FILE_PATH"] = str(self.database)
        try:
            self._server = Server(["node", str(self._entry)], seconds=_SECONDS, limit=_LIMIT)
        finally:
            del os.environ["MEMORY_FILE_PATH"]
        self._server.start()
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self._server.ask("initialize", about)
        self._server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if self.guarded:
            from memguard import MemGuard

            self._mg = MemGuard.open(self.cell / HOME)
            self._wrapped = GraphProfile(self._mg, self._server, self.database, self._store_name, "assistant")

    def stop(self) -> None:
        """Close the guard, then end the server."""
        self.unwrap()
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _call(self, tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments}
        assert self._server is not None
        found = self._wrapped.call(params) if self.guarded else self._server.ask("tools/call", params)
        if found.get("isError"):
            raise MemguardError("the server refused a call.", code="MG606", where=tool)
        return found["structuredContent"]

    def _doc(self, record: Record) -> Doc:
        return Doc(f"m-{record.n}", record.text, tuple((n, str(getattr(record, n))) for n in META))

    def write(self, record: Record) -> None:
        """``create_entities`` for the first of a context, ``add_observations`` for the others."""
        name, text = OWNERS[record.context], observation(self._doc(record))
        if self.records.get(record.context):
            self._call("add_observations", observations=[{"entityName": name, "contents": [text]}])
        else:
            entity = {"name": name, "entityType": "person", "observations": [text]}
            self._call("create_entities", entities=[entity])
        self.records.setdefault(record.context, []).append(record)

    def _forget(self, context: str, n: int) -> str:
        """Delete the observation of the n-th record; its text."""
        (entity,) = self._call("open_nodes", names=[OWNERS[context]])["entities"]
        text = next(t for t in entity["observations"] if parsed_observation(t).slot == f"m-{n}")
        self._call("delete_observations", deletions=[{"entityName": OWNERS[context], "observations": [text]}])
        return str(text)

    def delete(self, context: str) -> None:
        """``delete_observations`` of the second one."""
        self._forget(context, 1)

    def replace(self, context: str) -> None:
        """The server changes no observation: the old one is deleted and a new one added under its id."""
        doc = parsed_observation(self._forget(context, 2))
        text = observation(Doc(doc.slot, f"{doc.text} (withdrawn, ask first)", doc.meta))
        self._call("add_observations", observations=[{"entityName": OWNERS[context], "contents": [text]}])

    def key(self, record: Record) -> str:
        """Entity and id."""
        return f"{OWNERS[record.context]}/m-{record.n}"

    def body(self, record: Record) -> Mapping[str, Any]:
        """Text and members."""
        doc = self._doc(record)
        return {"text": doc.text, **dict(doc.meta)}

    def paths(self) -> tuple[str, ...]:
        """By name."""
        return ("open",)

    def wide_paths(self) -> tuple[str, ...]:
        """The whole graph."""
        return ("everywhere",)

    def read(self, context: str, path: str) -> list[Item]:
        """Serve an entity, or the graph."""
        if path == "everywhere":
            graph = self._call("read_graph")
        else:
            graph = self._call("open_nodes", names=[OWNERS[context]])
        return [
            _item(entity["name"], text) for entity in graph["entities"] for text in entity["observations"]
        ]


def _item(name: str, text: str) -> Item:
    doc = parsed_observation(text)
    body = {"text": doc.text, **dict(doc.meta)} if doc.raw is None else {"unreadable": text}
    return Item(f"{name}/{doc.slot}", body)


def reference(cell: Path, name: Name) -> McpSut:
    """The reference memory server."""
    return McpSut(cell, name)
