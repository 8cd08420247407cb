"""A Letta server as a table of records: blocks, passages, and what is attached to an agent. Translation only."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from memguard.collection.rows import Put, Stored
from memguard.effects import Block, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.letta import rows
from memguard.integrations.letta.book import GONE, Allowance, Book, Kept
from memguard.integrations.letta.wire import ServerSaid, Wire
from memguard.integrity.canonical import canonical_json

#: Where what is new is meant to go, in names of records, before the server has said.
NEW = "new"
#: Passages, blocks and agents of one page.
PAGE = 100
#: Rows that were read a moment ago and need not be asked for again, by context; for the operation under way.
_lent: ContextVar[dict[str, dict[str, Any]] | None] = ContextVar("memguard.letta.lent", default=None)
#: What is on the server already (a row), or is gone from it already (None), so that storing or deleting it is only a
#: matter of its seal: by context and key, for the operation under way.
_standing: ContextVar[Mapping[tuple[str, str], Any]] = ContextVar("memguard.letta.standing", default={})  # noqa: B039


@contextmanager
def lent(found: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """Let the table use these rows, once a context: whoever looks again sees the server.

    A name that ends in ``part`` lends some rows of a context, to whoever asks for them by key.
    """
    before = _lent.get()
    _lent.set(dict(found))
    try:
        yield
    finally:
        _lent.set(before)


@contextmanager
def standing(found: Mapping[tuple[str, str], Any]) -> Iterator[None]:
    """What is so on the server already, by context and key: a row, or None for what is gone."""
    before = _standing.get()
    _standing.set(dict(found))
    try:
        yield
    finally:
        _standing.set(before)


class LettaTable:
    """See :class:`~memguard.collection.rows.Table`.

    Args:
        wire: how to ask the server.
        book: seals and allowances.
        generation: of a context's head.
    """

    ordered = False
    atomic = True

    def __init__(self, wire: Wire, book: Book, generation: Callable[[str], int]) -> None:
        self.wire, self.book, self._generation = wire, book, generation
        #: Records that an operator is about to accept, unseen meanwhile: (context, id).
        self.unseen: set[tuple[str, str]] = set()

    # -- what the server holds ---------------------------------------------------------------

    def found(self, context: str) -> Operation[dict[str, Any]]:
        """Rows of a context by their id on the server."""
        kind, _, ident = context.partition(":")
        try:
            if kind == "block":
                return {ident: (yield from self.wire.ask("GET", f"/v1/blocks/{ident}"))}
            if kind == "archive":
                return (yield from self._passages(ident))
            state = yield from self.state(ident)
            return {ident: (yield from self.attachments(state))}
        except ServerSaid as said:
            if said.response.status_code in (404, 422):
                return {}
            raise

    def state(self, agent: str) -> Operation[dict[str, Any]]:
        """An agent's state with its blocks, its tools and what it waits for, which the server leaves out unasked."""
        params = {"include": ["agent.blocks", "agent.tools", "agent.pending_approval"]}
        found: dict[str, Any] = yield from self.wire.ask("GET", f"/v1/agents/{agent}", params=params)
        return found

    def attachments(self, state: Mapping[str, Any]) -> Operation[dict[str, Any]]:
        """What is attached to an agent, by its state."""
        archives = yield from self.pages("/v1/archives/", {"agent_id": state["id"]})
        blocks = [block["id"] for block in rows.blocks_of(state)]
        return {"blocks": blocks, "archives": [archive["id"] for archive in archives]}

    def pages(
        self, path: str, params: Mapping[str, Any], *, newest_first: bool = True
    ) -> Operation[list[Any]]:
        """Everything that a list has."""
        everything: list[Any] = []
        more: dict[str, Any] = {}
        while True:
            page = yield from self.wire.ask("GET", path, params={**params, **more, "limit": PAGE})
            known = {item["id"] for item in everything}
            new = [item for item in page if item["id"] not in known]
            everything += new
            if len(page) < PAGE or not new:
                return everything
            more = {"after": page[-1]["id"]}

    def _passages(self, archive: str) -> Operation[dict[str, Any]]:
        """The passages of an archive. The server lists them by agent."""
        agents = yield from self.wire.ask("GET", f"/v1/archives/{archive}/agents", params={"limit": 1})
        if agents:
            found = yield from self.pages(
                f"/v1/agents/{agents[0]['id']}/archival-memory", {"ascending": True}
            )
        else:
            body = {"archive_id": archive, "limit": PAGE}
            found = [
                hit["passage"] for hit in (yield from self.wire.ask("POST", "/v1/passages/search", json=body))
            ]
            if len(found) >= PAGE:
                raise UnsupportedError(
                    "the passages of an archive cannot all be listed.",
                    code="MG566",
                    where=f"archive {archive}",
                    why=f"It has {PAGE} or more and is attached to no agent; the server lists passages by agent.",
                    do="Attach it to an agent.",
                )
        return {passage["id"]: passage for passage in found if passage.get("archive_id") == archive}

    # -- as records --------------------------------------------------------------------------

    def contexts(self) -> Operation[Sequence[str]]:
        blocks = yield from self.pages("/v1/blocks/", {})
        agents = yield from self.pages("/v1/agents/", {})
        archives = yield from self.pages("/v1/archives/", {})
        names = [rows.block_context(block["id"]) for block in blocks]
        names += [rows.agent_context(agent["id"]) for agent in agents]
        for archive in archives:
            context = rows.archive_context(archive["id"])
            if (yield from self.found(context)):
                names.append(context)
        return names

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        held = _lent.get()
        found = held.pop(context, None) if held is not None else None
        if found is None:
            found = yield from self.found(context)
        return (yield from self.seen(context, found))

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        held = _lent.get()
        part = held.pop(f"{context} part", None) if held is not None else None
        there = {key: _standing.get().get((context, key)) for key in keys}
        if all(there.values()):  # what an operation is about to seal: the server's own answer
            part = {ident_of(context, key, row): row for key, row in there.items()}
        if part is not None:
            stored = {item.key: item for item in (yield from self.seen(context, part))}
            return {key: stored[key] for key in keys if key in stored}
        stored = {item.key: item for item in (yield from self.rows(context))}
        return {key: stored[key] for key in keys if key in stored}

    def seen(self, context: str, found: Mapping[str, Any]) -> Operation[Sequence[Stored]]:
        """Rows as records: with their seals, and without what the guard let through and is about to seal."""
        kept: dict[str, Kept] = yield Block(self.book.kept, context)
        allowed: list[Allowance] = yield Block(self.book.allowances, context, self._generation(context))
        left, answer = dict(found), []
        for key, item in kept.items():
            row = left.pop(item.id, None)
            if (context, item.id) in self.unseen:
                continue
            moved = [a for a in allowed if a.id == item.id]
            old = bytes.fromhex(item.digest)
            own, place = item.own.encode(), bytes.fromhex(item.place)
            if row is None:
                if any(a.digest == GONE for a in moved):
                    answer.append(Stored(key, old, item.seal, own, place))
                continue
            now = digest(context, row)
            if now != old and any(a.digest == now.hex() for a in moved):
                answer.append(Stored(key, old, item.seal, own, place, row))
            else:
                answer.append(Stored(key, now, item.seal, own, place_of(context, row), row))
        coming = [a for a in allowed if a.id not in {item.id for item in kept.values()}]
        for ident, row in left.items():
            if (context, ident) in self.unseen:
                continue
            now = digest(context, row)
            match = next((a for a in coming if a.id in ("", ident) and a.digest == now.hex()), None)
            if match is not None:
                coming.remove(match)
            else:
                answer.append(Stored(key_of(context, ident), now, None, b"{}", place_of(context, row), row))
        return answer

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    # -- changes -----------------------------------------------------------------------------

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        """Seal what stands; store and delete on the server what does not stand or still does."""
        for context, keys in deletes.items():
            kept: dict[str, Kept] = yield Block(self.book.kept, context)
            for key in keys:
                ident = kept[key].id if key in kept else key
                if (context, key) not in _standing.get():
                    yield from self._delete(context, ident)
            yield Block(self.book.drop, context, list(keys))
        for put in puts:
            row = _standing.get().get((put.context, put.name))
            if row is None:
                row = yield from self._store(put)
            item = Kept(
                ident_of(put.context, put.name, row),
                put.content.hex(),
                place_of(put.context, row).hex(),
                put.seal,
                canonical_json(put.own).decode(),
            )
            yield Block(self.book.keep, put.context, {put.name: item})

    def _store(self, put: Put) -> Operation[Any]:
        """Write a record to the server: for a release from the quarantine."""
        kind, _, ident = put.context.partition(":")
        value = dict(put.value)
        if ident == NEW:
            raise UnsupportedError(
                "what would have been a new block or archive cannot be released.",
                code="MG567",
                where=put.context,
                why="The server gives it its name when it is made.",
                do="Make it through the guarded client, with the text allowed: memguard quarantine show, allow add.",
            )
        if kind == "block":
            body = {name: value[name] for name in ("value", "description") if name in value}
            return (yield from self.wire.ask("PATCH", f"/v1/blocks/{ident}", json=body))
        if kind == "archive":
            body = {name: value.get(name) for name in ("text", "tags", "metadata")}
            return (yield from self.wire.ask("POST", f"/v1/archives/{ident}/passages", json=body))
        raise UnsupportedError("attachments are no memory.", code="MG148", where=put.context)

    def _delete(self, context: str, ident: str) -> Operation[None]:
        kind, _, name = context.partition(":")
        path = f"/v1/blocks/{name}" if kind == "block" else f"/v1/archives/{name}/passages/{ident}"
        if kind == "agent":
            return  # what is attached is the server's own state; only its seal goes
        try:
            agents = (yield from self.pages(f"{path}/agents", {})) if kind == "block" else []
            yield from self.wire.ask("DELETE", path)
        except ServerSaid as said:
            if said.response.status_code not in (404, 422):
                raise
            return
        for agent in agents:  # they have lost it, as this delete meant them to
            attached = yield from self.attachments((yield from self.state(agent["id"])))
            where = rows.agent_context(agent["id"])
            content = digest(where, attached).hex()
            so = Allowance(where, agent["id"], content, {}, self._generation(where), time.time())
            yield Block(self.book.allow, so)

    def remade(self, put: Put, value: Any) -> Put:
        return remade(put, value)

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        for stored, field in sealed:
            own = {name: value for name, value in field.items() if name != "seal"}
            ident = ident_of(context, stored.key, stored.value)
            item = Kept(
                ident, stored.content.hex(), stored.place.hex(), field["seal"], canonical_json(own).decode()
            )
            yield Block(self.book.keep, context, {stored.key: item})


def remade(put: Put, value: Any) -> Put:
    """The same put with another value."""
    kind = put.context.partition(":")[0]
    text = rows.text_of_block(value) if kind == "block" else str(value.get("text") or "")
    return replace(put, value=value, content=digest(put.context, value), text=text)


def digest(context: str, row: Any) -> bytes:
    """SHA-256 of what a row says: what the tag covers. (The file beside the store keeps it, and no text.)"""
    kind, _, ident = context.partition(":")
    if kind == "block":
        content = rows.block_content(row)
    elif kind == "archive":
        content = rows.passage_content({**row, "archive_id": row.get("archive_id") or ident})
    else:
        content = rows.agent_content(row["blocks"], row["archives"])
    return hashlib.sha256(content).digest()


def place_of(context: str, row: Any) -> bytes:
    """What the server adds to a row; only passages have any."""
    return rows.passage_place(row) if context.startswith("archive:") else b""


def key_of(context: str, ident: str) -> str:
    """The key of a record that the server names ``ident``."""
    return ident if context.startswith("archive:") else rows.ONE


def ident_of(context: str, key: str, row: Any) -> str:
    """The server's name of a record."""
    if context.startswith("archive:"):
        return str(row.get("id") or key)
    return context.partition(":")[2]
