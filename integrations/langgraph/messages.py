"""Messages on their way into a checkpoint: each new one goes through the write chain once.

A state is never half-dropped: a message that a guard would hold is stored and flagged, one that it rejects
stops the whole write. Which messages are new is known from the list of the last put in this process, or
else from the mark that the parent checkpoint carries under its tag, so a long history is not read again.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from memguard.context import current_source
from memguard.decision import Decision, Disposition
from memguard.effects import Acquire, Operation, Twin
from memguard.engine import MemGuard, ThreadLock
from memguard.errors import RejectedError
from memguard.events import WriteDecided
from memguard.integrations.langgraph.scoping import Binding, subject
from memguard.labelbook import digest_of
from memguard.labels import Label
from memguard.pipeline import Outcome
from memguard.record import MAX_ID, Lineage, Provenance, Record, Source, Trust, text_of

_KINDS = {"human": "user", "ai": "assistant", "system": "system"}
#: Contexts whose last list of messages is kept, and messages whose decision is.
KEPT, DECIDED = 256, 4096


#: How far a list of messages is known: how many from its start, and the running digest of those.
Known = tuple[int, bytes]


def extend(digest: bytes, message: Any) -> bytes:
    """The running digest after one more message."""
    said = f"{getattr(message, 'id', '')}\x00{text_of(getattr(message, 'content', message))}"
    return hashlib.sha256(digest + said.encode("utf-8", "surrogatepass")).digest()[:16]


def _digest(messages: Sequence[Any]) -> bytes:
    digest = b""
    for message in messages:
        digest = extend(digest, message)
    return digest


class MessageScreen:
    """The write chain for the messages of one guarded saver."""

    def __init__(self, mg: MemGuard, store: str, bound: Binding | None = None) -> None:
        self._mg, self._store, self._bound = mg, store, bound
        self._mutex = threading.Lock()
        self._decided: OrderedDict[object, tuple[Decision, Lineage]] = OrderedDict()
        self._asking = ThreadLock()
        #: What signed messages turned out to be worth, by thread, source and signature.
        self._signed: dict[tuple[str, str, bytes], Trust] = {}
        self._last: OrderedDict[str, dict[str, tuple[list[Any], bytes]]] = OrderedDict()

    def known(self, context: str, checkpoint: Mapping[str, Any]) -> dict[str, Known | None]:
        """For each channel of messages how far it is known from the last put here; None if it is not.

        A run goes on with the objects of the put before; the next run begins with the same messages
        decoded anew, which their digest tells.
        """
        last, found = self._last.get(context, {}), {}
        for channel, value in checkpoint["channel_values"].items():
            if not isinstance(value, list) or not any(isinstance(m, BaseMessage) for m in value):
                continue
            messages, digest = last.get(channel, ([], b""))
            count = len(messages)
            same = 0 < count <= len(value) and (
                all(map(is_, messages, value)) or _digest(value[:count]) == digest
            )
            found[channel] = (count, digest) if same else None
        return found

    def __call__(
        self,
        context: str,
        thread: str,
        checkpoint: Mapping[str, Any],
        known: Mapping[str, Known | None],
        mark: Mapping[str, Any],
    ) -> Operation[dict[str, Any] | None]:
        """Screen what is new.

        Args:
            known: what :meth:`known` said.
            mark: ``{channel: [count, digest]}`` from the parent's label, for channels it said None of.

        Returns:
            The label to bind: the marks, and the labels of new messages that differ from their kind's.

        Raises:
            RejectedError: a guard rejects a new message; nothing may be stored.
        """
        marks: dict[str, Any] = {}
        labels: dict[str, Any] = {}
        noted: list[tuple[str, str, Label]] = []
        now: dict[str, tuple[list[Any], bytes]] = {}
        for channel, place in known.items():
            value = checkpoint["channel_values"][channel]
            count, digest = place or _covered(value, mark.get(channel))
            # A trimmed or reordered list holds the same objects: they are kept, so their ids are theirs.
            held = {id(m) for m in self._last.get(context, {}).get(channel, ((), b""))[0]}
            for message in value[count:]:
                digest = extend(digest, message)
                if id(message) in held:
                    continue
                label, ordinary = yield from self._screen(message, thread)
                if not ordinary:
                    ident = str(getattr(message, "id", "") or "")
                    labels[ident] = label.as_dict()
                    noted.append((ident, digest_of(text_of(getattr(message, "content", message))), label))
            now[channel] = (list(value), digest)
            marks[channel] = [len(value), digest.hex()]
        if noted:
            self._mg.labels.add(self._store, thread, noted)
        self._last[context] = now
        self._last.move_to_end(context)
        while len(self._last) > KEPT:
            self._last.popitem(last=False)
        declared = current_source()
        label_value: dict[str, Any] = {"source": str(declared.source)} if declared else {}
        if marks:
            label_value["screened"] = marks
        if labels:
            label_value["messages"] = labels
        return label_value or None

    def _screen(self, message: Any, thread: str) -> Operation[tuple[Label, bool]]:
        """The label of one message, and whether it is just what its kind says."""
        kind = getattr(message, "type", "")
        own = Source(_KINDS.get(kind, "unknown"))
        if kind == "tool":
            name = str(getattr(message, "name", "") or "")
            own = Source("tool", name if name.isprintable() and len(name) <= MAX_ID else "")
        declared = current_source()
        provenance = Provenance(own)
        if declared is not None:
            # What a person passes on is from where it was declared; an answer made from it is derived.
            said = own.kind in ("user", "unknown") or str(declared.source) == str(own)
            provenance = declared if said else Provenance(own, declared.lineage)
        text = text_of(getattr(message, "content", message))
        ident = str(getattr(message, "id", "") or "")
        record = Record(text, self._store, ident, provenance.source, provenance.lineage)
        owner = None if self._bound is None else self._bound.map.scope_of_thread(thread)
        record = subject(record, (thread, ident), getattr(message, "content", message), owner)
        decision, lineage = yield from self._decide(record, thread)
        if record.source.signature is not None:
            if len(self._signed) >= DECIDED:
                self._signed.clear()
            asked = (thread, str(record.source), record.source.signature)
            worth = decision.trust or Trust.UNTRUSTED
            self._signed[asked] = min(worth, self._signed.get(asked, worth))
        provenance = replace(provenance, lineage=lineage)  # with what its text came out of
        if decision.disposition is Disposition.REJECT:
            raise RejectedError(
                "a guard rejected a message; this write was not stored, and nothing of it is kept.",
                where=f"message {ident} of thread {thread!r}",
                why=f"{decision.reason} ({decision.code}, by {decision.guard}).",
                do=f"memguard explain {decision.code}; leave the message out, or declare its source.",
            )
        label = Label.of(provenance, decision)
        if declared is not None and own.kind == "assistant":
            level: Trust | None
            if declared.source.signature is not None:  # it is over what was asked, not over this answer
                level = self._signed.get(
                    (thread, str(declared.source), declared.source.signature), Trust.UNTRUSTED
                )
            else:
                declarer = Record("", self._store, ident, declared.source, declared.lineage)
                level = (yield from self._decide(declarer, thread))[0].trust
            if level is not None and level < label.trust:
                return Label(own, level, label.decision, provenance.lineage), False
        ordinary = (
            decision.disposition is Disposition.ALLOW and provenance.source == own and not provenance.lineage
        )
        if not ordinary or label.trust < Trust.USER:  # an answer that repeats a tool's message came out of it
            self._mg.recall.note(record, label.trust)
        return label, ordinary

    def _decide(self, record: Record, thread: str) -> Operation[tuple[Decision, Lineage]]:
        """What the chain says, and what the text came out of.

        Asked once for what is about to pass several times: a message is input or a task's write first, and
        part of the state a moment later, and a signature is good once.
        """
        key: tuple[object, ...] = (thread, digest_of(record.content), str(record.source), record.lineage)
        if record.source.signature is not None:  # good for this message only
            key = (*key, record.key, record.source.signature)
        if (known := self._known(key)) is not None:
            return known
        screening = self._mg.screening
        yield Acquire(self._asking, key)  # LangGraph puts states and writes from several threads and tasks
        try:
            if (known := self._known(key)) is not None:
                return known
            outcome: Outcome = yield Twin(screening.write, screening.awrite, record)
            decision = outcome.decision.for_state()
            if decision.disposition is not Disposition.ALLOW:
                where = f"message {record.key} of thread {thread!r}"
                self._mg.events.emit(WriteDecided(self._store, where, decision))
            known = self._decided[key] = decision, outcome.record.lineage
            return known
        finally:
            self._asking.release()

    def _known(self, key: object) -> tuple[Decision, Lineage] | None:
        """A decision that was made; the ones that were used longest ago are forgotten."""
        with self._mutex:
            known = self._decided.get(key)
            if known is not None:
                self._decided.move_to_end(key)
            while len(self._decided) > DECIDED:
                self._decided.popitem(last=False)
        return known

    def admit(self, thread: str, value: Any) -> Operation[None]:
        """Screen the messages of an input or of a task's write, before anything of it is stored.

        Raises:
            RejectedError: a guard rejects one.
        """
        for message in _messages(value):
            yield from self._screen(message, thread)


class _Said:
    """A message that is not one yet: a (role, text) pair or a mapping of an input."""

    def __init__(self, role: str, content: Any, name: str = "") -> None:
        self.type = {"user": "human", "assistant": "ai"}.get(role, role)
        self.content, self.name, self.id = content, name, ""


def _messages(value: Any) -> Iterator[Any]:
    """The messages in a value, as LangGraph will understand it: itself, in a list, or under a state's keys."""
    if isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, Mapping):
        if "content" in value:
            yield _Said(
                str(value.get("role", value.get("type", ""))), value["content"], str(value.get("name", ""))
            )
        else:
            for item in value.values():
                if isinstance(item, list | BaseMessage):
                    yield from _messages(item)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, BaseMessage | Mapping):
                yield from _messages(item)
            elif (
                isinstance(item, tuple | list)
                and len(item) == 2
                and all(isinstance(part, str) for part in item)
            ):
                yield _Said(item[0], item[1])


def _covered(value: Sequence[Any], mark: Any) -> Known:
    """How far a parent's mark covers a list; nothing of it if the mark does not fit."""
    if isinstance(mark, list) and len(mark) == 2 and isinstance(mark[0], int) and 0 < mark[0] <= len(value):
        digest = _digest(value[: mark[0]])
        if digest.hex() == mark[1]:
            return mark[0], digest
    return 0, b""
