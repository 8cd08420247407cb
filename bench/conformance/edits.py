"""The bench's edits for any store whose data at rest are known as records: lists in, lists out.

Each function gets the records of the store (and, where it asks, those of the adversary's earlier copy) and answers with
the records that shall lie there afterwards. What a list of records cannot express has its reason in :data:`WHY_NOT`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from memguard.bench.conformance.raw import RawRecord
from memguard.bench.integrity.edits.scene import FORGED, Inexpressible, Scene

Records = Sequence[RawRecord]
FACT_AT = 3
_PAST = "2001-01-01T00:00:00+00:00"
#: Members of a value that say who said it and when: metadata. Everything else, its owner too, is content.
LABELS = ("role", "source", "ts")
FIELD = "memguard"


class Hands:
    """What the adversary works with in one case.

    Args:
        scene: the bench's side of it.
        now: the records as they lie there.
        copied: those of the earlier copy, empty if none was taken.
    """

    def __init__(self, scene: Scene, now: Records, copied: Records) -> None:
        self.scene, self.now, self.copied = scene, list(now), list(copied)

    def of(self, who: str, *, copied: bool = False) -> list[RawRecord]:
        """The records of a context, oldest first."""
        owner = self.scene.owners[who]
        return [r for r in (self.copied if copied else self.now) if r.context == owner]

    def put(self, old: RawRecord, new: RawRecord | None) -> list[RawRecord]:
        """The records with one replaced, or gone."""
        found = [new if r is old else r for r in self.now]
        return [r for r in found if r is not None]

    def add(self, new: RawRecord, after: RawRecord | None = None) -> list[RawRecord]:
        """The records with one more: behind another, or at the end."""
        at = len(self.now) if after is None else next(i for i, r in enumerate(self.now) if r is after) + 1
        return [*self.now[:at], new, *self.now[at:]]

    def sealed(self, record: RawRecord) -> Any:
        """The guard's field of a value.

        Raises:
            Inexpressible: a bare store has none.
        """
        self.scene.need_guard("seal")
        if not isinstance(record.value, dict) or FIELD not in record.value:
            raise Inexpressible("this guard keeps its seals elsewhere than in the value")
        return record.value[FIELD]


def said(record: RawRecord, **changes: Any) -> RawRecord:
    """A record whose value has other members (None removes one)."""
    value = {**record.value, **changes}
    return replace(record, value={k: v for k, v in value.items() if v is not None})


def _t4(h: Hands) -> list[RawRecord]:
    one, two = h.of("A")[2], h.of("A")[FACT_AT]
    swap = {id(one): two, id(two): one}
    return [swap.get(id(r), r) for r in h.now]


def _t5(h: Hands) -> list[RawRecord]:
    tip = h.of("A")[-1]
    return h.add(replace(said(tip, text=FORGED), key="m-90"), tip)


def _t8(h: Hands) -> list[RawRecord]:
    row = h.of("A")[1]
    if row.meta:
        name = sorted(row.meta)[0]
        old = row.meta[name]
        return h.put(row, replace(row, meta={**row.meta, name: _PAST if isinstance(old, str) else 0}))
    return h.put(row, said(row, source="user:mallory"))


def _over(victim: RawRecord, donor: RawRecord) -> RawRecord:
    """A record with another's value in its place, identifiers and what stands beside the value left."""
    return replace(victim, value=donor.value)


def _t6(h: Hands) -> list[RawRecord]:
    victim = h.of("B")[-1]
    return h.put(victim, _over(victim, h.of("A")[-1]))


def _t7(h: Hands) -> list[RawRecord]:
    rows = h.of("A")
    return h.put(rows[-1], _over(rows[-1], rows[1]))


def _brought_back(h: Hands) -> list[RawRecord]:
    now = {r.key: r for r in h.of("A")}
    old = h.of("A", copied=True)
    mine = [now.get(r.key, r) for r in old] + [r for r in now.values() if r.key not in {o.key for o in old}]
    owner = h.scene.owners["A"]
    return [*mine, *(r for r in h.now if r.context != owner)]


def _renamed(h: Hands, names: dict[str, str]) -> list[RawRecord]:
    owners = {h.scene.owners[a]: h.scene.owners[b] for a, b in names.items()}
    return [replace(r, context=owners.get(r.context, r.context)) for r in h.now]


def _one_back(h: Hands) -> list[RawRecord]:
    owner = h.scene.owners["A"]
    return [*h.of("A", copied=True), *(r for r in h.now if r.context != owner)]


def _stripped(h: Hands) -> list[RawRecord]:
    row = h.of("A")[FACT_AT]
    h.sealed(row)
    return h.put(row, said(row, text=FORGED, memguard=None))


def _all_stripped(h: Hands) -> list[RawRecord]:
    rows = h.of("A")
    h.sealed(rows[-1])
    bare = [said(r, memguard=None) for r in rows[:-1]] + [said(rows[-1], text=FORGED, memguard=None)]
    new = dict(zip(map(id, rows), bare, strict=True))
    return [new.get(id(r), r) for r in h.now]


