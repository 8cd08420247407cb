"""The stand-in of Mem0's ``SQLiteManager``, for one call: history rows and raw messages, sealed and checked."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memguard.collection import Entry
from memguard.effects import Operation
from memguard.integrations.mem0.keeping import Keeping
from memguard.integrations.mem0.owners import HISTORY, MESSAGES, NOBODY, messages_context, owner_of
from memguard.integrations.mem0.session import Session

#: Raw messages that Mem0 keeps of a session.
KEPT_MESSAGES = 10


class Database:
    """Mem0's ``SQLiteManager``, guarded."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _keeping(self) -> Keeping:
        return self._session.keeping

    def add_history(
        self, memory_id: str, old_memory: str | None, new_memory: str | None, event: str, **about: Any
    ) -> None:
        """See ``SQLiteManager``."""
        self.batch_add_history(
            [{"memory_id": memory_id, "old_memory": old_memory, "new_memory": new_memory, "event": event, **about}]
        )  # fmt: skip

    def batch_add_history(self, records: Sequence[Mapping[str, Any]]) -> None:
        """See ``SQLiteManager``."""
        session = self._session
        puts = []
        for record in records:
            id = str(record.get("memory_id"))
            if id in session.refused and id not in session.stored:
                continue
            columns = {
                "memory_id": record.get("memory_id"),
                "old_memory": record.get("old_memory"),
                "new_memory": record.get("new_memory"),
                "event": record.get("event"),
                "created_at": record.get("created_at"),
                "updated_at": record.get("updated_at"),
                "is_deleted": int(record.get("is_deleted") or 0),
                "actor_id": record.get("actor_id"),
                "role": record.get("role"),
            }
            context = session.owners.get(id, NOBODY).context(HISTORY)
            label = session.labels.get(id)
            puts.append(self._keeping.line(HISTORY, context, str(uuid.uuid4()), columns, label))
        if puts:
            session.run(self._keeping.keep(HISTORY, puts, {}))

    def get_history(self, memory_id: str) -> list[dict[str, Any]]:
        """See ``SQLiteManager``."""
        return list(self._session.run(self._history(memory_id)))

    def _history(self, memory_id: str) -> Operation[list[dict[str, Any]]]:
        found = yield from self._keeping.history(memory_id)
        mine = [entry for entry in found if self._session.mine(owner_of(entry.context))]
        served = {entry.key: entry for entry in (yield from self._keeping.served(mine))}
        rows = [entry for entry in mine if entry.key in served]
        rows.sort(key=lambda e: _moment(e.value))
        made = []
        for entry in rows:
            columns = entry.value["columns"]
            self._session.labels[entry.key] = served[entry.key].label
            made.append({"id": entry.key, **columns, "is_deleted": bool(columns["is_deleted"])})
        return made

    def save_messages(self, messages: Sequence[Mapping[str, Any]], session_scope: str) -> None:
        """See ``SQLiteManager``."""
        if messages:
            self._session.run(self._save(messages, session_scope))

    def _save(self, messages: Sequence[Mapping[str, Any]], scope: str) -> Operation[None]:
        now = datetime.now(UTC).isoformat()
        context = messages_context(scope)
        speaking = self._session.speaking
        puts = []
        for message in messages:
            columns = {
                "session_scope": scope,
                "role": message.get("role"),
                "content": message.get("content"),
                "name": message.get("name"),
                "created_at": now,
            }
            label = None if speaking is None else speaking.of_message(message)
            puts.append(self._keeping.line(MESSAGES, context, str(uuid.uuid4()), columns, label))
        held = yield from self._keeping.messages(scope)
        # Mem0 keeps the ten newest; among rows of one moment, those that were written first.
        every = [(str(e.value["columns"]["created_at"]), -at, e.key) for at, e in enumerate(held)]
        every += [(now, -len(held) - at, put.name) for at, put in enumerate(puts)]
        every.sort(reverse=True)
        out = {key for _, _, key in every[KEPT_MESSAGES:]}
        deletes = [entry.key for entry in held if entry.key in out]
        puts = [put for put in puts if put.key not in out]
        yield from self._keeping.keep(MESSAGES, puts, {context: deletes} if deletes else {})

    def get_last_messages(self, session_scope: str, limit: int = 10) -> list[dict[str, Any]]:
        """See ``SQLiteManager``; for a prompt, without those worth less than what the call brings."""
        found: list[Entry] = self._session.run(self._keeping.messages(session_scope))
        speaking = self._session.speaking
        floor = None if speaking is None else speaking.floor
        good = [e for e in found if floor is None or e.label is None or e.label.trust >= floor]
        rows = [entry.value["columns"] for entry in good][-limit:] if limit else []
        return [{name: row[name] for name in ("role", "content", "name", "created_at")} for row in rows]


def _moment(value: Mapping[str, Any]) -> tuple[str, str, int]:
    """How Mem0 orders a history: by creation, then by the second of the change, then as written."""
    columns = value["columns"]
    second = str(columns["updated_at"] or "")[:19]
    return str(columns["created_at"] or ""), second, value["n"]
