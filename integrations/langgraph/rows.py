"""Checkpoints and pending writes as claims: the translation between LangGraph's rows and seals.

A context is one (thread, checkpoint namespace). A group is one checkpoint id: its main row is the
checkpoint, its members are the pending writes stored under it, which may come first. Two layouts:

``whole``  the saver stores a checkpoint as one value (SqliteSaver, AsyncSqliteSaver): the digest in
           the seal is that of the stored bytes.
``split``  the saver keeps a frame and one value per channel version (InMemorySaver, any other): the
           digest covers the frame and the channels that this put stores; the digests of all channels
           that the checkpoint shows are bound by the head. Where such a saver turns out to store a
           checkpoint in one piece, the digest is that of the piece.
"""

from __future__ import annotations

import functools
import hashlib
import json
import marshal
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple

from memguard.errors import IntegrityError, TamperedError, UnsupportedError
from memguard.integrations.langgraph.serde import Raw, undecodable
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.index import MAIN, MEMBER, pack_key
from memguard.integrity.tag import PREFIX, Seal, digest, parse
from memguard.integrity.verifier import Claim

#: A key that was put is named again, as a parent and by pending writes.
packed = functools.lru_cache(maxsize=4096)(pack_key)
FIELD = "memguard"
CHECKPOINT, WRITE = b"ck", b"wr"
#: Between the type of a pending write and its seal, in the type column.
SEPARATOR = "|"
#: The sort key of a pending write whose seal gives none.
NO_ORDER = ("", "", 0)


@functools.lru_cache(maxsize=4096)
def context_of(thread: str, namespace: str) -> str:
    """The context id of a thread and checkpoint namespace."""
    return json.dumps(["ck", thread, namespace], ensure_ascii=False, separators=(",", ":"))


@functools.lru_cache(maxsize=4096)
def thread_of(context: str) -> tuple[str, str]:
    """Thread and namespace of a context id."""
    _, thread, namespace = json.loads(context)
    return thread, namespace


def name(thread: str, namespace: str, checkpoint: str) -> str:
    """How errors name a checkpoint."""
    place = f"thread {thread!r}" + (f" namespace {namespace!r}" if namespace else "")
    return f"checkpoint {checkpoint} of {place}"


# -- checkpoints ---------------------------------------------------------------------------------


def bound_fields(parent: str | None, kind: str, metadata: Mapping[str, Any], label: Any) -> tuple[bytes, ...]:
    """What a checkpoint's tag binds beside its key and content: parent, type, metadata, label."""
    bound_label = b"null" if label is None else canonical_json(label)
    return (_optional(parent), kind.encode(), canonical_json(metadata), bound_label)


#: A claim of all its ten fields: what Claim(...) does, without the call that sorts arguments.
_claim: Callable[[tuple[Any, ...]], Claim] = functools.partial(tuple.__new__, Claim)
#: What stands after the bytes of a metadata column that the tag of a whole checkpoint binds, but for the seal.
_encode = json.JSONEncoder(ensure_ascii=False).encode
_LONE = re.compile("[\ud800-\udfff]")
_SEAL, _END = b'"seal": "', b'"}}'
_SEAL_AT, _END_AT = len(_SEAL), len(_END)


def metadata_text(metadata: Mapping[str, Any]) -> bytes:
    """A metadata column as the SQLite savers write it: Python's JSON, without what UTF-8 cannot say."""
    return _encode(metadata).encode("utf-8", "ignore")


_LEAVES = frozenset({str, int, float, bool, type(None)})


def _text_keys(value: Any) -> bool:
    """Whether all keys are text as it stands."""
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str or (type(item) not in _LEAVES and not _text_keys(item)):
                return False
    elif isinstance(value, list | tuple):
        for item in value:
            if type(item) not in _LEAVES and not _text_keys(item):
                return False
    return True


