"""A home, a memory file, servers of several kinds behind the proxy, and a client that speaks plain JSON-RPC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memguard import MemGuard

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIMPLE = [sys.executable, str(HERE / "simple.py")]
PEER = [sys.executable, str(HERE / "peer.py")]


def reference() -> list[str]:
    """The command of the reference memory server; skips where ``make mcp`` has not put it there."""
    found = os.environ.get("MEMGUARD_MCP_SERVER") or str(
        ROOT / ".venv/mcp-server/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    )
    if not Path(found).is_file():
        pytest.skip("the reference MCP memory server is not here: make mcp (needs node and npm)")
    return ["node", found]


class Client:
    """A client of the proxy, over its pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._count = process, 0
        #: Messages that answered nothing that was asked.
        self.other: list[Any] = []

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, method: str, params: Any = None) -> Any:
        """A request; its result, or its error."""
        self._count += 1
        self.send({"id": self._count, "method": method, "params": params or {}})
        return self.answer(self._count)

    def answer(self, request: Any) -> Any:
        while (message := self.receive()) is not None:
            if message.get("id") == request and "method" not in message:
                return message.get("result", message.get("error"))
            self.other.append(message)
        return None

    def call(self, tool: str, source: str | None = None, **arguments: Any) -> Any:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if source is not None:
            params["_meta"] = {"memguard/source": source}
        return self.ask("tools/call", params)

    def begin(self) -> Any:
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        found = self.ask("initialize", about)
        self.send({"method": "notifications/initialized"})
        return found

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=30)


class Place:
    """A home and a memory file."""

    def __init__(self, base: Path, **config: Any) -> None:
        self.base, self.home, self.file = base, base / "home", base / "memory.jsonl"
        MemGuard.create(
            self.home,
            anchor=f"file:{base / 'anchor'}",
            keys=f"file:{base / 'key.json'}",
            config=config or None,
        ).close()
        self._open: list[Client] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "MEMORY_FILE_PATH": str(self.file), "PYTHONPATH": "", **more}

    def proxy(self, *options: str, server: list[str] | None = None, **environment: str) -> Client:
        """A client behind a fresh proxy."""
        start = [sys.executable, "-c", "from memguard.cli import main; main()", "--home", str(self.home)]
        command = [*start, "mcp-proxy", "--name", "memory", *options, "--", *(server or SIMPLE)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(**environment),
        )
        made = Client(process)
        self._open.append(made)
        return made

    def end(self) -> None:
        for client in self._open:
            client.process.kill()
            client.process.wait()
            for pipe in (client.process.stdin, client.process.stdout, client.process.stderr):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.end()


@pytest.fixture
def peers() -> Callable[[str], list[str]]:
    """Commands of servers by name."""
    return lambda name: {"simple": lambda: SIMPLE, "peer": lambda: PEER, "reference": reference}[name]()
