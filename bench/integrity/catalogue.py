"""How a case is described, and the nine cases of the draft."""

from __future__ import annotations

from dataclasses import dataclass

from memguard.bench.integrity import landed
from memguard.bench.integrity.landed import Check

#: Grows when a case is added or its edit changes; results of different suites are never compared cell by cell.
SUITE = "1.0"
DRAFT = tuple(f"T{n}" for n in range(1, 10))


@dataclass(frozen=True, slots=True)
class Case:
    """One edit, what leads up to it, what follows, and what is read.

    Args:
        id: ``T1``..``T9`` of the draft, ``X01``.. of our own.
        title: a name of a few words.
        plain: what the adversary did, one line for a newcomer.
        passes: what a refusal shows.
        landed: control C3.
        contexts: contexts whose reading gives the verdict; the others show the collateral.
        before: genuine operations (through the SUT) after a fresh start and before the edit: ``copy`` (the adversary
            copies what they hold), ``write:A``, ``same:A`` (one text in every context), ``delete:A``, ``replace:A``,
            ``sister:A`` (the same records, and a newer one, in a second store of the same program).
        after: what happens after the restart and before the reading: ``write:A``, ``again:A``, ``sweep``, ``touch:A``
            (everything is read once), ``wait:SECONDS``.
        paths: read paths, if not all: kind of store -> names.
    """

    id: str
    title: str
    plain: str
    passes: str
    landed: Check
    contexts: tuple[str, ...] = ("A",)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def paths_for(self, kind: str) -> tuple[str, ...] | None:
        """Read paths of the case for a kind of store; None for all."""
        return dict(self.paths).get(kind)


DRAFT_CASES: tuple[Case, ...] = (
    Case(
        "T1",
        "content tamper",
        "changed the fact inside one stored record",
        "the bytes of a record are bound to a secret",
        landed.one_changed("A", {"content"}),
    ),
    Case(
        "T2",
        "tail truncation",
        "deleted the newest record",
        "the end of a history is known",
        landed.removed("A", "newest"),
    ),
    Case(
        "T3",
        "middle deletion",
        "deleted a record in the middle",
        "a gap in a history is noticed",
        landed.removed("A", "middle"),
    ),
    Case(
        "T4",
        "reordering",
        "let two records change places",
        "the order of records is bound",
        landed.exchanged("A"),
    ),
    Case(
        "T5",
        "forged insertion",
        "added a record of their own",
        "only the agent can add a record",
        landed.added("A", authored=True),
    ),
    Case(
        "T6",
        "cross-context replay",
        "copied one user's record over another user's",
        "a record is bound to its owner",
        landed.replayed("B", "A"),
        contexts=("B",),
    ),
    Case(
        "T7",
        "rollback replay",
        "copied an old record over the newest",
        "a record is bound to its place in time",
        landed.replayed("A", "A"),
    ),
    Case(
        "T8",
        "metadata tamper",
        "changed owner, role, source or time, not text",
        "what stands beside a record is bound to it",
        landed.one_changed("A", {"meta"}),
    ),
    Case(
        "T9",
        "whole-store rollback",
        "put an older copy of all they hold back",
        "the store's head is kept where it cannot be rolled back",
        landed.rolled_back(),
        before=("copy", "write:A"),
    ),
)
