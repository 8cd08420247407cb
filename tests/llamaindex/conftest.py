"""Scenes for the chat store tests: home, key, anchor and database in one folder, opened and closed as a user would.

No part is replaced by a mock: databases are files, edits are SQL over a connection of their own.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memguard import MemGuard

TABLE = "llama_index_memory"


class FileChatStore(BaseChatStore):
    """A chat store of somebody's own, which keeps JSON lines in one file for each key."""

    folder: str

    def _path(self, key: str) -> Path:
        return Path(self.folder) / f"{key}.jsonl"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        text = "".join(message.model_dump_json() + "\n" for message in messages)
        self._path(key).write_text(text, encoding="utf-8")

    def get_messages(self, key: str) -> list[ChatMessage]:
        path = self._path(key)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [ChatMessage.model_validate_json(line) for line in lines]

    def add_message(self, key: str, message: ChatMessage) -> None:
        self.set_messages(key, [*self.get_messages(key), message])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        found = self.get_messages(key) if self._path(key).exists() else None
        self._path(key).unlink(missing_ok=True)
        return found

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        messages = self.get_messages(key)
        if idx >= len(messages):
            return None
        gone = messages.pop(idx)
        self.set_messages(key, messages)
        return gone

    def delete_last_message(self, key: str) -> ChatMessage | None:
        messages = self.get_messages(key)
        return self.delete_message(key, len(messages) - 1) if messages else None

    def get_keys(self) -> list[str]:
        return sorted(path.stem for path in Path(self.folder).glob("*.jsonl"))


class Scene:
    """One home with its anchor, key and database under ``root``."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.db = root, root / "home", root / "agent.db"
        self._open: list[Any] = []
        self.simple = SimpleChatStore()

    def guard(self) -> MemGuard:
        """The home: made the first time, opened after."""
        uris = {"anchor": f"file:{self.root / 'anchor'}", "keys": f"file:{self.root / 'key.json'}"}
        made = MemGuard.open(self.home, **uris) if self.home.exists() else MemGuard.create(self.home, **uris)
        self._open.append(made)
        return made

    def bare(self, flavour: str) -> Any:
        """A store without a guard."""
        if flavour == "simple":
            return self.simple
        if flavour == "file":
            (self.root / "lines").mkdir(exist_ok=True)
            return FileChatStore(folder=str(self.root / "lines"))
        engine = create_async_engine(f"sqlite+aiosqlite:///{self.db}", poolclass=NullPool)
        return SQLAlchemyChatStore(TABLE, async_engine=engine)

    def store(self, flavour: str, mg: MemGuard | None = None, **more: Any) -> Any:
        """The guarded store of a newly opened home (or of ``mg``)."""
        return (mg or self.guard()).guard(self.bare(flavour), name="chat", **more)

    def close(self) -> None:
        """Close everything that was opened, in reverse."""
        while self._open:
            self._open.pop().close()

    # -- the adversary's side ----------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Edit or read the database past every guard."""
        connection = sqlite3.connect(self.db)
        with connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def take(self) -> None:
        """Copy the database aside."""
        shutil.copyfile(self.db, self.root / "older.db")

    def put_back(self) -> None:
        """Restore that copy."""
        shutil.copyfile(self.root / "older.db", self.db)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()
