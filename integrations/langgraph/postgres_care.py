"""Audit, adoption and repair of PostgresSaver's rows: every row with its content digested, none decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from psycopg.types.json import Jsonb

from memguard.care import Existing
from memguard.custody import Pair
from memguard.effects import Call, Operation
from memguard.errors import IntegrityError
from memguard.integrations.langgraph import postgres_rows, rows
from memguard.integrations.langgraph.postgres_operations import PostgresOperations
from memguard.integrations.langgraph.postgres_scan import PostgresScan
from memguard.integrations.langgraph.scan import reading
from memguard.integrations.langgraph.serde import undecodable
from memguard.integrity.tag import PREFIX, Seal
from memguard.integrity.verifier import Claim, Context

#: Rows of a page: what is digested is not kept.
_PAGE = 200
_CHECKPOINTS = """
SELECT c.checkpoint_id, c.parent_checkpoint_id, c.checkpoint, c.metadata, b.channels, b.types, b.blobs
FROM checkpoints AS c LEFT JOIN LATERAL (
    SELECT array_agg(s.channel) AS channels, array_agg(s.type) AS types, array_agg(s.blob) AS blobs
    FROM jsonb_each_text(CASE jsonb_typeof(c.checkpoint -> 'channel_versions') WHEN 'object'
        THEN c.checkpoint -> 'channel_versions' ELSE '{}' END) AS v
    JOIN checkpoint_blobs AS s ON s.thread_id = c.thread_id AND s.checkpoint_ns = c.checkpoint_ns
        AND s.channel = v.key AND s.version = v.value
) AS b ON true
WHERE c.thread_id = %s AND c.checkpoint_ns = %s AND c.checkpoint_id COLLATE "C" > %s
ORDER BY c.checkpoint_id COLLATE "C" LIMIT %s
"""
_WRITES = """
SELECT checkpoint_id, task_id, task_path, idx, channel, type, blob FROM checkpoint_writes
WHERE thread_id = %s AND checkpoint_ns = %s AND (checkpoint_id COLLATE "C", task_id COLLATE "C", idx) > (%s, %s, %s)
ORDER BY checkpoint_id COLLATE "C", task_id COLLATE "C", idx LIMIT %s
"""
_OF_CHECKPOINT = "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
_OF_WRITE = f"{_OF_CHECKPOINT} AND task_id = %s AND idx = %s"
#: Below every index LangGraph gives.
_FIRST = -(2**31)


class PostgresCare:
    """The tables of PostgresSaver. Values that no checkpoint shows are nobody's, and are not looked at."""

    #: How threads are taken back (:mod:`~memguard.integrations.langgraph.saver_revert`); set by who makes it.
    reverting: Any = None

    def __init__(self, operations: PostgresOperations, scan: PostgresScan) -> None:
        self._ops, self._sql = operations, scan

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """See :class:`~memguard.custody.Rows`."""
        return (yield from self._sql.rows(context))

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """See :class:`~memguard.custody.Rows`."""
        yield from self._ops.erase(context, removes)

    def contexts(self) -> Operation[Sequence[str]]:
        """See :class:`~memguard.care.CareRows`."""
        return (yield from self._sql.contexts(None))

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """See :class:`~memguard.care.CareRows`."""
        thread, namespace = place = rows.thread_of(context.id)
        found: list[Existing] = []
        with reading(thread, namespace):
            yield from self._sql.sound()
            last, page = "", [()] * _PAGE
            while len(page) == _PAGE:
                page = yield Call(self._sql._all, _CHECKPOINTS, (*place, last, _PAGE))
                found += [_checkpoint(thread, namespace, *row) for row in page]
                last = page[-1][0] if page else ""
            after, page = ("", "", _FIRST), [()] * _PAGE
            while len(page) == _PAGE:
                page = yield Call(self._sql._all, _WRITES, (*place, *after, _PAGE))
                found += [_write(thread, namespace, *row) for row in page]
                after = (page[-1][0], page[-1][1], page[-1][3]) if page else after
        there = {item.row[1] for item in found if item.row[0] == "checkpoints"}
        return [_parented(item, there) for item in found]

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        place = rows.thread_of(context.id)
        statements: list[tuple[str, tuple[Any, ...]]] = []
        for item, seal in sealed:
            if item.row[0] == "checkpoints":
                _, key, (mine, own, _) = item.row
                metadata = Jsonb({**mine, rows.FIELD: {**own, "seal": seal.encode()}})
                sql = f"UPDATE checkpoints SET metadata = %s {_OF_CHECKPOINT}"  # noqa: S608 - constant text
                statements.append((sql, (metadata, *place, key)))
            else:
                _, key, (base, task, index) = item.row
                kind = f"{base}{rows.SEPARATOR}{seal.encode()}"
                sql = f"UPDATE checkpoint_writes SET type = %s {_OF_WRITE}"  # noqa: S608 - constant text
                statements.append((sql, (kind, *place, key, task, index)))
        yield Call(self._sql.change, statements)

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        place = rows.thread_of(context.id)
        statements: list[tuple[str, tuple[Any, ...]]] = []
        for item in found:
            if item.row[0] == "checkpoints":
                statements.append((f"DELETE FROM checkpoints {_OF_CHECKPOINT}", (*place, item.row[1])))  # noqa: S608
            else:
                _, key, (_, task, index) = item.row
                statements.append((f"DELETE FROM checkpoint_writes {_OF_WRITE}", (*place, key, task, index)))  # noqa: S608
        yield Call(self._sql.change, statements)


