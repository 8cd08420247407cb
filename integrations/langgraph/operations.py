"""What a guarded checkpointer does, written once for sync and async savers.

Translation only: configs to contexts, rows to claims. What is true is decided in
``memguard.integrity``, what may be written by the engine's write chain.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from memguard.custody import Change, Custody, Pair
from memguard.effects import Call, Operation
from memguard.errors import ForgottenError, IntegrityError, UnsupportedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.restore import Restoring
from memguard.integrations.langgraph.scan import Scan, readable_error, reading
from memguard.integrations.langgraph.serde import (
    OnePiece,
    Parted,
    PartedValues,
    Raw,
    RawSerde,
    Sealed,
    SealedCheckpoint,
)
from memguard.integrity.canonical import frame
from memguard.integrity.index import MAIN, MEMBER, newest, not_after, pack_key, split, unpack_key
from memguard.integrity.tag import NOTHING
from memguard.integrity.verifier import Context

#: Filter keys: a path of plain names. Checked here, whatever the backend's version does.
FILTER_KEY = re.compile(r"[A-Za-z0-9_.\-]+\Z")


#: Checkpoints of which the last reading that was found true is remembered (about 600 bytes each).
PROVED = 4096


class Screen(Protocol):
    """The write chain for messages (:class:`~memguard.integrations.langgraph.messages.MessageScreen`)."""

    def known(self, context: str, checkpoint: Any) -> dict[str, Any]:
        """How far each channel of messages is known."""
        ...

    def __call__(self, context: str, thread: str, checkpoint: Any, known: Any, mark: Any) -> Any:
        """Screen what is new."""
        ...

    def admit(self, thread: str, value: Any) -> None:
        """Screen an input or a task's write before it is stored."""
        ...


