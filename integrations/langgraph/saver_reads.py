"""Reading a guarded checkpointer: fetch undecoded, check, then decode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointTuple,
    get_checkpoint_id,
)

from memguard.effects import Call, Operation
from memguard.errors import IntegrityError, UnsupportedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.restore import Restoring
from memguard.integrations.langgraph.saver_base import SaverBase, place_of
from memguard.integrations.langgraph.scan import readable_error, reading
from memguard.integrations.langgraph.serde import (
    Raw,
)
from memguard.integrity.index import MAIN, MEMBER, pack_key, unpack_key
from memguard.integrity.verifier import Context

#: Filter keys: a path of plain names. Checked here, whatever the backend's version does.
FILTER_KEY = re.compile(r"[A-Za-z0-9_.\-]+\Z")
#: Checks of a list that other writers may interrupt before they are kept out.
TRIES = 3
#: Checkpoints of which the last reading that was found true is remembered (about 600 bytes each).
PROVED = 4096


class Reads(SaverBase):
    """get_tuple and list."""

    def get_tuple(self, config: RunnableConfig) -> Operation[CheckpointTuple | None]:
        """Read, check, then decode one checkpoint."""
        config = self._config(config)
        if config["configurable"].get("checkpoint_ns", "") is None and self.layout == "whole":
            return None  # as SQL answers: no namespace equals NULL
        thread, namespace = place_of(config)
        wanted = get_checkpoint_id(config)
        get = self._method("get_tuple")

        def fetch() -> Operation[CheckpointTuple | None]:
            try:  # not ``with reading``: this is the hot path
                found: CheckpointTuple | None = yield Call(get, config)
            except Exception as error:  # noqa: BLE001 - mapped in one place, see there
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
            rows.context_of(thread, namespace),
            fetch,
            judge,
            lambda found: self._decode(found, record),
            record,
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
        thread = str(config["configurable"]["thread_id"]) if config else None
        found: Sequence[CheckpointTuple] | None = None
        for _ in range(TRIES):
            hint = yield from self._scan.hint(thread)
            try:
                yield from self.custody.complete(names, hint)
            except IntegrityError:
                if self.custody.enforcing:
                    raise
            found = yield from self._fetch_list(config, filter, before, limit)
            if hint == (yield from self._scan.hint(thread)):
                break  # nobody changed the store between the check and the read
        else:
            found = yield from self._fetch_alone(names, config, filter, before, limit)
        answer = []
        for item in found:
            checked = yield from self._judge_item(item)
            if checked is not None:
                answer.append(checked)
        if not self._scan.hinted and not filter:
            yield from self._nothing_left_out(answer, names, config, before, limit)
        return answer

    def _fetch_alone(
        self, names: Iterable[str], config: Any, filter: Any, before: Any, limit: Any
    ) -> Operation[Sequence[CheckpointTuple]]:
        """Check and read with writers kept out: they interrupted every try."""

        def fetch() -> Operation[Sequence[CheckpointTuple]]:
            return (yield from self._fetch_list(config, filter, before, limit))

        try:
            return (yield from self.custody.alone(names, fetch))
        except IntegrityError:
            if self.custody.enforcing:
                raise
            return (yield from fetch())

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
        thread, namespace = place_of(item.config)
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
        shown = {(rows.context_of(*place_of(a.config)), str(get_checkpoint_id(a.config))) for a in answer}
        oldest = (
            min((key for _, key in shown), default="") if limit is not None and len(shown) >= limit else ""
        )
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
                "channel_values": {
                    k: loads((v.kind, v.data)) if isinstance(v, Raw) else v for k, v in values.items()
                },
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

    def _thread(self, thread: str) -> Operation[dict[str, None]]:
        """Contexts of a thread that have a head or a row."""
        names = {n: None for n in self.custody.known() if rows.thread_of(n)[0] == thread}
        names.update(dict.fromkeys((yield from self._scan.contexts(thread))))
        return names

    @property
    def pageable(self) -> bool:
        """Whether a list can be read in pages: the store orders by id over all threads."""
        return self._scan.hinted


def _check_filter(filter: dict[str, Any] | None) -> None:
    for key in filter or ():
        if not isinstance(key, str) or not FILTER_KEY.match(key) or key.split(".")[0] == rows.FIELD:
            raise UnsupportedError(
                "a metadata filter key is not allowed.",
                code="MG140",
                why="Keys are letters, digits, '_', '-' and '.', and not memguard's own field.",
                do="Rename the key; operators belong in values.",
            )
