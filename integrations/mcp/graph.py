"""The knowledge graph of the reference memory server, without the server: its file, and what its tools do to it.

For looking after a file while no server runs (``memguard audit`` and its like), for tests, and as the statement of
what the guard expects of the server.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Graph = dict[str, list[dict[str, Any]]]
_ENDS = ("from", "to", "relationType")


class KnowledgeGraph:
    """Entities, observations and relations in one JSONL file.

    Args:
        path: the file; it need not be there yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()

    def __repr__(self) -> str:
        return f"KnowledgeGraph({str(self.path)!r})"

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a tool of the server does; its structured answer."""
        answer: dict[str, Any] = getattr(self, tool)(**arguments)
        return answer

    # -- tools that write --------------------------------------------------------------------

    def create_entities(self, entities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Add entities whose names are new."""
        graph = self._load()
        names = {entity["name"] for entity in graph["entities"]}
        new = [
            {"name": e["name"], "entityType": e["entityType"], "observations": list(e["observations"])}
            for e in entities
            if e["name"] not in names
        ]
        graph["entities"] += new
        self._save(graph)
        return {"entities": new}

    def create_relations(self, relations: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Add relations that are not there yet."""
        graph = self._load()
        new = [r for r in map(_relation, relations) if r not in graph["relations"]]
        graph["relations"] += new
        self._save(graph)
        return {"relations": new}

    def add_observations(self, observations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Add observations to entities that are there.

        Raises:
            KeyError: an entity is not there; nothing is added then.
        """
        graph = self._load()
        by_name = {entity["name"]: entity for entity in reversed(graph["entities"])}
        results = []
        for item in observations:
            held = by_name[item["entityName"]]["observations"]
            new = [text for text in item["contents"] if text not in held]
            held += new
            results.append({"entityName": item["entityName"], "addedObservations": new})
        self._save(graph)
        return {"results": results}

    def delete_entities(self, entityNames: Sequence[str]) -> dict[str, Any]:
        """Delete entities and every relation from or to them."""
        graph, gone = self._load(), set(entityNames)
        graph["entities"] = [e for e in graph["entities"] if e["name"] not in gone]
        graph["relations"] = [r for r in graph["relations"] if not gone & {r["from"], r["to"]}]
        self._save(graph)
        return {"success": True, "message": "deleted"}

    def delete_observations(self, deletions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Delete observations of entities."""
        graph = self._load()
        by_name = {entity["name"]: entity for entity in reversed(graph["entities"])}
        for item in deletions:
            entity = by_name.get(item["entityName"])
            if entity is not None:
                entity["observations"] = [t for t in entity["observations"] if t not in item["observations"]]
        self._save(graph)
        return {"success": True, "message": "deleted"}

    def delete_relations(self, relations: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Delete relations."""
        graph = self._load()
        gone = [_relation(relation) for relation in relations]
        graph["relations"] = [r for r in graph["relations"] if r not in gone]
        self._save(graph)
        return {"success": True, "message": "deleted"}

    # -- tools that read ---------------------------------------------------------------------

    def read_graph(self) -> dict[str, Any]:
        """Everything."""
        return self._load()

    def search_nodes(self, query: str) -> dict[str, Any]:
        """Entities that hold a text in name, type or an observation, with the relations from and to them."""
        graph, wanted = self._load(), query.lower()
        found = [
            entity
            for entity in graph["entities"]
            if any(
                wanted in t.lower() for t in (entity["name"], entity["entityType"], *entity["observations"])
            )
        ]
        return _around(graph, found)

    def open_nodes(self, names: Sequence[str]) -> dict[str, Any]:
        """Entities by name, with the relations from and to them."""
        graph = self._load()
        return _around(graph, [entity for entity in graph["entities"] if entity["name"] in names])

    # -- the file ----------------------------------------------------------------------------

    def _load(self) -> Graph:
        graph: Graph = {"entities": [], "relations": []}
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return graph
        for line in text.split("\n"):
            item = json.loads(line) if line.strip() else {}
            if item.get("type") == "entity":
                graph["entities"].append({k: item[k] for k in ("name", "entityType", "observations")})
            elif item.get("type") == "relation":
                graph["relations"].append(_relation(item))
        return graph

    def _save(self, graph: Graph) -> None:
        lines = [{"type": "entity", **entity} for entity in graph["entities"]]
        lines += [{"type": "relation", **relation} for relation in graph["relations"]]
        text = "\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def _relation(relation: Mapping[str, Any]) -> dict[str, Any]:
    return {end: relation[end] for end in _ENDS}


def _around(graph: Graph, entities: list[dict[str, Any]]) -> dict[str, Any]:
    names = {entity["name"] for entity in entities}
    relations = [r for r in graph["relations"] if r["from"] in names or r["to"] in names]
    return {"entities": entities, "relations": relations}
