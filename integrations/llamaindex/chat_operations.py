"""What a guarded ``BaseChatStore`` does, written once for its sync and async methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from memguard.collection import Entry, Put
from memguard.collection.writes import Part
from memguard.effects import Operation, Twin
from memguard.integrations.llamaindex.conversations import Conversations, again
from memguard.integrations.llamaindex.messages import dumped, parted, served


class ChatOperations(Conversations):
    """Messages by key, each key one list."""

    def get(self, key: str) -> Operation[list[ChatMessage]]:
        """Every message of a key."""
        if not self.mine(key, "read"):
            return []
        return [self._served(entry) for entry in (yield from self.entries(key))]

    def add(self, key: str, message: ChatMessage, at: int | None = None) -> Operation[None]:
        """Append a message, or (``at``) insert it at a place of the list."""
        self.mine(key, "write")
        put = self._put(key, message)
        if at is None:
            yield from self.collection.write([put])
            return
        (new,) = (yield from self.collection._screened([put])).stored

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, None]]:
            puts = [again(self._put(key, entry.value), entry) for entry in entries]
            new.key = None
            puts.insert(at, new)
            return Part(puts, keep=()), None
            yield

        yield from self.change(key, plan)

    def set(self, key: str, messages: Sequence[ChatMessage]) -> Operation[None]:
        """The key holds these messages from now on, in one operation."""
        self.mine(key, "write")
        messages = list(messages)

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, bool]]:
            if not messages and not entries:
                return None, True
            puts = [self._put(key, message) for message in messages]
            puts = yield from self.replaced(key, puts, entries)
            return Part(puts, keep=()), False

        if (yield from self.change(key, plan)):
            yield Twin(self.wrapped.set_messages, self.wrapped.aset_messages, key, [])

    def delete(self, key: str) -> Operation[Any]:
        """Delete a key; its messages, or None where the store says none."""
        if not self.mine(key, "write"):
            return None

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, list[Entry]]]:
            return (Part(deletes=[e.key for e in entries]) if entries else None), entries
            yield

        self.table.dropping = True
        try:
            gone = yield from self.change(key, plan)
        finally:
            self.table.dropping = False
        if not gone:
            return (yield Twin(self.wrapped.delete_messages, self.wrapped.adelete_messages, key))
        return None if self.table.answer is None else [self._served(entry) for entry in gone]

    def delete_one(self, key: str, at: int) -> Operation[Any]:
        """Delete the message at a place of the list; None if there is none."""
        if not self.mine(key, "write"):
            return None

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, Entry | None]]:
            if not entries or at >= len(entries):
                return None, None
            entry = entries[at]  # a negative place counts from the end, as in the store's list
            return Part(deletes=[entry.key]), entry
            yield

        gone = yield from self.change(key, plan)
        return None if gone is None else self._served(gone)

    def delete_last(self, key: str) -> Operation[Any]:
        """Delete the newest message; None if there is none."""
        if not self.mine(key, "write"):
            return None

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, Entry | None]]:
            return (Part(deletes=[entries[-1].key]), entries[-1]) if entries else (None, None)
            yield

        gone = yield from self.change(key, plan)
        if gone is None:  # whatever the store says of that
            return (yield Twin(self.wrapped.delete_last_message, self.wrapped.adelete_last_message, key))
        return self._served(gone)

    def all_keys(self) -> Operation[list[str]]:
        """The keys."""

        def ask() -> Operation[Sequence[str]]:
            found: Sequence[str] = yield Twin(self.wrapped.get_keys, self.wrapped.aget_keys)
            return found

        return (yield from self.listed(ask))

    # -- inside ------------------------------------------------------------------------------

    def _put(self, key: str, message: ChatMessage) -> Put:
        put = self.table.put(key, message)
        found: Put = self.attributed(put, parted(dumped(message))[0])
        return found

    @staticmethod
    def _served(entry: Entry) -> ChatMessage:
        return served(entry.value, entry.label)
