"""Checkpoints of PostgresSaver as claims: a JSON frame with plain values in it, and one row per channel version.

PostgreSQL keeps the *value* of a JSONB column and not its text, so what a tag binds is the canonical form of what
comes back (:func:`as_jsonb`). A checkpoint shows the plain values in its frame, and for each of its channel versions
the value that stands in ``checkpoint_blobs`` under it, which an earlier put may have stored. All of them are in the
digest, with type and bytes: a value that is swapped, taken out or put in under a version is another digest.

memguard's own members stand in ``metadata["memguard"]``: ``seal``, ``label`` (if any) and ``parent`` (the checkpoint
before, if any). The saver's prune takes the parent from what it keeps when it deletes the parent, so a missing
parent is what was left as long as the one that was sealed is gone too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from memguard.errors import TamperedError
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.serde import Raw, undecodable
from memguard.integrity.canonical import canonical_json
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import PREFIX, digest
from memguard.integrity.verifier import Claim

#: Kind and SHA-256 of a value that a checkpoint shows.
Blob = tuple[str, bytes]
_WHOLE = frozenset({int, bool, type(None)})
_encode = json.JSONEncoder().encode
#: What the saver keeps in the frame.
PLAIN = (str, int, float, bool)
#: How a digest names the two kinds of values; a stored type can spell neither.
_INLINE, _STORED = "json", "blob:"


def as_jsonb(value: Any) -> Any:
    """A value as a JSONB column gives it back.

    Keys become text, the last of two equal ones stays, and numbers are decimal: an exponent is written out, so that
    ``1e16`` comes back as an integer, and there is no negative zero.
    """
    return value if _same(value) else _decode(_encode(value))


def _same(value: Any) -> bool:
    """Whether nothing of a value can change: keys and texts in ASCII, no fractions. Most frames are so."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind in _WHOLE:
        return True
    if kind is dict:
        return all(type(key) is str and key.isascii() and _same(item) for key, item in value.items())
    return kind is list and all(map(_same, value))


def _number(text: str) -> float | int:
    if "e" in text:
        exact = Decimal(text)
        exponent = exact.as_tuple().exponent
        return int(exact) if isinstance(exponent, int) and exponent >= 0 else float(text)
    return float(text) + 0.0  # of -0.0, zero


_decode = json.JSONDecoder(parse_float=_number).decode


def inline(value: Any) -> Blob:
    """What stands for a plain value of the frame, in its canonical form."""
    return _INLINE, sha256(canonical_json(value)).digest()


def stored(kind: str, sha: bytes) -> Blob:
    """What stands for a value in a row of its own."""
    return _STORED + kind, sha


def content_of(frame: Mapping[str, Any], shown: Mapping[str, Blob], record: str) -> bytes:
    """The digest of a checkpoint: its frame without values, and type and digest of every value that it shows.

    Raises:
        TamperedError: the frame is not plain values.
    """
    try:
        parts = [canonical_json({k: v for k, v in frame.items() if k != "channel_values"})]
    except (TypeError, ValueError, RecursionError):
        raise undecodable(record) from None
    for channel in sorted(shown):
        kind, sha = shown[channel]
        parts += [channel.encode("utf-8", "surrogatepass"), kind.encode("utf-8", "surrogatepass"), sha]
    return digest(*parts)


def shown_by(checkpoint: Mapping[str, Any], record: str) -> dict[str, Blob]:
    """What a raw read shows, by channel."""
    found: dict[str, Blob] = {}
    for channel, value in checkpoint["channel_values"].items():
        try:
            found[channel] = stored(value.kind, value.digest()) if isinstance(value, Raw) else inline(value)
        except (TypeError, ValueError, RecursionError):
            raise undecodable(record) from None
    return found


def versions_of(checkpoint: Mapping[str, Any]) -> dict[str, str]:
    """Channel versions as the saver's join compares them: as text."""
    found = checkpoint.get("channel_versions")
    if not isinstance(found, Mapping):
        return {}
    return {str(channel): _text(version) for channel, version in found.items()}


def _text(version: Any) -> str:
    return version if isinstance(version, str) else json.dumps(version)


def blobs_by(checkpoint: Mapping[str, Any], shown: Mapping[str, Blob]) -> dict[tuple[str, str], Blob | None]:
    """What a true checkpoint says of the rows under its channel versions."""
    found: dict[tuple[str, str], Blob | None] = {}
    for channel, version in versions_of(checkpoint).items():
        blob = shown.get(channel)
        found[channel, version] = blob if blob is not None and blob[0] != _INLINE else None
    return found


