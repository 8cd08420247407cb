"""The guard's own requests to the server, through the wrapped client's connection pool and with its credentials."""

from __future__ import annotations

from typing import Any

import httpx

from memguard.effects import Operation, Twin
from memguard.errors import UnsupportedError

#: Server versions that were tried, as major and minor numbers.
SUPPORTED = ((0, 16),)


class ServerSaid(Exception):
    """The server answered one of the guard's own questions with an error; it becomes the answer to the caller."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.method} {response.request.url.path}: {response.status_code}")
        self.response = response


class Wire:
    """Requests, by both drivers.

    Args:
        client: the wrapped ``Letta`` or ``AsyncLetta``.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.http: Any = client._client
        self.is_async = isinstance(self.http, httpx.AsyncClient)
        self._own: httpx.Client | None = None

    # -- one request -------------------------------------------------------------------------

    def send(self, request: httpx.Request) -> httpx.Response:
        """Plainly, and read to its end."""
        response = self.open(request)
        try:
            response.read()
        finally:
            response.close()
        return response

    def open(self, request: httpx.Request) -> httpx.Response:
        """Plainly, the body still to be read."""
        if self.is_async:  # care from synchronous code: the wrapped client belongs to a loop
            if self._own is None:
                self._own = httpx.Client(timeout=self._client.timeout)
            return self._own.send(
                httpx.Request(request.method, request.url, headers=request.headers, content=request.content),
                stream=True,
            )
        found: httpx.Response = self.http.send(request, stream=True, follow_redirects=True)
        return found

    async def asend(self, request: httpx.Request) -> httpx.Response:
        """Awaited, and read to its end."""
        response = await self.aopen(request)
        try:
            await response.aread()
        finally:
            await response.aclose()
        return response

    async def aopen(self, request: httpx.Request) -> httpx.Response:
        """Awaited, the body still to be read."""
        found: httpx.Response = await self.http.send(request, stream=True, follow_redirects=True)
        return found

    def close(self) -> None:
        """Let go of what was opened here."""
        if self._own is not None:
            self._own.close()
            self._own = None

    # -- operations --------------------------------------------------------------------------

    def forward(self, request: httpx.Request) -> Operation[httpx.Response]:
        """A request of the caller's, read to its end."""
        response: httpx.Response = yield Twin(self.send, self.asend, request)
        return response

    def stream(self, request: httpx.Request) -> Operation[httpx.Response]:
        """A request whose body is passed on as it comes."""
        response: httpx.Response = yield Twin(self.open, self.aopen, request)
        return response

    def request(self, method: str, path: str, *, json: Any = None, params: Any = None) -> httpx.Request:
        """A request of the guard's own. ``path`` begins with ``/v1/``."""
        url = str(self._client.base_url).rstrip("/") + path
        headers = {
            name: value
            for name, value in {**self._client.default_headers, **self._client.auth_headers}.items()
            if isinstance(value, str)
        }
        timeout = httpx.Timeout(self._client.timeout)
        extensions = {"timeout": timeout.as_dict()}
        return httpx.Request(method, url, headers=headers, params=params, json=json, extensions=extensions)

    def ask(self, method: str, path: str, *, json: Any = None, params: Any = None) -> Operation[Any]:
        """The JSON of an answer.

        Raises:
            ServerSaid: it is an error.
        """
        response = yield from self.forward(self.request(method, path, json=json, params=params))
        if not response.is_success:
            raise ServerSaid(response)
        return response.json() if response.content else None

    def version(self) -> Operation[str]:
        """The server's version.

        Raises:
            UnsupportedError: MG562, one that was not tried.
        """
        said = yield from self.ask("GET", "/v1/health/")
        version = str(said.get("version", "")) if isinstance(said, dict) else ""
        numbers = tuple(int(part) if part.isdigit() else -1 for part in version.split(".")[:2])
        if numbers not in SUPPORTED:
            known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
            raise UnsupportedError(
                f"this Letta server is of version {version[:40] or 'unknown'}.",
                code="MG562",
                why=f"memguard knows the routes and shapes of {known}; another version may change memory past them.",
                do=f"Run a server of version {known}, or a newer memguard.",
            )
        return version
