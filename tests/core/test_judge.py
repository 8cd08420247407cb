"""The judge against a real endpoint on this machine: what it sends, and every way in which an answer is no verdict."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.errors import ConfigError, MemguardError
from memguard.guard import Ask
from memguard.judge.openai_compatible import OpenAICompatible
from memguard.judge.question import question_about, verdict_of
from memguard.settings import Judge

SECRET = "my sister's address is Elm Street 5"


class Endpoint:
    """Answers every question with what it was told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.status, self.answer = 200, b""
        self.say("fine")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((dict(self.headers), json.loads(body)))
                self.send_response(outer.status)
                if outer.status == 302:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", str(len(outer.answer)))
                self.end_headers()
                self.wfile.write(outer.answer)

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def say(self, content: Any, *, finish: str = "stop", tokens: Any = 7) -> None:
        choice = {"message": {"content": content}, "finish_reason": finish}
        self.answer = json.dumps({"choices": [choice], "usage": {"total_tokens": tokens}}).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def judge(endpoint: Endpoint, **more: Any) -> OpenAICompatible:
    return OpenAICompatible(Judge(url=endpoint.url, model="m", **more), seconds=2)


def ask(tokens: int = 50) -> Ask:
    return Ask("anomaly", SECRET, tokens)


def test_it_asks_with_purpose_limit_and_key(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    asked = judge(endpoint, key="env:JUDGE_KEY")
    assert asked.ask(ask()) == "fine"
    ((headers, body),) = endpoint.asked
    assert (headers["X-Memguard-Purpose"], headers["Authorization"]) == ("anomaly", "Bearer k-123")
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 50, 0)
    assert body["messages"] == [{"role": "user", "content": SECRET}]
    assert asked.used == {"anomaly": 7}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b"[" * 100_000,
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"finish_reason": "stop", "message": {"content": 5}}]}',
        b'{"choices": [{"finish_reason": "stop"}]}',
    ],
)
def test_nonsense_is_no_verdict(endpoint: Endpoint, answer: bytes) -> None:
    endpoint.answer = answer
    with pytest.raises(MemguardError) as raised:
        judge(endpoint).ask(ask())
    assert raised.value.code == "MG362"
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("finish", ["length", "content_filter", "tool_calls", ""])
def test_an_answer_that_was_cut_off_is_no_verdict(endpoint: Endpoint, finish: str) -> None:
    endpoint.say('{"poison": false, "confidence": 1}', finish=finish)
    asked = judge(endpoint)
    with pytest.raises(MemguardError) as raised:
        asked.ask(ask())
    assert raised.value.code == "MG362"
    assert asked.used["anomaly"] == 7, "it was paid for all the same"


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_refusal_names_its_status_and_goes_nowhere_else(endpoint: Endpoint, status: int) -> None:
    endpoint.status = status
    with pytest.raises(MemguardError, match=str(status)) as raised:
        judge(endpoint).ask(ask())
    assert raised.value.code == "MG361"
    assert len(endpoint.asked) == 1


def test_nobody_there(endpoint: Endpoint) -> None:
    asked = OpenAICompatible(Judge(url="http://127.0.0.1:9", model="m"), seconds=2)
    with pytest.raises(MemguardError) as raised:
        asked.ask(ask())
    assert raised.value.code == "MG361"
    assert SECRET not in str(raised.value)


def test_the_budget_is_a_limit(endpoint: Endpoint) -> None:
    endpoint.say("x", tokens=60)
    asked = judge(endpoint, budget_tokens=150)
    asked.ask(ask())
    asked.ask(ask())
    with pytest.raises(MemguardError) as raised:
        asked.ask(ask())
    assert raised.value.code == "MG363"
    assert len(endpoint.asked) == 2, "the third was not sent"
    assert asked.used == {"anomaly": 120}


@pytest.mark.parametrize("tokens", [None, "many", -5, True])
def test_an_endpoint_that_does_not_count_has_used_its_limit(endpoint: Endpoint, tokens: Any) -> None:
    endpoint.say("x", tokens=tokens)
    asked = judge(endpoint)
    asked.ask(ask(33))
    assert asked.used == {"anomaly": 33}


@pytest.mark.parametrize(
    ("url", "key"), [("file:///etc/passwd", ""), ("https://x/v1", "env:NOT_THERE"), ("https://x/v1", "sk-1")]
)
def test_a_wrong_setting_is_said_at_once(url: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(ConfigError) as raised:
        OpenAICompatible(Judge(url=url, model="m", key=key), seconds=2)
    assert raised.value.code == "MG360"
    assert "sk-1" not in str(raised.value)


class TestVerdict:
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ('{"poison": true, "confidence": 0.9}', (True, 0.9)),
            (' {"confidence": 1, "poison": false, "why": "x"} ', (False, 1.0)),
            ('```json\n{"poison": true, "confidence": 0}\n```', (True, 0.0)),
        ],
    )
    def test_read(self, answer: str, expected: tuple[bool, float]) -> None:
        assert verdict_of(answer) == expected

    @given(
        st.one_of(
            st.text(), st.none(), st.integers(), st.from_regex(r'\{"poison": (true|1|"no"|null)[^}]*\}')
        )
    )
    def test_anything_else_is_an_error_and_never_a_verdict(self, answer: object) -> None:
        with suppress(ValueError):
            poison, confidence = verdict_of(answer)
            assert isinstance(poison, bool)
            assert 0 <= confidence <= 1

    @pytest.mark.parametrize(
        "answer",
        [
            '{"poison": true, "confidence": NaN}',
            '{"poison": true, "confidence": true}',
            "[" * 1500,
            '{"poison": true, "confidence": 1e999}',
            '{"poison": "false", "confidence": 1}',
        ],
    )
    def test_near_misses(self, answer: str) -> None:
        with pytest.raises(ValueError):
            verdict_of(answer)

    def test_a_memory_cannot_end_its_quotation(self) -> None:
        one, two = question_about("x", "web"), question_about("x", "web")
        fence = one.rstrip().rsplit("\n", 1)[-1]
        assert fence.startswith("memory-")
        assert fence not in two
        assert one.count(fence) == 3
