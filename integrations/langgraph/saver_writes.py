"""Writing through a guarded checkpointer: serialise once, seal, store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from memguard.custody import Change
from memguard.effects import Call, Operation
from memguard.errors import ForgottenError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.messages import screened
from memguard.integrations.langgraph.saver_base import place_of
from memguard.integrations.langgraph.saver_reads import Reads
from memguard.integrations.langgraph.serde import (
    OnePiece,
    Parted,
    PartedValues,
    Raw,
    Sealed,
    SealedCheckpoint,
)
from memguard.integrity.canonical import frame
from memguard.integrity.index import MAIN, MEMBER, not_after, pack_key, unpack_key
from memguard.integrity.tag import NOTHING
from memguard.integrity.verifier import Context


class Writes(Reads):
    """put and put_writes."""

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        """Serialise once, seal, store."""
        given = config, checkpoint, metadata, new_versions
        return self._put(*given) if self.layout == "whole" or self._one_piece else self._put_first(*given)

    def _put_first(self, *given: Any) -> Operation[RunnableConfig]:
        """In parts, until the saver turns out to store a checkpoint in one piece."""
        try:
            return (yield from self._put(*given))
        except OnePiece:  # seen at its first put: such a saver gets the checkpoint in one piece from then on
            self._one_piece = True
            return (yield from self._put(*given))

    def _put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        config = self._config(config)
        thread, namespace = place_of(config)
        key, parent = checkpoint["id"], config["configurable"].get("checkpoint_id")
        group, record = rows.packed(key), rows.name(thread, namespace, key)
        label = (
            (yield from self._label(thread, namespace, parent, checkpoint))
            if self.screen is not None
            else None
        )
        types = self._restoring.types(checkpoint["channel_values"])
        if types:
            label = {**(label or {}), "types": types}
        full: Any = get_checkpoint_metadata(config, metadata)
        full.pop(rows.FIELD, None)
        own: dict[str, Any] = {} if label is None else {"label": label}
        handed: Any
        stored: list[str] = []
        if self.layout == "whole":
            full, before_seal = rows.as_stored(full, label)
            kind, data = self._serde.dumps_typed(checkpoint)
            handed = SealedCheckpoint(checkpoint)
            handed.typed = (kind, data)
            content = sha256(data).digest()
            bound = rows.text_fields(parent, kind, before_seal)
        elif self.layout == "rows":
            made = yield from self._in_rows(config, checkpoint, full, own, new_versions)
            full, handed, content, bound = made
        elif self._one_piece:
            kind, data = self._serde.dumps_typed(checkpoint)
            handed = SealedCheckpoint(checkpoint)
            handed.typed = (kind, bytes(data))
            content, bound = Raw(*handed.typed).digest(), rows.bound_fields(parent, kind, full, label)
        else:
            handed = self._in_parts(checkpoint)
            stored = sorted(c for c in new_versions if c in checkpoint["channel_values"])
            content = rows.channels_of(handed, record).content(stored)
            bound = rows.bound_fields(parent, "", full, label)
        extra = frame(*[c.encode("utf-8", "surrogatepass") for c in stored]) if stored else b""
        stamp: list[Any] = []
        sealed_metadata = {**full, rows.FIELD: own}

        def prepare(contexts: list[Context]) -> list[Change]:
            context, *above = contexts
            head = context.head
            if head.horizon:
                _not_forgotten(context, parent, record)
            for other in above:
                _not_forgotten(other, str(parents[rows.thread_of(other.id)[1]]), record)
            self.custody.fork(context, rows.packed(parent) if parent else b"", group, record)
            old = context.index.member(group, MAIN)
            own["seal"], tag = context.sealer(rows.CHECKPOINT).stamp(
                key.encode("utf-8", "surrogatepass"),
                (head.generation + 1, head.fence, 1),
                head.commitment,
                old[MEMBER:] if old else NOTHING,
                content,
                bound,
                extra,
            )
            cell = MAIN + tag
            if self.layout == "whole":
                stamp[:] = [cell, rows.shown(key, parent, kind, sealed_metadata, content)]
            changes = [Change("put", ((group, cell),), latest=group)]
            return [*changes, *[Change("none") for _ in above]] if above else changes

        def perform() -> Operation[RunnableConfig]:
            return self._change("put", config, handed, sealed_metadata, new_versions)

        name = rows.context_of(thread, namespace)
        parents = _parents(full, namespace) if full.get("parents") else {}

        def names() -> Operation[Sequence[str]]:
            # A subgraph's checkpoint names those of the graphs above it: they may be deleted.
            above = [rows.context_of(thread, n) for n in parents]
            return [name, *(n for n in above if self.custody.has_horizon(n))]
            yield

        settle = self._read_back if self.layout == "split" else None
        answer = yield from self.custody.operate(names if parents else [name], prepare, perform, settle)
        if stamp and stamp[1] is not None:
            self._remember((name, group), stamp[0], stamp[1])
        elif self.layout == "rows":
            self._stored(name, handed)
        return answer

    def _label(self, thread: str, namespace: str, parent: str | None, checkpoint: Any) -> Operation[Any]:
        """Have the new messages of a checkpoint screened; what is to be bound about them."""
        assert self.screen is not None
        context = rows.context_of(thread, namespace)
        yield from self.screen.admit(thread, checkpoint["channel_values"].get("__start__"))
        known = self.screen.known(context, checkpoint)
        mark: Any = {}
        before: Callable[[], frozenset[bytes]] = frozenset
        if parent and None in known.values():
            mark, before = yield from self._mark(context, thread, namespace, parent)
        return (yield from self.screen(context, thread, checkpoint, known, mark, before))

    def _mark(self, name: str, thread: str, namespace: str, parent: str) -> Operation[Any]:
        """Up to where the parent's messages were screened, as its verified label says, and which those are."""
        place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": parent}
        config = self._config({"configurable": place})
        record, key = rows.name(thread, namespace, parent), pack_key(parent)

        def fetch() -> Operation[CheckpointTuple | None]:
            found: CheckpointTuple | None = yield Call(self._method("get_tuple"), config)
            return found

        def judge(context: Context, found: CheckpointTuple | None) -> Any:
            if found is None:
                return {}, frozenset
            self._verify(context, found, thread, namespace, key, record)
            metadata = rows.plain(found.metadata)
            label = rows.split_metadata(metadata)[1].get("label") or {}
            mark = label.get("screened") or {}

            def before() -> frozenset[bytes]:
                shown = self._decode(found, record)
                return screened(shown.checkpoint, mark) if shown is not None and mark else frozenset()

            return mark, before

        return (yield from self.custody.read(name, fetch, judge, lambda found: ({}, frozenset), record))

    def _in_rows(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, own: dict[str, Any], new_versions: Any
    ) -> Operation[tuple[dict[str, Any], Any, bytes, tuple[bytes, ...]]]:
        """Of a saver with rows for channel versions: metadata and checkpoint to hand over, digest, bound fields."""
        raise AssertionError("a saver with such rows has operations of its own")
        yield

    def _stored(self, name: str, handed: Any) -> None:
        """Such a saver has stored what it was handed."""

    def _in_parts(self, checkpoint: Any) -> Parted:
        values = {}
        for channel, value in checkpoint["channel_values"].items():
            kind, data = self._serde.dumps_typed(value)
            values[channel] = Sealed(kind, bytes(data))
        return Parted({**checkpoint, "channel_values": PartedValues(values)})

    def _read_back(
        self, contexts: Sequence[Context], changes: Sequence[Change]
    ) -> Operation[Sequence[Change]]:
        """A split saver composes what a checkpoint shows from what earlier ones stored: ask it."""
        context, change = contexts[0], changes[0]
        group, _ = change.adds[0]
        thread, namespace = rows.thread_of(context.id)
        key = unpack_key(group)
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": key}}
        found = yield Call(self._method("get_tuple"), config)
        claim = next(iter(rows.tuple_claims(found, thread, namespace, self.layout)))
        row = context.check(claim)
        return [replace(change, adds=[(group, row.cell)]), *changes[1:]]

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Operation[None]:
        """Seal each pending write; the saver's rules decide which of them replace and which are ignored."""
        config = self._config(config)
        thread, namespace = place_of(config)
        key = str(config["configurable"]["checkpoint_id"])
        group, record = rows.packed(key), rows.name(thread, namespace, key)
        if self.screen is not None:
            for _, value in writes:
                yield from self.screen.admit(thread, value)
        made = []
        for position, (channel, value) in enumerate(writes):
            kind, data = self._serde.dumps_typed(value)
            data = bytes(data)  # a bytearray could still change
            index = WRITES_IDX_MAP.get(channel, position)
            bound = (channel.encode("utf-8", "surrogatepass"), kind.encode())
            extra = rows.write_extra(index, task_path)
            member = rows.member_of(task_id, index)
            made.append((channel, kind, data, member, sha256(data).digest(), bound, extra))
        handed: list[tuple[str, Any]] = []
        named = rows.write_key(key, task_id)

        def prepare(contexts: list[Context]) -> list[Change]:
            (context,) = contexts
            handed.clear()
            if context.head.horizon:
                _not_forgotten(context, key, record)
            stored = self._stored_writes(context, group, [(write[0], write[3]) for write in made])
            stamp, head, adds = context.sealer(rows.WRITE).stamp, context.head, []
            prev, size = head.commitment, 0
            for winner, _ in stored.values():
                size += winner is not None
            numbers = head.generation + 1, head.fence, size
            for position, (channel, kind, data, member, content, bound, extra) in enumerate(made):
                winner, old = stored[member]
                replaced = old[MEMBER:] if old else NOTHING
                seal, tag = stamp(named, numbers, prev, replaced, content, bound, extra)
                handed.append((channel, Sealed(f"{kind}{rows.SEPARATOR}{seal}", data)))
                if winner == position:
                    adds.append((group, member + tag))
            return [Change("put_writes", adds)]

        def perform() -> Operation[None]:
            return self._change("put_writes", config, handed, task_id, task_path)

        yield from self.custody.operate([rows.context_of(thread, namespace)], prepare, perform)

    def _stored_writes(
        self, context: Context, group: bytes, named: Sequence[tuple[str, bytes]]
    ) -> dict[bytes, tuple[int | None, bytes | None]]:
        """Which position of a batch (channels and members) ends up under each member, and the cell that it replaces.

        Special channels replace (in SQL savers only if the whole batch is special), others are
        kept as first written.
        """
        special = [channel in WRITES_IDX_MAP for channel, _ in named]
        every = all(special)
        winners: dict[bytes, tuple[int | None, bytes | None]] = {}
        for position, (_, member) in enumerate(named):
            replaces = special[position] if self._special == "each" else every
            if member in winners:
                if replaces:
                    winners[member] = (position, winners[member][1])
                continue
            old = context.index.member(group, member)
            winners[member] = (position if old is None or replaces else None, old)
        return winners


def _parents(metadata: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Checkpoints of the graphs above that a checkpoint's metadata names, by namespace."""
    parents = metadata.get("parents")
    if not isinstance(parents, dict):
        return {}
    return {n: key for n, key in parents.items() if n != namespace and isinstance(n, str)}


def _not_forgotten(context: Context, key: str | None, record: str) -> None:
    """A write may not name a checkpoint that was deleted."""
    horizon = context.head.horizon
    if not key or not horizon:
        return
    packed = pack_key(key)
    if packed not in context.index.groups and not_after(packed, horizon):
        raise ForgottenError(
            "a write names a checkpoint that was deleted.",
            where=record,
            why="It comes from a run that began before the deletion.",
            do="Start a new run on the thread; nothing was stored.",
        )
