"""LlamaIndex's SQLAlchemyChatStore on SQLite, alone and under Memory: a context is a key, a record a message."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memguard.bench.integrity.edits import message_cases
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.langgraph_saver import OWNERS
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

#: The table that LlamaIndex's Memory uses.
TABLE = "llama_index_memory"


class ChatSut(Guarded):
    """SQLAlchemyChatStore on SQLite, bare or guarded."""

    kind = "llamaindex-chat"

    def __init__(self, cell: Path, name: Name) -> None:
        super().__init__(cell, name, "chats")
        self.edits = message_cases.CHATS
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Any = None
        self._store: Any = None

    def versions(self) -> dict[str, str]:
        """Versions of LlamaIndex, of SQLAlchemy and, where used, of the guard."""
        names = ["llama-index-core", "sqlalchemy", "aiosqlite"]
        return self.package_versions(*names, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """SQLite with its default journal."""
        return f"SQLite {sqlite3.sqlite_version}, rollback journal"

    def features(self) -> dict[str, str]:
        """The guard; the store itself has none."""
        return {"encryption": "none", **self.guard_features()}

    def start(self) -> None:
        """Connect, build the store, guard it."""
        self._loop = asyncio.new_event_loop()
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{self.database}", poolclass=NullPool)
        self._store = self.wrap(SQLAlchemyChatStore(TABLE, async_engine=self._engine))

    def stop(self) -> None:
        """Close the guard, the engine and the loop."""
        self.unwrap()
        loop, engine = self._loop, self._engine
        self._loop = self._engine = self._store = None
        if loop is not None:
            loop.run_until_complete(engine.dispose())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return self._loop.run_until_complete(call)

    def write(self, record: Record) -> None:
        """``store.add_message``."""
        self._run(self._store.add_message(record.owner, self._message(record)))
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """``store.delete_oldest_messages`` of one."""
        self._run(self._store.delete_oldest_messages(OWNERS[context], 1))

    def replace(self, context: str) -> None:
        """``store.set_messages``: the history as it is, its newest message in other words."""
        owner = OWNERS[context]
        history = self._run(self._store.get_messages(owner))
        said = self._message(self.records[context][-1], " (withdrawn, ask first)")
        self._run(self._store.set_messages(owner, [*history[:-1], said]))

    def retell(self, records: Mapping[str, Sequence[Record]], context: str) -> None:
        """As ever, with the other owners speaking in between and leaving: rows have the same ids in both stores."""
        for turn in zip(*records.values(), strict=False):
            for record in turn:
                self.write(record)
        for other in records:
            if other != context:
                self._run(self._store.delete_messages(OWNERS[other]))
                del self.records[other]

    def key(self, record: Record) -> str:
        """The message's id, one of its additional members."""
        return f"{record.context}{record.n}"

    def _message(self, record: Record, more: str = "") -> ChatMessage:
        extra = {"owner": record.owner, "source": record.source, "topic": record.topic, "ts": record.ts}
        return ChatMessage(
            role=record.role,
            content=record.text + more,
            additional_kwargs={"record": self.key(record), **extra},
        )

    def body(self, record: Record) -> Mapping[str, Any]:
        """What a served message says."""
        return _item(self._message(record)).body

    def paths(self) -> tuple[str, ...]:
        """The whole history, its newest message, what Memory gives an agent, and messages of any status."""
        return ("history", "head", "memory", "any")

    def wide_paths(self) -> tuple[str, ...]:
        """The list of keys."""
        return ("keys",)

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path of a key, or the keys."""
        key, store = OWNERS[context], self._store
        if path == "keys":
            return [Item(str(found), {}) for found in sorted(self._run(store.get_keys()))]
        if path == "head":
            count = self._run(store.count_messages(key))
            found = self._run(store.get_messages(key, limit=1, offset=max(count - 1, 0)))
        elif path == "memory":
            memory = Memory.from_defaults(session_id=key, chat_store=store, tokenizer_fn=str.split)
            found = self._run(memory.aget())
        else:
            found = self._run(store.get_messages(key, **({"status": None} if path == "any" else {})))
        return [_item(message) for message in found]


def _item(message: Any) -> Item:
    """A served message as plain values."""
    body = message.model_dump(mode="json")
    more = {k: v for k, v in body.get("additional_kwargs", {}).items() if k != "memguard"}
    return Item(str(more.get("record")), {**body, "additional_kwargs": more})


def sqlite(cell: Path, name: Name) -> ChatSut:
    """SQLAlchemyChatStore on SQLite."""
    return ChatSut(cell, name)