def _checkpoint(
    thread: str,
    namespace: str,
    key: str,
    parent: str | None,
    checkpoint: Any,
    metadata: Any,
    channels: Sequence[str] | None,
    types: Sequence[str] | None,
    blobs: Sequence[bytes | None] | None,
) -> Existing:
    record = rows.name(thread, namespace, key)
    content, flaw = bytes(32), None
    try:
        content = _content(checkpoint, zip(channels or (), types or (), blobs or (), strict=True), record)
    except (IntegrityError, TypeError, ValueError, AttributeError, RecursionError):
        flaw = undecodable(record)
    # Whether the parent went is known when every row was looked at.
    claim = postgres_rows.checkpoint_claim(key, parent, metadata, record, content, orphan=True)
    mine, own = rows.split_metadata(metadata if isinstance(metadata, Mapping) else {})
    sealed = isinstance(claim.seal, str) and claim.seal.startswith(PREFIX)
    if (
        not sealed
    ):  # from before the guard, or stripped: what a seal would bind. What it says of itself is not.
        own = {"parent": parent} if parent else {}
        claim = claim._replace(seal=None, flaw=None, bound=postgres_rows.bound_by(mine, own))
    if flaw is not None or not isinstance(metadata, Mapping):
        claim = claim._replace(flaw=flaw or undecodable(record))
    kept = {k: v for k, v in own.items() if k != "seal"}
    return Existing(claim, content, b"", ("checkpoints", key, (mine, kept, parent if sealed else None)))


def _content(checkpoint: Any, values: Iterable[tuple[str, str, bytes | None]], record: str) -> bytes:
    shown = {c: postgres_rows.inline(v) for c, v in (checkpoint.get("channel_values") or {}).items()}
    for channel, kind, data in values:
        if kind != "empty":  # nothing: how earlier versions of the saver said so
            shown[channel] = postgres_rows.stored(
                kind, sha256(data).digest() if data is not None else bytes(32)
            )
    return postgres_rows.content_of(checkpoint, shown, record)


def _parented(item: Existing, there: set[str]) -> Existing:
    """A checkpoint that names no parent any more is as it was left only if the parent is gone."""
    table, _, details = item.row
    if table != "checkpoints" or item.claim.seal is None or item.claim.flaw is not None:
        return item
    _, own, parent = details
    if not parent and own.get("parent") in there:
        return item._replace(claim=item.claim._replace(flaw=postgres_rows.rewired(item.claim.record)))
    return item


def _write(
    thread: str,
    namespace: str,
    key: str,
    task: str,
    path: str,
    index: int,
    channel: str,
    kind: str | None,
    data: bytes,
) -> Existing:
    content = sha256(data).digest()
    base = rows.base_kind(kind or "")
    claim = postgres_rows.write_claim(key, task, path, index, channel, kind, thread, namespace, content)
    extra = rows.write_extra(index, path)
    if rows.SEPARATOR + PREFIX not in str(kind):  # from before the guard
        claim = claim._replace(member=rows.member_of(task, index), flaw=None)
    return Existing(claim, content, extra, ("checkpoint_writes", key, (base, task, index)))
