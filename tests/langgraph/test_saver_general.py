"""Savers that nobody here has heard of: in one piece, in parts, synchronous only, asynchronous only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memguard.errors import IntegrityError, RollbackError, TamperedError, UnsupportedError


class PieceSaver(BaseCheckpointSaver[str]):
    """A document store's saver: a checkpoint is one serialised value beside its metadata as a document."""

    copies = False

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self.documents: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.pending: dict[tuple[str, str, str], dict[tuple[str, int], tuple[str, str, str, bytes]]] = {}

    def get_next_version(self, current: str | None, channel: None) -> str:
        return f"{int(str(current or 0).split('.')[0]) + 1:032}.0"

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        c = config["configurable"]
        place = (c["thread_id"], c["checkpoint_ns"], checkpoint["id"])
        kind, data = self.serde.dumps_typed(dict(checkpoint) if self.copies else checkpoint)
        document = {"type": kind, "checkpoint": data, "metadata": get_checkpoint_metadata(config, metadata)}
        self.documents[place] = {**document, "parent": c.get("checkpoint_id")}
        return {
            "configurable": dict(zip(("thread_id", "checkpoint_ns", "checkpoint_id"), place, strict=True))
        }

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        c = config["configurable"]
        held = self.pending.setdefault((c["thread_id"], c["checkpoint_ns"], c["checkpoint_id"]), {})
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            if index < 0 or (task_id, index) not in held:
                held[task_id, index] = (channel, task_path, *self.serde.dumps_typed(value))

    def _tuple(self, place: tuple[str, str, str]) -> CheckpointTuple:
        document, (thread, namespace, key) = self.documents[place], place
        config = {"thread_id": thread, "checkpoint_ns": namespace}
        writes = sorted(self.pending.get(place, {}).items(), key=lambda w: (w[1][1], *w[0]))
        return CheckpointTuple(
            {"configurable": {**config, "checkpoint_id": key}},
            self.serde.loads_typed((document["type"], document["checkpoint"])),
            dict(document["metadata"]),
            {"configurable": {**config, "checkpoint_id": document["parent"]}} if document["parent"] else None,
            [
                (task, channel, self.serde.loads_typed((kind, data)))
                for (task, _), (channel, _, kind, data) in writes
            ],
        )

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        c = config["configurable"]
        place = (c["thread_id"], c.get("checkpoint_ns", ""))
        key = get_checkpoint_id(config) or max((k[2] for k in self.documents if k[:2] == place), default="")
        return self._tuple((*place, key)) if (*place, key) in self.documents else None

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        c = config["configurable"] if config else {}
        for place in sorted(self.documents, key=lambda p: p[2], reverse=True):
            metadata = self.documents[place]["metadata"]
            if (
                c.get("thread_id", place[0]) != place[0]
                or c.get("checkpoint_ns", place[1]) != place[1]
                or c.get("checkpoint_id", place[2]) != place[2]
                or (before and place[2] >= str(get_checkpoint_id(before)))
                or any(metadata.get(k) != v for k, v in (filter or {}).items())
            ):
                continue
            if limit is not None:
                if limit <= 0:
                    return
                limit -= 1
            yield self._tuple(place)

    def delete_thread(self, thread_id: str) -> None:
        for table in (self.documents, self.pending):
            for place in [place for place in table if place[0] == thread_id]:
                del table[place]


class CopyingPieceSaver(PieceSaver):
    """It serialises a plain copy."""

    copies = True


class AsyncPieceSaver(BaseCheckpointSaver[str]):
    """The asynchronous side only, and no attribute that says so."""

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self.documents: Any = {}
        self.pending: Any = {}

    def _sync(self) -> PieceSaver:
        made = PieceSaver(self.serde)
        made.documents, made.pending = self.documents, self.pending
        return made

    get_next_version = PieceSaver.get_next_version

    async def aput(self, *args: Any) -> Any:
        await asyncio.sleep(0)
        return self._sync().put(*args)

    async def aput_writes(self, *args: Any) -> None:
        self._sync().put_writes(*args)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self._sync().get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for found in self._sync().list(config, **options):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self._sync().delete_thread(thread_id)


@pytest.mark.parametrize("make", [PieceSaver, CopyingPieceSaver, AsyncPieceSaver])
async def test_a_saver_in_one_piece_passes_every_base_test(make: Any, new_scene: Any) -> None:
    @checkpointer_test(name=make.__name__)
    async def guarded() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        scene = new_scene()
        yield scene.guard().guard(make(), name="documents")
        scene.close()

    report = await validate(guarded)
    assert report.passed_all_base(), {name: r.failures for name, r in report.results.items()}
    assert sum(r.tests_passed for r in report.results.values()) == 58


@pytest.mark.parametrize("make", [PieceSaver, CopyingPieceSaver])
def test_a_saver_in_one_piece_is_proved_like_any_other(make: Any, scene: Any, maker: Any, place: Any) -> None:
    mg = scene.guard()
    inner = make()
    saver = mg.guard(inner, name="documents")
    config = maker.put(saver, place("t"), "one")
    config = maker.put(saver, config, "two")
    saver.put_writes(config, [("a", 1), ("b", {2})], "task")
    assert saver.get_tuple(place("t")).checkpoint["channel_values"] == {"x": "two"}
    assert saver.get_tuple(place("t")).pending_writes == [("task", "a", 1), ("task", "b", {2})]
    assert mg.audit(saver).clean
    newest = ("t", "", config["configurable"]["checkpoint_id"])
    document = dict(inner.documents[newest])
    for field, value in (
        ("checkpoint", document["checkpoint"].replace(b"two", b"six")),
        ("type", "json"),
        ("parent", None),
        ("metadata", {**document["metadata"], "role": "admin"}),
        ("metadata", {k: v for k, v in document["metadata"].items() if k != "memguard"}),
    ):
        inner.documents[newest][field] = value
        for read in (lambda: saver.get_tuple(place("t")), lambda: list(saver.list(place("t")))):
            with pytest.raises(TamperedError):
                read()
        inner.documents[newest] = dict(document)
    del inner.documents[newest]
    with pytest.raises(RollbackError):
        saver.get_tuple(place("t"))
    inner.documents[newest] = dict(document)
    inner.pending[newest].clear()
    with pytest.raises(IntegrityError):
        saver.get_tuple(place("t"))


def test_nothing_of_a_piece_is_decoded_before_its_tag(
    scene: Any, maker: Any, place: Any, counting: Any
) -> None:
    serde = counting()
    inner = PieceSaver(serde)
    saver = scene.guard().guard(inner, name="documents")
    for number in range(3):
        serde.made = 0
        maker.put(saver, place("t"), number)
        assert serde.made == 1 + (number == 0)  # at its first put it showed which kind of saver it is
    for document in inner.documents.values():
        document["checkpoint"] = b"\xc1"
    with pytest.raises(TamperedError):
        saver.get_tuple(place("t"))
    assert serde.decoded == []


async def test_a_sync_call_on_a_saver_that_is_only_asynchronous(scene: Any, place: Any) -> None:
    saver = scene.guard().guard(AsyncPieceSaver(JsonPlusSerializer()), name="documents")
    with pytest.raises(UnsupportedError) as caught:
        saver.get_tuple(place("t"))
    assert caught.value.code == "MG131"
    assert await saver.aget_tuple(place("t")) is None
