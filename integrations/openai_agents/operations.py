"""What a guarded session does, written once: reads that are whole and checked, writes that are one operation each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memguard.binding import Binding
from memguard.collection import Collection, Entry, Put
from memguard.collection.writes import Moved, Part
from memguard.effects import Call, Operation
from memguard.errors import IntegrityError, TamperedError, UnsupportedError
from memguard.integrations.conversation import attributed, owned
from memguard.integrations.openai_agents.backends import GeneralBackend
from memguard.integrations.openai_agents.codecs import expired
from memguard.integrations.openai_agents.items import (
    SessionItem,
    calls,
    content_of,
    mapping,
    parted,
    said_by,
    words,
)
from memguard.integrations.openai_agents.table import SessionTable
from memguard.labels import Label
from memguard.record import Lineage, Parent, Trust

#: Tries before a session that others keep writing to is called busy.
_TRIES = 8
#: Calls of tools whose names are remembered for their outputs.
_CALLS = 1024


class SessionOperations:
    """The operations of one guarded session.

    Args:
        session: the wrapped session.
        base: the session whose rows are read: the wrapped one, or the one that it encrypts for.
    """

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

    # -- reads -------------------------------------------------------------------------------

    def get(self, limit: int | None = None) -> Operation[list[Any]]:
        """The newest ``limit`` items (default: the session's own setting), oldest first.

        Raises:
            IntegrityError: the session is not as it was left.
        """
        if not owned(self._bound, self.session.session_id, "read"):
            return []
        entries = yield from self.visible()
        backend = self.table.backend
        if isinstance(backend, GeneralBackend) and self.session is self._base:
            settings = getattr(self.session, "session_settings", None)
            if limit is not None or getattr(settings, "limit", None) is not None:
                entries = yield from self._asked(backend, entries, limit)
        else:
            entries = self._cut(entries, limit)
        return [_served(entry) for entry in entries]

    def visible(self) -> Operation[list[Entry]]:
        """Every item of the session, checked and complete, without those whose time is over."""
        found = yield from self.collection.all(self.context)
        there = [
            entry for entry in found if isinstance(entry.value, dict)
        ]  # all of them, unless only reporting
        ttl = self.table.codec.ttl
        entries = [entry for entry in there if not expired(entry.value.issued, ttl)]
        self.expired = len(there) - len(entries)
        self._note(entry.value for entry in entries)
        return entries

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
        budget = getattr(self.session, "max_scan_items", None) if self.session is not self._base else None
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
            if wanted is not None and min(read, len(entries)) >= wanted:
                return
            if read < window:
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
        for _ in range(_TRIES):
            by_key = {entry.key: entry for entry in entries}
            answer = yield from backend.ask(*([] if limit is None else [limit]))
            chosen = []
            for item in answer:
                bare, field = parted(mapping(item))
                key = field.get("key") if isinstance(field, Mapping) else None
                entry = by_key.get(key) if isinstance(key, str) else None
                same = False
                with suppress(TypeError, ValueError, RecursionError):
                    same = entry is not None and content_of(bare) == entry.stored.content
                if entry is None or not same:
                    break
                chosen.append(entry)
            else:
                return chosen
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

    # -- writes ------------------------------------------------------------------------------

    def add(self, items: Iterable[Any]) -> Operation[None]:
        """Append items: screened, labelled and sealed, as one operation.

        Raises:
            RejectedError: a guard rejects one; nothing of the call was stored.
            IntegrityError: the session is not as it was left.
        """
        items = list(items)
        if not items:
            yield Call(self.session.add_items, [])  # whatever it says of that
            return
        owned(self._bound, self.session.session_id, "write")
        puts = yield from self._puts(items)
        yield from self.collection.write(puts)

    def pop(self) -> Operation[Any]:
        """Take the newest item; expired ones behind it go with it, as in the session itself. None if there is none.

        Raises:
            IntegrityError: the session is not as it was left; nothing was deleted.
        """
        if not owned(self._bound, self.session.session_id, "write"):
            return None
        for _ in range(_TRIES):
            at = self._generation()
            entries = yield from self.visible()
            every = yield from self.collection.all(self.context)
            if at is not None and at != self._generation():
                continue
            if not every:
                return None
            last = entries[-1] if entries else None
            keys = [entry.key for entry in every]
            gone = keys[keys.index(last.key) :] if last is not None else keys
            if last is not None:
                self._poppable(last)
            try:
                yield from self._operate(Part(deletes=gone, at=self._generation()))
            except Moved:
                continue
            return None if last is None else _served(last)
        raise _busy(self.context)

    def clear(self) -> Operation[None]:
        """Delete every item.

        Raises:
            IntegrityError: the session is not as it was left; nothing was deleted.
        """
        owned(self._bound, self.session.session_id, "write")
        yield from self.collection.delete(self.context)

    def replace(self, items: Sequence[Any]) -> Operation[None]:
        """The session holds these items from now on, which were made from those before, in one operation."""
        owned(self._bound, self.session.session_id, "write")
        before = yield from self.visible()
        puts = yield from self._puts(items, made_from=before)
        yield from self.collection.replace(self.context, puts)

    def snapshot(self, limit: int) -> Operation[tuple[list[Any], bool, Callable[..., Operation[bool]]]]:
        """The newest ``limit`` items, whether that is all of them, and what replaces a tail of them in one operation
        if nobody wrote meanwhile."""
        at, entries = None, []
        for _ in range(_TRIES):
            before = self._generation()
            entries = yield from self.visible()
            at = self._generation()
            if before is None or before == at:
                break
        tail = entries[-limit:] if limit > 0 else []

        def replace(start: int, items: Sequence[Any]) -> Operation[bool]:
            old = tail[start:]
            if not old:
                return False
            owned(self._bound, self.session.session_id, "write")
            every = yield from self.collection.all(self.context)
            keys = [entry.key for entry in every]
            if old[0].key not in keys:
                return False
            shown = {entry.key for entry in entries}
            first = keys.index(old[0].key)
            lead = next(
                (n for n, key in enumerate(keys) if key in shown), len(keys)
            )  # expired before everything
            puts = yield from self._puts(items, made_from=old)
            written = yield from self.collection._screened(puts)
            gone = [*keys[: min(lead, first)], *keys[first:]]
            try:
                yield from self._operate(Part(written.stored, deletes=gone, at=at))
            except Moved:
                return False
            return True

        return [_served(entry) for entry in tail], len(entries) <= limit, replace

    # -- inside ------------------------------------------------------------------------------

    def _operate(self, part: Part) -> Operation[None]:
        yield from self.collection._operate({self.context: part})

    def _generation(self) -> int | None:
        """How far this process knows the session; None if it has not been entered."""
        held = self.collection.custody.peek(self.context)
        return None if held is None else held.head.generation

    def _note(self, items: Iterable[Mapping[str, Any]]) -> None:
        self._tools.update(calls(items))
        while len(self._tools) > _CALLS:
            del self._tools[next(iter(self._tools))]

    def _puts(self, items: Sequence[Any], made_from: Sequence[Entry] | None = None) -> Operation[list[Put]]:
        mg = self.collection.mg
        pairs = [parted(mapping(self.table.codec.normal(item))) for item in items]
        bares = [bare for bare, _ in pairs]
        self._note(bares)
        answers = [b for b in bares if str(b.get("type", "")).endswith("_call_output") and not b.get("name")]
        if any(b.get("call_id") not in self._tools for b in answers):
            yield from self.visible()  # the call may be from before this process
        most = mg.config.guards.limits.max_nodes
        puts = []
        for bare, claims in pairs:
            source, lineage = attributed(said_by(bare, self._tools), mg.screening.trust)
            content = content_of(bare)
            if made_from is not None:
                same = next((e for e in made_from if e.stored.content == content), None)
                if same is not None and same.label is not None:
                    source, lineage = same.label.source, same.label.lineage
                else:
                    lineage = Lineage((*lineage.parents, Parent("history", _least(made_from))))
            text = words(bare, most)
            puts.append(Put(self.context, None, bare, content, text, source, lineage, claims=claims))
        return puts

    def _poppable(self, entry: Entry) -> None:
        """An envelope whose key is somebody else's business is not deleted on a guess that it can be read.

        Raises:
            UnsupportedError: MG585.
        """
        if self.session is self._base and entry.value.get("__enc__") == 1:
            raise UnsupportedError(
                "the newest item is an envelope of an EncryptedSession around this session.",
                code="MG585",
                why="Whether its key fits is known only after it was deleted, so a wrong key would cost the history.",
                do="Guard the other way round: guard(EncryptedSession(session_id, SQLiteSession(...), key)).",
            )


def _served(entry: Entry) -> Any:
    item = SessionItem(entry.value)
    item.memguard_label = entry.label
    return item


def _least(entries: Sequence[Entry]) -> Trust:
    """The least trust among entries; unknown where one has no label."""
    return min((e.label or Label()).trust for e in entries) if entries else Trust.UNKNOWN


def _busy(session: str) -> IntegrityError:
    return IntegrityError(
        "others keep writing to the session.",
        case="state",
        record=f"session {session!r}",
        code="MG586",
        why="Every time its newest item was chosen, another one had come.",
        do="Try again.",
    )
