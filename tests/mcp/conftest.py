"""A home, a memory file, servers of several kinds behind the proxy, and a client that speaks plain JSON-RPC."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memguard import MemGuard
from memguard.integrations.mcp.profiles import GenericProfile, GraphProfile
from memguard.integrations.mcp.proxy import Proxy, is_reference
from memguard.integrations.mcp.server import Server

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
    """A client of the proxy, over its pipes: what it writes, what it reads, and how the proxy is waited for."""

    def __init__(self, to: Any, back: Any, wait: Callable[[], int], said: Callable[[], str]) -> None:
        self._to, self._back, self._count = to, back, 0
        #: Waits for the proxy's end; its exit code. What it has said to stderr, once it has ended.
        self.wait, self.said = wait, said
        #: Messages that answered nothing that was asked.
        self.other: list[Any] = []

    def send(self, message: Any) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        self._to.write(text + "\n")
        self._to.flush()

    def receive(self) -> Any:
        line = self._back.readline()
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
        self._to.close()
        return self.wait()


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
        self._ends: list[Callable[[], None]] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "MEMORY_FILE_PATH": str(self.file), "PYTHONPATH": "", **more}

    def proxy(
        self,
        *,
        server: list[str] | None = None,
        seconds: float = 60,
        limit: int = 16 << 20,
        **environment: str,
    ) -> Client:
        """A client behind a proxy in this process; the server has one of its own."""
        mg = MemGuard.open(self.home)
        before = dict(os.environ)
        os.environ.update(self.environment(**environment))
        try:
            behind = Server(server or SIMPLE, seconds=seconds, limit=limit)
        finally:
            os.environ.clear()
            os.environ.update(before)
        (client_in, to), (back, client_out) = os.pipe(), os.pipe()
        said: list[str] = []
        code: list[int] = []

        def choose(called: str, tools: list[Any]) -> Any:
            if is_reference(called, tools):
                return GraphProfile(mg, behind, self.file, "memory", "assistant")
            said.append("MG609 NOT proved")
            return GenericProfile(mg, behind, "memory", "assistant")

        def serve() -> None:
            error = Proxy(client_in, client_out, behind, choose, limit=limit, tell=said.append).serve()
            mg.close()
            if error is not None:
                said.append(str(error))
            code.append(0 if error is None else 3)
            os.close(client_out)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()

        def wait() -> int:
            thread.join(timeout=60)
            return code[0]

        def end() -> None:
            behind.kill()
            thread.join(timeout=60)

        self._ends.append(end)
        return Client(os.fdopen(to, "w"), os.fdopen(back), wait, lambda: "\n".join(said))

    def command(self, *options: str, server: list[str] | None = None, **environment: str) -> Client:
        """A client behind ``memguard mcp-proxy`` as a user starts it."""
        start = [sys.executable, "-c", "from memguard.cli import main; main()", "--home", str(self.home)]
        process = subprocess.Popen(
            [*start, "mcp-proxy", "--name", "memory", *options, "--", *(server or SIMPLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(**environment),
        )
        assert process.stderr is not None

        def end() -> None:
            process.kill()
            process.communicate()

        self._ends.append(end)
        return Client(process.stdin, process.stdout, lambda: process.wait(timeout=60), process.stderr.read)

    def end(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError, ValueError):
                end()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.end()


@pytest.fixture
def peers() -> Callable[[str], list[str]]:
    """Commands of servers by name."""
    return lambda name: {"simple": lambda: SIMPLE, "peer": lambda: PEER, "reference": reference}[name]()
