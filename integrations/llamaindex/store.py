"""Chat stores of LlamaIndex, guarded: the same methods, every message sealed and every read checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memguard.effects import Operation, drive, shielded
from memguard.integrations.face import Face
from memguard.integrations.llamaindex.chat_operations import ChatOperations
from memguard.integrations.llamaindex.persisted import Persisted
from memguard.integrations.llamaindex.sql_operations import SqlOperations
from memguard.integrations.loops import driven

#: Attributes of wrapped stores that LlamaIndex and users reach. None of them changes a message.
REACHABLE = (
    "table_name",
    "async_database_uri",
    "db_schema",
    "class_name",
    "model_dump",
    "model_dump_json",
    "to_dict",
    "to_json",
    "dict",
    "json",
    "model_config",
    "model_fields",
    "client",
    "aclient",
)


class Guarded(Face):
    """What both kinds share; pydantic fields of the wrapped type take them too.

    Attributes:
        inner: the wrapped store, unchanged and unguarded.

    Raises (from every method): IntegrityError if what the store holds is not what was written; RejectedError from
    a write of a message that a guard refused; ScopeError where a scope map gives the key to another principal, or
    there is none.
    """

    reachable = REACHABLE

    def __init__(self, inner: Any, operations: Any) -> None:
        self.inner, self._ops = inner, operations


class GuardedChatStore(Guarded):
    """A ``BaseChatStore`` whose messages cannot be changed behind its back."""

    _ops: ChatOperations

    def _run(self, operation: Operation[Any]) -> Any:
        return drive(operation)

    async def _arun(self, operation: Operation[Any]) -> Any:
        return await shielded(operation)

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """The key holds these messages from now on, in one operation."""
        self._run(self._ops.set(key, messages))

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Every message of a key, checked and complete."""
        found: list[ChatMessage] = self._run(self._ops.get(key))
        return found

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Append a message; ``idx`` inserts it, as ``SimpleChatStore`` does."""
        self._run(self._ops.add(key, message, idx))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete a key; its messages."""
        found: list[ChatMessage] | None = self._run(self._ops.delete(key))
        return found

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a place of the list."""
        found: ChatMessage | None = self._run(self._ops.delete_one(key, idx))
        return found

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete the newest message."""
        found: ChatMessage | None = self._run(self._ops.delete_last(key))
        return found

    def get_keys(self) -> list[str]:
        """The keys: none that has messages is missing."""
        found: list[str] = self._run(self._ops.all_keys())
        return found

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Async :meth:`set_messages`."""
        await self._arun(self._ops.set(key, messages))

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """Async :meth:`get_messages`."""
        found: list[ChatMessage] = await self._arun(self._ops.get(key))
        return found

    async def async_add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Async :meth:`add_message`."""
        await self._arun(self._ops.add(key, message, idx))

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """Async :meth:`delete_messages`."""
        found: list[ChatMessage] | None = await self._arun(self._ops.delete(key))
        return found

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Async :meth:`delete_message`."""
        found: ChatMessage | None = await self._arun(self._ops.delete_one(key, idx))
        return found

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """Async :meth:`delete_last_message`."""
        found: ChatMessage | None = await self._arun(self._ops.delete_last(key))
        return found

    async def aget_keys(self) -> list[str]:
        """Async :meth:`get_keys`."""
        found: list[str] = await self._arun(self._ops.all_keys())
        return found


class GuardedSimpleStore(GuardedChatStore):
    """A ``SimpleChatStore`` whose messages cannot be changed behind its back, in memory or in its file."""

    def __init__(self, inner: Any, operations: Any, persisted: Persisted) -> None:
        super().__init__(inner, operations)
        self._persisted = persisted

    def persist(self, persist_path: str = "chat_store.json", fs: Any = None) -> None:
        """Write the store to a file, and have the anchor know what it holds.

        An older file, an edited one, or none at all is refused when it is loaded and guarded under the same name.
        """
        self._run(self._persisted.persist(lambda: self.inner.persist(persist_path, fs)))


class GuardedDbStore(Guarded):
    """A ``SQLAlchemyChatStore`` whose messages cannot be changed behind its back. Its methods are async, as there."""

    _ops: SqlOperations
    _loop: asyncio.AbstractEventLoop | None = None

    def _run(self, operation: Operation[Any]) -> Any:
        """Drive from synchronous code: audits, adoption and the like."""
        return driven(operation, self._loop, self.inner)

    async def _arun(self, operation: Operation[Any]) -> Any:
        self._loop = asyncio.get_running_loop()
        return await shielded(operation)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Messages of a key and status (None for all), oldest first, checked; of a complete key."""
        found: list[ChatMessage] = await self._arun(self._ops.get(key, status, limit, offset))
        return found

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many there are."""
        found: int = await self._arun(self._ops.count(key, status))
        return found

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append a message."""
        await self._arun(self._ops.add(key, [message], status))

    async def add_messages(
        self, key: str, messages: Sequence[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append messages, as one operation."""
        await self._arun(self._ops.add(key, messages, status))

    async def set_messages(
        self, key: str, messages: Sequence[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """The key holds these messages from now on, in one transaction."""
        await self._arun(self._ops.set(key, messages, status))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message in the row of this id."""
        found: ChatMessage | None = await self._arun(self._ops.delete_one(key, idx))
        return found

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a key and status (None for all)."""
        await self._arun(self._ops.delete(key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest active messages; what they were."""
        found: list[ChatMessage] = await self._arun(self._ops.delete_oldest(key, n))
        return found

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Move the oldest active messages to the archive; what they are."""
        found: list[ChatMessage] = await self._arun(self._ops.archive_oldest(key, n))
        return found

    async def get_keys(self) -> list[str]:
        """The keys: none that has messages is missing."""
        found: list[str] = await self._arun(self._ops.all_keys())
        return found
