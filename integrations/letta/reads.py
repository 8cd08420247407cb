"""Reads of memory through the client: forwarded, and handed on once every record in them is the one that was sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx

from memguard.collection.rows import Entry
from memguard.effects import Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.letta import rows
from memguard.integrations.letta.memory import Memory
from memguard.integrations.letta.routes import classify
from memguard.integrations.letta.table import digest, lent, place_of
from memguard.integrations.letta.writes import body_of

#: Reads of an answer that somebody changes while it is checked.
_TRIES = 3


class ReadRequests:
    """Operations for the reading routes; each takes the request and what its path names, and gives the response."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wire, self.table = memory.wire, memory.table

    def block(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """One block, by id or by an agent's label."""
        return (
            yield from self._checked(request, lambda found: self._passed(found, self._blocks([found], ids)))
        )

    def blocks(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """A list of blocks; an agent's must be the ones that are attached to it."""
        return (
            yield from self._checked(request, lambda found: self._passed(found, self._blocks(found, ids)))
        )

    def core_memory(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``GET /agents/{id}/core-memory``."""

        def check(found: dict[str, Any]) -> Operation[Any]:
            return (yield from self._passed(found, self._blocks(found.get("blocks") or (), ids)))

        return (yield from self._checked(request, check))

    def agent(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """One agent's state, which holds its blocks."""

        def check(found: dict[str, Any] | None) -> Operation[Any]:
            return (yield from self._passed(found, self._states([found] if found else [], _asked(request))))

        return (yield from self._checked(request, check))

    def agents(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """A list of agents."""

        def check(found: list[dict[str, Any]]) -> Operation[Any]:
            return (yield from self._passed(found, self._states(found, _asked(request))))

        return (yield from self._checked(request, check))

    def passages(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """An agent's passages: complete archives, and through the read chain."""

        def check(found: Sequence[dict[str, Any]]) -> Operation[list[dict[str, Any]]]:
            entries = yield from self._archived(ids["agent"], ())
            held = [self._same(entries, row) for row in found]
            return [dict(row) for row in (yield from self._served(held, found))]

        return (yield from self._checked(request, check))

    def recall(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``GET /agents/{id}/archival-memory/search``, whose hits are not whole passages."""

        def check(found: dict[str, Any]) -> Operation[dict[str, Any]]:
            entries = yield from self._archived(ids["agent"], ())
            hits = found.get("results") or []
            held = []
            for hit in hits:
                entry = entries.get(str(hit.get("id")))
                row = entry.value if entry is not None else {}
                same = hit.get("content") == row.get("text") and rows.tags_of(hit) == rows.tags_of(row)
                if (
                    entry is None
                    or not same
                    or rows.moment(hit.get("timestamp")) != rows.moment(row.get("created_at"))
                ):
                    raise self._other(str(hit.get("id")))
                held.append(entry)
            kept = yield from self._served(held, hits)
            return {**found, "results": kept, "count": len(kept)}

        return (yield from self._checked(request, check))

    def search(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``POST /passages/search``, over an agent, an archive or everything."""
        body = body_of(request)

        def check(found: Sequence[dict[str, Any]]) -> Operation[list[dict[str, Any]]]:
            archives = {str(hit["passage"].get("archive_id")) for hit in found}
            if body.get("archive_id"):
                archives.add(str(body["archive_id"]))
            if not body.get("archive_id") and not body.get("agent_id"):
                known = self.memory.collection.custody.known()
                archives |= {name.partition(":")[2] for name in known if name.startswith("archive:")}
            entries = yield from self._archived(body.get("agent_id"), archives)
            held = [self._same(entries, hit["passage"]) for hit in found]
            return [dict(hit) for hit in (yield from self._served(held, found))]

        return (yield from self._checked(request, check))

    # -- inside ------------------------------------------------------------------------------

    def _checked(
        self, request: httpx.Request, check: Callable[[Any], Operation[Any]]
    ) -> Operation[httpx.Response]:
        """Forward, check, and hand on what ``check`` answers; looked at again where a writer was half-way."""
        for attempt in range(_TRIES):
            response = yield from self.wire.forward(request)
            try:
                if not response.is_success:
                    if response.status_code == 404:
                        yield from self._missing(request)
                    return response
                found = response.json()
                answer = yield from check(found)
            except IntegrityError:
                if attempt + 1 < _TRIES and (yield from self._moved(request, response)):
                    continue
                if self.memory.enforcing:
                    raise
                return response
            return (
                response
                if answer == found
                else httpx.Response(response.status_code, json=answer, request=request)
            )
        raise AssertionError("unreachable")

    def _missing(self, request: httpx.Request) -> Operation[None]:
        """That what is not there was not sealed: else somebody has taken it away.

        Raises:
            IntegrityError: somebody has.
        """
        ids = classify(request.method, request.url.path).ids
        if "agent" in ids:
            yield from self._attached(ids["agent"])
        elif "block" in ids:
            yield from self.memory.collection.get(rows.block_context(ids["block"]), [rows.ONE])

    def _moved(self, request: httpx.Request, response: httpx.Response) -> Operation[bool]:
        """Whether the server answers otherwise now."""
        if request.method not in ("GET", "POST"):
            return False  # it changes something, and is sent once
        again = yield from self.wire.forward(request)
        return again.content != response.content

    def _passed(self, found: Any, checked: Operation[None]) -> Operation[Any]:
        """What was found, once it is checked."""
        yield from checked
        return found

    def _blocks(self, found: Iterable[dict[str, Any]], ids: Mapping[str, str]) -> Operation[None]:
        found = list(found)
        for row in found:
            yield from self.memory.confirmed(rows.block_context(row["id"]), row["id"], row)
            if "label" in ids and row.get("label") != ids["label"]:
                raise self._other(row["id"])
        if "agent" in ids:
            attached = yield from self._attached(ids["agent"])
            if "label" in ids and found[0]["id"] not in attached["blocks"]:
                raise self._other(found[0]["id"])

    def _states(self, found: Sequence[dict[str, Any]], asked: bool) -> Operation[None]:
        """That the blocks in agents' states are the sealed ones, all of them.

        Args:
            asked: whether the caller asked for blocks: else that there are none says nothing.
        """
        for state in found:
            blocks = rows.blocks_of(state)
            for row in blocks:
                yield from self.memory.confirmed(rows.block_context(row["id"]), row["id"], row)
            if blocks or asked:
                yield from self._attached(state["id"])

    def _attached(self, agent: str) -> Operation[dict[str, Any]]:
        """What is attached to an agent, checked."""
        context = rows.agent_context(agent)
        for ident, row in (yield from self.table.found(context)).items():
            yield from self.memory.confirmed(context, ident, row)
            return dict(row)
        yield from self.memory.collection.get(
            context, [rows.ONE]
        )  # an agent that was sealed and is not there
        return {"blocks": [], "archives": []}

    def _archived(self, agent: str | None, archives: Iterable[str]) -> Operation[dict[str, Entry]]:
        """Every passage of these archives and of an agent's, complete and checked, by the server's id."""
        found: dict[str, dict[str, Any]] = {}
        if agent is not None:
            attached = (yield from self._attached(agent))["archives"]
            found = {rows.archive_context(name): {} for name in attached}
            if attached:
                found |= yield from self.memory.passages(agent)
        for name in sorted(archives):
            context = rows.archive_context(name)
            if context not in found:
                found[context] = yield from self.table.found(context)
        entries: dict[str, Entry] = {}
        for context, held in found.items():
            yield from self.memory.settle(context, held)
            with lent({context: held}):
                everything = yield from self.memory.collection.all(context)
            for entry in everything:
                if entry.value is not None:  # else it is on its way out
                    entries[str(entry.value.get("id") or entry.key)] = entry
        return entries

    def _same(self, entries: Mapping[str, Entry], row: Mapping[str, Any]) -> Entry:
        """The entry that a row shows.

        Raises:
            TamperedError: it is another one.
        """
        entry = entries.get(str(row.get("id")))
        context = rows.archive_context(str(row.get("archive_id")))
        if entry is None or digest(context, row) != entry.stored.content:
            raise self._other(str(row.get("id")))
        if row.get("embedding") is not None and place_of(context, row) != entry.stored.place:
            raise self._other(str(row.get("id")))
        return entry

    def _served(self, entries: Sequence[Entry], items: Sequence[Any]) -> Operation[list[Any]]:
        """The items whose records the read chain serves, in its order."""
        at = {id(entry.stored): item for entry, item in zip(entries, items, strict=True)}
        served = yield from self.memory.collection.served(entries)
        return [at[id(entry.stored)] for entry in served]

    def _other(self, ident: str) -> TamperedError:
        return TamperedError(
            "a read serves another record than the one that was sealed.",
            case="T6",
            record=f"{ident} in {self.memory.collection.store!r}",
            code="MG564",
            why="Id and content do not belong together.",
            do="memguard audit STORE lists what is damaged.",
        )


def _asked(request: httpx.Request) -> bool:
    """Whether a request for agents asks for their blocks."""
    query = request.url.params
    return "agent.blocks" in query.get_list("include") or "memory" in query.get_list("include_relationships")
