"""What a guarded ``SQLAlchemyChatStore`` does: a queue of messages for each key, of which the oldest are archived."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memguard.collection import Entry, Put, members
from memguard.collection.writes import Part
from memguard.effects import Call, Operation
from memguard.integrations.llamaindex.conversations import Conversations
from memguard.integrations.llamaindex.messages import dumped, served
from memguard.integrations.llamaindex.sql_table import Line

ACTIVE, ARCHIVED = MessageStatus.ACTIVE.value, MessageStatus.ARCHIVED.value


class SqlOperations(Conversations):
    """Messages by key and status."""

    def get(
        self, key: str, status: MessageStatus | None, limit: int | None = None, offset: int | None = None
    ) -> Operation[list[ChatMessage]]:
        """Messages of a key and status (None for both), oldest first; then ``offset`` left out, ``limit`` served."""
        if not self.mine(key, "read"):
            return []
        found = _of(status, (yield from self.entries(key)))[max(offset or 0, 0) :]
        found = found if limit is None or limit < 0 else found[:limit]
        return [_served(entry) for entry in found]

    def count(self, key: str, status: MessageStatus | None) -> Operation[int]:
        """How many."""
        if not self.mine(key, "read"):
            return 0
        return len(_of(status, (yield from self.entries(key))))

    def add(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> Operation[None]:
        """Append messages, as one operation."""
        self.mine(key, "write")
        yield from self.collection.write([self._put(key, message, status) for message in messages])

    def set(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> Operation[None]:
        """The key holds these messages from now on, whatever the status of those before, in one operation."""
        self.mine(key, "write")
        messages = list(messages)

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, None]]:
            puts = [self._put(key, message, status) for message in messages]
            puts = yield from self.replaced(key, puts, entries)
            return (Part(puts, keep=()) if puts or entries else None), None

        yield from self.change(key, plan)

    def delete_one(self, key: str, ident: int) -> Operation[ChatMessage | None]:
        """Delete the message in a row of the table, by the row's id; None if there is none."""
        if not self.mine(key, "write"):
            return None

        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, Entry | None]]:
            entry = next((e for e in entries if e.value.id == ident), None)
            return (None if entry is None else Part(deletes=[entry.key])), entry
            yield

        gone = yield from self.change(key, plan)
        return None if gone is None else _served(gone)

    def delete(self, key: str, status: MessageStatus | None) -> Operation[None]:
        """Delete the messages of a key and status."""
        if self.mine(key, "write"):
            yield from self._oldest(key, status, None, archive=False)

    def delete_oldest(self, key: str, n: int) -> Operation[list[ChatMessage]]:
        """Delete the oldest active messages; what they were."""
        if not self.mine(key, "write"):
            return []
        return (yield from self._oldest(key, MessageStatus.ACTIVE, n, archive=False))

    def archive_oldest(self, key: str, n: int) -> Operation[list[ChatMessage]]:
        """Move the oldest active messages to the archive; what they are. Their labels stay."""
        if not self.mine(key, "write"):
            return []
        return (yield from self._oldest(key, MessageStatus.ACTIVE, n, archive=True))

    def all_keys(self) -> Operation[list[str]]:
        """The keys."""

        def ask() -> Operation[Sequence[str]]:
            found: Sequence[str] = yield Call(self.wrapped.get_keys)
            return found

        return (yield from self.listed(ask))

    # -- inside ------------------------------------------------------------------------------

    def _oldest(
        self, key: str, status: MessageStatus | None, n: int | None, *, archive: bool
    ) -> Operation[list[ChatMessage]]:
        def plan(entries: list[Entry]) -> Operation[tuple[Part | None, list[Entry]]]:
            chosen = _of(status, entries)
            chosen = chosen if n is None or n < 0 else chosen[:n]
            if not chosen:
                return None, []
            if not archive:
                return Part(deletes=[entry.key for entry in chosen]), chosen
            return Part([self._moved(key, entry) for entry in chosen]), chosen
            yield

        chosen = yield from self.change(key, plan)
        return [_served(entry) for entry in chosen]

    def _moved(self, key: str, entry: Entry) -> Put:
        """The same record with another status."""
        line: Line = entry.value
        put: Put = self.table.remade(Put(key, entry.key, line, b"", ""), line._replace(status=ARCHIVED))
        put.own = members(entry.stored.own)
        return put

    def _put(self, key: str, message: ChatMessage, status: MessageStatus) -> Put:
        data = dumped(message)
        put: Put = self.table.put(key, data, status.value)
        return self.attributed(put, data)


def _of(status: MessageStatus | None, entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if status is None or entry.value.status == status.value]


def _served(entry: Entry) -> ChatMessage:
    line: Line = entry.value
    return served(ChatMessage.model_validate(line.data), entry.label)