def as_stored(metadata: dict[str, Any], label: Any) -> tuple[dict[str, Any], bytes]:
    """Metadata as a JSON column gives it back, and the column's bytes up to the seal, which stands last in it.

    What comes back is something else where JSON makes a key text, or UTF-8 has no such character.
    """
    text = _encode(metadata)
    if not (text.isascii() or not _LONE.search(text)) or not _text_keys(metadata):
        metadata = json.loads(text.encode("utf-8", "ignore"))
        text = _encode(metadata)
    own = "" if label is None else f'"label": {_encode(label)}, '
    before = f'{text[:-1]}{", " if metadata else ""}"{FIELD}": {{{own}'
    return metadata, before.encode("utf-8", "ignore")


def text_before_seal(metadata: dict[str, Any], label: Any) -> bytes:
    """The bytes of a metadata column up to its seal."""
    return as_stored(metadata, label)[1]


def text_fields(parent: str | None, kind: str, before: bytes) -> tuple[bytes, ...]:
    """What the tag of a whole checkpoint binds beside its key and content: parent, type, the metadata's bytes."""
    return (_optional(parent), kind.encode("utf-8", "surrogatepass"), before)


def text_claim(
    key: str, parent: object, kind: object, text: object, record: str, content: bytes | None = None
) -> Claim:
    """The claim of a whole checkpoint whose metadata column is at hand: its bytes are bound, nothing is parsed.

    So a member that stands twice, which one reader takes for the first and another for the last, is another text.
    """
    seal: str | None = None
    bound: tuple[bytes, ...] = ()
    if isinstance(text, bytes) and text.endswith(_END):
        at = text.rfind(_SEAL)
        if at > 0:
            seal = text[at + _SEAL_AT : -_END_AT].decode("utf-8", "replace")
            bound = (
                b"" if parent is None else b"=" + str(parent).encode("utf-8", "surrogatepass"),
                str(kind).encode("utf-8", "surrogatepass"),
                text[:at],
            )
    raw = key.encode("utf-8", "surrogatepass")
    return _claim((CHECKPOINT, pack_key(key), MAIN, raw, seal, bound, record, content, b"", None))


def _optional(text: str | None) -> bytes:
    return b"" if text is None else b"=" + text.encode("utf-8", "surrogatepass")


def checkpoint_claim(
    key: str,
    parent: object,
    kind: object,
    metadata: object,
    record: str,
    content: bytes | None = None,
    place: bytes = b"",
) -> Claim:
    """The claim of a checkpoint row as found; whatever is of a wrong shape carries no seal."""
    seal: object = None
    bound: tuple[bytes, ...] = ()
    if isinstance(metadata, Mapping):
        own = metadata.get(FIELD)
        if isinstance(own, Mapping):
            seal = own.get("seal")
            rest = {k: v for k, v in metadata.items() if k != FIELD}
            try:
                label = own.get("label")
                bound = (
                    _optional(None if parent is None else str(parent)),
                    str(kind).encode("utf-8", "surrogatepass"),
                    canonical_json(rest),
                    b"null" if label is None else canonical_json(label),
                )
            except (TypeError, ValueError, RecursionError):
                seal = None
    return Claim(
        CHECKPOINT,
        pack_key(key),
        MAIN,
        key.encode("utf-8", "surrogatepass"),
        seal,
        bound,
        record,
        content,
        place,
    )


