"""The wrapped server: a process of its own, asked by the guard and spoken to by the client through the same pipe."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from typing import Any

from memguard.errors import MemguardError
from memguard.integrations.mcp.wire import Line, Writer, ident, lines

#: Lines that are no message, before the server is given up.
_RUBBISH = 100
#: Seconds that a server has to end by itself.
_GRACE = 5.0


class Server:
    """A server process over stdio.

    Args:
        command: what to run.
        seconds: how long an answer may take.
        limit: bytes of a message at most.
        secret: variables of the environment that it must not see (the guard's keys).
        extra: variables that it sees beside the others.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        seconds: float,
        limit: int,
        secret: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.seconds, self._limit = seconds, limit
        hidden = {name for name in os.environ if name.startswith("MEMGUARD_")} | set(secret)
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        try:
            # A group of its own: a command is often a starter, and what it started must end with it.
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**environment, **(extra or {})},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise MemguardError(
                "the memory server cannot be started.",
                code="MG601",
                where=os.path.basename(command[0]),
                why=f"{error.strerror}.",
                do="Run the command by itself; give an absolute path.",
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = Writer(self._process.stdin.fileno())
        self._mark, self._count = f"memguard-{secrets.token_hex(6)}-", 0
        self._own: dict[str, Future[Any]] = {}
        self._mutex = threading.Lock()
        self._ended: MemguardError | None = None
        self.on_message: Callable[[Mapping[str, Any]], None] = lambda message: None
        self.on_fault: Callable[[MemguardError], None] = lambda error: None
        self.on_end: Callable[[MemguardError], None] = lambda error: None

    def start(self) -> None:
        """Begin to read what it says."""
        threading.Thread(target=self._listen, name="memguard-mcp-server", daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Pass a message on.

        Raises:
            MemguardError: MG602, it has ended.
        """
        if self._ended is not None or not self._in.write(message):
            raise self._ended or ended()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """A request of the guard's own; its result.

        Raises:
            MemguardError: MG602 to MG604; MG606, it answers with a protocol error.
        """
        future: Future[Any] = Future()
        with self._mutex:
            self._count += 1
            name = f"{self._mark}{self._count}"
            self._own[ident(name)] = future
        try:
            self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": dict(params)})
            answer = future.result(timeout=self.seconds)
        except Late:
            self.kill()  # what it may still do would come after its call was given up
            raise MemguardError(
                "the memory server did not answer in time.",
                code="MG603",
                where=method,
                why=f"It had {self.seconds:g} seconds.",
                do="Give it more with --timeout, or look at what it waits for.",
            ) from None
        finally:
            with self._mutex:
                self._own.pop(ident(name), None)
        if "error" in answer:
            raise MemguardError(
                "the memory server answered with a protocol error.",
                code="MG606",
                where=method,
                do="Check the call.",
            )
        if not isinstance(answer.get("result"), dict):
            raise rubbish("an answer has no result")
        found: dict[str, Any] = answer["result"]
        return found

    def mine(self, message: Mapping[str, Any]) -> bool:
        """Take an answer to a request of the guard's own."""
        with self._mutex:
            future = self._own.get(ident(message.get("id")))
        if future is None or future.done():
            return str(message.get("id", "")).startswith(self._mark)
        future.set_result(message)
        return True

    def close(self) -> None:
        """Let it end: its input ends, then it is asked to, then it is made to."""
        process = self._process
        assert process.stdin is not None
        process.stdin.close()
        for step in (None, signal.SIGTERM, signal.SIGKILL):
            if step is not None:
                self._signal(step)
            try:
                process.wait(timeout=_GRACE)
                return
            except subprocess.TimeoutExpired:
                continue

    def kill(self) -> None:
        """End it now, with all that it started; nothing of it writes any more when this returns."""
        self._signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    # -- inside ------------------------------------------------------------------------------

    def _listen(self) -> None:
        assert self._process.stdout is not None
        wrong = 0
        error = ended()
        for line in lines(self._process.stdout.fileno(), self._limit):
            if line.kind == "message":
                if "method" in line.message or not self.mine(line.message):
                    self.on_message(line.message)
                continue
            wrong += 1
            fault = _fault(line)
            if line.kind == "oversize":
                self._fail(fault)  # it may have been any answer: whoever waits is told
            self.on_fault(fault)
            if wrong > _RUBBISH:
                error = fault
                self.kill()
                break
        self._ended = error
        self._fail(error)
        self.on_end(error)

    def _fail(self, error: MemguardError) -> None:
        with self._mutex:
            waiting, self._own = list(self._own.values()), {}
        for future in waiting:
            if not future.done():
                future.set_exception(error)


def _fault(line: Line) -> MemguardError:
    if line.kind == "oversize":
        return rubbish("a message is larger than --max-message")
    return rubbish("a line is no JSON-RPC message")


def rubbish(why: str) -> MemguardError:
    """What came is nothing that the protocol knows."""
    return MemguardError(
        "a message over MCP cannot be used.",
        code="MG604",
        why=f"{why[0].upper()}{why[1:]}.",
        do="A server writes nothing but messages to its output; its log goes to stderr.",
    )


def ended() -> MemguardError:
    """The server is gone."""
    return MemguardError(
        "the memory server has ended.",
        code="MG602",
        why="Its output was closed.",
        do="Start the proxy again; what the server said to stderr tells why.",
    )