class Operations:
    """The operations of one guarded saver.

    Args:
        inner: the wrapped saver.
        strict: refuse to store a value whose type would not come back.
        custody: its integrity; set by the adapter's ``guard``.
        scan: how rows are read without decoding, for the wrapped type.
        screen: the engine's write chain for new messages; returns the label to bind, or None.
    """

    def __init__(
        self, inner: Any, scan: Scan, *, layout: str, is_async: bool, inline: bool, special: str, strict: bool
    ) -> None:
        self.layout, self.is_async, self.inline = layout, is_async, inline
        self._special, self.strict = special, strict
        self._one_piece = False
        self._scan = scan
        self.custody: Custody
        self.screen: Screen | None = None
        self._bind(inner)

    def _bind(self, inner: Any) -> None:
        self._inner, self._serde = inner, inner.serde
        #: The wrapped saver with a serializer that hands bytes through. It shares everything else.
        self._raw = copy.copy(inner)
        self._raw.serde = RawSerde(inner.serde)
        self._restoring = Restoring(inner.serde, refuse=self.strict)
        self._scan.bind(self._raw)
        self._proved: dict[tuple[str, bytes], tuple[bytes | None, rows.Shown]] = {}

    def with_serde(self, inner: Any) -> Operations:
        """The same operations over a clone of the saver with another serializer."""
        clone = copy.copy(self)
        clone._scan = copy.copy(self._scan)
        clone._bind(inner)
        return clone

    def _config(self, config: RunnableConfig) -> RunnableConfig:
        """The config with its thread id as text, as graphs make it: a context id is text.

        The SQLite savers do so themselves.
        """
        thread = config["configurable"]["thread_id"]
        if self.layout == "whole" or isinstance(thread, str):
            return config
        return {**config, "configurable": {**config["configurable"], "thread_id": str(thread)}}

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._raw, f"a{name}" if self.is_async else name)
        return method

    def _change(self, name: str, *args: Any, **options: Any) -> Operation[Any]:
        """Call a method of the saver that writes.

        What it leaves uncommitted when it fails is rolled back: a scan over the same connection would
        take it for stored, and a crash would then take it from a head that counts it.
        """
        try:
            return (yield Call(self._method(name), *args, **options))
        except GeneratorExit:
            raise
        except BaseException:
            yield Call(self._scan.abandon)
            raise

    # -- reading -----------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> Operation[CheckpointTuple | None]:
        """Read, check, then decode one checkpoint."""
        config = self._config(config)
        thread, namespace = _place(config)
        wanted = get_checkpoint_id(config)
        get = self._method("get_tuple")

        def fetch() -> Operation[CheckpointTuple | None]:
            try:  # not ``with reading``: this is the hot path
                found: CheckpointTuple | None = yield Call(get, config)
            except Exception as error:
                raise readable_error(error, thread, namespace) from None
            return found

        def judge(context: Context, found: CheckpointTuple | None) -> CheckpointTuple | None:
            key = pack_key(wanted) if wanted else context.head.latest
            record = rows.name(thread, namespace, unpack_key(key) if key else "(none)")
            if found is None:
                if key and context.index.member(key, MAIN) is not None:
                    context.verify_group((), key, record)
                return None
            self._verify(context, found, thread, namespace, key, record)
            return self._decode(found, record)

        record = rows.name(thread, namespace, wanted or "(newest)")
        answer: CheckpointTuple | None = yield from self.custody.read(
            rows.context_of(thread, namespace), fetch, judge, lambda found: self._decode(found, record), record
        )
        return answer

    def _verify(
        self, context: Context, found: CheckpointTuple, thread: str, namespace: str, key: bytes, record: str
    ) -> None:
        """That a raw tuple is the checkpoint ``key`` of the context, whole and as written.

        One that was found so before, byte for byte, while the index says the same of it, need not be again.
        """
        shown = rows.seen(found) if self.layout == "whole" else None
        place = (context.id, key)
        if shown is not None and self._proved.get(place) == (context.index.groups.get(key), shown):
            return
        claims = list(rows.tuple_claims(found, thread, namespace, self.layout))
        checked = [context.check(claim) for claim in claims]
        if claims[0].group != key:  # not the newest, or not the one asked for
            context.verify_group((), key, record)
        context.verify_group(checked, claims[0].group, claims[0].record)
        if shown is not None:
            self._remember(place, context.index.groups.get(key), shown)

    def _remember(self, place: tuple[str, bytes], cells: bytes | None, shown: rows.Shown) -> None:
        """Keep what was just found true, or written, of the newest few thousand checkpoints."""
        proved = self._proved
        proved.pop(place, None)
        proved[place] = (cells, shown)
        if len(proved) > PROVED:
            with suppress(StopIteration, RuntimeError):  # another thread was here too
                del proved[next(iter(proved))]

    def list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Operation[Sequence[CheckpointTuple]]:
        """Read a page of a list, check every row of it and that none is missing, then decode."""
        _check_filter(filter)
        config = self._config(config) if config else config
        if self.custody.settings.mode == "off":
            unchecked = yield from self._fetch_list(config, filter, before, limit)
            return [item for item in (self._decode(f, "") for f in unchecked) if item is not None]
        names = yield from self._names(config)
        while True:
            hint = yield from self._scan.hint()
            try:
                yield from self.custody.complete(names, hint)
            except IntegrityError:
                if self.custody.enforcing:
                    raise
            found = yield from self._fetch_list(config, filter, before, limit)
            if hint == (yield from self._scan.hint()):
                break  # nobody changed the store between the check and the read
        answer = []
        for item in found:
            checked = yield from self._judge_item(item)
            if checked is not None:
                answer.append(checked)
        if not self._scan.hinted and not filter:
            yield from self._nothing_left_out(answer, names, config, before, limit)
        return answer

    def _fetch_list(
        self, config: Any, filter: Any, before: Any, limit: Any
    ) -> Operation[Sequence[CheckpointTuple]]:
        thread = config["configurable"].get("thread_id", "") if config else "(all)"
        with reading(str(thread), ""):
            found: Sequence[CheckpointTuple] = yield Call(
                self._scan.collect, self._method("list"), config, filter=filter, before=before, limit=limit
            )
        return found

    def _names(self, config: RunnableConfig | None) -> Operation[dict[str, None]]:
        """Contexts that a list over ``config`` covers."""
        if config is None:
            names = dict.fromkeys(self.custody.known())
            names.update(dict.fromkeys((yield from self._scan.contexts(None))))
            return names
        thread = str(config["configurable"]["thread_id"])
        namespace = config["configurable"].get("checkpoint_ns")
        if namespace is not None:
            return {rows.context_of(thread, namespace): None}
        return (yield from self._thread(thread))

    def _judge_item(self, item: CheckpointTuple) -> Operation[CheckpointTuple | None]:
        thread, namespace = _place(item.config)
        key = pack_key(str(get_checkpoint_id(item.config)))
        record = rows.name(thread, namespace, unpack_key(key))
        context = self.custody.peek(rows.context_of(thread, namespace))
        if context is not None and context.flawed is None:
            try:
                self._verify(context, item, thread, namespace, key, record)
                return self._decode(item, record)
            except IntegrityError:
                pass  # a writer may have been half-way: read this one again
        return (yield from self.get_tuple(item.config))

    def _nothing_left_out(
        self,
        answer: Sequence[CheckpointTuple],
        names: Iterable[str],
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Operation[None]:
        """Where no hint tells of changes, the ids themselves say what an unfiltered list must hold."""
        wanted = get_checkpoint_id(config) if config else None
        bound = get_checkpoint_id(before) if before else None
        shown = {(rows.context_of(*_place(a.config)), str(get_checkpoint_id(a.config))) for a in answer}
        oldest = min((key for _, key in shown), default="") if limit is not None and len(shown) >= limit else ""
        for name in names:
            context = self.custody.peek(name)
            for group, packed in list(context.index.groups.items()) if context else ():
                key = unpack_key(group)
                if packed[:MEMBER] != MAIN or (wanted and key != wanted) or (bound and key >= bound):
                    continue
                if key >= oldest and (name, key) not in shown and limit != 0:
                    thread, namespace = rows.thread_of(name)
                    place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": key}
                    yield from self.get_tuple({"configurable": place})  # raises if it is not there

    def _decode(self, found: CheckpointTuple | None, record: str) -> CheckpointTuple | None:
        """Bytes to values, by the saver's own serializer; memguard's fields taken off."""
        if found is None:
            return None
        loads = self._serde.loads_typed
        metadata: Any
        metadata, own = rows.split_metadata(rows.plain(found.metadata))
        checkpoint = found.checkpoint
        if isinstance(checkpoint, Raw):
            checkpoint = loads((checkpoint.kind, checkpoint.data))
        else:
            values = checkpoint.get("channel_values", {})
            checkpoint = {
                **checkpoint,
                "channel_values": {k: loads((v.kind, v.data)) if isinstance(v, Raw) else v for k, v in values.items()},
            }
        label = own.get("label")
        if isinstance(label, Mapping) and "types" in label and self.custody.enforcing:
            Restoring.check(label["types"], checkpoint["channel_values"], record)
        writes = found.pending_writes
        if writes is not None:
            writes = [
                (task, channel, loads((rows.base_kind(v.kind), v.data)) if isinstance(v, Raw) else v)
                for task, channel, v in writes
            ]
        return CheckpointTuple(found.config, checkpoint, metadata, found.parent_config, writes)

    # -- writing -----------------------------------------------------------------------------

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        """Serialise once, seal, store."""
        try:
            return (yield from self._put(config, checkpoint, metadata, new_versions))
        except OnePiece:  # seen at its first put: such a saver gets the checkpoint in one piece from then on
            self._one_piece = True
            return (yield from self._put(config, checkpoint, metadata, new_versions))

    def _put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        config = self._config(config)
        thread, namespace = _place(config)
        key, parent = checkpoint["id"], get_checkpoint_id(config)
        group, record = pack_key(key), rows.name(thread, namespace, checkpoint["id"])
        label = (yield from self._label(thread, namespace, parent, checkpoint)) if self.screen is not None else None
        types = self._restoring.types(checkpoint["channel_values"])
        if types:
            label = {**(label or {}), "types": types}
        full: Any = get_checkpoint_metadata(config, metadata)
        full.pop(rows.FIELD, None)
        handed: Any
        stored: list[str] = []
        if self.layout == "whole":
            kind, data = self._serde.dumps_typed(checkpoint)
            handed = SealedCheckpoint(checkpoint)
            handed.typed = (kind, data)
            content = Raw(kind, data).digest()
            bound = rows.text_fields(parent, kind, rows.text_before_seal(full, label))
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
        extra = frame(*(c.encode("utf-8", "surrogatepass") for c in stored))
        own: dict[str, Any] = {} if label is None else {"label": label}
        stamp: list[Any] = []
        sealed_metadata = {**full, rows.FIELD: own}

        def prepare(contexts: list[Context]) -> list[Change]:
            context, *above = contexts
            _not_forgotten(context, parent, record)
            for other in above:
                _not_forgotten(other, str(parents[rows.thread_of(other.id)[1]]), record)
            self.custody.fork(context, pack_key(parent) if parent else b"", group, record)
            old = context.index.member(group, MAIN)
            sealer = context.sealer(rows.CHECKPOINT)
            seal = sealer.seal(
                key.encode("utf-8", "surrogatepass"),
                generation=context.head.generation + 1,
                fence=context.head.fence,
                size=1,
                prev=context.commitment,
                replaced=old[MEMBER:] if old else NOTHING,
                content=content,
                bound=bound,
                extra=extra,
            )
            own["seal"] = seal.encode()
            cell = context.cell(MAIN, seal)
            if self.layout == "whole":
                stamp[:] = [cell, rows.shown(key, parent, kind, sealed_metadata, content)]
            return [
                Change("put", [(group, cell)], latest=group),
                *(Change("none") for _ in above),
            ]

        def perform() -> Operation[RunnableConfig]:
            answer: RunnableConfig = yield from self._change("put", config, handed, sealed_metadata, new_versions)
            return answer

        name = rows.context_of(thread, namespace)
        parents = _parents(full, namespace)

        def names() -> Operation[Sequence[str]]:
            # A subgraph's checkpoint names those of the graphs above it: they may be deleted.
            above = [rows.context_of(thread, n) for n in parents]
            return [name, *(n for n in above if self.custody.has_horizon(n))]
            yield

        settle = self._read_back if self.layout == "split" else None
        answer = yield from self.custody.operate(names if parents else [name], prepare, perform, settle)
        if stamp and stamp[1] is not None:
            self._remember((name, group), stamp[0], stamp[1])
        return answer

    def _label(self, thread: str, namespace: str, parent: str | None, checkpoint: Any) -> Operation[Any]:
        """Have the new messages of a checkpoint screened; what is to be bound about them."""
        assert self.screen is not None
        context = rows.context_of(thread, namespace)
        self.screen.admit(thread, checkpoint["channel_values"].get("__start__"))
        known = self.screen.known(context, checkpoint)
        mark: Any = {}
        if parent and None in known.values():
            mark = yield from self._mark(context, thread, namespace, parent)
        return self.screen(context, thread, checkpoint, known, mark)

    def _mark(self, name: str, thread: str, namespace: str, parent: str) -> Operation[Any]:
        """Up to where the parent's messages were screened, as its verified label says."""
        place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": parent}
        config = self._config({"configurable": place})
        record, key = rows.name(thread, namespace, parent), pack_key(parent)

        def fetch() -> Operation[CheckpointTuple | None]:
            found: CheckpointTuple | None = yield Call(self._method("get_tuple"), config)
            return found

        def judge(context: Context, found: CheckpointTuple | None) -> Any:
            if found is None:
                return {}
            self._verify(context, found, thread, namespace, key, record)
            metadata = rows.plain(found.metadata)
            label = rows.split_metadata(metadata)[1].get("label") or {}
            return label.get("screened") or {}

        return (yield from self.custody.read(name, fetch, judge, lambda found: {}, record))

    def _in_parts(self, checkpoint: Any) -> Parted:
        values = {}
        for channel, value in checkpoint["channel_values"].items():
            kind, data = self._serde.dumps_typed(value)
            values[channel] = Sealed(kind, bytes(data))
        return Parted({**checkpoint, "channel_values": PartedValues(values)})

    def _read_back(self, contexts: Sequence[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
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
        thread, namespace = _place(config)
        key = str(config["configurable"]["checkpoint_id"])
        group, record = pack_key(key), rows.name(thread, namespace, key)
        if self.screen is not None:
            for _, value in writes:
                self.screen.admit(thread, value)
        typed = [(channel, *self._serde.dumps_typed(value)) for channel, value in writes]
        made = [(channel, kind, bytes(data)) for channel, kind, data in typed]  # a bytearray could still change
        handed: list[tuple[str, Any]] = []

        def prepare(contexts: list[Context]) -> list[Change]:
            (context,) = contexts
            handed.clear()
            _not_forgotten(context, key, record)
            stored = self._stored_writes(context, group, task_id, [channel for channel, _, _ in made])
            sealer, change = context.sealer(rows.WRITE), Change("put_writes")
            for position, (channel, kind, data) in enumerate(made):
                index = rows.write_index(channel, position)
                member = rows.member_of(task_id, index)
                old = stored.get(member)
                seal = sealer.seal(
                    rows.write_key(key, task_id),
                    generation=context.head.generation + 1,
                    fence=context.head.fence,
                    size=sum(winner is not None for winner, _ in stored.values()),
                    prev=context.commitment,
                    replaced=old[1][MEMBER:] if old and old[1] else NOTHING,
                    content=Raw(kind, data).digest(),
                    bound=(channel.encode("utf-8", "surrogatepass"), kind.encode()),
                    extra=rows.write_extra(index, task_path),
                )
                handed.append((channel, Sealed(f"{kind}{rows.SEPARATOR}{seal.encode()}", data)))
                if old and old[0] == position:
                    change.adds.append((group, context.cell(member, seal)))
            return [change]

        def perform() -> Operation[None]:
            yield from self._change("put_writes", config, handed, task_id, task_path)

        yield from self.custody.operate([rows.context_of(thread, namespace)], prepare, perform)

    def _stored_writes(
        self, context: Context, group: bytes, task: str, channels: Sequence[str]
    ) -> dict[bytes, tuple[int | None, bytes | None]]:
        """Which position of a batch ends up under each member, and the cell that it replaces.

        Special channels replace (in SQL savers only if the whole batch is special), others are
        kept as first written.
        """
        special = [c in WRITES_IDX_MAP for c in channels]
        winners: dict[bytes, tuple[int | None, bytes | None]] = {}
        for position, channel in enumerate(channels):
            member = rows.member_of(task, rows.write_index(channel, position))
            replaces = special[position] if self._special == "each" else all(special)
            if member in winners:
                if replaces:
                    winners[member] = (position, winners[member][1])
                continue
            old = context.index.member(group, member)
            winners[member] = (position if old is None or replaces else None, old)
        return winners

    def delete_thread(self, thread_id: str) -> Operation[None]:
        """Delete every namespace of a thread; the heads stay, and count none."""
        thread = str(thread_id)

        def names() -> Operation[Sequence[str]]:
            return list((yield from self._thread(thread)))

        def perform() -> Operation[None]:
            yield from self._change("delete_thread", thread)

        yield from self.custody.operate(names, _delete_all, perform)

    def _thread(self, thread: str) -> Operation[dict[str, None]]:
        """Contexts of a thread that have a head or a row."""
        names = {n: None for n in self.custody.known() if rows.thread_of(n)[0] == thread}
        names.update(dict.fromkeys((yield from self._scan.contexts(thread))))
        return names

    def prune(self, thread_ids: Sequence[str], strategy: str) -> Operation[None]:
        """Let the saver prune; what is left must be what was there, and hold every newest checkpoint."""

        def names() -> Operation[Sequence[str]]:
            found: dict[str, None] = {}
            for thread in thread_ids:
                found.update((yield from self._thread(str(thread))))
            return list(found)

        def perform() -> Operation[None]:
            yield from self._change("prune", thread_ids, strategy=strategy)

        def candidates(context: Context, group: bytes, _found: Any) -> bool:
            return strategy == "delete" or group != context.head.latest

        yield from self._shrink(names, perform, candidates, "prune")

    def delete_for_runs(self, run_ids: Sequence[str]) -> Operation[None]:
        """Let the saver delete by run; only checkpoints of those runs may go."""
        runs = {str(r) for r in run_ids}
        of_run: dict[tuple[str, bytes], bool] = {}

        def names() -> Operation[Sequence[str]]:
            for item in (yield from self._fetch_list(None, None, None, None)):
                metadata = rows.plain(item.metadata)
                place = (rows.context_of(*_place(item.config)), pack_key(str(get_checkpoint_id(item.config))))
                of_run[place] = str(metadata.get("run_id")) in runs
            there = yield from self._scan.contexts(None)
            return list(dict.fromkeys([*self.custody.known(), *there]))

        def perform() -> Operation[None]:
            yield from self._change("delete_for_runs", run_ids)

        def candidates(context: Context, group: bytes, _found: Any) -> bool:
            return of_run.get((context.id, group), False)

        yield from self._shrink(names, perform, candidates, "prune")

    def _shrink(
        self,
        names: Callable[[], Operation[Sequence[str]]],
        perform: Callable[[], Operation[None]],
        may_go: Callable[[Context, bytes, Any], bool],
        operation: str,
    ) -> Operation[None]:
        """An operation in which the saver decides which of some groups go."""

        def prepare(contexts: list[Context]) -> list[Change]:
            changes = []
            for context in contexts:
                groups = [g for g in context.index.groups if may_go(context, g, None)]
                pairs = [(g, c) for g in groups for c in split(context.index.groups[g])]
                changes.append(Change(operation, candidates=pairs))
            return changes

        def settle(contexts: list[Context], changes: Sequence[Change]) -> Operation[Sequence[Change]]:
            done = []
            for context, change in zip(contexts, changes, strict=True):
                left = {(r.group, r.cell) for r in map(context.check, (yield from self._scan.rows(context)))}
                allowed = set(change.candidates)
                gone = [pair for pair in context.index.items() if pair not in left]
                if any(pair not in allowed for pair in gone) or len(left) + len(gone) != context.index.cells:
                    raise UnsupportedError(
                        "the saver removed or added records that this operation does not cover.",
                        code="MG146",
                        where=context.id,
                        do="memguard audit STORE shows what is left.",
                    )
                horizon = newest({g for g, _ in gone})
                done.append(replace(change, removes=gone, horizon=horizon))
            return done

        yield from self.custody.operate(names, prepare, perform, settle)

    def copy_thread(self, source: str, target: str) -> Operation[None]:
        """Copy every checkpoint and pending write of a thread, oldest first, sealed for the new place."""
        for name in list((yield from self._thread(str(source)))):
            _, namespace = rows.thread_of(name)
            config: RunnableConfig = {"configurable": {"thread_id": source, "checkpoint_ns": namespace}}
            found = yield from self.list(config, None, None, None)
            for item in sorted(found, key=lambda f: str(get_checkpoint_id(f.config))):
                parent = (item.parent_config or {}).get("configurable", {}).get("checkpoint_id")
                place = {"thread_id": target, "checkpoint_ns": namespace}
                above = {"checkpoint_id": parent} if parent else {}
                put_config: RunnableConfig = {"configurable": {**place, **above}}
                versions = item.checkpoint.get("channel_versions", {})
                yield from self.put(put_config, item.checkpoint, item.metadata, versions)
                yield from self._copy_writes(name, item, place)

    def _copy_writes(self, name: str, item: CheckpointTuple, place: dict[str, Any]) -> Operation[None]:
        """A batch is laid out again so that each write gets the order key it had."""
        key = str(get_checkpoint_id(item.config))
        config: RunnableConfig = {"configurable": {**place, "checkpoint_id": key}}
        raw = yield Call(self._method("get_tuple"), item.config)
        batches: dict[tuple[str, str], dict[int, tuple[str, Any]]] = {}
        for (task, channel, value), (_, _, stored) in zip(
            item.pending_writes or (), raw.pending_writes or (), strict=True
        ):
            _, (path, _, index) = rows.write_claim(key, task, channel, stored.kind, name)
            batches.setdefault((task, path), {})[index] = (channel, value)
        for (task, path), found in batches.items():
            special = [found[index] for index in sorted(found) if index < 0]
            batch: list[tuple[str, Any]] = []
            for index in range(max(found) + 1):
                if index not in found and not special:
                    raise UnsupportedError("pending writes of a task have a gap.", code="MG146", where=name)
                batch.append(found[index] if index in found else special.pop(0))
            for writes in (batch, special):
                if writes:
                    yield from self.put_writes(config, writes, task, path)

    @property
    def pageable(self) -> bool:
        """Whether a list can be read in pages: the store orders by id over all threads."""
        return self._scan.hinted

    # -- the other way -----------------------------------------------------------------------

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """Complete an announced delete after a crash."""
        if removes is not None:
            raise UnsupportedError("a partial delete of checkpoints cannot be completed.", code="MG146")
        yield Call(self._scan.clear, context)

    def scan(self, context: Context) -> Operation[Any]:
        """Every row of the context, for custody."""
        return (yield from self._scan.rows(context))


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "") or ""


def _parents(metadata: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Checkpoints of the graphs above that a checkpoint's metadata names, by namespace."""
    parents = metadata.get("parents")
    if not isinstance(parents, dict):
        return {}
    return {n: key for n, key in parents.items() if n != namespace and isinstance(n, str)}


def _check_filter(filter: dict[str, Any] | None) -> None:
    for key in filter or ():
        if not isinstance(key, str) or not FILTER_KEY.match(key) or key.split(".")[0] == rows.FIELD:
            raise UnsupportedError(
                "a metadata filter key is not allowed.",
                code="MG140",
                why="Keys are letters, digits, '_', '-' and '.', and not memguard's own field.",
                do="Rename the key; operators belong in values.",
            )


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


def _delete_all(contexts: list[Context]) -> list[Change]:
    return [
        Change("delete", horizon=newest(context.index.groups)) if context.index.cells else Change("none")
        for context in contexts
    ]

