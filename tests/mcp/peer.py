"""A memory server of our own, on the MCP SDK: the reference server's nine tools over the graph in MEMORY_FILE_PATH."""

from __future__ import annotations

import os
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from memguard.integrations.mcp.graph import KnowledgeGraph

graph = KnowledgeGraph(os.environ["MEMORY_FILE_PATH"])
server = MCPServer(os.environ.get("PEER_NAME", "memory-server"))
READS = ToolAnnotations(readOnlyHint=True)


@server.tool()
def create_entities(entities: list[dict[str, Any]]) -> dict[str, Any]:
    return graph.create_entities(entities)


@server.tool()
def create_relations(relations: list[dict[str, Any]]) -> dict[str, Any]:
    return graph.create_relations(relations)


@server.tool()
def add_observations(observations: list[dict[str, Any]]) -> dict[str, Any]:
    return graph.add_observations(observations)


@server.tool()
def delete_entities(entityNames: list[str]) -> dict[str, Any]:
    return graph.delete_entities(entityNames)


@server.tool()
def delete_observations(deletions: list[dict[str, Any]]) -> dict[str, Any]:
    return graph.delete_observations(deletions)


@server.tool()
def delete_relations(relations: list[dict[str, Any]]) -> dict[str, Any]:
    return graph.delete_relations(relations)


@server.tool(annotations=READS)
def read_graph() -> dict[str, Any]:
    return graph.read_graph()


@server.tool(annotations=READS)
def search_nodes(query: str) -> dict[str, Any]:
    return graph.search_nodes(query)


@server.tool(annotations=READS)
def open_nodes(names: list[str]) -> dict[str, Any]:
    return graph.open_nodes(names)


@server.resource("memory://about")
def about() -> str:
    return "a memory of facts"


@server.prompt()
def recall(topic: str) -> str:
    return f"What do you remember about {topic}?"


if __name__ == "__main__":
    server.run()
