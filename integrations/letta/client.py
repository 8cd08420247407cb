"""The guarded client: the wrapped one's class and settings, its requests through the guard.

The guard sits in the transport, below every method: raw responses, streams and whatever a later version adds come
through it. Errors of the guard leave the client as they are (its retry loop would turn them into a lost connection).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import httpx

from memguard.care import handled
from memguard.effects import Operation, adrive, drive
from memguard.errors import MemguardError, UnsupportedError
from memguard.integrations.letta.changes import Change, MemoryChangedError
from memguard.integrations.letta.memory import Memory
from memguard.integrations.letta.reads import ReadRequests
from memguard.integrations.letta.routes import classify
from memguard.integrations.letta.rows import archive_context, block_context
from memguard.integrations.letta.turns import Turn, Turns, as_call, event_of
from memguard.integrations.letta.wire import ServerSaid, Wire
from memguard.integrations.letta.writes import WriteRequests, body_of
from memguard.labels import Label

T = TypeVar("T")
_TAIL = ("stop_reason", "usage_statistics")


class Desk:
    """What is done with a request, by what it is."""

    def __init__(self, memory: Memory, server_edits: str) -> None:
        self.memory, self.wire = memory, memory.wire
        reads, writes = ReadRequests(memory), WriteRequests(memory)
        self.turns = Turns(memory, writes, server_edits)
        self._known = ""
        self._handlers: dict[str, Callable[..., Operation[httpx.Response]]] = {
            "agent": reads.agent,
            "agent-create": writes.agent_create,
            "agent-delete": writes.agent_delete,
            "agent-update": writes.agent_update,
            "agents": reads.agents,
            "archive-delete": writes.archive_delete,
            "attach": writes.attach,
            "background": self.turns.look,
            "block": reads.block,
            "block-create": writes.block_create,
            "block-delete": writes.block_delete,
            "block-update": writes.block_update,
            "blocks": reads.blocks,
            "core-memory": reads.core_memory,
            "look": self.turns.look,
            "passage-create": writes.passage_create,
            "passage-delete": writes.passage_delete,
            "passages": reads.passages,
            "recall": reads.recall,
            "search": reads.search,
            "turn": self.turns.whole,
        }

    def handle(self, request: httpx.Request) -> Operation[httpx.Response | Streamed]:
        """The response to a request, or the turn whose events are to be passed on."""
        route = classify(request.method, request.url.path)
        if route.kind == "refuse":
            raise UnsupportedError(
                "this request could change or show memory in a way that memguard does not know.",
                code="MG565",
                where=f"{request.method} {request.url.path[:200]}",
                why="It is not in the table of routes of the supported servers.",
                do="Use the routes for blocks, passages, agents and messages, or the bare client (.inner).",
            )
        if route.kind == "pass":
            return (yield from self.wire.stream(request))
        try:
            if not self._known:
                self._known = yield from self.wire.version()
            if route.kind == "turn" and _streams(request):
                turn, request = yield from self.turns.begin(request, route.ids)
                return Streamed(self, turn, request)
            return (yield from self._handlers[route.kind](request, route.ids))
        except ServerSaid as said:
            return said.response


class Streamed:
    """A turn whose answer comes as events. What the guard approves or denies in between does not show."""

    def __init__(self, desk: Desk, turn: Turn, request: httpx.Request) -> None:
        self.desk, self.turn, self.request = desk, turn, request
        self._asked: list[bytes] = []
        self._tail: list[bytes] = []
        self._rest = b""
        self.stopped = ""
        #: Calls that the guard has answered, as events to pass on.
        self.settled: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Whole events that may be passed on now; how the turn ended, and requests for approval, are held back."""
        self._rest += chunk.replace(b"\r\n", b"\n")
        while b"\n\n" in self._rest:
            raw, _, self._rest = self._rest.partition(b"\n\n")
            event = event_of(raw)
            kind = event.get("message_type") if isinstance(event, dict) else event
            if kind == "stop_reason":
                self.stopped = str(event.get("stop_reason"))
            if kind == "approval_request_message":
                self._asked.append(raw + b"\n\n")
            elif kind in _TAIL or kind == "[DONE]":
                self._tail.append(raw + b"\n\n")
            else:
                yield raw + b"\n\n"

    def next(self) -> Operation[httpx.Request | None]:
        """After a stream's end: the guard's answer to what it was asked, or None where the turn is over."""
        if self.stopped != "requires_approval":
            return None
        calls = yield from self.desk.turns.pending(self.turn, ())
        said = yield from self.desk.turns.answers(self.turn, calls)
        if said is None:
            return None
        self.settled = [
            b"data: " + json.dumps(as_call(event_of(raw))).encode() + b"\n\n" for raw in self._asked
        ]
        self._asked, self._tail, self._rest, self.stopped = [], [], b"", ""
        return self.desk.turns.reply(self.request, said)

    def rest(self) -> list[bytes]:
        """What was held back, once the turn has been verified."""
        return [*self._asked, *self._tail, *([self._rest] if self._rest else [])]


