"""Looking after a guarded memory folder: what people edited by hand is taken over once they have looked at it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from memguard.care import Existing
from memguard.collection import Collection, CollectionCare
from memguard.collection.beside import Beside, Kept
from memguard.collection.rows import KIND, position
from memguard.decision import Disposition
from memguard.effects import Block, Operation
from memguard.errors import IntegrityError, TamperedError
from memguard.integrations.folder.disk import Disk
from memguard.integrity.audit import examine
from memguard.integrity.canonical import canonical_json
from memguard.integrity.head import MODULUS
from memguard.integrity.index import MAIN, pack_key
from memguard.integrity.tag import EXTRA, FIXED, NOTHING, unpack
from memguard.integrity.verifier import Context
from memguard.labels import Label
from memguard.record import Provenance, Record, Source

#: Where files that an operator drops are moved to, in the guard's home.
DROPPED = "dropped"
#: Whose edits are taken over.
_BY_HAND = Source("user", "by-hand")
Baseline = Callable[[Context, str, dict[str, Any]], Operation[None]]
Lines = list[dict[str, Any]]


class FolderCare(CollectionCare):
    """:class:`~memguard.collection.CollectionCare` of files that people edit too.

    Args:
        home: where files that are dropped are kept: a person's own text is never just deleted.
    """

    def __init__(self, collection: Collection, table: Beside, disk: Disk, home: Path) -> None:
        super().__init__(collection)
        self._table, self._disk, self._home = table, disk, home

    def drop(self, context: Context, found: Sequence[Existing]) -> Operation[None]:
        """Move files out of the folder, into the guard's home."""
        yield Block(self._keep, [item.row.key for item in found])
        yield from super().drop(context, found)

    def _keep(self, names: Sequence[str]) -> None:
        folder = self._home / DROPPED / self._of.store / time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        for name in names:
            try:
                data = self._disk.read(name)
            except TamperedError:  # a link or a device: there is nothing of it to keep
                continue
            if data is not None:
                target = folder / hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
                target.mkdir(parents=True, exist_ok=True, mode=0o700)
                (target / name.rpartition("/")[2]).write_bytes(data)

    # -- edits by hand -----------------------------------------------------------------------

    def take_over(
        self, context: Context, existing: Sequence[Existing], apply: bool, baseline: Baseline
    ) -> Operation[tuple[Lines, Lines]]:
        """Seal a folder that has a head as it stands now: what would be done, and what cannot be.

        It is taken over only where the seals in the home are exactly those that the head counts: then what
        differs are the files alone, and each difference has a name.
        """
        examined = examine(context, (item.claim for item in existing))
        if not examined.bad and context.matches(examined.seen):
            return [], []
        current, planned = yield Block(self._table.seals.of, self._table.store, context.id)
        if planned or not _whole(context, current):
            why = "the seals in the home are not those of its head: memguard anchor accept, or an older home"
            return [], [_line(context, len(existing), why)]
        bad = {id(claim) for claim, _ in examined.bad}
        differing = [item for item in existing if id(item.claim) in bad]
        gone = sorted(current.keys() - {item.row.key for item in existing})
        done, left, labels = self._planned(context, differing, gone, current)
        if apply and done and not left:
            kept = self._resealed(context, differing, labels, current)
            yield Block(self._table.seals.put, self._table.store, context.id, kept)
            yield Block(self._table.seals.forget, self._table.store, context.id, gone)
            details = {"context": context.id, "records": len(done), "time": time.time(), "by": "hand"}
            yield from baseline(context, "accept", details)
        return done, left

    def _planned(
        self, context: Context, differing: Sequence[Existing], gone: Iterable[str], current: dict[str, Kept]
    ) -> tuple[Lines, Lines, dict[str, dict[str, Any]]]:
        done: Lines = []
        left: Lines = []
        labels: dict[str, dict[str, Any]] = {}
        for item in differing:
            name, text = item.row.key, item.row.value
            if item.row.flaw is not None or text is None:
                left.append(_line(context, 1, f"{name} is no plain file of text: move it away"))
                continue
            decision = self._of.mg.screening.check(Record(text, self._of.store, name, _BY_HAND))
            if decision.disposition >= Disposition.QUARANTINE:
                do = "memguard allow add lets a text pass that you have looked at"
                left.append(
                    _line(context, 1, f"{name}: the guards would withhold it ({decision.code}); {do}")
                )
                continue
            labels[name] = Label.of(Provenance(_BY_HAND), decision).as_dict()
            what = "changed" if name in current else "new"
            done.append(_line(context, 1, f"take over {name}, {what}"))
        done += [_line(context, 1, f"take over {name}, removed") for name in gone]
        return done, left, labels

    def _resealed(
        self,
        context: Context,
        differing: Sequence[Existing],
        labels: dict[str, dict[str, Any]],
        current: dict[str, Kept],
    ) -> dict[str, Kept]:
        sealer, kept = context.sealer(KIND), {}
        for at, item in enumerate(differing):
            name, old = item.row.key, current.get(item.row.key)
            own = canonical_json({"at": int(time.time()), "label": labels[name]})
            seal = sealer.seal(
                item.claim.key,
                generation=context.head.generation + 1,
                fence=context.head.fence,
                size=len(differing),
                prev=context.commitment,
                replaced=NOTHING if old is None else unpack(old.seal, name)[1][FIXED:EXTRA],
                content=item.content,
                bound=(own,),
                extra=position(at),
            )
            kept[name] = Kept(item.content, seal.encode(), own)
        return kept


def _whole(context: Context, current: dict[str, Kept]) -> bool:
    """Whether these seals, and no others, are those that the head counts."""
    total = 0
    for name, kept in current.items():
        try:
            packed = unpack(kept.seal, name)[1]
        except IntegrityError:
            return False
        total += context.term(pack_key(name), MAIN + packed[FIXED:EXTRA])
    return len(current) == context.head.cells and total % MODULUS == context.total


def _line(context: Context, records: int, action: str) -> dict[str, Any]:
    return {"context": context.id, "records": records, "action": action}
