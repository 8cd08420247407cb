"""The proxy: messages between a client and a memory server, passed on as they are but for those that touch memory.

``tools/call`` and ``resources/read`` are answered by the profile, one after the other; everything else (initialize,
lists, prompts, notifications, the server's own requests) goes through unchanged, so versions and capabilities of the
protocol are a matter between client and server.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from memguard.errors import MemguardError
from memguard.integrations.mcp.calls import TOOLS
from memguard.integrations.mcp.profiles import GenericProfile, Profile
from memguard.integrations.mcp.results import refused
from memguard.integrations.mcp.server import Server, rubbish
from memguard.integrations.mcp.wire import Writer, failed, ident, lines, result

#: Methods that the profile answers.
_GUARDED = ("tools/call", "resources/read")
#: JSON-RPC: not JSON; no request; something else.
_PARSE, _INVALID, _INTERNAL = -32700, -32600, -32603
#: Calls of a client that may wait, and pages of tools that are asked for.
_WAITING, _PAGES = 1000, 50
#: How the reference memory server calls itself.
REFERENCE = "memory-server"


class Proxy:
    """One client and one server.

    Args:
        choose: the profile, once the server said its name and its tools; raises MemguardError to refuse it.
        tell: says something to the person at the terminal.
    """

    def __init__(
        self,
        client_in: int,
        client_out: int,
        server: Server,
        choose: Callable[[str, list[Mapping[str, Any]]], Profile],
        *,
        limit: int,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._in, self._out, self._server = client_in, Writer(client_out), server
        self._choose, self._limit, self._tell = choose, limit, tell
        self._profile: Profile | None = None
        self._called = ""
        #: Requests of the client that the server has not answered: key to (id, method).
        self._waiting: dict[str, tuple[Any, str]] = {}
        #: Requests of the client that the profile has not answered.
        self._working: set[str] = set()
        self._mutex = threading.Lock()
        self._calls: queue.Queue[Mapping[str, Any] | None] = queue.Queue(_WAITING)
        self._over = threading.Event()
        self._error: MemguardError | None = None
        server.on_message, server.on_end = self._from_server, self._server_ended
        server.on_fault = self._fault

    def serve(self) -> MemguardError | None:
        """Run until the client or the server ends; what went wrong, if anything did."""
        self._server.start()
        worker = threading.Thread(target=self._work, name="memguard-mcp-calls", daemon=True)
        worker.start()
        threading.Thread(target=self._listen, name="memguard-mcp-client", daemon=True).start()
        self._over.wait()
        if self._error is None:  # the client is gone: what it asked for is finished first
            self._calls.put(None)
            worker.join()
        self._server.close()
        return self._error

    # -- from the client ---------------------------------------------------------------------

    def _listen(self) -> None:
        for line in lines(self._in, self._limit):
            if line.kind != "message":
                batch = isinstance(line.message, list)
                why = "batches are not taken" if batch else "a message is no JSON-RPC message, or too large"
                self._out.write(failed(None, _INVALID if batch else _PARSE, str(rubbish(why))))
                continue
            try:
                self._from_client(line.message)
            except MemguardError as error:
                if "id" in line.message and "method" in line.message:
                    self._answer_error(line.message.get("id"), line.message["method"], error)
        self._over.set()

    def _from_client(self, message: Mapping[str, Any]) -> None:
        method, request = message.get("method"), message.get("id")
        key = ident(request)
        if method in _GUARDED and "id" in message:
            with self._mutex:
                self._working.add(key)
            try:
                self._calls.put_nowait(message)
            except queue.Full:
                raise rubbish("too many calls are waiting") from None
            return
        if method == "notifications/cancelled":
            asked = (message.get("params") or {}).get("requestId")
            with self._mutex:
                if ident(asked) in self._working:
                    return  # it is carried out: half of a write would be worse than a late answer
        if isinstance(method, str) and "id" in message:
            with self._mutex:
                self._waiting[key] = (request, method)
        try:
            self._server.send(message)
        except MemguardError:
            with self._mutex:
                self._waiting.pop(key, None)
            raise

    # -- from the server ---------------------------------------------------------------------

    def _from_server(self, message: Mapping[str, Any]) -> None:
        if "method" not in message:
            with self._mutex:
                asked = self._waiting.pop(ident(message.get("id")), None)
            if asked is None:
                self._fault(rubbish("an answer to nothing that was asked"))
                return
            if asked[1] == "initialize":
                info = (message.get("result") or {}).get("serverInfo")
                self._called = str(info.get("name", "")) if isinstance(info, Mapping) else ""
        self._out.write(message)

    def _server_ended(self, error: MemguardError) -> None:
        if self._over.is_set():
            return
        with self._mutex:
            waiting, self._waiting = list(self._waiting.values()), {}
        for request, method in waiting:
            self._answer_error(request, method, error)
        self._error = error
        # Calls that are being worked on fail by themselves, each with its own words.
        self._calls.put(None)
        threading.Thread(target=self._last, daemon=True).start()

    def _last(self) -> None:
        for _ in range(200):
            with self._mutex:
                if not self._working:
                    break
            threading.Event().wait(0.02)
        self._over.set()

    def _fault(self, error: MemguardError) -> None:
        self._tell(str(error))
        if error.why is not None and "larger" in error.why:
            with self._mutex:
                waiting, self._waiting = list(self._waiting.values()), {}
            for request, method in waiting:
                self._answer_error(request, method, error)

    # -- the guarded calls -------------------------------------------------------------------

    def _work(self) -> None:
        while (message := self._calls.get()) is not None:
            method, request = message["method"], message["id"]
            params = message.get("params")
            try:
                profile = self._known()
                act = profile.call if method == "tools/call" else profile.resource
                answer = result(request, act(params if isinstance(params, Mapping) else {}))
            except MemguardError as error:
                self._answer_error(request, method, error)
            except Exception as error:  # noqa: BLE001 - the client must not wait for ever; content stays out
                self._tell(f"MG900: internal error, {type(error).__name__}")
                self._answer_error(request, method, MemguardError(f"internal error, {type(error).__name__}."))
            else:
                self._out.write(answer)
            with self._mutex:
                self._working.discard(ident(request))

    def _answer_error(self, request: Any, method: str, error: MemguardError) -> None:
        if method == "tools/call":
            self._out.write(result(request, refused(error)))
        else:
            self._out.write(failed(request, _INTERNAL, str(error), error.as_dict()))
        with self._mutex:
            self._working.discard(ident(request))

    def _known(self) -> Profile:
        """The profile, chosen at the first call."""
        if self._profile is None:
            tools: list[Mapping[str, Any]] = []
            params: dict[str, Any] = {}
            for _ in range(_PAGES):
                found = self._server.ask("tools/list", params)
                tools += [tool for tool in found.get("tools") or () if isinstance(tool, Mapping)]
                if not found.get("nextCursor"):
                    break
                params = {"cursor": found["nextCursor"]}
            self._profile = self._choose(self._called, tools)
            if isinstance(self._profile, GenericProfile):
                self._profile.reading = {str(tool.get("name")) for tool in tools if _reads(tool)}
        return self._profile


def _reads(tool: Mapping[str, Any]) -> bool:
    hints = tool.get("annotations")
    return isinstance(hints, Mapping) and hints.get("readOnlyHint") is True


def is_reference(called: str, tools: list[Mapping[str, Any]]) -> bool:
    """Whether a server is the reference memory server: it says so, and has its nine tools and no other."""
    return called == REFERENCE and {tool.get("name") for tool in tools} == set(TOOLS)