def split_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The caller's metadata, and memguard's own field."""
    own = metadata.get(FIELD)
    return {k: v for k, v in metadata.items() if k != FIELD}, own if isinstance(own, Mapping) else {}


class Channels(NamedTuple):
    """The values of a split checkpoint as they are stored."""

    frame: bytes
    values: dict[str, tuple[str, bytes]]  # channel -> (type, SHA-256)

    def content(self, stored: Sequence[str]) -> bytes:
        """The digest for the seal: the frame, and the channels that its put stored."""
        parts = [self.frame]
        for channel in stored:
            kind, sha = self.values.get(channel, ("", b""))
            parts += [channel.encode("utf-8", "surrogatepass"), kind.encode(), sha]
        return digest(*parts)

    def place(self) -> bytes:
        """All channels that the checkpoint shows, for the cell."""
        parts = []
        for channel in sorted(self.values):
            kind, sha = self.values[channel]
            parts += [channel.encode("utf-8", "surrogatepass"), kind.encode(), sha]
        return digest(*parts)


def channels_of(checkpoint: Mapping[str, Any], record: str) -> Channels:
    """Frame and channel digests of a split checkpoint, as made or as found.

    Raises:
        TamperedError: the frame is not plain values.
    """
    values: dict[str, tuple[str, bytes]] = {}
    for channel, value in checkpoint.get("channel_values", {}).items():
        if isinstance(value, Raw):
            values[channel] = (value.kind, value.digest())
        elif hasattr(value, "typed"):
            values[channel] = (value.typed[0], hashlib.sha256(value.typed[1]).digest())
        else:  # a saver that keeps scalars in its frame gives them back as they are
            values[channel] = ("=", hashlib.sha256(canonical_json(value)).digest())
    rest = {k: v for k, v in checkpoint.items() if k != "channel_values"}
    try:
        return Channels(canonical_json(rest), values)
    except (TypeError, ValueError):
        raise undecodable(record) from None


# -- pending writes ------------------------------------------------------------------------------


def write_index(channel: str, position: int) -> int:
    """The order key LangGraph gives a pending write."""
    return WRITES_IDX_MAP.get(channel, position)


@functools.lru_cache(maxsize=4096)
def member_of(task: str, index: int) -> bytes:
    """Eight bytes naming a pending write inside its checkpoint's group."""
    return hashlib.sha256(frame(task.encode("utf-8", "surrogatepass"), str(index).encode())).digest()[:MEMBER]


@functools.lru_cache(maxsize=4096)
def write_extra(index: int, path: str) -> bytes:
    """A pending write's order key: its index and task path, which reads do not return."""
    return frame(str(index).encode(), path.encode("utf-8", "surrogatepass"))


def write_key(checkpoint: str, task: str) -> bytes:
    """The record key of a pending write, but for its order key, which the seal carries."""
    return frame(checkpoint.encode("utf-8", "surrogatepass"), task.encode("utf-8", "surrogatepass"))


def write_claim(
    checkpoint: str, task: object, channel: object, kind: object, record: str, content: bytes | None = None
) -> tuple[Claim, tuple[str, str, int]]:
    """The claim of a pending write as found, and its authenticated sort key (path, task, index).

    The sort key is true only once the claim was checked; a claim whose type carries no seal, or
    whose seal carries no order key, fails that check.
    """
    base, _, seal = str(kind).partition(SEPARATOR + PREFIX)
    index, order = -1, NO_ORDER
    parsed: Seal | None = None
    flaw: IntegrityError | None = None
    try:
        parsed = parse(PREFIX + seal if seal else None, record)
        index_text, path = unframe(parsed.extra)
        index = int(index_text)
        order = (path.decode("utf-8", "surrogatepass"), str(task), index)
    except IntegrityError as error:
        flaw = error
    except ValueError:
        flaw = TamperedError(
            "a pending write's tag has no order key.", case="untagged", record=record, code="MG404"
        )
    claim = Claim(
        WRITE,
        pack_key(checkpoint),
        member_of(str(task), index),
        write_key(checkpoint, str(task)),
        parsed,
        (str(channel).encode("utf-8", "surrogatepass"), base.encode("utf-8", "surrogatepass")),
        record,
        content,
        flaw=flaw,
    )
    return claim, order


def base_kind(kind: str) -> str:
    """The type of a pending write without its seal."""
    return kind.partition(SEPARATOR + PREFIX)[0]


# -- what a read returned ------------------------------------------------------------------------

#: Everything that a read of a whole checkpoint returned, seals included, to be compared with another read.
Shown = tuple[Any, ...]


def shown(key: str, parent: str | None, kind: str, metadata: Any, content: bytes) -> Shown | None:
    """A checkpoint without pending writes, as it will come back; None if its metadata is no plain JSON."""
    try:
        return key, parent, kind, marshal.dumps(metadata, 0), content
    except ValueError:
        return None


