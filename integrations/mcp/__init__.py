"""MCP memory servers behind a guard: a proxy over stdio, and the knowledge graph of the reference server."""

from memguard.integrations.mcp.graph import KnowledgeGraph

__all__ = ["KnowledgeGraph"]
