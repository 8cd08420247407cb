"""What the proxy knows of the server behind it: all of the reference memory server, nothing of any other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from memguard.collection.beside import assigns_trust
from memguard.collection.faces import run
from memguard.context import current_source, source
from memguard.decision import Disposition
from memguard.engine import MemGuard
from memguard.errors import MemguardError, RejectedError
from memguard.integrations.mcp.calls import TOOLS
from memguard.integrations.mcp.guard import graph_calls
from memguard.integrations.mcp.results import SOURCE, quoted, served, with_meta
from memguard.integrations.mcp.server import Server
from memguard.integrations.mcp.table import Refused, not_its_file
from memguard.labels import Label
from memguard.record import FIRST_HAND, Provenance, Record, Source, Trust, text_of

#: The resource under which the reference server shows its graph.
GRAPH_URI = "memory://knowledge-graph"


class Profile(Protocol):
    """How calls to a kind of server are guarded. Blocking."""

    #: Whether what the server keeps is proved.
    proves: bool

    def call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of ``tools/call``.

        Raises:
            MemguardError: it is refused.
        """
        ...

    def resource(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of ``resources/read``; as :meth:`call`."""
        ...


class GraphProfile:
    """The reference memory server: every entity, observation and relation is a record.

    Args:
        path: its memory file.
        default: source of what a call writes where the client declares none.
    """

    proves = True

    def __init__(self, mg: MemGuard, server: Server, path: Path, name: str | None, default: str) -> None:
        self._server = server
        self._result: dict[str, Any] = {}
        self._labelled = assigns_trust(mg)
        self._calls, handle = graph_calls(mg, self, self, path, name, {}, default)
        self.name = handle.custody.store
        self.__dict__["_memguard"] = handle
        mg.quarantine.know(self.name, self)

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """For the table: call the server's tool; its structured answer."""
        result = self._server.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        if result.get("isError"):
            raise Refused(result)
        self._result = result
        return _structured(result)

    def call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call: guarded, if it is one of the nine tools."""
        tool, arguments = params.get("name"), params.get("arguments")
        if tool not in TOOLS:
            raise MemguardError(
                "this tool is not one that the guard knows of the reference memory server.",
                code="MG606",
                where=str(tool)[:60],
                why="What it does to the memory file would be taken for somebody else's edit.",
                do="Use the nine tools, or --profile generic, which proves nothing.",
            )
        with declared(params):
            try:
                answer = run(self._calls.call(str(tool), {} if arguments is None else arguments))
            except Refused as refusal:
                return dict(refusal.answer)
        return served(str(tool), answer, self._result, labelled=self._labelled)

    def resource(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The graph as a resource, proved as ``read_graph`` is; others as the server gives them."""
        if params.get("uri") != GRAPH_URI:
            return self._server.ask("resources/read", params)
        shown = self.call({"name": "read_graph", "arguments": {}})
        text = shown["content"][0]["text"]
        made = {"contents": [{"uri": GRAPH_URI, "mimeType": "application/json", "text": text}]}
        return {**made, "_meta": shown["_meta"]} if "_meta" in shown else made


class GenericProfile:
    """Any other server: what tools are given is screened, what they answer is quoted; nothing is proved.

    Args:
        name: the name under which withheld calls are kept.
        reading: names of tools that write nothing, by their annotations; empty until the server told.
    """

    proves = False

    def __init__(self, mg: MemGuard, server: Server, name: str, default: str) -> None:
        self._mg, self._server, self.name, self._default = mg, server, name, default
        self.reading: set[str] = set()

    def call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Screen the arguments of a tool that may write; fence the text of what any tool answers."""
        tool, arguments = str(params.get("name")), params.get("arguments")
        note = ""
        if tool not in self.reading and arguments:
            with declared(params):
                arguments, note = self._screened(tool, arguments)
            if arguments is None:
                return {"content": [{"type": "text", "text": note}], "isError": True}
            params = {**params, "arguments": arguments}
        meta = {key: value for key, value in (params.get("_meta") or {}).items() if key != SOURCE}
        asked = {**{k: v for k, v in params.items() if k != "_meta"}, **({"_meta": meta} if meta else {})}
        return self._labelled(self._server.ask("tools/call", asked), note)

    def resource(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A resource, its texts fenced."""
        found = self._server.ask("resources/read", params)
        contents = found.get("contents")
        if isinstance(contents, list):
            found = {**found, "contents": quoted(contents, self._label(contents))}
        return found

    def _screened(self, tool: str, arguments: Any) -> tuple[Any, str]:
        """The arguments to pass on, None where the call is withheld; and what to say about it."""
        screening = self._mg.screening
        if not screening.writes:
            return arguments, ""
        text = text_of(arguments, max_items=self._mg.config.guards.limits.max_nodes)
        said = current_source()
        origin = said.source if said is not None else Source.parse(self._default)
        lineage = said.lineage if said is not None else FIRST_HAND
        record = Record(text, self.name, tool, origin, lineage)
        outcome = screening.write(record)
        decision, made = outcome.decision, arguments
        if decision.disposition is Disposition.REWRITE:
            made, decision = screening.rewritten(arguments, record, decision)
        if decision.disposition is Disposition.REJECT:
            raise RejectedError(
                "a guard rejected a call; it was not passed on.", code=decision.code or None, where=tool[:60]
            )
        if decision.disposition is Disposition.QUARANTINE:
            entry = self._mg.quarantine.keep(
                self.name,
                "tools",
                tool,
                arguments,
                decision,
                source=outcome.record.source,
                trust=decision.trust,
                lineage=outcome.record.lineage,
            )
            return (
                None,
                f"{decision.code or 'MG202'}: this call was not passed on; memguard keeps it for review as {entry}.",
            )
        label = Label.of(outcome.record.provenance, decision)
        self._mg.recall.note(outcome.record, label.trust, stored=True)
        return made, f"memguard changed this call ({decision.code})." if made is not arguments else ""

    def _labelled(self, result: dict[str, Any], note: str) -> dict[str, Any]:
        content = result.get("content")
        if not isinstance(content, list):
            return result
        label = self._label(content)
        made = [*quoted(content, label), *([{"type": "text", "text": note}] if note else [])]
        return with_meta({**result, "content": made}, {"label": label.as_dict(), "proved": False})

    def _label(self, content: Any) -> Label:
        """What an answer is worth: what its server is, and less where the rules find something in it."""
        origin = Source("tool", self.name)
        trust = self._mg.screening.trust(origin) or Trust.UNKNOWN
        text = text_of(content, max_items=self._mg.config.guards.limits.max_nodes)
        decision = self._mg.screening.check(Record(text, self.name, source=origin))
        label = Label.of(Provenance(origin, FIRST_HAND, trust), replace(decision, trust=trust))
        self._mg.recall.note(Record(text, self.name, source=origin), label.trust)
        return label


def declared(params: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """The source that the client's program declares for a call, if it does.

    Raises:
        ConfigError: MG141 or MG142, it is no source.
    """
    said = (params.get("_meta") or {}).get(SOURCE)
    return nullcontext() if said is None else source(str(said))


def _structured(result: Mapping[str, Any]) -> Any:
    found = result.get("structuredContent")
    if found is not None:
        return found
    try:
        return json.loads(result["content"][0]["text"])
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise not_its_file() from None
