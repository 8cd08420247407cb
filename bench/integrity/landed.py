"""Control C3, part by part: did the edit change exactly what its case intends, and nothing else?

Each check gets the raw store before and after the edit and answers with None, or with what is wrong. A case whose
edit did not land is an error of the bench, never a verdict about the SUT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memguard.bench.integrity.edits.raw import Raw, diff, rows_of
from memguard.bench.integrity.edits.scene import Kind, Scene

#: A check: (the landing) -> None or the complaint.
Check = Callable[["Landing"], str | None]


@dataclass(frozen=True, slots=True)
class Landing:
    """Everything a check may look at.

    Args:
        kind: the kind of store.
        scene: the adversary's side of the case.
        before: raw rows when the SUT had stopped.
        after: raw rows after the edit.
        copied: raw rows when the adversary took their earlier copy, if they took one.
        files: names of the files under the cell that the edit changed, added or removed.
    """

    kind: Kind
    scene: Scene
    before: Sequence[Raw]
    after: Sequence[Raw]
    copied: Sequence[Raw] | None
    files: frozenset[str]

    def main(self, state: Sequence[Raw], who: str) -> list[Raw]:
        """The records of a context, oldest first."""
        return rows_of(state, self.kind.main, self.kind.context(self.scene.owners[who]))


def one_changed(who: str, parts: set[str], *, newest: bool = False, table: str = "main") -> Check:
    """Exactly one row of ``who`` changed, in these parts (a seal may change with them)."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        if found.added or found.removed or len(found.changed) != 1:
            return f"expected one changed row, found {found.count()}"
        row, _, changed = found.changed[0]
        wanted = at.kind.main if table == "main" else table
        if row.table != wanted or row.context != at.kind.context(at.scene.owners[who]):
            return "the changed row is not one of the intended table and context"
        if not (changed <= parts | {"seal"} and changed & parts):  # a seal may follow, nothing else may
            return f"changed {sorted(changed)}, intended {sorted(parts)}"
        if newest and row.place != at.main(at.before, who)[-1].place:
            return "the changed row is not the newest"
        return None

    return check


def removed(who: str, position: str) -> Check:
    """One record is gone (its pending writes and vectors with it), the ``newest`` or one in the ``middle``."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        gone = [r for r in found.removed if r.table == at.kind.main]
        rest = [r for r in found.removed if r.table != at.kind.main]
        if found.added or found.changed or len(gone) != 1:
            return f"expected one missing record, found {found.count()}"
        if any(not r.slot.startswith(gone[0].slot) or r.context != gone[0].context for r in rest):
            return "rows of other records are missing too"
        order = [r.place for r in at.main(at.before, who)]
        if gone[0].place not in order:
            return "the missing record is of another context"
        where = order.index(gone[0].place)
        fits = where == len(order) - 1 if position == "newest" else 0 < where < len(order) - 1
        return (
            None if fits else f"the missing record was number {where + 1} of {len(order)}, not the {position}"
        )

    return check


def exchanged(who: str) -> Check:
    """Two distinct records have changed places; every other row is as it was."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        if found.added or found.removed or len(found.changed) != 2:
            return f"expected two changed rows, found {found.count()}"
        old = [r.content for r in at.main(at.before, who)]
        new = [r.content for r in at.main(at.after, who)]
        moved = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        if len(moved) != 2:
            return f"{len(moved)} positions hold another record, expected two"
        i, j = moved
        return None if old[i] == new[j] and old[j] == new[i] else "the two records did not exchange places"

    return check


