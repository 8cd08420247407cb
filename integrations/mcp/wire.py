"""JSON-RPC over pipes: one message a line, bounded, written whole. What is on the other side is not believed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

#: Bytes read at once.
_CHUNK = 1 << 16


class Line(NamedTuple):
    """What came in: a message, or why it is none."""

    kind: Literal["message", "rubbish", "oversize"]
    message: Any = None


def lines(fd: int, limit: int) -> Iterator[Line]:
    """Messages from a pipe until it ends. A line over ``limit`` bytes is dropped while it comes in."""
    held, skipping = bytearray(), False
    while chunk := _read(fd):
        held += chunk
        while (at := held.find(b"\n")) >= 0:
            line, held = bytes(held[:at]), held[at + 1 :]
            if skipping:
                skipping = False
            elif len(line) > limit:
                yield Line("oversize")
            elif line.strip():
                yield _parsed(line)
        if len(held) > limit:
            if not skipping:
                yield Line("oversize")
            held, skipping = bytearray(), True
    if held.strip() and not skipping:
        yield _parsed(bytes(held))


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:
        return b""


def _parsed(line: bytes) -> Line:
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return Line("rubbish")
    good = isinstance(message, Mapping) and message.get("jsonrpc") == "2.0"
    return Line("message", message) if good else Line("rubbish", message)


class Writer:
    """The other end: threads write whole messages."""

    def __init__(self, fd: int) -> None:
        self._fd, self._mutex = fd, threading.Lock()

    def write(self, message: Mapping[str, Any]) -> bool:
        """Whether it could be written."""
        data = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._mutex:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                return False
        return True


def ident(value: Any) -> str:
    """An id as a key: ``1`` and ``"1"`` are two."""
    return json.dumps(value)


def failed(request: Any, code: int, text: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A JSON-RPC error."""
    error: dict[str, Any] = {"code": code, "message": text}
    if data:
        error["data"] = dict(data)
    return {"jsonrpc": "2.0", "id": request, "error": error}


def result(request: Any, value: Any) -> dict[str, Any]:
    """A JSON-RPC result."""
    return {"jsonrpc": "2.0", "id": request, "result": value}
