"""Which request does what: every method of the client that reaches memory is known, and nothing else gets by."""

from __future__ import annotations

import pytest

from memguard.integrations.letta.routes import classify

AGENT = "/v1/agents/agent-1"


@pytest.mark.parametrize(
    ("method", "path", "kind", "ids"),
    [
        ("GET", "/v1/blocks/", "blocks", {}),
        ("POST", "/v1/blocks/", "block-create", {}),
        ("GET", "/v1/blocks/block-1", "block", {"block": "block-1"}),
        ("PATCH", "/v1/blocks/block-1", "block-update", {"block": "block-1"}),
        ("DELETE", "/v1/blocks/block-1", "block-delete", {"block": "block-1"}),
        (
            "GET",
            f"{AGENT}/core-memory/blocks/system/human",
            "block",
            {"agent": "agent-1", "label": "system/human"},
        ),
        (
            "PATCH",
            f"{AGENT}/core-memory/blocks/human",
            "block-update",
            {"agent": "agent-1", "label": "human"},
        ),
        (
            "PATCH",
            f"{AGENT}/core-memory/blocks/attach/block-2",
            "attach",
            {"agent": "agent-1", "block": "block-2"},
        ),
        ("PATCH", f"{AGENT}/archives/detach/archive-1", "attach", {"agent": "agent-1"}),
        ("GET", f"{AGENT}/archival-memory/search", "recall", {"agent": "agent-1"}),
        ("POST", f"{AGENT}/archival-memory", "passage-create", {"agent": "agent-1"}),
        (
            "DELETE",
            f"{AGENT}/archival-memory/passage-1",
            "passage-delete",
            {"agent": "agent-1", "passage": "passage-1"},
        ),
        ("POST", "/v1/archives/archive-1/passages/batch", "passage-create", {"archive": "archive-1"}),
        ("POST", f"{AGENT}/messages", "turn", {"agent": "agent-1"}),
        ("POST", f"{AGENT}/messages/stream", "turn", {"agent": "agent-1"}),
        ("POST", f"{AGENT}/messages/async", "background", {"agent": "agent-1"}),
        ("POST", "/v1/conversations/conversation-1/messages", "turn", {"conversation": "conversation-1"}),
        ("POST", f"{AGENT}/tools/memory_insert/run", "turn", {"agent": "agent-1"}),
        ("GET", f"{AGENT}/messages", "pass", {}),
        ("PATCH", f"{AGENT}/reset-messages", "pass", {"agent": "agent-1"}),
        ("POST", "/v1/tools/", "pass", {}),
        ("GET", "/v1/runs/run-1", "pass", {}),
        # What could go past: refused.
        ("PATCH", "/v1/_internal_agents/agent-1/core-memory/blocks/human", "refuse", {}),
        ("POST", "/v1/_internal_blocks/", "refuse", {}),
        ("GET", "/v1/_internal_blocks/", "refuse", {}),
        ("GET", "/v1/identities/identity-1/blocks", "refuse", {}),
        ("POST", "/v1/agents/import", "refuse", {}),
        ("POST", "/v1/groups/group-1/messages", "refuse", {}),
        ("POST", "/v1/messages/batches", "refuse", {}),
        ("POST", "/v1/chat/completions", "refuse", {}),
        ("PUT", f"{AGENT}/core-memory/blocks/human", "refuse", {}),
        ("POST", f"{AGENT}/archival-memory/many", "refuse", {}),
        ("POST", "/elsewhere", "refuse", {}),
    ],
)
def test_a_request_is_what_its_route_says(method: str, path: str, kind: str, ids: dict[str, str]) -> None:
    assert classify(method, path) == (kind, ids)


def test_every_method_of_the_client_that_names_memory_is_in_the_table() -> None:
    """The client's own source: each path it can send is known, or refused; none that writes memory passes unseen."""
    import inspect
    import re

    client = pytest.importorskip("letta_client")
    from letta_client.resources import agents, archives, blocks, conversations, passages

    assert client
    seen = 0
    for package in (agents, archives, blocks, conversations, passages):
        modules = [package, *(m for _, m in inspect.getmembers(package, inspect.ismodule))]
        for module in modules:
            text = inspect.getsource(module)
            for verb, path in re.findall(
                r"self\._(get|post|patch|put|delete)\w*\(\s*(?:path_template\()?f?\"(/v1/[^\"]+)\"", text
            ):
                kind = classify(verb.upper(), re.sub(r"\{(\w+)\}", r"\1-1", path)).kind
                seen += 1
                touches = re.search(r"core-memory|archival|/passages|^/v1/blocks", path)
                counted = path.endswith("/count") or "identities" in path
                if touches and not counted:
                    assert kind != "pass", (verb, path)
    assert seen > 40