def seen(found: CheckpointTuple) -> Shown | None:
    """What a saver returned undecoded; None if it is not in that shape.

    marshal tells 1, 1.0 and True apart, which a comparison of the mappings would not; its oldest form
    depends on the value alone.
    """
    raw = found.checkpoint
    if type(raw) is not Raw:
        return None
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    made = shown(
        found.config["configurable"]["checkpoint_id"], parent, raw.kind, found.metadata, raw.digest()
    )
    for task, channel, value in found.pending_writes or ():
        if made is None or type(value) is not Raw:
            return None
        made += (task, channel, value.kind, value.digest())
    return made


# -- whole tuples --------------------------------------------------------------------------------


def tuple_claims(found: CheckpointTuple, thread: str, namespace: str, layout: str) -> Iterator[Claim]:
    """The claims of a checkpoint and its pending writes as a saver returned them undecoded.

    Raises:
        TamperedError: a part of the tuple is not what a raw read returns, or is out of order.
    """
    configurable = found.config.get("configurable", {})
    key = str(configurable.get("checkpoint_id"))
    record = name(thread, namespace, key)
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    raw = found.checkpoint
    if layout == "whole":
        if not isinstance(raw, Raw):
            raise undecodable(record)
        yield text_claim(key, parent, raw.kind, metadata_text(found.metadata), record, raw.digest())
    elif isinstance(raw, Raw):  # another saver that stores a checkpoint in one piece
        yield checkpoint_claim(key, parent, raw.kind, plain(found.metadata), record, raw.digest())
    else:
        channels = channels_of(found.checkpoint, record)
        metadata = plain(found.metadata)
        stored = _stored(metadata, record)
        yield checkpoint_claim(key, parent, "", metadata, record, channels.content(stored), channels.place())
    if found.pending_writes:
        yield from writes_claims(found, key, record)


def writes_claims(found: CheckpointTuple, key: str, record: str) -> Iterator[Claim]:
    """The claims of a checkpoint's pending writes, in the order in which they were served.

    Raises:
        TamperedError: one is not what a raw read returns.
    """
    last: tuple[str, str, int] | None = None
    for task, channel, value in found.pending_writes or ():
        if not isinstance(value, Raw):
            raise undecodable(record)
        where = f"pending write {channel!r} of {record}"
        claim, order = write_claim(key, task, channel, value.kind, where, value.digest())
        if claim.flaw is None and last is not None and order < last:
            claim = claim._replace(flaw=misplaced(where))
        last = order
        yield claim


def misplaced(record: str) -> TamperedError:
    """The error for a pending write that stands in another order than its seal says."""
    return TamperedError(
        "a pending write's place was changed.",
        case="T4",
        record=record,
        why="Its order is not the one under its tag.",
        do="memguard audit STORE shows it.",
    )


def plain(metadata: Any) -> Any:
    """Metadata as plain values: some savers serialise it too."""
    return metadata.plain() if isinstance(metadata, Raw) else metadata


def _stored(metadata: Any, record: str) -> list[str]:
    """Names of the channels that a split checkpoint's own put stored, from its seal."""
    own = metadata.get(FIELD) if isinstance(metadata, Mapping) else None
    seal = parse(own.get("seal") if isinstance(own, Mapping) else None, record)
    try:
        return [part.decode("utf-8", "surrogatepass") for part in unframe(seal.extra)]
    except ValueError:
        raise undecodable(record) from None


def spelled(text: str, what: str) -> str:
    """The text, if it can be written down: a lone surrogate has no bytes, in no database and in no history.

    Raises:
        UnsupportedError: MG155.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnsupportedError(
                f"{what} holds half a character (a lone surrogate).",
                code="MG155",
                why="Nothing was read or stored.",
                do='Make text of it first: text.encode("utf-8", "replace").decode().',
            ) from None
    return text
