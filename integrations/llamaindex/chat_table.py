"""Chat stores as tables: any ``BaseChatStore`` through its own methods, a key being a context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from memguard.collection import Put, Stored, opened
from memguard.effects import Operation, Twin
from memguard.errors import TamperedError
from memguard.integrations.llamaindex.messages import content_of, dumped, parted, sealed, words
from memguard.integrity.canonical import canonical_json


def synthetic(at: int) -> str:
    """The key of a message that was there before the guard: it sorts before every key that the guard gives."""
    return f"{1:012d}-{at:06d}"


def keyed(field: Any, at: int) -> tuple[str, object, bytes]:
    """Key, seal and members of memguard's field as it was found with the message at this place."""
    if field is None:
        return synthetic(at), None, canonical_json({"key": synthetic(at)})
    seal, own = opened(field)
    named = field.get("key") if isinstance(field, Mapping) else None
    return (named if isinstance(named, str) and named else f"?{at}"), seal, own


def damaged(key: str, where: object = "") -> TamperedError:
    """The flaw of a message that is none any more."""
    return TamperedError(
        "a message of a chat store cannot be read.",
        case="undecodable",
        record=f"message {where} of {key!r}" if where != "" else f"messages of {key!r}",
        why="The store wrote a message there, and what lies there now is none.",
        do="memguard audit STORE lists what is damaged.",
    )


class ChatTable:
    """Translation only; see :class:`memguard.collection.Table`. Values are messages.

    Args:
        most: nodes of a message that are looked at for text.
    """

    ordered = atomic = True
    is_async = False

    def __init__(self, store: Any, most: int) -> None:
        self.store, self._most = store, most
        #: What the store's own method answered last, for what its answer does not say of its messages.
        self.answer: Any = None
        #: A key is being deleted, and not its last message.
        self.dropping = False

    def put(self, key: str, message: ChatMessage, **more: Any) -> Put:
        """A message on its way; the key in the list is given by the collection."""
        bare, claims = parted(dumped(message))
        text = words(bare, self._most)
        return Put(key, None, message, content_of(bare), text, claims=claims, **more)

    def says(self, message: ChatMessage) -> bytes:
        """What a message says, for finding it again in a history."""
        return content_of(parted(dumped(message))[0])

    def contexts(self) -> Operation[Sequence[str]]:
        keys = yield Twin(self.store.get_keys, self.store.aget_keys)
        found = []
        for key in keys:
            if (yield from self._messages(str(key))):
                found.append(str(key))
        return found

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        found = yield from self._messages(context)
        return [self._stored(context, at, message) for at, message in enumerate(found)]

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        wanted = set(keys)
        return {s.key: s for s in (yield from self.rows(context)) if s.key in wanted}

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return None
        yield

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        for key in dict.fromkeys([*(put.context for put in puts), *deletes]):
            new = [sealed(put.value, put.field) for put in puts if put.context == key]
            gone = set(deletes.get(key, ()))
            there = (yield from self.rows(key)) if gone else ()
            left = [stored.value for stored in there if stored.key not in gone]
            yield from self._change(key, new, len(there), left, there)

    def _change(
        self, key: str, new: list[ChatMessage], count: int, left: list[Any], there: Sequence[Stored]
    ) -> Operation[None]:
        store = self.store
        if not new and not left and self.dropping:
            self.answer = yield Twin(store.delete_messages, store.adelete_messages, key)
        elif not new and count == len(left) + 1 and left == [s.value for s in there[:-1]]:
            yield Twin(store.delete_last_message, store.adelete_last_message, key)
        elif not count and len(new) == 1:
            yield Twin(store.add_message, store.async_add_message, key, new[0])
        elif not count and (yield from self._messages(key)):
            for message in new:
                yield Twin(store.add_message, store.async_add_message, key, message)
        else:
            yield Twin(store.set_messages, store.aset_messages, key, [*left, *new])

    def remade(self, put: Put, value: Any) -> Put:
        bare, _ = parted(dumped(value))
        return replace(put, value=value, content=content_of(bare), text=words(bare, self._most))

    def write_seals(self, context: str, sealed_: Sequence[tuple[Stored, dict[str, Any]]]) -> Operation[None]:
        fields = {stored.key: field for stored, field in sealed_}
        there = yield from self.rows(context)
        made = [sealed(s.value, fields[s.key]) if s.key in fields else s.value for s in there]
        yield Twin(self.store.set_messages, self.store.aset_messages, context, made)

    # -- inside ------------------------------------------------------------------------------

    def _messages(self, key: str) -> Operation[Sequence[Any]]:
        try:
            found = yield Twin(self.store.get_messages, self.store.aget_messages, key)
        except (ValueError, TypeError) as error:  # what its own decoding says of bytes that are no message
            raise damaged(key) from error
        return list(found or ())

    @staticmethod
    def _stored(key: str, at: int, message: Any) -> Stored:
        if not isinstance(message, ChatMessage):
            return Stored(f"?{at}", b"", None, flaw=damaged(key, at))
        bare, field = parted(dumped(message))
        name, seal, own = keyed(field, at)
        return Stored(name, content_of(bare), seal, own, value=message)