class _Events(httpx.SyncByteStream):
    def __init__(self, first: httpx.Response, streamed: Streamed) -> None:
        self._response, self._streamed = first, streamed
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        streamed, desk = self._streamed, self._streamed.desk
        while True:
            for chunk in self._response.iter_bytes():
                yield from streamed.feed(chunk)
            self._response.close()
            request = drive(streamed.next())
            if request is None:
                break
            yield from streamed.settled
            self._response = desk.wire.open(request)
            if not self._response.is_success:
                break
        self._ended = True
        drive(desk.turns.end(streamed.turn))
        yield from streamed.rest()

    def close(self) -> None:
        self._response.close()
        if not self._ended:  # the caller looked away: what the agent did is verified by the next touch
            self._ended = True


class _AsyncEvents(httpx.AsyncByteStream):
    def __init__(self, first: httpx.Response, streamed: Streamed) -> None:
        self._response, self._streamed = first, streamed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        streamed, desk = self._streamed, self._streamed.desk
        while True:
            async for chunk in self._response.aiter_bytes():
                for event in streamed.feed(chunk):
                    yield event
            await self._response.aclose()
            request = await adrive(streamed.next())
            if request is None:
                break
            for event in streamed.settled:
                yield event
            self._response = await desk.wire.aopen(request)
            if not self._response.is_success:
                break
        await adrive(desk.turns.end(streamed.turn))
        for event in streamed.rest():
            yield event

    async def aclose(self) -> None:
        await self._response.aclose()


class Carried(BaseException):
    """An error of the guard on its way through the client's retry loop, which catches every Exception."""

    def __init__(self, error: MemguardError) -> None:
        super().__init__(str(error))
        self.error = error


class GuardTransport(httpx.BaseTransport):
    """Requests of a ``Letta``."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        request.read()
        try:
            found = drive(self.desk.handle(request))
            if not isinstance(found, Streamed):
                return found
            first = self.desk.wire.open(found.request)
            return _events(first, _Events(first, found) if first.is_success else first.stream, request)
        except MemguardError as error:
            raise Carried(error) from None

    def close(self) -> None:
        """Close the wrapped client's connections, as closing that client would."""
        self.desk.wire.close()
        self.desk.wire.http.close()


class AsyncGuardTransport(httpx.AsyncBaseTransport):
    """Requests of an ``AsyncLetta``."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. What was begun is ended even if the caller is cancelled: it may be half of a write."""
        await request.aread()
        task = asyncio.ensure_future(self._handled(request))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    async def _handled(self, request: httpx.Request) -> httpx.Response:
        try:
            found = await adrive(self.desk.handle(request))
            if not isinstance(found, Streamed):
                return found
            first = await self.desk.wire.aopen(found.request)
            return _events(first, _AsyncEvents(first, found) if first.is_success else first.stream, request)
        except MemguardError as error:
            raise Carried(error) from None

    async def aclose(self) -> None:
        """As :meth:`GuardTransport.close`."""
        self.desk.wire.close()
        await self.desk.wire.http.aclose()


def _events(first: httpx.Response, stream: Any, request: httpx.Request) -> httpx.Response:
    headers = [
        (k, v) for k, v in first.headers.multi_items() if k not in ("content-length", "content-encoding")
    ]
    return httpx.Response(first.status_code, headers=headers, stream=stream, request=request)


def _streams(request: httpx.Request) -> bool:
    """Whether the answer to a message will be events."""
    path = request.url.path.rstrip("/")
    if path.endswith("/stream"):
        return True
    body = body_of(request)
    if "streaming" in body:
        return bool(body["streaming"])
    # A conversation streams unless it is told not to.
    return "/conversations/" in path and path.endswith("/messages")


# -- the class -----------------------------------------------------------------------------------


class Guarded:
    """What a guarded client has beside its own class's methods.

    Attributes:
        inner: the wrapped client, unchanged and unguarded.
    """

    inner: Any

    def __repr__(self) -> str:
        return f"guarded {type(self.inner).__name__} {self.__dict__['_memguard'].custody.store!r}"

    def copy(self, **options: Any) -> Any:
        """The class's own ``copy``; the copy is guarded by the same guard."""
        if options.get("http_client") is not None or options.get("base_url") is not None:
            raise UnsupportedError(
                "a guarded client cannot be copied onto another connection or server.",
                code="MG560",
                do="Copy the client first (.inner), and guard the copy under a name of its own.",
            )
        made = _bare(type(self), self.inner.copy(**options), self.inner)
        made.__dict__["_client"] = self.__dict__["_client"]
        made.__dict__["_memguard"] = self.__dict__["_memguard"]
        return made

    with_options = copy


