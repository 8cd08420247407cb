"""A judge behind any endpoint that speaks the chat completions protocol of OpenAI.

The request names its purpose in the header ``X-Memguard-Purpose``, so that a proxy can book tokens by
purpose, and its limit of tokens. An answer that was cut off is an error, never a verdict, and so is one past
the budget. Nothing of the question or the answer reaches an error or a log.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections import Counter
from http.client import HTTPException
from typing import Any

from memguard.errors import ConfigError, MemguardError
from memguard.guard import Ask
from memguard.settings import Judge as Settings

#: Longest response that is read, in bytes.
_LONGEST = 1_000_000


class OpenAICompatible:
    """Asks ``POST {url}/chat/completions``. Threads may share it.

    Attributes:
        used: tokens by purpose, as the endpoint counted them.
    """

    def __init__(self, settings: Settings, *, seconds: float) -> None:
        if not settings.url.startswith(("http://", "https://")):
            raise ConfigError(
                "judge.url is no http or https URL",
                code="MG360",
                do="Give the endpoint's base URL, ending in /v1.",
            )
        self._settings, self._seconds = settings, seconds
        self._key = _key(settings.key)
        self._mutex = threading.Lock()
        self._reserved = 0
        self.used: Counter[str] = Counter()

    def ask(self, effect: Ask) -> str:
        """The model's answer.

        Raises:
            MemguardError: MG361 the endpoint cannot be reached or refuses, MG362 its answer is cut off or not in
                the protocol's form, MG363 the budget of tokens is used up.
        """
        self._reserve(effect.max_tokens)
        spent = None
        try:
            answer = self._post(effect)
            text, spent = _read(answer)
        finally:
            with self._mutex:
                self._reserved -= effect.max_tokens
                # An endpoint that does not count has used what it was allowed to.
                self.used[effect.purpose] += effect.max_tokens if spent is None else spent
        if text is None:
            raise MemguardError(
                "the judge's answer was cut off, or is not in the form of chat completions.",
                code="MG362",
                why="Half an answer is no verdict.",
                do="Raise guards.anomaly.judge_tokens, or look at the endpoint.",
            )
        return text

    def _reserve(self, tokens: int) -> None:
        budget = self._settings.budget_tokens
        with self._mutex:
            if budget and self.used.total() + self._reserved + tokens > budget:
                raise MemguardError(
                    f"the judge's budget of {budget} tokens is used up.",
                    code="MG363",
                    why="judge.budget_tokens is a limit for this process.",
                    do="Raise it, or go on without the judge.",
                )
            self._reserved += tokens

    def _post(self, effect: Ask) -> Any:
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": effect.prompt}],
            "max_tokens": effect.max_tokens,
            "temperature": 0,
        }
        headers = {"Content-Type": "application/json", "X-Memguard-Purpose": effect.purpose}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body, ensure_ascii=True).encode()
        url = self._settings.url.rstrip("/") + "/chat/completions"
        request = urllib.request.Request(url, data, headers)  # noqa: S310 - the scheme was checked
        try:
            with _NO_REDIRECTS.open(request, timeout=self._seconds) as response:
                return json.loads(response.read(_LONGEST))
        except urllib.error.HTTPError as error:
            error.close()
            raise _unreachable(f"it answered {error.code}") from None
        except (OSError, HTTPException) as error:
            raise _unreachable(type(error).__name__) from None
        except (ValueError, RecursionError):
            return None


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A redirect would carry memory content and the key to somewhere nobody configured."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


_NO_REDIRECTS = urllib.request.build_opener(_StayHere)


def _read(answer: Any) -> tuple[str | None, int | None]:
    """Text of a complete answer, and the tokens it cost where it says."""
    if not isinstance(answer, dict):
        return None, None
    usage = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    spent = total if isinstance(total, int) and not isinstance(total, bool) and total >= 0 else None
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or first.get("finish_reason") != "stop":
        return None, spent
    message = first.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return (content if isinstance(content, str) else None), spent


def _key(uri: str) -> str:
    """The API key that ``env:NAME`` names; empty for none."""
    if not uri:
        return ""
    scheme, _, name = uri.partition(":")
    value = os.environ.get(name) if scheme == "env" else None
    if not value:
        raise ConfigError(
            "the judge's key is not there",
            code="MG360",
            where="judge.key",
            do='Write key = "env:NAME" and set that variable, or leave key out.',
        )
    return value


def _unreachable(why: str) -> MemguardError:
    return MemguardError(
        "the judge cannot be asked.",
        code="MG361",
        why=f"{why}.",
        do="Look at judge.url, judge.key and the endpoint.",
    )
