"""A model server for the tests of the Letta adapter: OpenAI's protocol on loopback, deterministic, no model.

What the "model" says follows from the conversation alone. A user's message may order a tool call:

    CALL memory_insert {"label": "human", "new_string": "likes tea"}

and several such lines order them one after the other. Anything else is answered by ``ok``. Embeddings count
hashed words, so that texts which share words lie near each other. ``GET /log`` gives the chat requests of
this run, so that a test can see what the model was shown.

    python -P .ci/letta_stub.py PORT     (-P: beside it stands a types.py that is not the standard one)
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 64
_ORDER = re.compile(r"^CALL (\w+) (\{.*\})$", re.MULTILINE)
#: Chat requests that were answered, the newest last; bounded.
_log: list[dict[str, Any]] = []


def embedding(text: str) -> list[float]:
    """A unit vector of hashed words."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % DIMENSIONS] += 1.0
    norm = sum(x * x for x in vector) ** 0.5
    return [x / norm for x in vector]


def text_of(content: Any) -> str:
    """A message's text, whether it is a string or parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def ordered(messages: list[dict[str, Any]]) -> tuple[str, str] | None:
    """The next tool call that the newest order asks for and that has not been made."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        orders = _ORDER.findall(_unpacked(text_of(message.get("content"))))
        if message.get("role") == "user" and orders:
            done = sum(len(m.get("tool_calls") or ()) for m in messages[at + 1 :])
            return orders[done] if done < len(orders) else None
        if message.get("role") == "user" and not _heartbeat(message):
            return None
    return None


def _unpacked(text: str) -> str:
    """Letta may wrap a user's message in JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return str(value.get("message", text)) if isinstance(value, dict) else text


def _heartbeat(message: dict[str, Any]) -> bool:
    return '"type": "heartbeat"' in text_of(message.get("content"))


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """One assistant message."""
    offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
    order = ordered(body.get("messages") or [])
    if order is not None and order[0] in offered:
        name, arguments = order
    elif "send_message" in offered:
        name, arguments = "send_message", json.dumps({"message": "ok"})
    else:
        return {"role": "assistant", "content": "ok"}
    if name in offered and "request_heartbeat" in json.dumps(body["tools"]) and name != "send_message":
        arguments = json.dumps({**json.loads(arguments), "request_heartbeat": True})
    made = sum(len(m.get("tool_calls") or ()) for m in body.get("messages") or ())
    digest = hashlib.sha256(f"{made} {name} {arguments}".encode()).hexdigest()[:16]
    call = {"id": f"call_{digest}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Handler(BaseHTTPRequestHandler):
    """The few endpoints that Letta asks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/log":
            self._send({"requests": _log})
        else:
            models = [{"id": "stub", "object": "model", "created": 0, "owned_by": "tests"}]
            self._send({"object": "list", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.endswith("/embeddings"):
            texts = body.get("input")
            texts = [texts] if isinstance(texts, str) else texts
            data = [
                {"object": "embedding", "index": at, "embedding": embedding(str(text))}
                for at, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            self._send({"object": "list", "data": data, "model": "stub", "usage": usage})
            return
        message = answer(body)
        _log.append({"time": time.time(), "messages": body.get("messages"), "answer": message})
        del _log[:-200]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        base = {"id": "chatcmpl-stub", "created": int(time.time()), "model": "stub"}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self._send({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        delta = dict(message)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": 0, **delta["tool_calls"][0]}]
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps({**base, 'object': 'chat.completion.chunk', **c})}\n\n" for c in chunks]
        raw = ("".join(lines) + "data: [DONE]\n\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _send(self, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
