"""Messages on their way into a checkpoint: each new one goes through the write chain once.

A state is never half-dropped: a message that a guard would hold is stored and flagged, one that it rejects
stops the whole write. Which messages are new is known from the list of the last put in this process, or
else from the mark that the parent checkpoint carries under its tag, so a long history is not read again.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from memguard.anchors.locks import ThreadLock
from memguard.binding import Binding, subject
from memguard.context import current_source
from memguard.decision import Decision, Disposition
from memguard.effects import Acquire, Operation, Twin
from memguard.engine import MemGuard
from memguard.errors import RejectedError
from memguard.events import WriteDecided
from memguard.integrity.canonical import frame
from memguard.labelbook import digest_of
from memguard.labels import Label
from memguard.pipeline import Outcome
from memguard.record import MAX_ID, Lineage, Provenance, Record, Source, Trust, text_of

_KINDS = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
#: Contexts whose last list of messages is kept, and messages whose decision is.
KEPT, DECIDED = 256, 4096
#: Values inside the value of a channel that are looked at for messages.
_NODES = 10_000


#: How far a list of messages is known: how many from its start, and the running digest of those.
Known = tuple[int, bytes]


def extend(digest: bytes, message: Any) -> bytes:
    """The running digest after one more message."""
    about = (getattr(message, "type", ""), getattr(message, "name", ""), getattr(message, "id", ""))
    said = text_of(getattr(message, "content", message))
    parts = [str(part or "").encode("utf-8", "surrogatepass") for part in (*about, said)]
    return hashlib.sha256(frame(digest, *parts)).digest()[:16]


def screened(checkpoint: Mapping[str, Any], marks: Mapping[str, Any]) -> frozenset[bytes]:
    """Which messages of a checkpoint its own marks cover, each as the digest of a list of it alone.

    They keep the labels that they have, wherever a trimmed or edited list shows them.
    """
    found: set[bytes] = set()
    for channel, value in checkpoint["channel_values"].items():
        messages = listed(value)
        count, _ = _covered(messages, marks.get(channel))
        found.update(extend(b"", message) for message in messages[:count])
    return frozenset(found)


def listed(value: Any) -> Sequence[Any]:
    """What is screened of a channel: its list of messages, or the messages that stand anywhere inside its value."""
    if type(value) is list and value and all(isinstance(item, BaseMessage) for item in value):
        return value
    found: list[Any] = []
    mixed = isinstance(value, list) and any(isinstance(item, BaseMessage) for item in value)
    stack, seen = [(value, 0)], 0
    while stack and seen < _NODES:
        node, depth = stack.pop()
        seen += 1
        if isinstance(node, BaseMessage) or (mixed and depth == 1):
            found.append(node)
        if isinstance(node, BaseMessage | str | bytes | int | float | None):
            continue
        if isinstance(node, Mapping):
            inner: Iterable[Any] = node.values()
        elif isinstance(node, list | tuple | set | frozenset):
            inner = node
        else:  # what LangGraph hands to a task, and states that are models or dataclasses
            inner = getattr(node, "__dict__", {}).values() or _slots(node)
        stack += [(part, depth + 1) for part in reversed(list(islice(inner, _NODES)))]
    return found


def _slots(node: Any) -> list[Any]:
    names = getattr(type(node), "__slots__", ())
    return [getattr(node, name, None) for name in ([names] if isinstance(names, str) else names)]


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
        self._decided: OrderedDict[object, tuple[Decision, Lineage, object]] = OrderedDict()
        #: Labels of what was input or a task's write and is no part of a state yet, by thread, id and digest.
        self._admitted: OrderedDict[tuple[str, str, str], Label] = OrderedDict()
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
        for channel, said in checkpoint["channel_values"].items():
            value = listed(said)
            if not value:
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
        before: Callable[[], frozenset[bytes]] = frozenset,
    ) -> Operation[dict[str, Any] | None]:
        """Screen what is new.

        Args:
            known: what :meth:`known` said.
            mark: ``{channel: [count, digest]}`` from the parent's label, for channels it said None of.
            before: what :func:`screened` finds in the parent; asked only where a mark does not cover a list.

        Returns:
            The label to bind: the marks, and the labels of new messages that differ from their kind's.

        Raises:
            RejectedError: a guard rejects a new message; nothing may be stored.
        """
        marks: dict[str, Any] = {}
        labels: dict[str, Any] = {}
        noted: list[tuple[str, str, Label]] = []
        now: dict[str, tuple[list[Any], bytes]] = {}
        earlier: frozenset[bytes] | None = None
        for channel, place in known.items():
            value = listed(checkpoint["channel_values"][channel])
            count, digest = place or _covered(value, mark.get(channel))
            # A trimmed or reordered list holds the same objects: they are kept, so their ids are theirs.
            held = {id(m) for m in self._last.get(context, {}).get(channel, ((), b""))[0]}
            for message in value[count:]:
                digest = extend(digest, message)
                if id(message) in held:
                    continue
                if place is None and mark:
                    earlier = before() if earlier is None else earlier
                    if extend(b"", message) in earlier:
                        continue
                label, ordinary = self._first(message, thread, *(yield from self._screen(message, thread)))
                if not ordinary:
                    ident, said = _place(message)
                    labels[ident] = label.as_dict()
                    noted.append((ident, said, label))
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
        if own.kind == "tool":
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
        if declared is not None and provenance.source == own and declared.source != own:
            # An answer, a tool's output and a system message of a run are worth what the run came from at most.
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
            said_by = replace(record, lineage=lineage)
            self._mg.recall.note(said_by, label.trust, stored=label.trust is Trust.UNTRUSTED)
        return label, ordinary

    def _decide(self, record: Record, thread: str) -> Operation[tuple[Decision, Lineage]]:
        """What the chain says, and what the text came out of.

        Asked once for what is about to pass several times: a message is input or a task's write first, and
        part of the state a moment later, and a signature is good once.
        """
        key: tuple[object, ...] = (thread, digest_of(record.content), str(record.source), record.lineage)
        declared = current_source()
        if (
            record.source.signature is not None
        ):  # good for this message only, and while this block declares it
            key = (*key, record.key, record.source.signature, id(declared))
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
            self._decided[key] = (
                decision,
                outcome.record.lineage,
                declared,
            )  # kept, so that its id stays its own
            return decision, outcome.record.lineage
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
        return known and known[:2]

    def admit(self, thread: str, value: Any) -> Operation[None]:
        """Screen the messages of an input or of a task's write, before anything of it is stored.

        Raises:
            RejectedError: a guard rejects one.
        """
        noted: list[tuple[str, str, Label]] = []
        for message in _messages(value):
            label, ordinary = yield from self._screen(message, thread)
            if ordinary:
                continue
            place = _place(message)
            with self._mutex:
                self._admitted[thread, *place] = label
                while len(self._admitted) > DECIDED:
                    self._admitted.popitem(last=False)
            if place[0]:
                noted.append((*place, label))
        if noted:
            self._mg.labels.add(self._store, thread, noted)

    def _first(self, message: Any, thread: str, label: Label, ordinary: bool) -> tuple[Label, bool]:
        """The label of a message of a state, or the lower one with which it was admitted.

        A task's write may become part of the state in a later run, which somebody else began. Its id may be given
        to it only then.
        """
        ident, digest = _place(message)
        with self._mutex:
            held = [self._admitted.pop((thread, name, digest), None) for name in dict.fromkeys((ident, ""))]
        lower = min((h for h in held if h is not None), key=lambda h: h.trust.rank, default=label)
        return (lower, False) if lower.trust < label.trust else (label, ordinary)


def _place(message: Any) -> tuple[str, str]:
    """Under what the label of a message is noted: its id, if it has one, and what it says."""
    ident = str(getattr(message, "id", "") or "")
    return ident, digest_of(text_of(getattr(message, "content", message)))


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
