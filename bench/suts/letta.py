"""A Letta server's memory, bare or guarded: archival passages, or the blocks of an agent's core memory.

A context is one agent. Needs a running server (``make letta``): see :mod:`memguard.bench.suts.letta_cell`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from letta_client import Letta

from memguard.bench.integrity.edits import letta as edits
from memguard.bench.suts import letta_cell
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

_OWNERS = {"A": "alice", "B": "bob", "C": "mallory"}
#: What the agent asks for: one passage of each context shares its words. The rest are equally far away.
QUERY, TOP = "spending limit approved amount", 1


class LettaSut(Guarded):
    """What both kinds share: the server, the organisation, the agents."""

    def __init__(self, cell: Path, name: Name) -> None:
        self.url = letta_cell.place("URL")
        self.model = letta_cell.place("MODEL")
        super().__init__(cell, name, "letta")
        self._file = "agent.json"
        self._client: Any = None
        self._inner: Any = None

    def versions(self) -> dict[str, str]:
        """The server says its own version."""
        with httpx.Client(base_url=self.url, trust_env=False) as http:
            server = str(http.get("/v1/health/").json()["version"])
        names = ("letta-client", *(("memguard-middleware",) if self.guarded else ()))
        return {"letta": server, **self.package_versions(*names)}

    def backend(self) -> str:
        """The server's database."""
        return "PostgreSQL with pgvector, behind the Letta server"

    def features(self) -> dict[str, str]:
        """What the server has against edits: nothing that is on by default."""
        return {"read_only blocks": "off (off by default)", **self.guard_features()}

    def setup(self) -> None:
        """An organisation and a user of the cell's own."""
        super().setup()
        with httpx.Client(base_url=self.url, timeout=120, trust_env=False) as http:
            organisation = http.post(
                "/v1/admin/orgs/", json={"name": f"bench-{self.cell.parent.name}"}
            ).json()["id"]
            body = {"name": "bench", "organization_id": organisation}
            user = http.post("/v1/admin/users/", json=body).json()["id"]
        found = {"organization": organisation, "user": user, "agents": {}}
        (self.cell / letta_cell.IDS).write_text(json.dumps(found))

    def start(self) -> None:
        """Put the rows of this cell into the server, connect, guard."""
        if self.database.exists():
            letta_cell.load(self.cell, self.database)
        headers = {"user_id": letta_cell.ids(self.cell)["user"]}
        http = httpx.Client(trust_env=False)
        self._inner = Letta(
            base_url=self.url, default_headers=headers, max_retries=0, timeout=120, http_client=http
        )
        self._client = self.wrap(self._inner)
        if self._file not in letta_cell.ids(self.cell)["agents"]:
            self._made()
        elif not self.database.exists():
            letta_cell.dump(self.cell, self.database)

    def _made(self) -> None:
        """Agents of every owner, each with an archive."""
        found = letta_cell.ids(self.cell)
        mine = found["agents"][self._file] = {}
        embedding = {
            "embedding_model": "stub",
            "embedding_endpoint_type": "openai",
            "embedding_endpoint": f"{self.model}/v1",
            "embedding_dim": 64,
            "embedding_chunk_size": 300,
        }
        for owner in _OWNERS.values():
            agent = self._client.agents.create(
                name=f"{owner}-{self._file.partition('.')[0]}",
                llm_config={
                    "model": "stub",
                    "model_endpoint_type": "openai",
                    "model_endpoint": f"{self.model}/v1",
                    "context_window": 32000,
                },
                embedding_config=embedding,
                include_base_tools=False,
                extra_body={"embedding_config": embedding},
            )
            archive = self._client.archives.create(name=owner, extra_body={"embedding_config": embedding})
            self._client.agents.archives.attach(archive.id, agent_id=agent.id)
            mine[owner] = {"agent": agent.id, "archive": archive.id}
        (self.cell / letta_cell.IDS).write_text(json.dumps(found))

    def stop(self) -> None:
        """Write the rows down, close the guard and the client."""
        self.unwrap()
        inner, self._inner, self._client = self._inner, None, None
        if inner is not None:
            letta_cell.dump(self.cell, self.database)
            inner.close()

    def at(self, context: str) -> dict[str, str]:
        """Agent and archive of a context."""
        found: dict[str, str] = letta_cell.ids(self.cell)["agents"][self._file][_OWNERS[context]]
        return found

    def key(self, record: Record) -> str:
        """What the record is called among those of its context."""
        return f"m-{record.n}"

    def body(self, record: Record) -> Mapping[str, Any]:
        """Text and metadata."""
        return {"text": record.text, **self.beside(record)}

    @staticmethod
    def beside(record: Record) -> dict[str, Any]:
        """What stands beside the text."""
        names = ("owner", "role", "source", "topic", "ts")
        return {name: getattr(record, name) for name in names}


