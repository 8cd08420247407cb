"""Names to things: guards, anchors, keys, adapters, systems under test, command groups.

An entry is a ``"module:attribute"`` string and is imported when it is first asked for, so naming a
backend costs nothing. Other distributions add entries through the entry point group
``memguard.plugins``: each entry point is a function without arguments that calls ``add`` on the
registries below. Plug-ins are loaded when a name is not found among the built-in ones, or when names
are listed; a plug-in may add names and never replaces one.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from memguard.errors import ConfigError, UnsupportedError
from memguard.isolate import Raised, attempt
from memguard.record import did_you_mean

GROUP = "memguard.plugins"
_INSTALL = "pip install 'memguard-middleware[{}]'"

_lock = threading.RLock()
_loaded = False
#: Plug-ins that could not be loaded: entry point name to the type of what it raised.
broken: dict[str, str] = {}


class Registry:
    """One table of names.

    Args:
        kind: what it holds, for messages (``"guard"``).
        entries: name to ``"module:attribute"``; or such a string itself, naming the table that another
            module keeps, so that there is one list and not two.
        extras: name to the extra of memguard-middleware that it needs, where it needs one.
        shapes: name to attributes by which an object of no known type is recognised, for frameworks that ask for a
            protocol and not for a base class.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, str] | str,
        *,
        extras: Mapping[str, str] | None = None,
        helps: Mapping[str, str] | None = None,
        shapes: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.kind = kind
        self._source = entries if isinstance(entries, str) else ""
        self._table: dict[str, Any] | None = None if isinstance(entries, str) else dict(entries)
        self._extras = dict(extras or {})
        self._helps = dict(helps or {})
        self._shapes = dict(shapes or {})

    def add(self, name: str, target: object, *, extra: str | None = None, help: str = "") -> None:
        """Add an entry: the thing itself, or where to import it from, with one line that describes it.

        Raises:
            ConfigError: MG106, the name is taken.
        """
        with _lock:
            if name in self._entries():
                raise ConfigError(f"there is a {self.kind} called {name!r} already", code="MG106")
            self._entries()[name] = target
            self._helps[name] = help
            if extra is not None:
                self._extras[name] = extra

    def names(self) -> tuple[str, ...]:
        """Every name, sorted, plug-ins included."""
        load_plugins()
        return tuple(sorted(self._entries()))

    def __contains__(self, name: object) -> bool:
        if name not in self._entries():
            load_plugins()
        return name in self._entries()

    def describe(self, name: str) -> str:
        """One line about an entry, empty if nobody gave one. Imports nothing."""
        return self._helps.get(name, "")

    def get(self, name: str) -> Any:
        """The thing behind a name, imported if need be.

        Raises:
            ConfigError: MG105, there is no such name.
            UnsupportedError: MG133, something it needs is not installed.
        """
        if name not in self:
            raise ConfigError(
                f"there is no {self.kind} called {name[:80]!r}",
                code="MG105",
                do=did_you_mean(name, self.names()),
            )
        target = self._entries()[name]
        return self._imported(name, target) if isinstance(target, str) else target

    def match(self, thing: object) -> str | None:
        """The first name that is the qualified type of an object or of one of its bases.

        For adapters, whose names are types such as ``langgraph.checkpoint.base.BaseCheckpointSaver``:
        the nearest type in the method resolution order wins, and no framework is imported to look. An object of
        no known type is matched by its shape.
        """
        bases = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(thing).__mro__[:-1]]
        known = self._entries()
        found = next((name for name in bases if name in known), None)
        found = found or next((name for name in bases if name in self), None)
        return found or next((n for n, shape in self._shapes.items() if _has(thing, shape)), None)

    def _entries(self) -> dict[str, Any]:
        if self._table is None:
            module, _, attribute = self._source.partition(":")
            table: dict[str, Any] = getattr(importlib.import_module(module), attribute)
            self._table = table
        return self._table

    def _imported(self, name: str, target: str) -> Any:
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            extra = self._extras.get(name)
            missing = error.name or module
            if missing.partition(".")[0] == "memguard":
                raise  # our own module: a broken installation, not a missing extra
            raise UnsupportedError(
                f"the {self.kind} {name!r} needs {missing}, which is not installed",
                code="MG133",
                do=_INSTALL.format(extra) if extra else f"Install {missing}.",
            ) from error


