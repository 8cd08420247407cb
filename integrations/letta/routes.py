"""Which request of the Letta API does what to memory. Pure; a table and one function.

The client's methods all come down to these routes, and so do raw responses and streams. A request that could
change memory in a way that is not in the table is refused, so that a new version of the API cannot walk past.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_AGENT = r"/agents/(?P<agent>[^/]+)"
_BLOCK = r"(?P<block>[^/]+)"
_LABEL = r"(?P<label>.+?)"
_ARCHIVE = r"/archives/(?P<archive>[^/]+)"
_PASSAGE = r"(?P<passage>[^/]+)"

#: (method, path below /v1 without a closing slash, what it is).
_TABLE: tuple[tuple[str, str, str], ...] = (
    ("GET", "/blocks", "blocks"),
    ("POST", "/blocks", "block-create"),
    ("GET", "/blocks/count", "pass"),
    ("GET", f"/blocks/{_BLOCK}", "block"),
    ("PATCH", f"/blocks/{_BLOCK}", "block-update"),
    ("DELETE", f"/blocks/{_BLOCK}", "block-delete"),
    ("GET", f"/blocks/{_BLOCK}/agents", "agents"),
    ("PATCH", f"/blocks/{_BLOCK}/identities/(?:attach|detach)/[^/]+", "pass"),
    ("GET", f"{_AGENT}/core-memory/blocks", "blocks"),
    ("PATCH", f"{_AGENT}/core-memory/blocks/attach/{_BLOCK}", "attach"),
    ("PATCH", f"{_AGENT}/core-memory/blocks/detach/{_BLOCK}", "attach"),
    ("GET", f"{_AGENT}/core-memory/blocks/{_LABEL}", "block"),
    ("PATCH", f"{_AGENT}/core-memory/blocks/{_LABEL}", "block-update"),
    ("GET", f"{_AGENT}/core-memory", "core-memory"),
    ("PATCH", f"{_AGENT}/archives/(?:attach|detach)/[^/]+", "attach"),
    ("GET", f"{_AGENT}/archival-memory", "passages"),
    ("POST", f"{_AGENT}/archival-memory", "passage-create"),
    ("GET", f"{_AGENT}/archival-memory/search", "recall"),
    ("DELETE", f"{_AGENT}/archival-memory/{_PASSAGE}", "passage-delete"),
    ("POST", "/passages/search", "search"),
    ("POST", "/archives", "pass"),
    ("PATCH", _ARCHIVE, "pass"),
    ("DELETE", _ARCHIVE, "archive-delete"),
    ("GET", f"{_ARCHIVE}/agents", "agents"),
    ("POST", f"{_ARCHIVE}/passages", "passage-create"),
    ("POST", f"{_ARCHIVE}/passages/batch", "passage-create"),
    ("DELETE", f"{_ARCHIVE}/passages/{_PASSAGE}", "passage-delete"),
    ("POST", "/agents", "agent-create"),
    ("GET", "/agents", "agents"),
    ("GET", "/agents/count", "pass"),
    ("POST", "/agents/messages/search", "pass"),
    ("GET", _AGENT, "agent"),
    ("PATCH", _AGENT, "agent-update"),
    ("DELETE", _AGENT, "agent-delete"),
    ("POST", f"{_AGENT}/messages", "turn"),
    ("POST", f"{_AGENT}/messages/stream", "turn"),
    ("POST", f"{_AGENT}/messages/async", "background"),
    ("POST", f"{_AGENT}/messages/preview-raw-payload", "look"),
    ("POST", f"{_AGENT}/messages/cancel", "pass"),
    ("POST", f"{_AGENT}/messages/search", "pass"),
    ("PATCH", f"{_AGENT}/messages/[^/]+", "pass"),
    ("POST", f"{_AGENT}/summarize", "look"),
    ("PATCH", f"{_AGENT}/reset-messages", "pass"),
    ("POST", f"{_AGENT}/recompile", "look"),
    ("POST", f"{_AGENT}/tools/[^/]+/run", "turn"),
    ("PATCH", f"{_AGENT}/tools/(?:attach|detach|approval)/[^/]+", "agent"),
    ("PATCH", f"{_AGENT}/(?:folders|sources|identities)/(?:attach|detach)/[^/]+", "pass"),
    ("PATCH", f"{_AGENT}/files/.+", "pass"),
    ("POST", "/conversations", "pass"),
    ("PATCH", "/conversations/[^/]+", "pass"),
    ("DELETE", "/conversations/[^/]+", "pass"),
    ("POST", "/conversations/(?P<conversation>[^/]+)/messages", "turn"),
    ("POST", "/conversations/(?P<conversation>[^/]+)/compact", "look"),
    ("POST", "/conversations/[^/]+/(?:cancel|fork|stream)", "pass"),
    ("POST", "/messages/search", "pass"),
)
_ROUTES = tuple((method, re.compile(f"{path}$"), kind) for method, path, kind in _TABLE)
#: Where a change of memory could hide, or a model could be shown some: refused unless the table knows it.
_MEMORY = re.compile(
    r"/(?:_?internal_|agents|archives|blocks|chat|conversations|groups|identities|messages|passages|templates|voice)"
)


class Route(NamedTuple):
    """What a request is: one of the table's words, ``pass`` or ``refuse``; and the ids in its path."""

    kind: str
    ids: dict[str, str]


def classify(method: str, path: str) -> Route:
    """What a request is.

    Args:
        path: of the URL, with whatever prefix the base URL has before ``/v1``.
    """
    _, found, below = path.partition("/v1/")
    if not found:
        return Route("pass" if method in ("GET", "HEAD", "OPTIONS") else "refuse", {})
    below = "/" + below.strip("/")
    for verb, pattern, kind in _ROUTES:
        if verb == method:
            match = pattern.match(below)
            if match:
                return Route(kind, {name: value for name, value in match.groupdict().items() if value})
    if method in ("GET", "HEAD", "OPTIONS"):
        # Reads that are not in the table serve no block and no passage, but for these.
        hidden = re.match(r"/(?:_internal_|identities/[^/]+/(?:blocks|agents)|groups)", below)
        return Route("refuse" if hidden else "pass", {})
    return Route("refuse" if _MEMORY.match(below) else "pass", {})
