"""The memory of agents as the guard keeps it: looked at, compared with what was left, sealed, accepted.

Operations; what goes over the wire is :mod:`~memguard.integrations.letta.wire`'s, what a record is
:mod:`~memguard.integrations.letta.table`'s.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memguard.collection import Collection, Put
from memguard.collection.rows import Withheld
from memguard.collection.writes import Part
from memguard.effects import Block, Operation
from memguard.errors import IntegrityError, QuarantinedError
from memguard.integrations.letta import rows
from memguard.integrations.letta.book import GONE, Allowance, Book
from memguard.integrations.letta.changes import Change, MemoryChangedError
from memguard.integrations.letta.changes import digest as shown
from memguard.integrations.letta.table import LettaTable, digest, ident_of, key_of, lent, standing
from memguard.labels import Label
from memguard.record import Lineage, Parent, Source, inherited

if TYPE_CHECKING:
    from memguard.engine import MemGuard

#: Whose word a change of the agent's own is; it is worth no more than what the agent was shown.
AGENT = Source("system", "letta-agent")
Found = Mapping[str, Any]


class Memory:
    """See the module.

    Args:
        collection: over ``table``, with custody.
    """

    def __init__(self, mg: MemGuard, collection: Collection, table: LettaTable, book: Book) -> None:
        self.mg, self.collection, self.table, self.book = mg, collection, table, book
        self.wire = table.wire

    @property
    def enforcing(self) -> bool:
        """Whether what does not verify is refused."""
        return self.collection.custody.enforcing

    # -- looking -----------------------------------------------------------------------------

    def look(self, agent: str) -> Operation[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
        """An agent's state, and all that belongs to its memory: rows by context and id."""
        state = yield from self.table.state(agent)
        attached = yield from self.table.attachments(state)
        found: dict[str, dict[str, Any]] = {rows.agent_context(agent): {agent: attached}}
        for block in rows.blocks_of(state):
            found[rows.block_context(block["id"])] = {block["id"]: block}
        for archive in attached["archives"]:
            found[rows.archive_context(archive)] = {}
        if attached["archives"]:
            found |= yield from self.passages(agent)
        return state, found

    def passages(self, agent: str) -> Operation[dict[str, dict[str, Any]]]:
        """An agent's passages by the context of their archive, and by id."""
        found: dict[str, dict[str, Any]] = {}
        listed = yield from self.table.pages(f"/v1/agents/{agent}/archival-memory", {"ascending": True})
        for passage in listed:
            context = rows.archive_context(str(passage.get("archive_id")))
            found.setdefault(context, {})[passage["id"]] = passage
        return found

    def verify(self, agent: str, *, answer: Any = None, after: bool = False) -> Operation[dict[str, Any]]:
        """Compare all of an agent's memory with what was left, and seal what was let through; its state.

        Args:
            answer: of the message that was just handled, for the error to carry.
            after: that there was one.

        Raises:
            MemoryChangedError: something differs. IntegrityError: the whole store went back, or the anchor fails.
        """
        state, found = yield from self.look(agent)
        first: IntegrityError | None = None
        changes: list[Change] = []
        for context, held in found.items():
            try:
                yield from self.settle(context, held)
                with lent({context: held}):
                    yield from self.collection.all(context)
            except IntegrityError as error:
                first = first or error
                changes += yield from self.changes(context, held)
        if first is None:
            return state
        if not changes:
            raise first  # every record is as it was sealed: the whole went back, or the anchor fails
        raise self._changed(agent, changes, first, answer, after)

    def _changed(
        self, agent: str, changes: Sequence[Change], first: IntegrityError, answer: Any, after: bool
    ) -> MemoryChangedError:
        unknown = all(change.what == "unknown" for change in changes)
        listed = "; ".join(map(str, changes[:5])) + ("; …" if len(changes) > 5 else "")
        when = "during the turn" if after else "before the turn"
        return MemoryChangedError(
            "memory of an agent was made by somebody else."
            if unknown
            else "memory of an agent was changed by somebody else.",
            agent=agent,
            changes=changes,
            answer=answer,
            case=first.case or ("untagged" if unknown else "T1"),
            record=f"agent {agent} in {self.collection.store!r}",
            code="MG563" if unknown else "MG564",
            why=f"Seen {when}: {listed}.",
            do="mg.adopt(client, apply=True) seals what was there before the guard."
            if unknown
            else "error.changes lists it. Restore it, or take it over: accept_changes(client, error, reason).",
        )

    def changes(self, context: str, found: Found) -> Operation[list[Change]]:
        """What differs in one context, from the seals' side."""
        kept = yield Block(self.book.kept, context)
        stored = {item.key: item for item in (yield from self.table.seen(context, found))}
        kind = context.partition(":")[0]
        kind = "passage" if kind == "archive" else kind
        listed: list[Change] = []
        for key, item in kept.items():
            there, before = stored.get(key), _chars(item.own)
            if there is None:
                listed.append(Change(kind, "removed", item.id, before=before, context=context))
            elif there.content.hex() != item.digest:
                listed.append(self._change(kind, "changed", context, item.id, there.value, before))
            elif there.place.hex() != item.place:
                listed.append(self._change(kind, "place", context, item.id, there.value, before))
        for key, there in stored.items():
            if key not in kept:
                what = "unknown" if not kept and not self._generation(context) else "added"
                ident = ident_of(context, key, there.value)
                listed.append(self._change(kind, what, context, ident, there.value, None))
        return listed

    @staticmethod
    def _change(kind: str, what: str, context: str, ident: str, row: Any, before: int | None) -> Change:
        text = "" if kind == "agent" else str(row.get("value") if kind == "block" else row.get("text"))
        label = str(row.get("label") or "") if kind == "block" else ""
        after = None if kind == "agent" else len(text)
        mark = shown(text) if text else ""
        return Change(kind, what, ident, label, before, after, mark, context, lambda: row)

    # -- sealing -----------------------------------------------------------------------------

    def screened(self, put: Put) -> Operation[Put]:
        """A put through the write chain: with its label, perhaps rewritten.

        Raises:
            RejectedError, QuarantinedError: a guard refused it. There is no block and no passage to answer with, so
                a withheld write raises whatever ``policy.on_hold`` says; it is in the quarantine.
        """
        said = yield from self.collection.screen(put)
        if not isinstance(said, Withheld):
            return said
        raise QuarantinedError(
            f"a guard withheld a write; it is kept in the quarantine as {said.entry}.",
            code=said.decision.code or None,
            where=f"{put.context} in {self.collection.store!r}",
            why=said.decision.reason,
            do=f"memguard quarantine show {said.entry}",
        )

    def allow(
        self, context: str, ident: str, content: bytes | str, own: dict[str, Any]
    ) -> Operation[Allowance]:
        """Let this content be found on the server (or :data:`GONE`: let the record be missing)."""
        allowance = Allowance(
            context,
            ident,
            content if isinstance(content, str) else content.hex(),
            own,
            self._generation(context),
            time.time(),
        )
        made: Allowance = yield Block(self.book.allow, allowance)
        return made

    def settle(self, context: str, found: Found, *, part: bool = False) -> Operation[None]:
        """Seal what was let through and is there, and let go of what was to go and is gone.

        Args:
            part: ``found`` is not all of the context: what is missing in it is not gone.
        """
        allowed: list[Allowance] = yield Block(self.book.allowances, context, self._generation(context))
        if not allowed:
            return
        kept = yield Block(self.book.kept, context)
        by_id = {item.id: (key, item) for key, item in kept.items()}
        puts: list[Put] = []
        deletes: list[str] = []
        done: list[int] = []
        left = list(allowed)
        for ident, row in found.items():
            now = digest(context, row).hex()
            if ident in by_id and by_id[ident][1].digest == now:
                continue
            match = next((a for a in left if a.id in ("", ident) and a.digest == now), None)
            if match is not None:
                left.remove(match)
                done.append(match.n)
                key = by_id[ident][0] if ident in by_id else key_of(context, ident)
                puts.append(Put(context, key, row, bytes.fromhex(now), "", own=dict(match.own)))
        for allowance in list(left):
            if allowance.digest == GONE and allowance.id not in found and not part:
                left.remove(allowance)
                done.append(allowance.n)
                if allowance.id in by_id:
                    deletes.append(by_id[allowance.id][0])
        if puts or deletes:
            yield from self._seal(context, puts, deletes)
        if done:
            yield Block(self.book.close, context, done, left, self._generation(context))

    def settle_gone(self, context: str, idents: Sequence[str]) -> Operation[None]:
        """Let go of records that the server has just said are gone."""
        allowed: list[Allowance] = yield Block(self.book.allowances, context, self._generation(context))
        done = [a for a in allowed if a.digest == GONE and a.id in idents]
        kept = yield Block(self.book.kept, context)
        keys = [key for key, item in kept.items() if item.id in idents]
        if keys:
            yield from self._seal(context, [], keys)
        left = [a for a in allowed if a not in done]
        yield Block(self.book.close, context, [a.n for a in done], left, self._generation(context))

    def _seal(self, context: str, puts: Sequence[Put], deletes: Sequence[str]) -> Operation[None]:
        """One operation of custody over what stands on the server already, or is gone from it already."""
        so = {(context, put.name): put.value for put in puts} | {(context, key): None for key in deletes}
        with standing(so):
            yield from self.collection._operate({context: Part(list(puts), deletes=list(deletes))})

    def withdraw(self, allowances: Iterable[Allowance]) -> Operation[None]:
        """End allowances of which nothing came."""
        for allowance in allowances:
            yield Block(self.book.close, allowance.context, [allowance.n], [], 0)

    def confirmed(self, context: str, ident: str, row: Any) -> Operation[Label | None]:
        """That a row is the record that was sealed; its label.

        Raises:
            IntegrityError: it is not.
        """
        yield from self.settle(context, {ident: row}, part=True)
        key = key_of(context, ident)
        with lent({f"{context} part": {ident: row}}):
            found = yield from self.collection.get(context, [key])
        return found[key].label if key in found else None

    def label(self, context: str, key: str = rows.ONE) -> Operation[Label]:
        """The label of a sealed record, as kept; of unknown origin where there is none."""
        kept = yield Block(self.book.kept, context)
        own = json.loads(kept[key].own) if key in kept else {}
        return Label.from_dict(own["label"]) if "label" in own else Label()

    def derived(self, contexts: Iterable[str], *more: Parent) -> Operation[Lineage]:
        """The lineage of what an agent wrote who was shown these blocks."""
        parents = list(more)
        for context in contexts:
            found = yield from self.label(context)
            parents += inherited(found.provenance, key=context)
        return Lineage(tuple(dict.fromkeys(parents)))

    def _generation(self, context: str) -> int:
        return generation(self.collection, context)

    # -- acceptance --------------------------------------------------------------------------

    def accept(
        self, guarded: Any, agent: str, changes: Sequence[Change], reason: str
    ) -> Operation[list[Change]]:
        """Take changes over: what is there now is screened and sealed as the agent's own. What was accepted.

        Raises:
            RejectedError, QuarantinedError: a guard refused the new content; nothing was accepted.
        """
        _, caretaker = self.mg._caretaker(guarded)
        state, found = yield from self.look(agent)
        blocks = [rows.block_context(block["id"]) for block in rows.blocks_of(state)]
        wanted = {(change.context, change.id) for change in changes}
        listed: list[Change] = []
        for context, held in found.items():
            listed += [c for c in (yield from self.changes(context, held)) if (c.context, c.id) in wanted]
        puts: dict[tuple[str, str], Put] = {}
        for change in listed:
            row = found[change.context].get(change.id)
            if row is None:
                continue
            content = digest(change.context, row)
            put = Put(change.context, key_of(change.context, change.id), row, content, "")
            if change.kind != "agent":
                text = rows.text_of_block(row) if change.kind == "block" else str(row.get("text") or "")
                put.text, put.source = text, AGENT
                put.lineage = yield from self.derived([c for c in blocks if c != change.context])
                put = yield from self.screened(put)
                if put.content != content:
                    raise QuarantinedError(
                        "a guard would cut something out of the changed memory.",
                        where=str(change),
                        do="Change it through the guarded client, or restore it.",
                    )
            put.own = {**put.own, "chars": change.after}
            puts[change.context, change.id] = put
        for context in dict.fromkeys(change.context for change in listed):
            mine = [change for change in listed if change.context == context]
            yield from self._take_over(caretaker, context, mine, reason, found[context])
            for change in mine:
                taken = puts.get((context, change.id))
                if taken is not None:
                    yield from self.allow(context, change.id, taken.content, taken.own)
            yield from self.settle(context, found[context])
        return listed

    def _take_over(
        self, caretaker: Any, context: str, mine: Sequence[Change], reason: str, found: Found
    ) -> Operation[None]:
        """A signed baseline of a context without the changed records, whose seals go."""
        unseen = {(context, change.id) for change in mine}
        kept = yield Block(self.book.kept, context)
        gone = [key for key, item in kept.items() if (context, item.id) in unseen]
        self.table.unseen |= unseen
        try:
            with contextlib.suppress(KeyError):
                yield from caretaker.accept(reason, True, only=[context])
            yield Block(self.book.drop, context, gone)
        finally:
            self.table.unseen -= unseen


def generation(collection: Collection, context: str) -> int:
    """Of a context's head."""
    known = (
        collection.custody.log.newest((collection.store, context)) if collection.custody.anchored else None
    )
    return known.generation if known else 0


def _chars(own: str) -> int | None:
    found = json.loads(own).get("chars")
    return found if isinstance(found, int) else None