def _has(thing: object, shape: tuple[str, ...]) -> bool:
    """Whether an object (not a class) has all these attributes."""
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in shape)


guards = Registry(
    "guard",
    {
        "anomaly": "memguard.guards.anomaly:Anomaly",
        "provenance": "memguard.guards.provenance:Provenance",
        "reranker": "memguard.guards.reranker:Reranker",
        "sanitizer": "memguard.guards.sanitizer:Sanitizer",
        "scope": "memguard.guards.scope:ScopeGuard",
        "validity": "memguard.guards.validity:Validity",
    },
)
#: By name in the configuration; each class has ``open()`` and is a :class:`memguard.ports.Embedder`.
embedders = Registry("embedder", "memguard.embedders:NAMES", extras={"minilm": "minilm"})
#: By URI scheme.
anchors = Registry("anchor", "memguard.anchors:SCHEMES")
#: By URI scheme.
keys = Registry("key", "memguard.keys:SCHEMES")
#: Where the client library of Claude keeps the base classes of memory tools.
_TOOLS = "anthropic.lib.tools._beta_builtin_memory_tool"
#: By qualified name of the type that is wrapped.
adapters = Registry(
    "adapter",
    {
        "langgraph.checkpoint.base.BaseCheckpointSaver": "memguard.integrations.langgraph.guard:guard_saver",
        "langgraph.store.base.BaseStore": "memguard.integrations.langgraph.guard:guard_store",
        "agents.memory.session.SessionABC": "memguard.integrations.openai_agents.guard:guard_session",
        "agents.memory.session.Session": "memguard.integrations.openai_agents.guard:guard_session",
        "llama_index.core.storage.chat_store.base.BaseChatStore": "memguard.integrations.llamaindex.guard:chat",
        "llama_index.core.storage.chat_store.base_db.AsyncDBChatStore": "memguard.integrations.llamaindex.guard:sql",
        "llama_index.core.memory.types.BaseMemory": "memguard.integrations.llamaindex.guard:memory",
        "letta_client.AsyncLetta": "memguard.integrations.letta.guard:guard_letta",
        "letta_client.Letta": "memguard.integrations.letta.guard:guard_letta",
        "mem0.memory.main.Memory": "memguard.integrations.mem0.guard:guard_memory",
        "mem0.memory.main.AsyncMemory": "memguard.integrations.mem0.guard:guard_memory",
        "memguard.integrations.mcp.graph.KnowledgeGraph": "memguard.integrations.mcp.guard:guard_graph",
        "memguard.integrations.folder.folder.MemoryFolder": "memguard.integrations.folder.guard:guard_folder",
        f"{_TOOLS}.BetaAbstractMemoryTool": "memguard.integrations.folder.guard:guard_tool",
        f"{_TOOLS}.BetaAsyncAbstractMemoryTool": "memguard.integrations.folder.guard:guard_tool",
    },
    extras={
        "langgraph.checkpoint.base.BaseCheckpointSaver": "langgraph",
        "langgraph.store.base.BaseStore": "langgraph",
        "agents.memory.session.SessionABC": "openai-agents",
        "agents.memory.session.Session": "openai-agents",
        "llama_index.core.storage.chat_store.base.BaseChatStore": "llamaindex",
        "llama_index.core.storage.chat_store.base_db.AsyncDBChatStore": "llamaindex",
        "llama_index.core.memory.types.BaseMemory": "llamaindex",
        "letta_client.AsyncLetta": "letta",
        "letta_client.Letta": "letta",
        "mem0.memory.main.Memory": "mem0",
        "mem0.memory.main.AsyncMemory": "mem0",
    },
    shapes={
        "agents.memory.session.Session": (
            "session_id",
            "get_items",
            "add_items",
            "pop_item",
            "clear_session",
        ),
    },
)
#: Stores that the command line can open, by the ``kind`` of ``[stores.NAME]``
#: (the protocol is :class:`memguard.cli.stores.StoreKind`).
kinds = Registry(
    "kind of store",
    {
        "langgraph-sqlite-saver": "memguard.integrations.langgraph.open:SQLITE_SAVER",
        "langgraph-async-sqlite-saver": "memguard.integrations.langgraph.open:ASYNC_SQLITE_SAVER",
        "langgraph-sqlite-store": "memguard.integrations.langgraph.open:SQLITE_STORE",
        "langgraph-async-sqlite-store": "memguard.integrations.langgraph.open:ASYNC_SQLITE_STORE",
        "langgraph-postgres-saver": "memguard.integrations.langgraph.open_postgres:POSTGRES_SAVER",
        "langgraph-async-postgres-saver": "memguard.integrations.langgraph.open_postgres:ASYNC_POSTGRES_SAVER",
        "langgraph-postgres-store": "memguard.integrations.langgraph.open_postgres:POSTGRES_STORE",
        "openai-agents-sqlite": "memguard.integrations.openai_agents.open:SQLITE",
        "llamaindex-sqlite": "memguard.integrations.llamaindex.open:SQLITE",
        "letta": "memguard.integrations.letta.open:LETTA",
        "mem0": "memguard.integrations.mem0.kind:MEM0",
        "folder": "memguard.integrations.folder.open:FOLDER",
        "mcp-memory": "memguard.integrations.mcp.open:GRAPH",
    },
    extras={
        "langgraph-sqlite-saver": "langgraph",
        "langgraph-async-sqlite-saver": "langgraph",
        "langgraph-sqlite-store": "langgraph",
        "langgraph-async-sqlite-store": "langgraph",
        "langgraph-postgres-saver": "postgres",
        "langgraph-async-postgres-saver": "postgres",
        "langgraph-postgres-store": "postgres",
        "openai-agents-sqlite": "openai-agents",
        "llamaindex-sqlite": "llamaindex",
        "letta": "letta",
        "mem0": "mem0",
    },
)
#: Systems under test of the benches, by base name.
suts = Registry("sut", "memguard.bench.suts.names:BASES")
#: Cases of the integrity bench, by id; each has ``id``, ``title``, ``plain`` (the edit) and ``passes``.
cases = Registry("case", "memguard.bench.integrity.cases:BY_ID")
#: Command groups that live above the command line's floor, by verb.
commands = Registry(
    "command",
    {
        "bench": "memguard.bench.cli:bench",
        "conformance": "memguard.bench.conformance.command:conformance",
        "mcp-proxy": "memguard.integrations.mcp.command:mcp_proxy",
    },
    helps={
        "bench": "Measure a memory: what it costs to guard it, and what that buys.",
        "conformance": "Measure your own store with the bench's cases, bare and guarded.",
        "mcp-proxy": "Guard an MCP memory server over stdio.",
    },
)
#: Parts of the conformance kit, by the name under which :mod:`memguard.testing.conformance` gives them out.
kits = Registry(
    "part of the conformance kit",
    {
        "Functions": "memguard.bench.conformance.raw:Functions",
        "JsonFile": "memguard.bench.conformance.raw:JsonFile",
        "RawRecord": "memguard.bench.conformance.raw:RawRecord",
        "RawStore": "memguard.bench.conformance.raw:RawStore",
        "SqliteTable": "memguard.bench.conformance.raw:SqliteTable",
        "StoreConformance": "memguard.bench.conformance.suite:StoreConformance",
        "Subject": "memguard.bench.conformance.subject:Subject",
        "measure": "memguard.bench.conformance.measure:measure",
    },
    extras={"StoreConformance": "conformance"},
)

ALL: Mapping[str, Registry] = {
    registry.kind: registry
    for registry in (guards, embedders, anchors, keys, adapters, kinds, suts, cases, commands, kits)
}


def names(kind: str) -> tuple[str, ...]:
    """Every name of a kind: guard, embedder, anchor, key, adapter, kind of store, sut, command or part of the kit."""
    return ALL[kind].names()


def load(kind: str, name: str) -> Any:
    """The thing of that kind and name; see :meth:`Registry.get`."""
    return ALL[kind].get(name)


def describe(kind: str, name: str) -> str:
    """One line about it."""
    return ALL[kind].describe(name)


def load_plugins() -> None:
    """Load the entry points of :data:`GROUP`, once. One that fails is noted in :data:`broken`."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True  # first: a plug-in that looks up a name must not start this again
        for point in entry_points(group=GROUP):
            result = attempt(_run, point)
            if isinstance(result, Raised):
                broken[point.name] = result.name


def _run(point: EntryPoint) -> None:
    point.load()()
