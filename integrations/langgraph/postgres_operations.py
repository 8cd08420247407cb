"""The operations of a guarded PostgresSaver: what differs where values have rows of their own.

A put seals what the checkpoint will show, before it is stored: its frame, and for each channel version the value
that will stand under it, its own or one that a verified checkpoint showed. So nothing is read back after the commit,
and a value that was swapped between a read and the next put is not taken over.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS, _DeltaSnapshot

from memguard.effects import Call, Operation
from memguard.errors import TamperedError
from memguard.integrations.langgraph import postgres_rows, rows
from memguard.integrations.langgraph.operations import Operations
from memguard.integrations.langgraph.postgres_book import Book, Books, Pair, drawn
from memguard.integrations.langgraph.postgres_rows import PLAIN, Blob, as_jsonb
from memguard.integrations.langgraph.postgres_scan import PostgresScan
from memguard.integrations.langgraph.postgres_session import check_session
from memguard.integrations.langgraph.saver_base import place_of
from memguard.integrations.langgraph.serde import Parted, PartedValues, Raw, Sealed, SealedSnapshot
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.verifier import Context

_STANDS = (
    "SELECT channel, version FROM checkpoint_blobs WHERE thread_id = %s AND checkpoint_ns = %s "
    "AND (channel, version) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
)
_STANDING = (
    "SELECT type, blob FROM checkpoint_blobs WHERE thread_id = %s AND checkpoint_ns = %s "
    "AND channel = %s AND version = %s"
)
_SHOWS = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s "
    "AND checkpoint -> 'channel_versions' ->> %s = %s LIMIT 1"
)


class PartedRows(Parted):
    """A checkpoint with what will stand under each channel version that it names."""

    __slots__ = ("known",)
    known: dict[Pair, Blob | None]


class PostgresOperations(Operations):
    """All operations of one guarded PostgresSaver or AsyncPostgresSaver."""

    _scan: PostgresScan

    def _bind(self, inner: Any) -> None:
        super()._bind(inner)
        self._books, self._quiet = Books(), False
        # The saver adds to an old checkpoint what its parent's tasks sent, decoding it: that is done here, verified.
        self._raw._migrate_pending_sends = _nothing_sent

    # -- reads -----------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> Operation[CheckpointTuple | None]:
        """See :class:`~memguard.integrations.langgraph.saver_reads.Reads`."""
        found = yield from super().get_tuple(config)
        return (yield from self._with_sends(found)) if found is not None and _is_old(found) else found

    def list(
        self, config: RunnableConfig | None, filter: Any, before: RunnableConfig | None, limit: int | None
    ) -> Operation[Sequence[CheckpointTuple]]:
        """See :class:`~memguard.integrations.langgraph.saver_reads.Reads`."""
        answer = []
        for found in (yield from super().list(config, filter, before, limit)):
            answer.append((yield from self._with_sends(found)) if _is_old(found) else found)
        return answer

    def _with_sends(self, found: CheckpointTuple) -> Operation[CheckpointTuple]:
        """A checkpoint of a format before 4, with what its parent's tasks sent, as the saver shows it."""
        assert found.parent_config is not None
        parent = yield from super().get_tuple(found.parent_config)
        sends = [value for _, channel, value in (parent and parent.pending_writes) or () if channel == TASKS]
        if not sends:
            return found
        checkpoint: Any = found.checkpoint
        versions = checkpoint["channel_versions"]
        newest = max(versions.values()) if versions else self._inner.get_next_version(None, None)
        checkpoint = {
            **checkpoint,
            "channel_values": {**checkpoint["channel_values"], TASKS: sends},
            "channel_versions": {**versions, TASKS: newest},
        }
        return found._replace(checkpoint=checkpoint)

    def _verify(
        self, context: Context, found: CheckpointTuple, thread: str, namespace: str, key: bytes, record: str
    ) -> None:
        """See :class:`~memguard.integrations.langgraph.saver_reads.Reads`."""
        seen, place = _seen(found), (context.id, key)
        if seen is not None and self._proved.get(place) == (context.index.groups.get(key), seen):
            return
        parent = postgres_rows.sealed_parent(found.metadata)
        orphan = parent is not None and context.index.member(rows.packed(parent), MAIN) is None
        claims = list(postgres_rows.tuple_claims(found, thread, namespace, orphan=orphan))
        checked = [context.check(claim) for claim in claims]
        if claims[0].group != key:  # not the newest, or not the one asked for
            context.verify_group((), key, record)
        context.verify_group(checked, claims[0].group, claims[0].record)
        _learn_from(found, self._books.of(context.id, context.head.horizon), record)
        if seen is not None:
            self._remember(place, context.index.groups.get(key), seen)

    # -- writes ----------------------------------------------------------------------------------

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> Operation[RunnableConfig]:
        """Serialise once what the saver will serialise, seal, store."""
        self._check_session()
        return (yield from self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Operation[None]:
        """See :class:`Operations`."""
        self._check_session()
        yield from super().put_writes(config, writes, task_id, task_path)

    def _check_session(self) -> None:
        """That nobody holds a transaction open in which a write would be stored and not committed."""
        if isinstance(self._inner.conn, psycopg.Connection | psycopg.AsyncConnection):
            check_session(self._inner.conn)

    def _in_rows(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, own: dict[str, Any], new_versions: Any
    ) -> Operation[tuple[dict[str, Any], Any, bytes, tuple[bytes, ...]]]:
        thread, namespace = place_of(config)
        record = rows.name(thread, namespace, checkpoint["id"])
        metadata.pop("writes", None)  # the saver leaves it out
        metadata, own_stored = as_jsonb(metadata), as_jsonb(own)
        own.clear()
        own.update(own_stored)
        new = {channel: _text(version) for channel, version in new_versions.items()}
        versions = postgres_rows.versions_of(checkpoint)
        book, parent = yield from self._learn(config, checkpoint["id"], versions, new)
        if parent:
            own["parent"] = parent
        handed, shown, mine = self._values(checkpoint["channel_values"], new)
        for pair in versions.items():
            blob = book.get(pair) or mine.get(pair)
            if blob is not None:
                shown[pair[0]] = blob
        frame = as_jsonb({k: v for k, v in checkpoint.items() if k != "channel_values"})
        content = postgres_rows.content_of(frame, shown, record)
        parted = PartedRows({**checkpoint, "channel_values": PartedValues(handed)})
        parted.known = {pair: book.get(pair) or mine.get(pair) for pair in (*versions.items(), *mine)}
        return metadata, parted, content, postgres_rows.bound_by(metadata, own)

    def _stored(self, name: str, handed: Any) -> None:
        """A put is over: what it named stands."""
        context = self.custody.peek(name)
        if context is not None:
            self._books.of(name, context.head.horizon).learn(handed.known)

    def _values(
        self, values: Mapping[str, Any], new: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Blob], dict[Pair, Blob]]:
        """Values as the saver is handed them, what the frame will show, and what this put would store."""
        handed: dict[str, Any] = {}
        shown: dict[str, Blob] = {}
        mine: dict[Pair, Blob] = {}
        for channel, value in values.items():
            snapshot = isinstance(value, _DeltaSnapshot)
            handed[channel] = value
            if snapshot:
                shown[channel] = postgres_rows.inline(True)
            elif value is None or isinstance(value, PLAIN):
                shown[channel] = postgres_rows.inline(as_jsonb(value))
                continue
            if channel in new:
                kind, data = self._serde.dumps_typed(value)
                data = bytes(data)  # a bytearray could still change
                sealed: Any = Sealed(kind, data)
                if snapshot:
                    sealed = SealedSnapshot(None)
                    sealed.typed = (kind, data)
                handed[channel] = sealed
                mine[channel, new[channel]] = postgres_rows.stored(kind, sha256(data).digest())
        return handed, shown, mine

    def _learn(
        self, config: RunnableConfig, key: str, versions: Mapping[str, str], new: Mapping[str, str]
    ) -> Operation[tuple[Book, str | None]]:
        """What stands under every version that a put names, and the parent that its row will have.

        Asks the store nothing where this process knows; else at most what a first put in a process asks.

        Raises:
            TamperedError: a value stands under a version that no checkpoint shows.
        """
        thread, namespace = place_of(config)
        name = rows.context_of(thread, namespace)
        parent: str | None = config["configurable"].get("checkpoint_id") or None
        context = self.custody.peek(name) or (yield from self._entered(name))
        book = self._books.of(name, context.head.horizon if context else b"")
        again = context is None or context.index.member(rows.packed(key), MAIN) is not None
        if again:  # the saver leaves the parent of a checkpoint that is put again as it is
            found = yield from self._true(thread, namespace, key, book)
            if found is not None:
                parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        sure = {} if again else {c: v for c, v in new.items() if drawn(v)}
        wanted = [pair for pair in versions.items() if sure.get(pair[0]) != pair[1]]
        missing = book.missing(wanted)
        if parent and not again and any(new.get(channel) != version for channel, version in missing):
            yield from self._true(thread, namespace, parent, book)
            missing = book.missing(missing)
        if missing:
            yield from self._look_up(book, thread, namespace, missing)
        return book, parent

    def _look_up(self, book: Book, thread: str, namespace: str, missing: Sequence[Pair]) -> Operation[None]:
        """Ask the store what stands under these; what does is believed if a true checkpoint shows it."""
        channels, versions = [c for c, _ in missing], [v for _, v in missing]
        stands = set((yield Call(self._scan._all, _STANDS, (thread, namespace, channels, versions))))
        book.learn({pair: None for pair in missing if pair not in stands})
        for pair in missing:
            if pair in book:
                continue
            shows = yield Call(self._scan._all, _SHOWS, (thread, namespace, *pair))
            if shows:
                yield from self._true(thread, namespace, shows[0][0], book)
            if pair in book:
                continue
            if self.custody.enforcing:
                raise TamperedError(
                    "a value stands in the store that no checkpoint of its thread shows.",
                    case="T5",
                    record=f"channel {pair[0]!r} of {rows.name(thread, namespace, '(any)')}",
                    why="A put names the version it stands under, and would take it over unverified.",
                    do="Delete that row of checkpoint_blobs, or write the channel under a new version.",
                )
            ((kind, data),) = yield Call(self._scan._all, _STANDING, (thread, namespace, *pair))
            book.learn({pair: postgres_rows.stored(kind, sha256(data or b"").digest())})

    def _entered(self, name: str) -> Operation[Context | None]:
        """The context, entered if this process has not been there; None where nothing is checked."""

        def fetch() -> Operation[None]:
            return
            yield

        found: Context | None = yield from self.custody.read(
            name, fetch, lambda context, _: context, lambda _: None, name
        )
        return found

    def _true(self, thread: str, namespace: str, key: str, book: Book) -> Operation[CheckpointTuple | None]:
        """A checkpoint, read undecoded and verified; what it shows is in the book then."""
        place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": key}
        record = rows.name(thread, namespace, key)

        def fetch() -> Operation[CheckpointTuple | None]:
            found: CheckpointTuple | None = yield Call(self._method("get_tuple"), {"configurable": place})
            return found

        def judge(context: Context, found: CheckpointTuple | None) -> CheckpointTuple | None:
            group = pack_key(key)
            if found is None:
                if context.index.member(group, MAIN) is not None:
                    context.verify_group((), group, record)
                return None
            self._verify(context, found, thread, namespace, group, record)
            return found

        found: CheckpointTuple | None = yield from self.custody.read(
            rows.context_of(thread, namespace), fetch, judge, lambda found: found, record
        )
        if found is not None:  # one that was proved before may have been forgotten, or nothing was checked
            _learn_from(found, book, record)
        return found

    # -- whole threads ---------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> Operation[None]:
        """See :class:`Operations`."""
        self._check_session()
        yield from super().delete_thread(thread_id)
        self._books.forget()

    def prune(self, thread_ids: Sequence[str], strategy: str) -> Operation[None]:
        """See :class:`Operations`; the saver deletes a subgraph's call with the checkpoint it started from."""

        self._check_session()

        def names() -> Operation[Sequence[str]]:
            found: dict[str, None] = {}
            for thread in thread_ids:
                found.update((yield from self._thread(str(thread))))
            return list(found)

        def perform() -> Operation[None]:
            yield from self._change("prune", thread_ids, strategy=strategy)

        def candidates(context: Context, group: bytes, _found: Any) -> bool:
            call = ":" in rows.thread_of(context.id)[1]
            return strategy == "delete" or call or group != context.head.latest

        yield from self._shrink(names, perform, candidates, "prune")
        self._books.forget()

    # -- recovery --------------------------------------------------------------------------------

    def quiet(self, context: Context) -> Operation[None]:
        """Before what a killed writer left is judged: see :meth:`PostgresScan.quiet`.

        After another boot once for all threads: who wrote before it has been killed before it.
        """
        open_ = self.custody.log.intent((self.custody.store, context.id)) is not None
        if open_ or not self._quiet:
            yield from self._scan.quiet()
            self._quiet = True


