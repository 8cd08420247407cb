"""The operations behind ``audit``, ``adopt``, ``repair`` and ``accept``, each on a whole store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from memguard.anchorlog import AnchorLog
from memguard.care import AuditReport, CareRows, Existing, Plan
from memguard.custody import Custody, latest_of
from memguard.effects import Acquire, Block, Operation
from memguard.errors import IntegrityError
from memguard.integrity.audit import Finding, examine, extra, findings
from memguard.integrity.index import newest
from memguard.integrity.logview import HeadRecord, Intent, Note
from memguard.integrity.tag import NOTHING, Seal
from memguard.integrity.verifier import Context
from memguard.ledger.chain import GENESIS, verify_chain
from memguard.ports import KeyRing, Ledger, LedgerEntry


class Caretaker:
    """Looks after one guarded store.

    Args:
        ledger: the history of operations, to name what is missing.
    """

    def __init__(
        self, custody: Custody, rows: CareRows, keys: KeyRing, log: AnchorLog, ledger: Ledger
    ) -> None:
        self._custody, self._rows, self._keys, self._log, self._ledger = custody, rows, keys, log, ledger
        self._store = custody.store

    def _names(self) -> Operation[list[str]]:
        there = yield from self._rows.contexts()
        return list(dict.fromkeys([*self._custody.known(), *there]))

    def audit(self) -> Operation[AuditReport]:
        """Every row of every context, content included. Blobs are digested, never decoded."""
        found: list[Finding] = []
        records = 0
        self._log.harvest()
        entries = self._history(found)
        names = yield from self._names()
        for name in names:
            yield Acquire(self._custody.lock, self)
            try:
                self._log.refresh()
                context = self._custody.fresh(name)
                existing = list((yield from self._rows.existing(context)))
                records += len(existing)
                if self._custody.anchored and self._log.intent((self._store, name)) is not None:
                    found.append(
                        Finding(
                            "state",
                            f"{self._store} {name}",
                            "an interrupted write is not settled yet",
                            "MG417",
                        )
                    )
                    continue
                examined = examine(context, (e.claim for e in existing))
                if self._custody.anchored:
                    found += findings(context, examined, _live(entries.get(name, ())))
                    found += self._end_of_history(context, entries.get(name, []))
                else:
                    found += [Finding.of(error, claim.record) for claim, error in examined.bad]
            except IntegrityError as error:
                found.append(Finding.of(error, f"{self._store} {name}"))
            finally:
                self._custody.lock.release()
        _, bad, _ = self._log.signatures()
        if bad:
            found.append(
                Finding("anchor", self._log.anchor.uri, f"{bad} records carry no good signature", "MG413")
            )
        return AuditReport(
            self._store,
            tuple(found),
            len(names),
            records,
            self._log.anchor.uri,
            self._custody.settings.level,
            sum(len(e) for e in entries.values()),
        )

    def _history(self, found: list[Finding]) -> dict[str, list[LedgerEntry]]:
        """The ledger's entries of this store by context, their chains checked."""
        by_context: dict[str, list[LedgerEntry]] = {}
        for entry in self._ledger.entries():
            store, _, name = entry.context.partition(" ")
            if store == self._store:
                by_context.setdefault(name, []).append(entry)
        for name, entries in by_context.items():
            broken = verify_chain(lambda kid: self._keys.subkey("chain", kid), entries, GENESIS)
            if broken is not None:
                what = f"the history breaks at operation {entries[broken].generation}"
                found.append(Finding("state", f"{self._store} {name}", what, "MG430"))
        return by_context

    def _end_of_history(self, context: Context, entries: Sequence[LedgerEntry]) -> list[Finding]:
        """That the history goes up to the head: a chain alone does not miss its own end."""
        if (
            not self._log.recorded
            or not context.head.generation
            or (entries and entries[-1].chain == context.head.chain)
        ):
            return []
        what = "the history in state.db ends before the head of its context"
        return [Finding("state", f"{self._store} {context.id}", what, "MG430")]

    # -- adopt -------------------------------------------------------------------------------

    def adopt(self, apply: bool) -> Operation[Plan]:
        """Seal rows of contexts that no head knows, as they stand. Each context is one operation."""
        actions: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        # Where people edit records by hand, their edits are taken over too; the adapter says which they are.
        take_over = getattr(self._rows, "take_over", None)
        for name in (yield from (self._rows.contexts() if take_over is None else self._names())):
            yield Acquire(self._custody.lock, self)
            try:
                self._log.refresh()
                context = self._custody.fresh(name)
                intent = self._log.intent((self._store, name))
                existing = list((yield from self._rows.existing(context)))
                if take_over is not None and context.head.generation and intent is None:
                    done, left = yield from take_over(context, existing, apply, self._baseline)
                    actions += done
                    refused += left
                    continue
                untagged = [e for e in existing if e.claim.seal is None]
                if context.head.generation or (intent is not None and intent.operation != "adopt"):
                    if untagged:
                        refused.append(
                            _line(
                                name, len(untagged), "has a head already: rows without a tag are not its own"
                            )
                        )
                    continue
                if len(untagged) < len(existing) and intent is None:
                    refused.append(
                        _line(name, len(existing) - len(untagged), "holds tagged rows without a head")
                    )
                    continue
                actions.append(_line(name, len(existing), "adopt"))
                if apply and existing:
                    yield from self._adopt(context, existing)
            finally:
                self._custody.lock.release()
        return Plan("adopt", self._store, apply, tuple(actions), tuple(refused))

    def _adopt(self, context: Context, existing: Sequence[Existing]) -> Operation[None]:
        sealed: list[tuple[Existing, Seal]] = []
        for item in existing:
            claim = item.claim
            seal = context.sealer(claim.kind).seal(
                claim.key,
                generation=1,
                fence=context.head.fence,
                size=len(existing),
                prev=context.commitment,
                replaced=NOTHING,
                content=item.content,
                bound=claim.bound,
                extra=item.extra,
            )
            sealed.append((item, seal))
        place = (self._store, context.id)
        yield Block(self._log.write, [Intent(*place, "adopt", 1)], sync=True, expect=[(place, 0)])
        yield from self._rows.write_seals(context, sealed)
        details = {"context": context.id, "records": len(sealed), "time": time.time()}
        yield from self._baseline(context, "adopt", details)

    def _baseline(
        self, context: Context, operation: str, details: dict[str, Any], dropped: Sequence[Existing] = ()
    ) -> Operation[None]:
        """Write the head of what stands, signed, with a note of who said so."""
        examined = examine(context, (yield from self._rows.scan(context)))
        if examined.bad:
            raise examined.bad[0][1]
        seen = examined.seen
        if operation == "accept" and not context.head.generation:
            last = self._ledger.last(f"{self._store} {context.id}")
            if last is not None:  # the anchor was lost and the history was not: it goes on from its end
                context.head = context.head._replace(chain=last.chain)
        current = self._custody.recounted(context, seen.index)
        head = context.head._replace(
            generation=max(context.head.generation + 1, seen.top),
            fence=context.head.fence + (operation != "adopt"),
            boot=self._custody.boot,
            cells=seen.index.cells,
            total=current,
            latest=latest_of(seen.index),
            horizon=newest({k for k in (context.head.horizon, *(e.claim.group for e in dropped)) if k}),
        )
        record: HeadRecord = self._custody.record(context, head, operation, None, self._keys.current)
        place = (self._store, context.id)
        expect = [(place, context.head.generation)]
        note = Note(self._store, operation, details)
        yield Block(self._log.write, [note, record], sync=True, expect=expect)
        self._custody.drop(context.id)

    # -- repair and accept -------------------------------------------------------------------

    def repair(self, apply: bool) -> Operation[Plan]:
        """Drop rows that the head does not count, where what is left then adds up to the head."""
        actions: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        for name in (yield from self._names()):
            yield Acquire(self._custody.lock, self)
            try:
                self._log.refresh()
                context = self._custody.fresh(name)
                existing = list((yield from self._rows.existing(context)))
                by_claim = {id(e.claim): e for e in existing}
                examined = examine(context, (e.claim for e in existing))
                if not examined.bad and context.matches(examined.seen):
                    continue
                surplus = extra(context, examined)
                bad = [by_claim[id(claim)] for claim, _ in examined.bad]
                stray = [by_claim[id(claim)] for claim, row in examined.good if row in surplus]
                if not surplus and not context.matches(examined.seen):
                    refused.append(
                        _line(
                            name,
                            len(bad),
                            "records missing or changed; restore a copy, or memguard anchor accept",
                        )
                    )
                    continue
                actions.append(_line(name, len(bad) + len(stray), "drop"))
                if apply:
                    yield from self._rows.drop(context, [*bad, *stray])
                    self._custody.drop(name)
            finally:
                self._custody.lock.release()
        return Plan("repair", self._store, apply, tuple(actions), tuple(refused))

    def accept(self, reason: str, apply: bool, only: Iterable[str] | None = None) -> Operation[Plan]:
        """An operator says that what stands is right: contexts get a new head, signed, with the reason.

        Rows without a good tag are never accepted: they are dropped, which the plan says first.
        """
        actions: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        wanted = set(only) if only is not None else None
        for name in (yield from self._names()):
            if wanted is not None and name not in wanted:
                continue
            yield Acquire(self._custody.lock, self)
            try:
                self._log.refresh()
                context = self._custody.fresh(name)
                existing = list((yield from self._rows.existing(context)))
                examined = examine(context, (e.claim for e in existing))
                settled = self._log.intent((self._store, name)) is None
                if not examined.bad and context.matches(examined.seen) and settled:
                    continue
                by_claim = {id(e.claim): e for e in existing}
                bad = [by_claim[id(claim)] for claim, _ in examined.bad]
                if bad:
                    actions.append(_line(name, len(bad), "drop"))
                actions.append(_line(name, examined.seen.index.cells, "accept"))
                if apply and bad:
                    yield from self._rows.drop(context, bad)
                if apply:
                    details = {"context": name, "reason": reason, "time": time.time()}
                    yield from self._baseline(context, "accept", details, bad)
            finally:
                self._custody.lock.release()
        return Plan("accept", self._store, apply, tuple(actions), tuple(refused))


def _line(context: str, records: int, action: str) -> dict[str, Any]:
    return {"context": context, "records": records, "action": action}


def _live(entries: Iterable[LedgerEntry]) -> list[str]:
    """Record keys that a history leaves in place; empty where an operation was too large to spell out."""
    live: dict[str, None] = {}
    for entry in entries:
        if entry.operation in ("delete", "remove", "prune", "accept", "adopt", "recover", "rekey"):
            live.clear()
        else:
            live.update(dict.fromkeys(entry.records))
    return list(live)
