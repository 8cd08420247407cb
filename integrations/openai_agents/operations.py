"""What a guarded session does, written once: reads that are whole and checked, writes that are one operation each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memguard.collection import Entry, Put
from memguard.collection.writes import Moved, Part
from memguard.effects import Call, Operation
from memguard.errors import IntegrityError, UnsupportedError
from memguard.integrations.conversation import attributed, owned, standing
from memguard.integrations.openai_agents.items import content_of, mapping, parted, said_by, words
from memguard.integrations.openai_agents.reads import TRIES, SessionReads, served
from memguard.labels import Label
from memguard.record import Lineage, Trust, inherited

#: What replaces a tail of a session: (where it starts, new items) -> whether nobody wrote meanwhile.
Replace = Callable[[int, Sequence[Any]], Operation[bool]]


class SessionOperations(SessionReads):
    """The operations of one guarded session.

    Args:
        session: the wrapped session.
        base: the session whose rows are read: the wrapped one, or the one that it encrypts for.
    """

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
        for _ in range(TRIES):
            every, at = yield from self._settled()
            if not every:
                return None
            shown = self.current(every)
            last = shown[-1] if shown else None
            keys = [entry.key for entry in every]
            if last is not None:
                self._poppable(last)
                keys = keys[keys.index(last.key) :]
            try:
                yield from self._operate(Part(deletes=keys, at=at))
            except Moved:
                continue
            return None if last is None else served(last)
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

    def snapshot(self, limit: int) -> Operation[tuple[list[Any], bool, Replace]]:
        """The newest ``limit`` items, whether that is all of them, and what replaces a tail of them in one operation
        if nobody wrote meanwhile."""
        every, at = yield from self._settled()
        shown = self.current(every)
        tail = shown[-limit:] if limit > 0 else []
        keys = [entry.key for entry in every]

        def replace(start: int, items: Sequence[Any]) -> Operation[bool]:
            old = tail[start:]
            if not old:
                return False
            owned(self._bound, self.session.session_id, "write")
            first, begins = keys.index(old[0].key), keys.index(shown[0].key)
            puts = yield from self._puts(items, made_from=old)
            written = yield from self.collection._screened(puts)
            # What expired before everything goes too, as the encrypted session itself reclaims it.
            gone = [*keys[: min(begins, first)], *keys[first:]]
            try:
                yield from self._operate(Part(written.stored, deletes=gone, at=at))
            except Moved:
                return False
            return True

        return [served(entry) for entry in tail], len(shown) <= limit, replace

    # -- inside ------------------------------------------------------------------------------

    def _settled(self) -> Operation[tuple[list[Entry], int | None]]:
        """Every item, and the operation that the session was at when they were read."""
        for _ in range(TRIES):
            before = self._generation()
            every = yield from self.every()
            at = self._generation()
            if before is None or before == at:
                return every, at
        raise _busy(self.context)

    def _operate(self, part: Part) -> Operation[None]:
        yield from self.collection._operate({self.context: part})

    def _generation(self) -> int | None:
        """How far this process knows the session; None if it has not been entered."""
        held = self.collection.custody.peek(self.context)
        return None if held is None else held.head.generation

    def _puts(self, items: Sequence[Any], made_from: Sequence[Entry] | None = None) -> Operation[list[Put]]:
        """Items on their way into the store.

        Args:
            made_from: the items that they take the place of. Each of those keeps its label where it stands again;
                others, also further copies, are worth no more than the least of those.
        """
        mg = self.collection.mg
        pairs = [parted(mapping(self.table.codec.normal(item))) for item in items]
        bares = [bare for bare, _ in pairs]
        self.note(bares)
        answers = [b for b in bares if str(b.get("type", "")).endswith("_call_output") and not b.get("name")]
        if any(b.get("call_id") not in self._tools for b in answers):
            yield from self.visible()  # the call may be from before this process
        most = mg.config.guards.limits.max_nodes
        puts = []
        contents = [content_of(bare) for bare in bares]
        old = list(made_from or ())
        # Their keys go with them: what is made from them names their sources too.
        history = inherited(*((entry.label or Label()).provenance for entry in old), key="history")
        places = standing(contents, [e.stored.content for e in old], [_least([e]) for e in old])
        for (bare, claims), content, place in zip(pairs, contents, places, strict=True):
            source, lineage = attributed(said_by(bare, self._tools), mg.screening.trust)
            if made_from is not None:
                label = None if place is None else old[place].label
                if label is not None:
                    source, lineage = label.source, label.lineage
                else:
                    lineage = Lineage.of(*lineage.parents, *history)
            text = words(bare, most)
            puts.append(Put(self.context, None, bare, content, text, source, lineage, claims=claims))
        return puts

    def _poppable(self, entry: Entry) -> None:
        """An envelope whose key is somebody else's business is not deleted on a guess that it can be read.

        Raises:
            UnsupportedError: MG585.
        """
        if not self.encrypts and entry.value.get("__enc__") == 1:
            raise UnsupportedError(
                "the newest item is an envelope of an EncryptedSession around this session.",
                code="MG585",
                why="Whether its key fits is known only after it was deleted, so a wrong key would cost the history.",
                do="Guard the other way round: guard(EncryptedSession(session_id, SQLiteSession(...), key)).",
            )


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
