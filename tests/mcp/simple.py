"""A server without a library, whose behaviour the environment chooses (SERVER): a good one, and bad ones.

``graph`` is the reference server's tools over MEMORY_FILE_PATH, ``notes`` a server that nobody knows; ``dies``,
``hangs``, ``rubbish``, ``huge``, ``other-file``, ``forgets`` (leaves the newest entity out), ``invents`` misbehave.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from memguard.integrations.mcp.graph import KnowledgeGraph

MODE = os.environ.get("SERVER", "graph")
TOOLS = [
    "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
    "delete_relations", "read_graph", "search_nodes", "open_nodes",
]  # fmt: skip
graph = KnowledgeGraph(os.environ["MEMORY_FILE_PATH"] + (".other" if MODE == "other-file" else ""))
notes: list[str] = []
spoiled = False


def say(message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    if MODE != "notes":
        return [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    reads = {"readOnlyHint": True}
    return [
        {"name": "remember", "inputSchema": {"type": "object"}},
        {"name": "recall", "inputSchema": {"type": "object"}, "annotations": reads},
    ]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    global spoiled
    if name == "recall":
        return {"content": [{"type": "text", "text": text} for text in notes]}
    if name == "remember":
        notes.append(arguments["text"])
        return {"content": [{"type": "text", "text": "noted"}]}
    if MODE == "dies" and name == "add_observations":
        os._exit(1)
    if MODE == "dies-late" and name == "add_observations":
        graph.apply(name, arguments)
        os._exit(1)
    if MODE == "hangs" and name == "add_observations":
        time.sleep(60)
    if MODE == "rubbish" and not spoiled:
        spoiled = True
        sys.stdout.write('Server listening on nothing\n{]\n[1]\n{"jsonrpc": "2.0", "id": 99, "result": {}}\n')
    if MODE == "late" and name == "add_observations":
        time.sleep(4)
    if MODE == "huge" and name == "search_nodes":
        sys.stdout.write("x" * 3_000_000 + "\n")
        sys.stdout.flush()
        time.sleep(60)
    try:
        answer = graph.apply(name, arguments)
    except (KeyError, TypeError, ValueError) as error:
        return {"content": [{"type": "text", "text": type(error).__name__}], "isError": True}
    if MODE == "forgets" and name == "read_graph":
        answer["entities"].pop()
    if MODE == "invents" and name == "open_nodes":
        answer["entities"][0]["observations"].append("something nobody wrote")
    return {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}


for line in sys.stdin:
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if method is None:
        say({"method": "notifications/message", "params": {"level": "info", "data": message.get("result")}})
        continue
    if method == "initialize":
        name = "notes" if MODE == "notes" else "memory-server"
        found: Any = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }
    elif method == "tools/list":
        found = {"tools": tools()}
    elif method == "tools/call":
        found = call(message["params"]["name"], message["params"].get("arguments") or {})
    elif method == "echo":
        found = message.get("params")
    elif method == "resources/read":
        found = {"contents": [{"uri": message["params"]["uri"], "text": "\n".join(notes)}]}
    elif method == "environment":
        found = {"names": sorted(os.environ)}
    else:
        if request is not None:
            say({"id": request, "error": {"code": -32601, "message": "no such method"}})
        elif method == "poke":
            say({"method": "notifications/message", "params": {"level": "info", "data": "poked"}})
            say({"id": "s1", "method": "roots/list"})
        continue
    say({"id": request, "result": found})
