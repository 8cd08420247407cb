"""From a knowledge graph to its guarded twin, and the tools of a served one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memguard.care import Existing, Handle
from memguard.collection import Collection, CollectionCare
from memguard.collection.beside import Beside, seals_of
from memguard.collection.faces import arun, run
from memguard.effects import Block, Operation
from memguard.engine import MemGuard
from memguard.integrations.face import Face
from memguard.integrations.mcp.calls import TOOLS, Answer, GraphCalls
from memguard.integrations.mcp.graph import KnowledgeGraph
from memguard.integrations.mcp.lines import DAMAGED
from memguard.integrations.mcp.table import Backend, GraphTable
from memguard.integrity.verifier import Context

KIND = "mcp-memory"


def graph_calls(
    mg: MemGuard,
    obj: Any,
    backend: Backend,
    path: Path,
    store_name: str | None,
    overrides: Mapping[str, Any],
    source: str = "assistant",
) -> tuple[GraphCalls, Handle]:
    """The guarded tools over a graph file.

    Args:
        obj: what is guarded: the graph, or what speaks to its server.
        backend: who changes the file.
    """
    seals = seals_of(mg)
    plain = GraphTable(path, backend)
    table = Beside(plain, seals)
    collection = Collection(mg, table)
    collection.open(obj, store_name, kind=KIND, place=str(path), overrides=overrides)
    table.store = collection.store
    collection.custody.closing.append(seals.close)
    handle = Handle(mg, collection.custody, GraphCare(collection, plain), run, obj)
    return GraphCalls(collection, plain, source), handle


class GraphCare(CollectionCare):
    """:class:`~memguard.collection.CollectionCare` of a file that the server cannot read while a line is damaged."""

    def __init__(self, collection: Collection, table: GraphTable) -> None:
        super().__init__(collection)
        self._table = table

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """Take records out; damaged lines go first, for without that nothing can."""
        yield Block(self._table.without_damage)
        if context.id != DAMAGED:
            yield from super().drop(context, found)


class GuardedGraph(Face):
    """A knowledge graph whose file cannot be changed behind its back; its tools by name, each with an async twin.

    Attributes:
        inner: the wrapped graph, unguarded.
    """

    inner: KnowledgeGraph

    def __init__(self, graph: KnowledgeGraph, calls: GraphCalls) -> None:
        self.inner, self.calls = graph, calls

    def __repr__(self) -> str:
        return f"guarded {self.inner!r} {self.calls.of.store!r}"

    def __getattr__(self, name: str) -> Any:
        if name in TOOLS:
            return lambda *args, **kwargs: self.apply(name, _members(name, args, kwargs))
        if name[:1] == "a" and name[1:] in TOOLS:
            return lambda *args, **kwargs: self.aapply(name[1:], _members(name[1:], args, kwargs))
        raise AttributeError(
            f"{type(self).__name__!r} has no attribute {name!r} (the wrapped object is .inner)"
        )

    @property
    def path(self) -> Path:
        """The file."""
        return self.inner.path

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """One call of a tool, with the labels of what it serves and what was withheld of what it writes."""
        answer: Answer = run(self.calls.call(tool, arguments))
        return answer

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Async :meth:`call`."""
        answer: Answer = await arun(self.calls.call(tool, arguments))
        return answer

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """One call of a tool; its structured answer."""
        return _plain(tool, self.call(tool, arguments))

    async def aapply(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Async :meth:`apply`."""
        return _plain(tool, await self.acall(tool, arguments))


def guard_graph(
    mg: MemGuard, graph: KnowledgeGraph, store_name: str | None, overrides: Mapping[str, Any]
) -> GuardedGraph:
    """Guard a knowledge graph. The graph is unchanged, and so is its file: its seals lie in the home.

    Raises:
        ConfigError: no name, or one that is another store's.
    """
    calls, handle = graph_calls(mg, graph, graph, graph.path, store_name, overrides)
    guarded = GuardedGraph(graph, calls)
    mg.attach(guarded, handle)
    mg.quarantine.know(handle.custody.store, guarded)
    return guarded


def _members(tool: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "create_entities": "entities",
        "create_relations": "relations",
        "add_observations": "observations",
        "delete_entities": "entityNames",
        "delete_observations": "deletions",
        "delete_relations": "relations",
        "search_nodes": "query",
        "open_nodes": "names",
    }
    return {**({names[tool]: args[0]} if args and tool in names else {}), **kwargs}


def _plain(tool: str, answer: Answer) -> Any:
    return answer.graph() if tool in ("read_graph", "search_nodes", "open_nodes") else answer.given