class Passages(LettaSut):
    """Archival memory: one record is one passage."""

    kind = "letta-passages"
    edits = edits.PASSAGES

    def write(self, record: Record) -> None:
        """``archives.passages.create``, the route that takes metadata."""
        metadata = {**self.beside(record), "key": self.key(record)}
        self._client.archives.passages.create(
            self.at(record.context)["archive"], text=record.text, metadata=metadata
        )
        self.records.setdefault(record.context, []).append(record)

    def _ident(self, context: str, key: str) -> str:
        listed = self._inner.agents.passages.list(self.at(context)["agent"], limit=100)
        return next(str(p.id) for p in listed if (p.metadata or {}).get("key") == key)

    def delete(self, context: str) -> None:
        """``agents.passages.delete`` of the second one."""
        self._client.agents.passages.delete(self._ident(context, "m-1"), agent_id=self.at(context)["agent"])

    def replace(self, context: str) -> None:
        """There is no update of a passage: the third one is deleted, and written anew."""
        old = self.records[context][2]
        at = self.at(context)
        self._client.agents.passages.delete(self._ident(context, "m-2"), agent_id=at["agent"])
        metadata = {**self.beside(old), "key": "m-2"}
        text = f"{old.text} (withdrawn, ask first)"
        self._client.archives.passages.create(at["archive"], text=text, metadata=metadata)

    def paths(self) -> tuple[str, ...]:
        """The list, the agent's search, and the ranked search."""
        return ("list", "recall", "query")

    def wide_paths(self) -> tuple[str, ...]:
        """The search over the whole organisation."""
        return ("everywhere",)

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path."""
        if path == "everywhere":
            return [_item(hit.passage) for hit in self._client.passages.search(limit=100)]
        agent = self.at(context)["agent"]
        if path == "query":
            ranked = self._client.passages.search(agent_id=agent, query=QUERY, limit=TOP)
            return [_item(hit.passage) for hit in ranked]
        listed = [_item(p) for p in self._client.agents.passages.list(agent, limit=100)]
        if path == "list":
            return listed
        # The agent's own search gives text and moment only; what it is called follows from the list.
        hits = self._client.agents.passages.search(agent, query=QUERY, top_k=100).results
        by_text = {item.body["text"]: item for item in listed}
        # In the order of their names: passages that share no word with the question are equally far away.
        found = [by_text.get(h.content, Item(h.id, {"text": h.content})) for h in hits]
        return sorted(found, key=lambda item: (len(item.key), item.key))


class Blocks(LettaSut):
    """Core memory: one record is one block of the agent."""

    kind = "letta-blocks"
    edits = edits.BLOCKS

    def write(self, record: Record) -> None:
        """``blocks.create`` and ``agents.blocks.attach``."""
        block = self._client.blocks.create(
            label=self.key(record), value=record.text, metadata=self.beside(record)
        )
        self._client.agents.blocks.attach(block.id, agent_id=self.at(record.context)["agent"])
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """``blocks.delete`` of the second one."""
        block = self._inner.agents.blocks.retrieve("m-1", agent_id=self.at(context)["agent"])
        self._client.blocks.delete(block.id)

    def replace(self, context: str) -> None:
        """``agents.blocks.update`` of the third one."""
        text = f"{self.records[context][2].text} (withdrawn, ask first)"
        self._client.agents.blocks.update("m-2", agent_id=self.at(context)["agent"], value=text)

    def paths(self) -> tuple[str, ...]:
        """The agent's list, each by its label, and the agent's state, which is what a turn begins from."""
        return ("list", "get", "state")

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path."""
        agent = self.at(context)["agent"]
        if path == "get":
            labels = [self.key(r) for r in self.records.get(context, [])]
            found = []
            for label in labels:
                try:
                    found.append(self._client.agents.blocks.retrieve(label, agent_id=agent))
                except Exception as error:
                    if type(error).__name__ != "NotFoundError":
                        raise
        elif path == "state":
            found = self._client.agents.retrieve(agent, include=["agent.blocks"]).memory.blocks
        else:
            found = list(self._client.agents.blocks.list(agent, limit=100))
        items = [
            Item(str(b.label), {"text": b.value, **(b.metadata or {})}, {"description": b.description})
            for b in found
        ]
        return sorted(items, key=lambda item: (len(item.key), item.key))


def _item(passage: Any) -> Item:
    """A passage as plain values."""
    metadata = dict(passage.metadata or {})
    key = str(metadata.pop("key", passage.id))
    return Item(
        key, {"text": passage.text, **metadata}, {"created_at": str(passage.created_at), "tags": passage.tags}
    )


def passages(cell: Path, name: Name) -> Passages:
    """Archival passages."""
    return Passages(cell, name)


def blocks(cell: Path, name: Name) -> Blocks:
    """Core-memory blocks."""
    return Blocks(cell, name)