class GuardedLetta(Guarded):
    """The synchronous part."""

    def request(self, *args: Any, **options: Any) -> Any:
        """Send one; the guard's own errors come out as they are."""
        try:
            return super().request(*args, **options)  # type: ignore[misc]
        except Carried as carried:
            raise carried.error from carried.error.__cause__


class GuardedAsyncLetta(Guarded):
    """The asynchronous part."""

    async def request(self, *args: Any, **options: Any) -> Any:
        """Send one; the guard's own errors come out as they are."""
        try:
            return await super().request(*args, **options)  # type: ignore[misc]
        except Carried as carried:
            raise carried.error from carried.error.__cause__


_types: dict[type, type] = {}
_types_lock = threading.Lock()


def guarded_type(inner: type, *, is_async: bool) -> type:
    """The guarded class for a client's: a subclass, so that everything of it is there."""
    with _types_lock:
        made = _types.get(inner)
        if made is None:
            part = GuardedAsyncLetta if is_async else GuardedLetta
            made = _types[inner] = type(f"Guarded{inner.__name__}", (part, inner), {"__module__": __name__})
        return made


def guarded_client(client: Any, desk: Desk) -> Any:
    """A client like this one whose requests go through a desk."""
    wire: Wire = desk.wire
    made = _bare(guarded_type(type(client), is_async=wire.is_async), client, client)
    options: dict[str, Any] = {
        "base_url": wire.http.base_url,
        "headers": wire.http.headers,
        "cookies": wire.http.cookies,
        "timeout": wire.http.timeout,
        "follow_redirects": True,
    }
    if wire.is_async:
        made.__dict__["_client"] = httpx.AsyncClient(transport=AsyncGuardTransport(desk), **options)
    else:
        made.__dict__["_client"] = httpx.Client(transport=GuardTransport(desk), **options)
    return made


def _bare(cls: type, like: Any, inner: Any) -> Any:
    """An object of ``cls`` with a client's settings and none of the resources that it has made for itself."""
    made: Any = object.__new__(cls)
    resources = {
        name
        for name, value in like.__dict__.items()
        if type(value).__module__.startswith("letta_client.resources")
    }
    resources |= {"with_raw_response", "with_streaming_response"}
    made.__dict__.update({name: value for name, value in like.__dict__.items() if name not in resources})
    made.__dict__["inner"] = inner
    return made


# -- accepting -----------------------------------------------------------------------------------


def accept_changes(client: T, error: MemoryChangedError, reason: str) -> list[Change]:
    """Take over what an error listed: the memory as it stands is screened, sealed as the agent's own, and noted.

    Args:
        client: the guarded client, synchronous or not.
        reason: for the signed note in the anchor's log.

    Returns:
        The changes that still stood and were accepted.

    Raises:
        RejectedError, QuarantinedError: a guard refused the new content; nothing was accepted.
        UnsupportedError: MG124, the client is not guarded; MG561, the server cannot be reached.
    """
    handle = handled(client)
    memory: Memory = handle.rows.memory  # type: ignore[attr-defined]
    found: list[Change] = handle.run(memory.accept(client, error.agent, error.changes, reason))
    return found


def label(client: Any, item: Any) -> Label | None:
    """The label that a served block or passage was sealed with: where it is from and what that is worth.

    None for one that was sealed without (adopted), or not at all.

    Raises:
        UnsupportedError: MG124, the client is not guarded.
    """
    memory: Memory = handled(client).rows.memory  # type: ignore[attr-defined]
    archive = getattr(item, "archive_id", None)
    context = archive_context(archive) if archive else block_context(str(item.id))
    found = [kept for kept in memory.book.kept(context).values() if kept.id == str(item.id)]
    own = json.loads(found[0].own) if found else {}
    return Label.from_dict(own["label"]) if "label" in own else None


async def aaccept_changes(client: T, error: MemoryChangedError, reason: str) -> list[Change]:
    """Async :func:`accept_changes`."""
    return await asyncio.to_thread(accept_changes, client, error, reason)


def run(operation: Operation[T]) -> T:
    """Run care from synchronous code.

    Raises:
        UnsupportedError: MG561, the server cannot be reached, or answers with an error.
    """
    try:
        return drive(operation)
    except httpx.TransportError as error:
        what, why = "the Letta server cannot be reached.", type(error).__name__
    except ServerSaid as said:
        what, why = "the Letta server answers with an error.", str(said)
    raise UnsupportedError(what, code="MG561", why=why, do="Start it, or correct base_url, and try again.")
