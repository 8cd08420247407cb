"""The items of a session as a table of a collection: a session is a context, an item a record, its key a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memguard.collection import FIELD, Put, Stored, opened
from memguard.effects import Operation
from memguard.integrations.openai_agents.backends import Backend, Raw, synthetic
from memguard.integrations.openai_agents.codecs import Opened, PlainCodec, SealedCodec
from memguard.integrations.openai_agents.items import content_of, parted, words
from memguard.integrity.canonical import canonical_json


class Held(dict[str, Any]):
    """An item as it was read, with what its answer depends on."""

    issued: int | None = None


class SessionTable:
    """Translation only; see :class:`memguard.collection.Table`.

    Args:
        most: nodes of an item that are looked at for text.
        alone: the session whose items are all that can be read here; None where those of others can be too.
    """

    atomic = True

    def __init__(
        self, backend: Backend, codec: PlainCodec | SealedCodec, most: int, *, alone: Any = None
    ) -> None:
        self.backend, self.codec, self._most, self._alone = backend, codec, most, alone
        self.ordered = backend.ordered

    def contexts(self) -> Operation[Sequence[str]]:
        found = yield from self.backend.contexts()
        return [name for name in found if self._alone is None or name == self._alone.session_id]

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        return self._stored(context, (yield from self.backend.rows(context)))

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        recent = self._stored(context, (yield from self.backend.recent(context, len(keys))))
        found = {stored.key: stored for stored in recent}
        if not all(key in found for key in keys):
            found = {stored.key: stored for stored in (yield from self.rows(context))}
        return {key: found[key] for key in keys if key in found}

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        for context in dict.fromkeys([*(put.context for put in puts), *deletes]):
            gone: list[Any] = []
            left = 0
            keys = set(deletes.get(context, ()))
            if keys:
                raws = yield from self.backend.rows(context)
                pairs = zip(self._stored(context, raws), raws, strict=True)
                gone = [raw.ref for stored, raw in pairs if stored.key in keys]
                left = len(raws) - len(gone)
            items = [
                self.codec.close({**put.value, FIELD: put.field}) for put in puts if put.context == context
            ]
            yield from self.backend.commit(context, items, gone, left)

    def remade(self, put: Put, value: Any) -> Put:
        return replace(put, value=value, content=content_of(value), text=words(value, self._most))

    def write_seals(self, context: str, sealed: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        raws = yield from self.backend.rows(context)
        by_key = {stored.key: raw for stored, raw in zip(self._stored(context, raws), raws, strict=True)}
        items = [
            (by_key[stored.key].ref, self.codec.close({**stored.value, FIELD: field}))
            for stored, field in sealed
        ]
        yield from self.backend.rewrite(context, items)

    # -- inside ------------------------------------------------------------------------------

    def _stored(self, context: str, raws: Sequence[Raw]) -> list[Stored]:
        return [_record(at, one) for at, one in enumerate(self.codec.open(context, raws))]


def _record(at: int, one: Opened) -> Stored:
    raw = one.raw
    if one.item is None:
        return Stored(f"?{at}", b"", None, place=raw.place, flaw=raw.flaw)
    bare, field = parted(one.item)
    if field is None:
        key = synthetic(at)
        seal, own = None, canonical_json({"key": key})
    else:
        seal, own = opened(field)
        named = field.get("key") if isinstance(field, Mapping) else None
        key = named if isinstance(named, str) and named else f"?{at}"
    held = Held(bare)
    held.issued = one.issued
    try:
        content = content_of(bare)
    except (TypeError, ValueError, RecursionError):  # objects of a custom session that are not JSON
        content = b""
    return Stored(key, content, seal, own, raw.place, held, raw.flaw)
