"""What guarded chat stores of both kinds share: whose a key is, what is there, and how a history is replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memguard.binding import Binding, Stage
from memguard.collection import Collection, Entry, Put, members
from memguard.collection.writes import Moved, Part
from memguard.effects import Acquire, Operation
from memguard.errors import IntegrityError, RollbackError, ScopeError
from memguard.integrations.conversation import attributed, owned, standing
from memguard.integrations.llamaindex.messages import said_by
from memguard.labels import Label
from memguard.record import Lineage, Source, inherited

T = TypeVar("T")
#: Tries before a key that others keep writing to is called busy.
_TRIES = 8
#: What LlamaIndex's memories use where nobody named a key: in a store of several users everybody's.
_SHARED = "chat_history"


class Conversations:
    """Operations on the keys of one chat store.

    Args:
        wrapped: the store.
    """

    def __init__(self, wrapped: Any, collection: Collection, bound: Binding | None) -> None:
        self.wrapped, self.collection, self._bound = wrapped, collection, bound
        self.table: Any = collection.table

    # -- whose ------------------------------------------------------------------------------

    def mine(self, key: object, stage: Stage) -> bool:
        """Whether a call may go on; see :func:`~memguard.integrations.conversation.owned`.

        Raises:
            ScopeError: MG221, the key is missing, or is the one that every memory without a key of its own uses.
        """
        if self._bound is not None and key == _SHARED:
            self._bound.refused(
                stage,
                ScopeError(
                    "the key of a conversation was left out.",
                    code="MG221",
                    where=self._bound.map.store,
                    why=f"{_SHARED!r} is what LlamaIndex uses where none is given, for every user alike.",
                    do="Give the memory a key of its owner: chat_store_key=… or session_id=….",
                ),
            )
        return owned(self._bound, key, stage)

    def keys(self, found: Sequence[str]) -> list[str]:
        """Of these keys the principal's."""
        if self._bound is None:
            return list(found)
        scope = self._bound.scope("read")
        if scope is None:
            return list(found)
        own = []
        for key in found:
            try:
                if self._bound.map.owns_thread(scope, key):
                    own.append(key)
            except ScopeError:
                continue  # a key that names no owner is nobody's
        if len(own) < len(found) and not self._bound.hidden("read", "other owners' keys were listed"):
            return list(found)
        return own

    # -- reads ------------------------------------------------------------------------------

    def entries(self, key: str) -> Operation[list[Entry]]:
        """Every message of a key, checked and complete, in the store's order."""
        found = yield from self.collection.all(key)
        return [entry for entry in found if entry.stored.flaw is None and entry.value is not None]

    def listed(self, ask: Callable[[], Operation[Sequence[str]]]) -> Operation[list[str]]:
        """The store's own list of keys, none of those missing that have messages, and none extra with messages.

        Raises:
            IntegrityError: it is not what the heads say.
        """
        custody = self.collection.custody
        if custody.settings.mode == "off" or not custody.anchored:
            return self.keys((yield from ask()))
        found = list((yield from ask()))
        if self._wrong(found) is not None:
            yield Acquire(custody.lock, self)  # a writer may have been half-way
            try:
                custody.log.refresh()
                found = list((yield from ask()))
                wrong = self._wrong(found)
            finally:
                custody.lock.release()
            if wrong is not None:
                custody.report(wrong.record or "", wrong.record or "", wrong)
                if custody.enforcing:
                    raise wrong
        for key in found:
            if not self._cells(key):  # messages under a key that has no head are somebody else's
                yield from self.collection.all(key)
        return self.keys(found)

    def _wrong(self, found: Sequence[str]) -> IntegrityError | None:
        custody = self.collection.custody
        custody.log.refresh()
        there = set(found)
        missing = next((key for key in custody.known() if key not in there and self._cells(key)), None)
        if missing is None:
            return None
        return RollbackError(
            "the messages of a key are gone.",
            case="T2",
            record=f"messages of {missing!r} in {self.collection.store!r}",
            why="Its head counts messages, and the store lists no such key.",
            do="memguard audit STORE; memguard accept STORE if a backup was restored on purpose.",
        )

    def _cells(self, key: str) -> int:
        cells: int = self.collection.custody.fresh(key).head.cells
        return cells

    # -- writes -----------------------------------------------------------------------------

    def attributed(self, put: Put, data: Any) -> Put:
        """The put with whose word it is."""
        put.source, put.lineage = attributed(said_by(data), self._trust)
        return put

    def _trust(self, source: Source) -> Any:
        return self.collection.mg.screening.trust(source)

    def replaced(self, key: str, puts: Sequence[Put], before: Sequence[Entry]) -> Operation[list[Put]]:
        """Puts for a history that takes the place of another one: a message that stood there keeps its label.

        One that only repeats what stood there is new, and worth no more than what it repeats.

        Raises:
            RejectedError: a guard rejects one of them.
        """
        there, said = [self.table.says(e.value) for e in before], [self.table.says(put.value) for put in puts]
        labels = [entry.label or Label() for entry in before]
        made: list[Put] = []
        places = standing(said, there, [label.trust for label in labels])
        for put, words, place in zip(puts, said, places, strict=True):
            if place is not None:
                made.append(again(put, before[place]))
                continue
            same = [label.provenance for label, held in zip(labels, there, strict=True) if held == words]
            if same:
                parents = put.lineage.parents if put.lineage is not None else ()
                put.lineage = Lineage.of(*parents, *inherited(*same, key="history"))
            made += (yield from self.collection._screened([put])).stored
        return made

    def change(
        self, key: str, plan: Callable[[list[Entry]], Operation[tuple[Part | None, T]]]
    ) -> Operation[T]:
        """Read a key, decide, and do it if nobody wrote meanwhile; else again.

        Args:
            plan: what to do (None for nothing), and what the call answers.
        """
        for _ in range(_TRIES):
            before = self._generation(key)
            entries = yield from self.entries(key)
            at = self._generation(key)
            if before is not None and before != at:
                continue
            part, answer = yield from plan(entries)
            if part is None:
                return answer
            part.at = at
            try:
                yield from self.collection._operate({key: part})
            except Moved:
                continue
            return answer
        raise IntegrityError(
            "others keep writing to the key.",
            case="state",
            record=f"messages of {key!r} in {self.collection.store!r}",
            code="MG586",
            why="Every time its messages were looked at, another one had come.",
            do="Try again.",
        )

    def _generation(self, key: str) -> int | None:
        held = self.collection.custody.peek(key)
        return None if held is None else held.head.generation


def again(put: Put, entry: Entry) -> Put:
    """The put with what the guard noted of a message that stands already, under a key of its own."""
    put.own = {name: value for name, value in members(entry.stored.own).items() if name != "key"}
    return put
