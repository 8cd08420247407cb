"""SUT names, and the table that turns one into an object.

A name is ``BASE[+memguard][:RUNG][@anchor-held]``. The rungs are the ladder of mechanisms, each with what stands
below it: ``:tag`` (records tagged), ``:chain`` (and linked to their predecessors), ``:head-beside`` (and counted by
a head that lies beside the store); without a rung the head lies in an anchor elsewhere. ``@anchor-held`` measures
the stronger adversary who also holds that anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memguard import registry
from memguard.bench.suts.protocol import Sut
from memguard.errors import ConfigError

#: Base name -> ``module:function``; the function takes (cell, Name) and answers with a Sut. The registry serves
#: this table, so that other distributions add theirs through the entry points of ``memguard.registry``.
BASES: dict[str, str] = {
    "letta-blocks": "memguard.bench.suts.letta:blocks",
    "letta-passages": "memguard.bench.suts.letta:passages",
    "langgraph-sqlite-saver": "memguard.bench.suts.langgraph_saver:sqlite",
    "langgraph-async-sqlite-saver": "memguard.bench.suts.langgraph_saver:async_sqlite",
    "langgraph-sqlite-store": "memguard.bench.suts.langgraph_store:sqlite",
    "langgraph-postgres-saver": "memguard.bench.suts.langgraph_postgres:postgres",
    "langgraph-async-postgres-saver": "memguard.bench.suts.langgraph_postgres:async_postgres",
    "langgraph-postgres-store": "memguard.bench.suts.langgraph_postgres_store:postgres",
    "langgraph-sqlite-saver-encrypted": "memguard.bench.suts.langgraph_saver:encrypted",
    "openai-agents-sqlite": "memguard.bench.suts.openai_session:sqlite",
    "openai-agents-sqlite-encrypted": "memguard.bench.suts.openai_session:encrypted",
    "llamaindex-sqlite": "memguard.bench.suts.llamaindex_chat:sqlite",
    "mem0-qdrant": "memguard.bench.suts.mem0:qdrant",
    "mem0-faiss": "memguard.bench.suts.mem0:faiss",
    "mem0-chroma": "memguard.bench.suts.mem0:chroma",
    "mem0-pgvector": "memguard.bench.suts.mem0:pgvector",
    "memory-folder": "memguard.bench.suts.memory_folder:folder",
    "mcp-memory": "memguard.bench.suts.mcp_memory:reference",
}
RUNGS = ("tag", "chain", "head-beside")
#: What ``memguard bench integrity`` measures unless told otherwise.
QUICK = (
    "langgraph-sqlite-saver",
    "langgraph-sqlite-saver+memguard",
    "langgraph-sqlite-store",
    "langgraph-sqlite-store+memguard",
)
_EXTRA = (":tag", ":chain", ":head-beside", "@anchor-held")
DEFAULT = tuple(
    name
    for base in ("langgraph-sqlite-saver", "langgraph-sqlite-store")
    for name in (base, f"{base}+memguard", *(f"{base}+memguard{extra}" for extra in _EXTRA))
)


@dataclass(frozen=True, slots=True)
class Name:
    """A SUT name taken apart."""

    base: str
    guarded: bool = False
    rung: str = ""
    anchor_held: bool = False

    def __str__(self) -> str:
        return (
            self.base
            + ("+memguard" if self.guarded else "")
            + (f":{self.rung}" if self.rung else "")
            + ("@anchor-held" if self.anchor_held else "")
        )


def parse(text: str) -> Name:
    """Take a name apart.

    Raises:
        ConfigError: it is no name of a SUT; the error lists the bases and suffixes.
    """
    rest, at, held = text.partition("@")
    rest, colon, rung = rest.partition(":")
    base, plus, guard = rest.partition("+")
    name = Name(base, bool(plus), rung, bool(at))
    wrong = (
        (base not in registry.suts)
        or (plus and guard != "memguard")
        or (at and held != "anchor-held")
        or (colon and rung not in RUNGS)
        or ((rung or at) and not plus)
        or (rung and at)
    )
    if wrong:
        raise ConfigError(
            f'"{text}" is not the name of a system under test',
            why=f"A name is one of {', '.join(registry.suts.names())}, then +memguard, then one of "
            f"{', '.join(':' + r for r in RUNGS)} or @anchor-held.",
            do="memguard bench integrity --help",
        )
    return name


def build(text: str, cell: Path) -> Sut:
    """The SUT of that name, living in ``cell``. Imports its framework.

    Raises:
        ConfigError: unknown name, or a part that this SUT needs is not installed.
        UnsupportedError: its framework is not installed.
    """
    name = parse(text)
    factory = registry.load("sut", name.base)
    try:
        sut: Sut = factory(cell, name)
    except ImportError as error:
        raise ConfigError(
            f'"{text}" cannot be measured here: {error.name} is not installed',
            do="pip install 'memguard-middleware[langgraph,bench]'",
        ) from error
    return sut
