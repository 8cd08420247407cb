"""The Agents SDK's SQLiteSession, plain and inside EncryptedSession: a context is a session, a record an item."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents import SQLiteSession

from memguard.bench.integrity.edits import message_cases
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.langgraph_saver import OWNERS
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record

#: The encryption key of the encrypted session. A fixed test key: the adversary never uses it.
_KEY = "memguard bench, a fixed test key"
#: Seconds until encrypted items expire: longer than any bench.
_TTL = 10**9


class SessionSut(Guarded):
    """SQLiteSession, bare or guarded."""

    kind = "openai-session"

    def __init__(self, cell: Path, name: Name, *, encrypted: bool = False) -> None:
        super().__init__(cell, name, "sessions")
        self._encrypted = encrypted
        self.edits = message_cases.SEALED_SESSION if encrypted else message_cases.SESSION
        if encrypted:
            self.kind = "openai-session-encrypted"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bases: list[Any] = []
        self._sessions: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Versions of the SDK and, where used, of the cipher's library and the guard."""
        names = ["openai-agents", *(["cryptography"] if self._encrypted else [])]
        return self.package_versions(*names, *(["memguard-middleware"] if self.guarded else []))

    def backend(self) -> str:
        """SQLite, in the mode the session sets."""
        return f"SQLite {sqlite3.sqlite_version}, WAL"

    def features(self) -> dict[str, str]:
        """Encryption (the SDK's own, off by default) and the guard."""
        cipher = "on (off by default)" if self._encrypted else "off (off by default)"
        return {"encryption (EncryptedSession, Fernet)": cipher, **self.guard_features()}

    def start(self) -> None:
        """A session for each owner, on one database, guarded under one name."""
        self._loop = asyncio.new_event_loop()
        for owner in OWNERS.values():
            base = SQLiteSession(owner, self.database)
            self._bases.append(base)
            self._sessions[owner] = self._guarded(self._outer(owner, base))

    def _outer(self, owner: str, base: Any) -> Any:
        if not self._encrypted:
            return base
        from agents.extensions.memory import EncryptedSession

        return EncryptedSession(owner, base, _KEY, ttl=_TTL)

    def _guarded(self, session: Any) -> Any:
        if self._mg is None:
            return self.wrap(session)
        return self._mg.guard(session, name=self._store_name)

    def stop(self) -> None:
        """Close the guard, the sessions, and the loop with its threads; SQLite folds its log into the file."""
        self.unwrap()
        loop, self._loop = self._loop, None
        bases, self._bases, self._sessions = self._bases, [], {}
        if loop is not None:
            loop.run_until_complete(loop.shutdown_default_executor())
        for base in bases:
            base.close()
        if loop is not None:
            loop.close()

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return self._loop.run_until_complete(call)

    def write(self, record: Record) -> None:
        """``session.add_items`` of one item."""
        self._run(self._sessions[record.owner].add_items([dict(self._item(record))]))
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """``session.pop_item``: what the SDK itself does when it rewinds a turn."""
        self._run(self._sessions[OWNERS[context]].pop_item())

    def replace(self, context: str) -> None:
        """The newest item taken back and said again in other words, under the same id."""
        old = self.records[context][-1]
        session = self._sessions[old.owner]
        self._run(session.pop_item())
        item = {**self._item(old), "content": f"{old.text} (withdrawn, ask first)"}
        self._run(session.add_items([item]))

    def retell(self, records: Mapping[str, Sequence[Record]], context: str) -> None:
        """As ever, with the other owners speaking in between and leaving: rows have the same ids in both stores."""
        for turn in zip(*records.values(), strict=False):
            for record in turn:
                self.write(record)
        for other in records:
            if other != context:
                self._run(self._sessions[OWNERS[other]].clear_session())
                del self.records[other]

    def audit(self) -> list[str]:
        """Findings of ``mg.audit``; of every session where each can open only its own."""
        if self._mg is None or not self._encrypted:
            return super().audit()
        reports = [self._mg.audit(session) for session in self._sessions.values()]
        return [f"{f.code} {f.case} {f.record}" for report in reports for f in report.findings]

    def key(self, record: Record) -> str:
        """The item's id."""
        return f"msg_{record.context}{record.n}"

    def _item(self, record: Record) -> dict[str, Any]:
        """The item as the SDK would store a message, with what the record says beside its text."""
        return {
            "id": self.key(record),
            "role": record.role,
            "content": record.text,
            "owner": record.owner,
            "source": record.source,
            "topic": record.topic,
            "ts": record.ts,
        }

    def body(self, record: Record) -> Mapping[str, Any]:
        """The item."""
        return self._item(record)

    def paths(self) -> tuple[str, ...]:
        """The whole history, and its newest item."""
        return ("history", "head")

    def read(self, context: str, path: str) -> list[Item]:
        """``get_items``, without a limit or with one."""
        session = self._sessions[OWNERS[context]]
        found = self._run(session.get_items() if path == "history" else session.get_items(limit=1))
        return [_item(item) for item in found]


def _item(item: Any) -> Item:
    """A served item as plain values, whatever an adversary made of it."""
    body = dict(item) if isinstance(item, dict) else {"unreadable": repr(item)}
    body.pop("memguard", None)
    return Item(str(body.get("id")), body)


def sqlite(cell: Path, name: Name) -> SessionSut:
    """SQLiteSession."""
    return SessionSut(cell, name)


def encrypted(cell: Path, name: Name) -> SessionSut:
    """EncryptedSession around SQLiteSession."""
    return SessionSut(cell, name, encrypted=True)
