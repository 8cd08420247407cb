"""The OpenAI Agents SDK's ``EncryptedSession`` around its ``SQLiteSession``: the documented protection, switched on.

The key stays with the program. Reading is ``get_items`` of a new session over the same file; items that do not decrypt
are left out by the SDK, so an answer with fewer items than there are rows in the file counts as refused ("an empty
result" in the draft's words) only when nothing is left; fewer items without an error are served as the history.
"""

from __future__ import annotations

import json
from typing import Any

from agmi.adapters.base import Record
from agmi.adapters.openai_agents_session import SESSION, OpenAIAgentsSessionAdapter, _run

KEY = "rows-key-that-is-not-in-the-store"


class EncryptedSessionOn(OpenAIAgentsSessionAdapter):
    """EncryptedSession over SQLiteSession."""

    name = "openai-agents-sqlite-session+encrypted"

    def _session(self, sid: str) -> Any:
        from agents import SQLiteSession
        from agents.extensions.memory import EncryptedSession

        inner = SQLiteSession(sid, str(self._db))
        session = EncryptedSession(session_id=sid, underlying_session=inner, encryption_key=KEY)
        session.close = inner.close  # the harness closes what it opened
        return session

    def verify(self) -> bool:
        self.verify_detail = None
        session = self._session(SESSION)
        try:
            items = _run(session.get_items())
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is its answer
            self.verify_detail = type(error).__name__
            return False
        finally:
            session.close()
        if not items:
            self.verify_detail = "get_items"
        return bool(items)

    def mutate_payload(self, record: Record) -> Record:
        """Ciphertext cannot be changed to say something else; one character of it is turned."""
        data = json.loads(record.fields["message_data"])
        text = data["payload"]
        data["payload"] = text[:-8] + ("A" if text[-8] != "A" else "B") + text[-7:]
        record.fields["message_data"] = json.dumps(data)
        return record