def bound_by(metadata: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[bytes, ...]:
    """What the tag binds beside key and content: the caller's metadata, and memguard's members but the seal."""
    return canonical_json(metadata), canonical_json({k: v for k, v in own.items() if k != "seal"})


def checkpoint_claim(
    key: str, parent: object, metadata: object, record: str, content: bytes | None = None, *, orphan: bool
) -> Claim:
    """The claim of a checkpoint row as found.

    Args:
        parent: the parent column.
        orphan: whether a sealed parent that the row does not name any more is gone from the store.
    """
    seal: object = None
    bound: tuple[bytes, ...] = ()
    flaw: TamperedError | None = None
    own = metadata.get(rows.FIELD) if isinstance(metadata, Mapping) else None
    if isinstance(metadata, Mapping) and isinstance(own, Mapping):
        seal, sealed = own.get("seal"), own.get("parent")
        if (parent or None) != sealed and not (not parent and orphan):
            flaw = rewired(record)
        try:
            bound = bound_by({k: v for k, v in metadata.items() if k != rows.FIELD}, own)
        except (TypeError, ValueError, RecursionError):
            seal = None
    if not isinstance(seal, str) or not seal.startswith(PREFIX):
        flaw = untagged(record)
    raw = key.encode("utf-8", "surrogatepass")
    return Claim(rows.CHECKPOINT, pack_key(key), MAIN, raw, seal, bound, record, content, flaw=flaw)


def sealed_parent(metadata: object) -> str | None:
    """The parent that was sealed with a checkpoint; believed only once its claim was checked."""
    own = metadata.get(rows.FIELD) if isinstance(metadata, Mapping) else None
    found = own.get("parent") if isinstance(own, Mapping) else None
    return found if isinstance(found, str) else None


def tuple_claims(found: CheckpointTuple, thread: str, namespace: str, *, orphan: bool) -> Iterator[Claim]:
    """The claims of a checkpoint and its pending writes as the saver returned them undecoded.

    Raises:
        TamperedError: a part of it is not what a raw read returns.
    """
    key = str(found.config["configurable"]["checkpoint_id"])
    record = rows.name(thread, namespace, key)
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    content = content_of(found.checkpoint, shown_by(found.checkpoint, record), record)
    yield checkpoint_claim(key, parent, found.metadata, record, content, orphan=orphan)
    yield from rows.writes_claims(found, key, record)


def scanned(
    thread: str, namespace: str, checkpoints: Sequence[Sequence[Any]], writes: Iterable[Sequence[Any]]
) -> Iterator[Claim]:
    """The claims of all rows of a context, contents unread.

    Args:
        checkpoints: (id, parent, metadata) each.
        writes: (checkpoint id, task, path, index, channel, type) each.
    """
    there = {row[0] for row in checkpoints}
    for key, parent, metadata in checkpoints:
        orphan = sealed_parent(metadata) not in there
        yield checkpoint_claim(key, parent, metadata, rows.name(thread, namespace, key), orphan=orphan)
    for key, task, path, index, channel, kind in writes:
        yield write_claim(key, task, path, index, channel, kind, thread, namespace)


def write_claim(
    key: str,
    task: str,
    path: str,
    index: int,
    channel: str,
    kind: str | None,
    thread: str,
    namespace: str,
    content: bytes | None = None,
) -> Claim:
    """The claim of a pending write's row."""
    record = f"pending write {channel!r} of {rows.name(thread, namespace, key)}"
    if rows.SEPARATOR + PREFIX not in str(kind):
        claim, _ = rows.write_claim(key, task, channel, kind, record, content)
        return claim._replace(flaw=untagged(record))
    claim, order = rows.write_claim(key, task, channel, kind, record, content)
    if claim.flaw is None and order != (path, task, index):
        claim = claim._replace(flaw=rows.misplaced(record))
    return claim


def rewired(record: str) -> TamperedError:
    """The error for a checkpoint that names another parent than the one it was sealed with."""
    return TamperedError(
        "a checkpoint's parent was changed.",
        case="T4",
        record=record,
        why="Its row names another parent than its tag, or none while that parent stands.",
        do="memguard audit STORE shows it.",
    )


def untagged(record: str) -> TamperedError:
    """The error for a row of an unguarded writer. PostgreSQL tables are shared more often than files are."""
    return TamperedError(
        "a record carries no memguard tag.",
        case="untagged",
        record=record,
        code="MG404",
        why="A program without the guard writes to these tables, or the tag was stripped.",
        do="If that program is yours, guard it, then memguard adopt STORE --apply. Else lock it out: REVOKE INSERT, "
        "UPDATE, DELETE ON checkpoints, checkpoint_blobs, checkpoint_writes FROM its role; then memguard repair STORE.",
    )