def _label(h: Hands, trust: str, kind: str) -> list[RawRecord]:
    row = h.of("A")[-1]
    part = h.sealed(row)
    label = {**(part.get("label") or {}), "trust": trust, "source": kind}
    return h.put(row, said(row, memguard={**part, "label": label}))


def _under(h: Hands, victim: RawRecord, donor: RawRecord) -> list[RawRecord]:
    """A record's value with the seal of the place it is put to."""
    return h.put(victim, replace(victim, value={**donor.value, FIELD: h.sealed(victim)}))


def _swapped_under(h: Hands) -> list[RawRecord]:
    one, two = h.of("A")[2], h.of("A")[FACT_AT]
    new = {
        id(one): replace(one, value={**two.value, FIELD: h.sealed(one)}),
        id(two): replace(two, value={**one.value, FIELD: h.sealed(two)}),
    }
    return [new.get(id(r), r) for r in h.now]


def _older_version(h: Hands) -> list[RawRecord]:
    now = next(r for r in h.of("A") if r.key == "m-2")
    old = next(r for r in h.of("A", copied=True) if r.key == "m-2")
    return h.put(now, replace(now, value=old.value, meta=old.meta))


def _neutral(h: Hands) -> list[RawRecord]:
    row = h.of("A")[-1]
    return h.put(row, said(row, role=None, source=None, ts=None))


def _authored(h: Hands, key: str, after: RawRecord | None, context: str) -> list[RawRecord]:
    donor = h.of("A")[2]
    return h.add(replace(said(donor, text=FORGED), key=key, context=h.scene.owners[context]), after)


Edit = Callable[[Hands], list[RawRecord]]
EDITS: dict[str, Edit] = {
    "T1": lambda h: h.put(h.of("A")[FACT_AT], said(h.of("A")[FACT_AT], text=FORGED)),
    "T2": lambda h: h.put(h.of("A")[-1], None),
    "T3": lambda h: h.put(h.of("A")[2], None),
    "T4": _t4,
    "T5": _t5,
    "T6": _t6,
    "T7": _t7,
    "T8": _t8,
    "X01": lambda h: h.put(h.of("A")[-1], said(h.of("A")[-1], text=FORGED)),
    "X02": _brought_back,
    "X07": lambda h: _renamed(h, {"A": "C"}),
    "X08": lambda h: _renamed(h, {"A": "B", "B": "A"}),
    "X09": _one_back,
    "X10": _t6,
    "X11": lambda h: h.put(h.of("A")[-1], None),
    "X16": _stripped,
    "X17": _all_stripped,
    "X26": _neutral,
    "X27": lambda h: _label(h, "system", "system"),
    "X28": lambda h: _label(h, "untrusted", "unknown"),
    "X29": _swapped_under,
    "X30": lambda h: _under(h, h.of("B")[-1], h.of("A")[-1]),
    "X31": lambda h: _under(h, h.of("A")[-1], h.of("A")[1]),
    "X32": _older_version,
    "X35": lambda h: _authored(h, "m-91", h.of("A")[2], "A"),
    "X36": lambda h: h.add(replace(h.of("A")[1], key="m-92"), h.of("A")[-1]),
    "X37": lambda h: [r for r in h.now if r.context != h.scene.owners["A"]],
    "X42": lambda h: h.add(replace(h.of("A")[-1], key="m-93", context=h.scene.owners["B"]), h.of("B")[-1]),
    "X49": lambda h: _authored(h, "m-0", None, "C"),
    "X50": lambda h: [r for r in h.now if r.context != h.scene.owners["A"]],
}
#: Edits that put folders back or remove them; a store without files cannot express the last ones.
FOLDERS = ("T9", "X12", "X13", "X14", "X15", "X33", "X34", "X38", "X44", "X56")
_WRITES = "records of this kit have no pending writes"
_SCHEMA = "the kit knows the records at rest and not the schema they lie in"
_VECTOR = "records of this kit have no vectors"
_SISTER = "the kit opens one store, not two of one program"
WHY_NOT: dict[str, str] = {
    **dict.fromkeys(("X03", "X04", "X05", "X43", "X55"), _WRITES),
    **dict.fromkeys(("X39", "X45", "X46", "X47", "X48"), _SCHEMA),
    **dict.fromkeys(("X21", "X22", "X53", "X54"), _VECTOR),
    **dict.fromkeys(("X51", "X52"), _SISTER),
    "X06": "records of this kit have no parent links",
    "X18": "records of this kit have no type column",
    "X19": "the kit edits records that decode",
    "X20": "the kit edits records that decode",
    "X23": "records of this kit have no ranking field",
    "X24": "records of this kit do not expire",
    "X25": "the kit knows no history table",
    "X40": "the kit edits records that decode",
    "X41": "the kit edits records, not the files of a database",
}
