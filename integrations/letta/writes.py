"""Changes of memory that the program itself makes through the client: screened, forwarded, sealed as answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from memguard.collection import Put
from memguard.effects import Block, Operation
from memguard.errors import TamperedError
from memguard.integrations.letta import rows
from memguard.integrations.letta.book import GONE
from memguard.integrations.letta.memory import Memory
from memguard.integrations.letta.table import NEW, digest, remade

#: Members of a block that a write may name and a tag covers.
_FIELDS = ("label", "value", "description", "limit", "read_only", "metadata")


class WriteRequests:
    """Operations for the writing routes; each takes the request and what its path names, and gives the response."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wire, self.table = memory.wire, memory.table

    # -- blocks ------------------------------------------------------------------------------

    def block_create(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``POST /blocks``."""
        body = body_of(request)
        put = yield from self._block(rows.block_context(NEW), body)
        response = yield from self.wire.forward(with_body(request, {**body, **changed(body, put.value)}))
        if response.is_success:
            yield from self.new_block(response.json(), put)
        return response

    def block_update(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``PATCH /blocks/{id}`` and ``PATCH /agents/{id}/core-memory/blocks/{label}``."""
        memory, body = self.memory, body_of(request)
        path = f"/v1/blocks/{ids['block']}" if "block" in ids else _path(request)
        current = yield from self.wire.ask("GET", path)
        context = rows.block_context(current["id"])
        yield from memory.confirmed(context, current["id"], current)
        asked = {name: body[name] for name in _FIELDS if body.get(name) is not None}
        put = yield from self._block(context, {**current, **asked})
        allowance = yield from memory.allow(context, current["id"], put.content, put.own)
        response = yield from self.wire.forward(with_body(request, {**body, **changed(asked, put.value)}))
        if not response.is_success:
            if response.status_code < 500:
                yield from memory.withdraw([allowance])
            return response
        row = response.json()
        self._as_asked(context, {name: put.value[name] for name in asked}, row)
        if digest(context, row) != put.content:
            yield from memory.allow(context, row["id"], digest(context, row), put.own)
        yield from memory.settle(context, {row["id"]: row}, part=True)
        return response

    def block_delete(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``DELETE /blocks/{id}``: agents that it was attached to lose it."""
        ident = ids["block"]
        agents = yield from self._agents(f"/v1/blocks/{ident}/agents")
        response = yield from self._gone(request, rows.block_context(ident), [ident])
        if response.is_success:
            for agent in agents:
                yield from self.reattach(agent)
        return response

    def _block(self, context: str, row: Mapping[str, Any]) -> Operation[Put]:
        value = {name: row.get(name) for name in _FIELDS}
        put = Put(context, rows.ONE, value, digest(context, value), rows.text_of_block(value))
        put = yield from self.memory.screened(put)
        put.own = {**put.own, "chars": len(str(put.value.get("value") or ""))}
        return put

    def new_block(self, row: Mapping[str, Any], put: Put) -> Operation[None]:
        """Seal a block that the server has just made."""
        context = rows.block_context(row["id"])
        self._as_asked(context, {k: v for k, v in put.value.items() if v is not None}, row)
        yield from self.memory.allow(context, row["id"], digest(context, row), put.own)
        yield from self.memory.settle(context, {row["id"]: row}, part=True)

    def _as_asked(self, context: str, asked: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        for name, value in asked.items():
            if row.get(name) != value:
                raise self._altered(context, name)

    def _altered(self, context: str, name: str) -> TamperedError:
        return TamperedError(
            "the server does not hold what was just written to it.",
            case="T1",
            record=f"{context} in {self.memory.collection.store!r}",
            code="MG564",
            why=f"Its {name} is another: somebody changed it just now, or the server keeps another form.",
            do="Read it again, and write it again.",
        )

    # -- passages ----------------------------------------------------------------------------

    def passage_create(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``POST /agents/{id}/archival-memory``, ``POST /archives/{id}/passages`` and ``…/batch``."""
        memory, body = self.memory, body_of(request)
        many = isinstance(body.get("passages"), list)
        items: list[dict[str, Any]] = body["passages"] if many else [body]
        archive = ids.get("archive") or (yield from self.archive_of(ids["agent"])) or NEW
        context = rows.archive_context(archive)
        puts = []
        for item in items:
            puts.append((yield from self.passage(context, item)))
        allowances = []
        if archive != NEW:
            for put in puts:
                allowances.append((yield from memory.allow(context, "", put.content, put.own)))
        sent = [{**item, "text": put.value["text"]} for item, put in zip(items, puts, strict=True)]
        response = yield from self.wire.forward(with_body(request, {"passages": sent} if many else sent[0]))
        if not response.is_success:
            if response.status_code < 500:
                yield from memory.withdraw(allowances)
            return response
        made = response.json()
        yield from self.new_passages(made if isinstance(made, list) else [made], puts, allowed=archive)
        if archive == NEW:
            yield from self.reattach(ids["agent"])
        return response

    def passage(self, context: str, item: Mapping[str, Any]) -> Operation[Put]:
        """A passage through the write chain."""
        value = {
            "text": item.get("text"),
            "tags": list(item.get("tags") or ()),
            "metadata": item.get("metadata"),
        }
        blank = Put(context, None, value, b"", "")
        put = yield from self.memory.screened(remade(blank, value))
        put.own = {**put.own, "chars": len(str(put.value.get("text") or ""))}
        return put

    def new_passages(
        self, made: Sequence[Mapping[str, Any]], puts: Sequence[Put], *, allowed: str = NEW
    ) -> Operation[None]:
        """Seal passages that the server has just made: exactly those that were let through."""
        left = list(puts)
        by_context: dict[str, dict[str, Any]] = {}
        for row in made:
            context = rows.archive_context(row["archive_id"])
            put = next(
                (
                    p
                    for p in left
                    if remade(Put(context, None, {}, b"", ""), p.value).content == digest(context, row)
                ),
                None,
            )
            if put is None:
                raise self._altered(context, "content")
            left.remove(put)
            if row["archive_id"] != allowed:
                yield from self.memory.allow(context, row["id"], digest(context, row), put.own)
            by_context.setdefault(context, {})[row["id"]] = row
        for context, found in by_context.items():
            yield from self.memory.settle(context, found, part=True)

    def passage_delete(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``DELETE`` of one passage, by either route."""
        archives = [ids["archive"]] if "archive" in ids else (yield from self._archives(ids["agent"]))
        for archive in archives:
            context = rows.archive_context(archive)
            kept = yield Block(self.memory.book.kept, context)
            if any(item.id == ids["passage"] for item in kept.values()):
                return (yield from self._gone(request, context, [ids["passage"]]))
        return (yield from self.wire.forward(request))

    def archive_delete(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``DELETE /archives/{id}``."""
        context = rows.archive_context(ids["archive"])
        agents = yield from self._agents(f"/v1/archives/{ids['archive']}/agents")
        kept = yield Block(self.memory.book.kept, context)
        response = yield from self._gone(request, context, [item.id for item in kept.values()])
        if response.is_success:
            for agent in agents:
                yield from self.reattach(agent)
        return response

    def _gone(self, request: httpx.Request, context: str, idents: Sequence[str]) -> Operation[httpx.Response]:
        """Forward a delete, and let go of what it deleted."""
        allowances = []
        for ident in idents:
            allowances.append((yield from self.memory.allow(context, ident, GONE, {})))
        response = yield from self.wire.forward(request)
        if response.is_success or response.status_code == 404:
            yield from self.memory.settle_gone(context, idents)
        elif response.status_code < 500:
            yield from self.memory.withdraw(allowances)
        return response

    # -- agents ------------------------------------------------------------------------------

    def agent_create(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``POST /agents``: its new blocks are screened, those it shares are checked."""
        body = body_of(request)
        puts: list[Put] = []
        made = []
        for block in body.get("memory_blocks") or ():
            put = yield from self._block(rows.block_context(NEW), block)
            puts.append(put)
            made.append({**block, **changed(block, put.value)})
        for ident in body.get("block_ids") or ():
            yield from self._sealed_block(ident)
        sent = {**body, "memory_blocks": made} if made else body
        response = yield from self.wire.forward(with_body(request, sent))
        if response.is_success:
            state = yield from self.table.state(response.json()["id"])
            for row in rows.blocks_of(state):
                if row["id"] in (body.get("block_ids") or ()):
                    continue
                asked = [p for p in puts if p.value["label"] == row["label"]]
                if not asked:  # the server's own, for some types of agent
                    asked = [(yield from self._block(rows.block_context(row["id"]), row))]
                yield from self.new_block(row, asked[0])
            yield from self.reattach(state["id"], state)
        return response

    def agent_update(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``PATCH /agents/{id}``: only which blocks are attached is memory."""
        wanted = body_of(request).get("block_ids")
        yield from self._attachments_as_left(ids["agent"])
        for ident in wanted or ():
            yield from self._sealed_block(ident)
        response = yield from self.wire.forward(request)
        if response.is_success:
            yield from self.reattach(ids["agent"])
        return response

    def agent_delete(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """``DELETE /agents/{id}``: its blocks and its archive stay on the server, and stay sealed."""
        return (yield from self._gone(request, rows.agent_context(ids["agent"]), [ids["agent"]]))

    def attach(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """Attaching and detaching of blocks and archives."""
        yield from self._attachments_as_left(ids["agent"])
        if "/blocks/attach/" in request.url.path:
            yield from self._sealed_block(ids["block"])
        response = yield from self.wire.forward(request)
        if response.is_success:
            yield from self.reattach(ids["agent"])
        return response

    def reattach(self, agent: str, state: Mapping[str, Any] | None = None) -> Operation[None]:
        """Seal what is attached to an agent as it is now: the program has just changed it."""
        if state is None:
            state = yield from self.table.state(agent)
        context = rows.agent_context(agent)
        attached = yield from self.table.attachments(state)
        kept = yield Block(self.memory.book.kept, context)
        content = digest(context, attached)
        if not kept or kept[rows.ONE].digest != content.hex():
            yield from self.memory.allow(context, agent, content, {})
            yield from self.memory.settle(context, {agent: attached}, part=True)

    def _sealed_block(self, ident: str) -> Operation[None]:
        row = yield from self.wire.ask("GET", f"/v1/blocks/{ident}")
        yield from self.memory.confirmed(rows.block_context(ident), ident, row)

    def _attachments_as_left(self, agent: str) -> Operation[None]:
        context = rows.agent_context(agent)
        for ident, row in (yield from self.table.found(context)).items():
            yield from self.memory.confirmed(context, ident, row)

    def archive_of(self, agent: str) -> Operation[str | None]:
        """The archive into which an agent's passages go; None if the server will make one."""
        found = yield from self._archives(agent)
        return found[0] if found else None

    def _archives(self, agent: str) -> Operation[list[str]]:
        found = yield from self.table.pages("/v1/archives/", {"agent_id": agent})
        return [archive["id"] for archive in found]

    def _agents(self, path: str) -> Operation[list[str]]:
        found = yield from self.table.pages(path, {})
        return [agent["id"] for agent in found]


def body_of(request: httpx.Request) -> dict[str, Any]:
    """The JSON object in a request; empty where there is none."""
    try:
        found = json.loads(request.content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def with_body(request: httpx.Request, body: Any) -> httpx.Request:
    """The same request with another body."""
    headers = [
        (k, v)
        for k, v in request.headers.multi_items()
        if k.lower() not in ("content-length", "content-type")
    ]
    return httpx.Request(
        request.method, request.url, headers=headers, json=body, extensions=request.extensions
    )


def changed(asked: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Members that were asked for, as the guards left them."""
    return {name: value[name] for name in asked if name in value}


def _path(request: httpx.Request) -> str:
    return "/v1/" + request.url.path.partition("/v1/")[2]