def added(who: str, *, copy_of: str | None = None, authored: bool = False, table: str = "main") -> Check:
    """Exactly one new row of ``who``; a verbatim copy of a record of ``copy_of``, or of no record at all."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        if found.removed or found.changed or len(found.added) != 1:
            return f"expected one new row, found {found.count()}"
        row = found.added[0]
        if row.table != (at.kind.main if table == "main" else table):
            return "the new row stands in another table"
        if row.context != at.kind.context(at.scene.owners[who]):
            return "the new row belongs to another context"
        givers = rows_of(at.before, row.table, at.kind.context(at.scene.owners[copy_of])) if copy_of else []
        if copy_of and row.content not in {r.content for r in givers}:
            return "the new row is no copy of a genuine record"
        if authored and row.content in {r.content for r in at.before}:
            return "the new row repeats a genuine record"
        return None

    return check


def replayed(victim: str, donor: str) -> Check:
    """The newest slot of ``victim`` holds a record of ``donor`` that it did not hold; identifiers stayed."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        if found.added or found.removed or len(found.changed) != 1:
            return f"expected one changed row, found {found.count()}"
        old, new, _ = found.changed[0]
        slots = at.main(at.before, victim)
        if old.place != slots[-1].place or new.link != old.link:
            return "the changed row is not the newest slot of the victim, with its links"
        givers = [r for r in at.main(at.before, donor) if r.place != old.place]
        if new.content not in {r.content for r in givers}:
            return "the slot does not hold a record of the donor"
        if donor != victim and new.content in {r.content for r in slots}:
            return "the donor's content stood in the victim's context already: no crossing"
        return None if new.content != old.content else "the slot's content did not change"

    return check


def replayed_any(victim: str, donor: str) -> Check:
    """As :func:`replayed`, and both contexts hold one and the same text."""

    def check(at: Landing) -> str | None:
        texts = [set(at.scene.texts[who]) for who in (victim, donor)]
        return replayed(victim, donor)(at) if texts[0] & texts[1] else "the two contexts share no text"

    return check


def rolled_back(who: str = "A") -> Check:
    """A genuine write had added one record and nothing else, and the restored store equals the copy."""

    def check(at: Landing) -> str | None:
        if at.copied is None:
            return "no copy was taken before the genuine write"
        grown = diff(at.copied, at.before)
        new = [r for r in grown.added if r.table == at.kind.main]
        if (
            grown.removed
            or grown.changed
            or len(new) != 1
            or new[0].context != at.kind.context(at.scene.owners[who])
        ):
            return f"the genuine write did not add exactly one record: {grown.count()}"
        back = diff(at.copied, at.after)
        return None if back.nothing else f"the restored store differs from the copy: {back.count()}"

    return check


def context_restored(who: str, other: str) -> Check:
    """All rows of ``who`` equal the earlier copy, which lacks a record; ``other`` has kept what it gained."""

    def check(at: Landing) -> str | None:
        if at.copied is None:
            return "no copy was taken"
        mine = at.kind.context(at.scene.owners[who])
        same = diff([r for r in at.copied if r.context == mine], [r for r in at.after if r.context == mine])
        if not same.nothing:
            return f"the context differs from the copy: {same.count()}"
        found = diff(at.before, at.after)
        if found.nothing or any(r.context != mine for r in (*found.added, *found.removed)):
            return "nothing went back, or another context changed"
        gained = len(at.main(at.after, other)) > len(at.main(at.copied, other))
        return None if gained else "the other context had not advanced"

    return check


def resurrected(who: str) -> Check:
    """Rows that a genuine deletion had removed stand again as they were; nothing else changed."""

    def check(at: Landing) -> str | None:
        if at.copied is None:
            return "no copy was taken"
        found = diff(at.before, at.after)
        if found.removed or found.changed or not [r for r in found.added if r.table == at.kind.main]:
            return f"expected only rows that came back, found {found.count()}"
        old = {r.place: r for r in at.copied}
        return (
            None
            if all(old.get(r.place) == r for r in found.added)
            else "a row that came back is not the old one"
        )

    return check


def moved(who: str, to: str) -> Check:
    """Every row of ``who`` now stands under ``to`` (and, if ``to`` had rows, the other way round)."""

    def check(at: Landing) -> str | None:
        old, new = at.kind.context(at.scene.owners[who]), at.kind.context(at.scene.owners[to])

        def body(state: Sequence[Raw], context: str) -> list[tuple[str, ...]]:
            mine = [r for r in state if r.context == context]
            return sorted((r.table, r.slot, r.order, r.content, r.meta, r.link, r.seal) for r in mine)

        there, back = body(at.before, old), body(at.before, new)
        if not there or body(at.after, new) != there or body(at.after, old) != back:
            return "the rows did not move as a whole"
        others = [r for r in at.before if r.context not in (old, new)]
        rest = diff(others, [r for r in at.after if r.context not in (old, new)])
        return None if rest.nothing else f"other rows changed: {rest.count()}"

    return check


