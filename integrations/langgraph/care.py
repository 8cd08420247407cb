"""Audit, adoption and repair of a saver's rows: every row with its content digested, none decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memguard.care import Existing
from memguard.custody import Pair
from memguard.effects import Call, Operation
from memguard.errors import UnsupportedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.operations import Operations
from memguard.integrations.langgraph.scan import GeneralScan, SqliteScan, reading
from memguard.integrations.langgraph.serde import undecodable
from memguard.integrity.tag import PREFIX, Seal
from memguard.integrity.verifier import Claim, Context

_CHECKPOINTS = (
    "SELECT rowid, checkpoint_id, parent_checkpoint_id, type, CAST(checkpoint AS BLOB), typeof(checkpoint), "
    "CAST(metadata AS BLOB), typeof(metadata) FROM checkpoints "
    "WHERE thread_id = ? AND checkpoint_ns = ?"
)
_WRITES = (
    "SELECT rowid, checkpoint_id, task_id, task_path, idx, channel, type, CAST(value AS BLOB), typeof(value) "
    "FROM writes "
    "WHERE thread_id = ? AND checkpoint_ns = ?"
)


class SqliteCare:
    """The two tables of the SQLite savers."""

    #: How threads are taken back (:mod:`~memguard.integrations.langgraph.saver_revert`); set by who makes it.
    reverting: Any = None

    def __init__(self, operations: Operations, scan: SqliteScan) -> None:
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
        thread, namespace = rows.thread_of(context.id)
        with reading(thread, namespace):
            yield from self._sql.sound()
            checkpoints = yield Call(self._sql._all, _CHECKPOINTS, (thread, namespace))
            writes = yield Call(self._sql._all, _WRITES, (thread, namespace))
        return [
            *(_checkpoint(thread, namespace, *row) for row in checkpoints),
            *(_write(thread, namespace, *row) for row in writes),
        ]

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        statements: list[tuple[str, tuple[Any, ...]]] = []
        for item, seal in sealed:
            table, rowid, old = item.row
            if table == "checkpoints":
                mine, label = old
                own = {"seal": seal.encode()} if label is None else {"label": label, "seal": seal.encode()}
                text = rows.metadata_text({**mine, rows.FIELD: own})
                statements.append(("UPDATE checkpoints SET metadata = ? WHERE rowid = ?", (text, rowid)))
            else:
                kind = f"{old}{rows.SEPARATOR}{seal.encode()}"
                statements.append(("UPDATE writes SET type = ? WHERE rowid = ?", (kind, rowid)))
        yield Call(self._sql.change, statements)

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        yield Call(
            self._sql.change,
            [(f"DELETE FROM {item.row[0]} WHERE rowid = ?", (item.row[1],)) for item in found],  # noqa: S608
        )


def _checkpoint(
    thread: str,
    namespace: str,
    rowid: int,
    key: str,
    parent: Any,
    kind: Any,
    data: Any,
    form: str,
    text: Any,
    text_form: str,
) -> Existing:
    record = rows.name(thread, namespace, str(key))
    content = _sha(data, form)
    claim = rows.text_claim(str(key), parent, kind, text, record, content)
    try:
        mine, own = rows.split_metadata(json.loads(text) if text is not None else {})
    except (ValueError, TypeError, RecursionError, AttributeError):
        return Existing(claim._replace(flaw=undecodable(record)), content, b"", ("checkpoints", rowid, None))
    # What an untagged row says of itself is nobody's word: adoption leaves it out.
    label = own.get("label") if claim.seal is not None else None
    if claim.seal is None:  # from before the guard, or stripped: what a seal would bind
        before = rows.text_before_seal(mine, label)
        claim = claim._replace(
            bound=rows.text_fields(None if parent is None else str(parent), str(kind), before)
        )
    elif text_form != "blob":
        claim = claim._replace(flaw=undecodable(record))
    return Existing(claim, content, b"", ("checkpoints", rowid, (mine, label)))


def _write(
    thread: str,
    namespace: str,
    rowid: int,
    key: str,
    task: Any,
    path: Any,
    index: Any,
    channel: Any,
    kind: Any,
    data: Any,
    form: str,
) -> Existing:
    record = f"pending write {channel!r} of {rows.name(thread, namespace, str(key))}"
    content = _sha(data, form)
    where = ("writes", rowid, rows.base_kind(str(kind)))
    claim, order = rows.write_claim(str(key), task, channel, kind, record, content)
    if not isinstance(index, int):  # LangGraph numbers them; nothing of ours stands there
        return Existing(claim._replace(flaw=claim.flaw or rows.misplaced(record)), content, b"", where)
    extra = rows.write_extra(index, str(path))
    if rows.SEPARATOR + PREFIX in str(kind):
        if claim.flaw is None and order != (path, task, index):
            claim = claim._replace(flaw=rows.misplaced(record))
        return Existing(claim, content, extra, where)
    claim = claim._replace(member=rows.member_of(str(task), index), flaw=None)  # from before the guard
    return Existing(claim, content, extra, where)


def _sha(data: Any, form: str) -> bytes:
    if form == "blob":
        return hashlib.sha256(data).digest()
    return bytes(32)  # a blob column that holds something else: no digest matches it


class GeneralCare:
    """Any other saver: audited through its own list; adoption and repair need rows to be addressed singly."""

    def __init__(self, operations: Operations, scan: GeneralScan) -> None:
        self._ops, self._general = operations, scan

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """See :class:`~memguard.custody.Rows`."""
        return (yield from self._general.rows(context))

    def erase(self, context: Context, removes: Sequence[Pair] | None) -> Operation[None]:
        """See :class:`~memguard.custody.Rows`."""
        yield from self._ops.erase(context, removes)

    def contexts(self) -> Operation[Sequence[str]]:
        """See :class:`~memguard.care.CareRows`."""
        return (yield from self._general.contexts(None))

    def existing(self, context: Context) -> Operation[Iterable[Existing]]:
        """See :class:`~memguard.care.CareRows`."""
        return self._existing((yield from self._general.rows(context)))

    def _existing(self, claims: Iterable[Claim]) -> Iterator[Existing]:
        for claim in claims:
            yield Existing(claim, claim.content or b"", b"", None)

    def write_seals(self, context: Context, sealed: Sequence[tuple[Existing, Seal]]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        raise _unsupported("adopted")
        yield

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """See :class:`~memguard.care.CareRows`."""
        raise _unsupported("repaired")
        yield


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"this saver's rows cannot be {what} one by one.",
        code="MG148",
        why="memguard knows the tables of the SQLite savers; other savers are reached through their methods only.",
        do="Copy the threads into a guarded saver: read them bare, put them guarded.",
    )