def _nothing_sent(*_: Any) -> None:
    """In the place of the raw saver's ``_migrate_pending_sends``."""


def _is_old(found: CheckpointTuple) -> bool:
    """Whether a checkpoint is of a format that leaves what its parent's tasks sent to the reader."""
    version = found.checkpoint.get("v", 4)
    return found.parent_config is not None and isinstance(version, int) and version < 4


def _learn_from(found: CheckpointTuple, book: Book, record: str) -> None:
    book.learn(postgres_rows.blobs_by(found.checkpoint, postgres_rows.shown_by(found.checkpoint, record)))


def _text(version: Any) -> str:
    return version if isinstance(version, str) else json.dumps(version)


def _seen(found: CheckpointTuple) -> rows.Shown | None:
    """What a saver returned undecoded, to be compared with another reading; None if that cannot be told."""
    values = found.checkpoint["channel_values"]
    plain = {channel: value for channel, value in values.items() if type(value) is not Raw}
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    metadata: Any = found.metadata
    try:
        frame = marshal.dumps({**found.checkpoint, "channel_values": plain}, 0)
        made: rows.Shown = (
            found.config["configurable"]["checkpoint_id"],
            parent,
            marshal.dumps(metadata, 0),
            frame,
        )
    except ValueError:
        return None
    for channel, value in values.items():
        if type(value) is Raw:
            made += (channel, value.kind, value.digest())
    for task, channel, value in found.pending_writes or ():
        if type(value) is not Raw:
            return None
        made += (task, channel, value.kind, value.digest())
    return made