def only(who: str, table: str | None = None, *, gone: bool = False) -> Check:
    """Rows changed (or, with ``gone``, disappeared), all of them of ``who`` and, if given, of one table."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        touched = [*found.added, *found.removed, *(old for old, _, _ in found.changed)]
        context = at.kind.context(at.scene.owners[who])
        if not touched:
            return "nothing changed"
        if any(r.context != context or (table and r.table != table) for r in touched):
            return "rows outside the intended context or table changed"
        if gone and (found.added or found.changed):
            return f"expected only missing rows, found {found.count()}"
        return None

    return check


def swapped(at: Landing) -> str | None:
    """The sister's file is there: the owner's records and one more, and nothing of the other owner."""
    before, after = ({r.slot for r in at.main(state, "A")} for state in (at.before, at.after))
    if not (before and before < after):
        return "the store was not replaced by its sister"
    return "the other owner's records are still there" if at.main(at.after, "B") else None


def schema_only() -> Check:
    """One object was added to the schema; no row changed."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        fits = (
            len(found.added) == 1
            and found.added[0].table == "schema"
            and not (found.removed or found.changed)
        )
        return None if fits else f"expected one new schema object, found {found.count()}"

    return check


def hidden(who: str) -> Check:
    """The newest record no longer shows; its table is a view over what is there."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        gone = [r for r in found.removed if r.table == at.kind.main]
        others = [r for r in (*found.added, *found.removed) if r.table not in ("schema", at.kind.main)]
        if len(gone) != 1 or gone[0].place != at.main(at.before, who)[-1].place or others:
            return f"expected only the newest record to be hidden, found {found.count()}"
        view = any(r.table == "schema" and r.slot == f"view:{at.kind.main}" for r in found.added)
        return None if view else "no view stands in the table's place"

    return check


def replaced_by_view(who: str) -> Check:
    """A view stands in the table's place; until its time comes it shows every row as it was."""

    def check(at: Landing) -> str | None:
        found = diff(at.before, at.after)
        rows = [r for r in (*found.added, *found.removed) if r.table != "schema"]
        if rows or any(old.table != "schema" for old, _, _ in found.changed):
            return f"rows changed already: {found.count()}"
        view = any(r.table == "schema" and r.slot == f"view:{at.kind.main}" for r in found.added)
        return None if view and at.main(at.after, who) else "no view stands in the table's place"

    return check


def same_rows(at: Landing) -> str | None:
    """Every row and the schema are as they were, in the order of a full scan; the file is not."""
    found = diff(at.before, at.after)
    if not found.nothing:
        return f"rows changed: {found.count()}"
    return None if any(f.startswith("store/") for f in at.files) else "the file did not change"


def anchor_only(at: Landing) -> str | None:
    """Files of the anchor changed or are gone, and nothing else did."""
    found = diff(at.before, at.after)
    if not found.nothing:
        return f"rows changed: {found.count()}"
    inside = [f for f in at.files if f.startswith(f"{at.scene.anchor}/")]
    return (
        None
        if inside and len(inside) == len(at.files)
        else "not only the anchor's files changed, or none did"
    )


def also(check: Check, prefix: str) -> Check:
    """``check``, and at least one file whose name starts with ``prefix`` changed with it."""

    def both(at: Landing) -> str | None:
        wrong = check(at)
        if wrong is None and not any(f.startswith(prefix) for f in at.files):
            return f"{prefix} did not change"
        return wrong

    return both


def store_gone(at: Landing) -> str | None:
    """Nothing of the store is left."""
    return "the store was empty before" if not at.before else "the store is still there" if at.after else None
