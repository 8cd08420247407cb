"""What a guarded session reads: everything, checked and complete, and cut only afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memguard.binding import Binding
from memguard.collection import Collection, Entry
from memguard.effects import Operation
from memguard.errors import TamperedError
from memguard.integrations.conversation import owned
from memguard.integrations.openai_agents.backends import GeneralBackend
from memguard.integrations.openai_agents.codecs import expired
from memguard.integrations.openai_agents.items import SessionItem, calls, content_of, mapping, parted
from memguard.integrations.openai_agents.table import SessionTable

#: Tries before a session that others keep writing to is called busy.
TRIES = 8
#: Calls of tools whose names are remembered for their outputs.
_CALLS = 1024


class SessionReads:
    """The reading half of :class:`~memguard.integrations.openai_agents.operations.SessionOperations`."""

    def __init__(self, session: Any, base: Any, collection: Collection, bound: Binding | None) -> None:
        self.session, self._base, self.collection, self._bound = session, base, collection, bound
        table = collection.table
        assert isinstance(table, SessionTable)
        self.table = table
        self._tools: dict[str, str] = {}
        #: Items of the last read that were left out because their time is over.
        self.expired = 0

    @property
    def context(self) -> str:
        """The session's id in the store."""
        ident: str = self._base.session_id
        return ident

    @property
    def encrypts(self) -> bool:
        """Whether the wrapped session encrypts for another one, whose rows are read."""
        return self.session is not self._base

    def get(self, limit: int | None = None) -> Operation[list[Any]]:
        """The newest ``limit`` items (default: the session's own setting), oldest first.

        Raises:
            IntegrityError: the session is not as it was left.
        """
        if not owned(self._bound, self.session.session_id, "read"):
            return []
        entries = yield from self.visible()
        backend = self.table.backend
        if isinstance(backend, GeneralBackend) and not self.encrypts:
            settings = getattr(self.session, "session_settings", None)
            if limit is not None or getattr(settings, "limit", None) is not None:
                entries = yield from self._asked(backend, entries, limit)
        else:
            entries = self._cut(entries, limit)
        return [served(entry) for entry in entries]

    def every(self) -> Operation[list[Entry]]:
        """Every item of the session, checked and complete."""
        found = yield from self.collection.all(self.context)
        return [
            entry for entry in found if isinstance(entry.value, dict)
        ]  # all of them, unless only reporting

    def visible(self) -> Operation[list[Entry]]:
        """:meth:`every` item whose time is not over."""
        return self.current((yield from self.every()))

    def current(self, there: Sequence[Entry]) -> list[Entry]:
        """Of these items those whose time is not over."""
        ttl = self.table.codec.ttl
        entries = [entry for entry in there if not expired(entry.value.issued, ttl)]
        self.expired = len(there) - len(entries)
        self.note(entry.value for entry in entries)
        return entries

    def note(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Remember which tools were called, for their outputs."""
        self._tools.update(calls(items))
        while len(self._tools) > _CALLS:
            del self._tools[next(iter(self._tools))]

    # -- limits ------------------------------------------------------------------------------

    def _cut(self, entries: list[Entry], limit: int | None) -> list[Entry]:
        """What the wrapped session's own limits leave of its items."""
        from agents.memory.session_settings import resolve_session_limit

        wanted = resolve_session_limit(limit, self.session.session_settings)
        self._budgeted(entries, wanted)
        if wanted is None or wanted < 0:  # SQLite reads a negative limit as none
            return entries
        return entries[-wanted:] if wanted else []

    def _budgeted(self, entries: Sequence[Entry], wanted: int | None) -> None:
        """``max_scan_items`` of an encrypted session refuses what it refuses there."""
        budget = getattr(self.session, "max_scan_items", None) if self.encrypts else None
        if budget is None:
            return
        if wanted is not None and wanted < 0:
            raise ValueError("limit must be non-negative when max_scan_items is set")
        if wanted == 0:
            return
        raws = len(entries) + self.expired
        window, left = min(wanted or budget, budget), budget
        while True:
            read = min(window, raws)
            # Expired items are the oldest, so the newest window holds what is left of it.
            if read < window or (wanted is not None and min(read, len(entries)) >= wanted):
                return
            left -= read
            window, before = min(window * 2, left), window
            if window <= before:
                raise RuntimeError(
                    "EncryptedSession max_scan_items exhausted before a complete history result could be "
                    "established; increase max_scan_items or reduce retained history."
                )

    def _asked(
        self, backend: GeneralBackend, entries: list[Entry], limit: int | None
    ) -> Operation[list[Entry]]:
        """The session's own answer to a limit, each item of it one that was checked."""
        for _ in range(TRIES):
            by_key = {entry.key: entry for entry in entries}
            answer = yield from backend.ask(*([] if limit is None else [limit]))
            chosen = [_known(item, by_key) for item in answer]
            if None not in chosen:
                return [entry for entry in chosen if entry is not None]
            entries = yield from self.visible()  # a writer may have come between
        if not self.collection.custody.enforcing:
            return entries
        raise TamperedError(
            "a session answers with an item that is not in its history.",
            case="T5",
            record=f"session {self.context!r}",
            why="Its full history was checked, and its answer to a limit holds something else.",
            do="memguard audit STORE shows whether the store changed meanwhile.",
        )


def _known(item: Any, by_key: Mapping[str, Entry]) -> Entry | None:
    """The checked item that an answer shows, if it shows it as it is."""
    bare, field = parted(mapping(item))
    key = field.get("key") if isinstance(field, Mapping) else None
    entry = by_key.get(key) if isinstance(key, str) else None
    with suppress(TypeError, ValueError, RecursionError):
        if entry is not None and content_of(bare) == entry.stored.content:
            return entry
    return None


def served(entry: Entry) -> Any:
    """An item as it is handed out: a dictionary of its own, with its label as an attribute."""
    item = SessionItem(entry.value)
    item.memguard_label = entry.label
    return item
