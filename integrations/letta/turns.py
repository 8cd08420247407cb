"""A turn of the agent: what it is shown is verified before it, what it changed is judged, and verified after it.

Three ways with edits that the agent makes on the server, as ``server_edits`` says:

* ``approve``: its memory tools ask for approval; the guard screens what the call would leave and approves or denies.
* ``read_only``: blocks are read-only to it, and what writes all the same is denied.
* ``verify``: it edits freely, and what it changed raises :class:`MemoryChangedError` after the turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from memguard.collection import Put
from memguard.context import current_source
from memguard.effects import Operation
from memguard.errors import RefusedError, RejectedError
from memguard.integrations.letta import edits, rows
from memguard.integrations.letta.book import Allowance
from memguard.integrations.letta.memory import AGENT, Memory
from memguard.integrations.letta.table import NEW, digest, remade
from memguard.integrations.letta.writes import WriteRequests, body_of, with_body
from memguard.record import Parent, Source, Trust

#: Approvals that one message may lead to, before the guard lets go of the agent.
MOST = 50
_APPROVAL = "approval_request_message"


@dataclass
class Turn:
    """What is known of a turn under way.

    Attributes:
        agent: its id; ``conversation`` the conversation's, if it is one.
        state: of the agent when it began.
        values: of its blocks by label, as far as calls that were approved have moved them.
        allowances: what was let through and perhaps never happened.
        coming: passages that were let through before their archive has a name.
        rounds: answers to requests for approval so far.
    """

    agent: str
    conversation: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    allowances: list[Allowance] = field(default_factory=list)
    coming: list[Put] = field(default_factory=list)
    rounds: int = 0


class Turns:
    """Operations around a turn.

    Args:
        server_edits: ``approve``, ``read_only`` or ``verify``.
    """

    def __init__(self, memory: Memory, writes: WriteRequests, server_edits: str) -> None:
        self.memory, self.writes, self.server_edits = memory, writes, server_edits
        self.wire = memory.wire

    # -- before ------------------------------------------------------------------------------

    def begin(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[tuple[Turn, httpx.Request]]:
        """Verify what the agent will be shown; the turn, and the request to send in place of this one."""
        agent, conversation = ids.get("agent", ""), ids.get("conversation", "")
        if not agent:
            agent = conversation
            if not conversation.startswith("agent-"):
                found = yield from self.wire.ask("GET", f"/v1/conversations/{conversation}")
                agent = str(found["agent_id"])
        turn = Turn(agent, conversation)
        turn.state = yield from self.memory.verify(agent)
        turn.values = {str(b["label"]): str(b["value"]) for b in rows.blocks_of(turn.state)}
        if self.memory.enforcing:
            yield from self._prepared(turn)
        body = body_of(request)
        approvals = [m for m in _messages(body) if m.get("type") == "approval"]
        if approvals and self._asks:
            request = yield from self._overruled(turn, request, body, approvals)
        elif self._asks and turn.state.get("pending_approval"):
            yield from self._caught_up(turn)
        if "/tools/" in request.url.path:
            yield from self._direct(turn, request, body)
        return turn, request

    @property
    def _asks(self) -> bool:
        """Whether the guard answers requests for approval."""
        return self.memory.enforcing and self.server_edits != "verify"

    def _prepared(self, turn: Turn) -> Operation[None]:
        """Have the agent's memory tools ask, and its blocks read-only where that is wanted."""
        if self.server_edits == "verify":
            return
        for tool in edits.unattended(turn.state):
            path = f"/v1/agents/{turn.agent}/tools/approval/{tool}"
            yield from self.wire.ask("PATCH", path, json={"requires_approval": True})
        if self.server_edits != "read_only":
            return
        for block in rows.blocks_of(turn.state):
            if not block.get("read_only"):
                path = f"/v1/blocks/{block['id']}"
                request = self.wire.request("PATCH", path, json={"read_only": True})
                yield from self.writes.block_update(request, {"block": block["id"]})

    # -- judging calls -----------------------------------------------------------------------

    def pending(self, turn: Turn, answer: Sequence[Mapping[str, Any]]) -> Operation[list[dict[str, Any]]]:
        """The calls that wait for approval, from an answer or else as the server keeps them."""
        asked = [m for m in answer if m.get("message_type") == _APPROVAL]
        if not asked and not turn.conversation:
            state = yield from self.memory.table.state(turn.agent)
            asked = [state["pending_approval"]] if state.get("pending_approval") else []
        elif not asked:
            path = f"/v1/conversations/{turn.conversation}/messages"
            newest = yield from self.wire.ask("GET", path, params={"limit": 10, "order": "desc"})
            asked = [m for m in newest if m.get("message_type") == _APPROVAL]
            asked = sorted(asked, key=lambda m: str(m.get("date")))[-1:]
        if not asked:
            return []
        calls = asked[-1].get("tool_calls") or [asked[-1].get("tool_call")]
        return [dict(call) for call in calls if call]

    def answers(
        self, turn: Turn, calls: Sequence[Mapping[str, Any]]
    ) -> Operation[list[dict[str, Any]] | None]:
        """The guard's word on each call; None where one of them is the program's to decide."""
        if not calls or not self._asks or turn.rounds >= MOST:
            return None
        tools = {tool["name"]: tool for tool in turn.state.get("tools") or ()}
        if not all(edits.is_writer(tools.get(call["name"], call)) for call in calls):
            return None
        turn.rounds += 1
        said = []
        for call in calls:
            refused = yield from self._judged(turn, call)
            word = {"type": "approval", "tool_call_id": call["tool_call_id"], "approve": not refused}
            said.append({**word, "reason": refused} if refused else word)
        return said

    def _judged(self, turn: Turn, call: Mapping[str, Any]) -> Operation[str]:
        """Why a call is refused, in words that the agent may read; empty where it may go ahead."""
        if self.server_edits == "read_only":
            return "memguard: this agent's memory is read-only."
        found = edits.effect(str(call["name"]), edits.arguments_of(call.get("arguments")), turn.values)
        if found.why:
            return f"memguard: not done, {found.why}."
        try:
            if found.passage is not None:
                yield from self._passage(turn, found)
            else:
                yield from self._block(turn, found)
        except RefusedError as error:
            return f"memguard: refused by its guards ({error.code})."
        return ""

    def _block(self, turn: Turn, found: edits.Effect) -> Operation[None]:
        row = next(b for b in rows.blocks_of(turn.state) if b["label"] == found.label)
        context = rows.block_context(row["id"])
        value = {**row, "value": found.value}
        put = Put(context, rows.ONE, value, b"", "", source=AGENT)
        put.lineage = yield from self._lineage(turn)
        put = yield from self._as_it_is(remade(put, value))
        put.own = {**put.own, "chars": len(found.value or "")}
        turn.allowances.append((yield from self.memory.allow(context, row["id"], put.content, put.own)))
        turn.values[found.label] = found.value or ""

    def _passage(self, turn: Turn, found: edits.Effect) -> Operation[None]:
        archive = yield from self.writes.archive_of(turn.agent)
        context = rows.archive_context(archive or NEW)
        value = {"text": found.passage, "tags": list(found.tags), "metadata": None}
        put = Put(context, None, value, b"", "", source=AGENT)
        put.lineage = yield from self._lineage(turn)
        put = yield from self._as_it_is(remade(put, value))
        put.own = {**put.own, "chars": len(found.passage or "")}
        if archive is None:
            turn.coming.append(put)
        else:
            turn.allowances.append((yield from self.memory.allow(context, "", put.content, put.own)))

    def _as_it_is(self, put: Put) -> Operation[Put]:
        """The put through the write chain; an agent's call cannot be rewritten, so what would be is refused."""
        screened = yield from self.memory.screened(put)
        if screened.content != put.content:
            raise RejectedError("a guard would cut something out of what the agent wrote.", where=put.context)
        return screened

    def _lineage(self, turn: Turn) -> Operation[Any]:
        """What the agent was shown: its blocks, and the message, whose source is the one that was declared."""
        declared = current_source()
        source = declared.source if declared is not None else Source("user")
        trust = self.memory.mg.screening.trust(source) or Trust.UNKNOWN
        contexts = [rows.block_context(block["id"]) for block in rows.blocks_of(turn.state)]
        return (yield from self.memory.derived(contexts, Parent(f"message from {source}", trust)))

    def _overruled(
        self, turn: Turn, request: httpx.Request, body: dict[str, Any], approvals: Sequence[dict[str, Any]]
    ) -> Operation[httpx.Request]:
        """The program's own approvals, with the guard's word on calls that write memory."""
        calls = {c["tool_call_id"]: c for c in (yield from self.pending(turn, ()))}
        tools = {tool["name"]: tool for tool in turn.state.get("tools") or ()}
        refused: dict[str, str] = {}
        for ident, call in calls.items():
            if edits.is_writer(tools.get(call["name"], call)):
                refused[ident] = yield from self._judged(turn, call)
        for message in approvals:
            for word in message.get("approvals") or ():
                if refused.get(word.get("tool_call_id")):
                    word.update(approve=False, reason=refused[word["tool_call_id"]])
            if message.get("approve") and any(refused.values()):
                message.update(approve=False, reason=next(filter(None, refused.values())))
        return with_body(request, body)

    def _caught_up(self, turn: Turn) -> Operation[None]:
        """Answer what a run that went on without us is waiting for, where that is the guard's to answer."""
        path = f"/v1/agents/{turn.agent}/messages"
        while True:
            said = yield from self.answers(turn, (yield from self.pending(turn, ())))
            if said is None:
                return
            body = {"messages": [{"type": "approval", "approvals": said}]}
            answer = yield from self.wire.ask("POST", path, json=body)
            yield from self.end(turn, answer)
            turn.allowances, turn.coming = [], []
            turn.state = yield from self.memory.table.state(turn.agent)
            if not _waits(answer):
                return

    def _direct(self, turn: Turn, request: httpx.Request, body: dict[str, Any]) -> Operation[None]:
        """A tool that the program runs itself.

        Raises:
            RejectedError: it writes memory, and a guard refuses what it would leave.
        """
        name = request.url.path.rstrip("/").split("/")[-2]
        tools = {tool["name"]: tool for tool in turn.state.get("tools") or ()}
        if self.memory.enforcing and edits.is_writer(tools.get(name, {"name": name})):
            refused = yield from self._judged(turn, {"name": name, "arguments": body.get("args") or {}})
            if refused:
                raise RejectedError(
                    "a guard refused what a tool would write.", where=f"{name} of {turn.agent}", why=refused
                )

    # -- the turn ----------------------------------------------------------------------------

    def whole(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """A turn whose answer is one JSON object."""
        turn, request = yield from self.begin(request, ids)
        answer: Any = None
        try:
            response = yield from self.wire.forward(request)
            answer = response.json() if response.is_success else None
            while response.is_success and _waits(answer):
                calls = yield from self.pending(turn, answer["messages"])
                said = yield from self.answers(turn, calls)
                if said is None:
                    break
                response = yield from self.wire.forward(self.reply(request, said))
                if response.is_success:
                    answer = merged(answer, response.json())
        finally:
            # Also after a lost answer: what the agent did is on the server.
            yield from self.end(turn, answer)
        if not response.is_success:
            return response
        return httpx.Response(response.status_code, json=answer, request=request)

    def reply(self, request: httpx.Request, said: Sequence[dict[str, Any]]) -> httpx.Request:
        """The request that carries the guard's word."""
        kept = {k: v for k, v in body_of(request).items() if k not in ("messages", "input")}
        return with_body(request, {**kept, "messages": [{"type": "approval", "approvals": list(said)}]})

    def end(self, turn: Turn, answer: Any = None) -> Operation[None]:
        """Seal what was approved and happened; verify the rest.

        Raises:
            MemoryChangedError: something else changed.
        """
        if turn.coming:
            yield from self._arrived(turn)
        try:
            yield from self.memory.verify(turn.agent, answer=answer, after=True)
        finally:
            yield from self.memory.withdraw(turn.allowances)

    def _arrived(self, turn: Turn) -> Operation[None]:
        """Passages that were approved when the agent had no archive."""
        archive = yield from self.writes.archive_of(turn.agent)
        if archive is None:
            return
        context = rows.archive_context(archive)
        for put in turn.coming:
            content = digest(context, put.value)
            turn.allowances.append((yield from self.memory.allow(context, "", content, put.own)))
        yield from self.writes.reattach(turn.agent)

    def look(self, request: httpx.Request, ids: Mapping[str, str]) -> Operation[httpx.Response]:
        """A request that shows memory to a model and has it change none; or one whose turn goes on without us."""
        _, request = yield from self.begin(request, ids)
        return (yield from self.wire.forward(request))


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = body.get("messages")
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


def _waits(answer: Any) -> bool:
    """Whether a turn stopped for an approval."""
    reason = answer.get("stop_reason") if isinstance(answer, dict) else None
    return isinstance(reason, dict) and reason.get("stop_reason") == "requires_approval"


def merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """One answer of two: a call that the guard answered for itself looks like any other call."""
    messages = [as_call(m) for m in before.get("messages") or ()]
    usage, more = dict(before.get("usage") or {}), after.get("usage") or {}
    for name, value in more.items():
        if isinstance(value, int) and isinstance(usage.get(name), int):
            usage[name] += value
        else:
            usage[name] = value
    return {**after, "messages": [*messages, *(after.get("messages") or ())], "usage": usage}


def as_call(message: Mapping[str, Any]) -> dict[str, Any]:
    """A request for approval as the call that it asks for; any other message as it is."""
    asked = message.get("message_type") == _APPROVAL
    return {**message, "message_type": "tool_call_message"} if asked else dict(message)


def event_of(raw: bytes) -> Any:
    """The JSON of one server-sent event; its text where it is none."""
    lines = [line[5:].strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    text = b"\n".join(lines).decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
