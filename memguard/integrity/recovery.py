"""After a crash: which rows ahead of the head are the unfinished operation, and which are an attack.

Pure; the rules are those of docs/adr/0003-layout-and-crash-rule.md:
 R1 rows ahead of the head are looked at only when an intent has no head, or at the first touch
    of a head under a new boot id; in a clean session they are an attack;
 R2 an announced delete is completed;
 R3 otherwise rows ahead are accepted only as whole operations that follow the head exactly:
    valid tags, the current fence, generation g+1 (up to g+window in lag mode), every row of
    each operation but those that a later one replaced, the first one committing to this head, and the
    rest of the rows adding up to it;
 R4 whatever is decided, the fence is raised durably before anything is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from memguard.errors import AnchorError, IntegrityError
from memguard.integrity.head import MODULUS
from memguard.integrity.index import MEMBER
from memguard.integrity.logview import Intent
from memguard.integrity.verifier import Context, Observation, Row, incomplete, newest_replaced

#: Replaced rows of a lag tail that are tried in every combination before giving up.
MAX_REPLACED = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a context.

    ``clean``: serve. ``burn``: raise the fence, then serve. ``adopt``: take the observed rows at
    ``generation`` as the new head. ``delete``: complete the announced delete, then look again.
    """

    action: Literal["clean", "burn", "adopt", "delete"]
    generation: int = 0


def decide(
    context: Context,
    seen: Observation,
    intent: Intent | None,
    *,
    new_boot: bool,
    window: int,
    failed: bool = False,
) -> Verdict:
    """Judge an observation.

    Args:
        context: holds the head.
        seen: all rows, each with a valid tag.
        intent: an announced operation whose head never came, if any.
        new_boot: the head was written under another boot id.
        window: operations that may be ahead after a power loss: 1 in strict mode.
        failed: no crash: the store itself refused the operation and its caller has the error. A
            delete that left every row in place is then undone, not completed.

    Raises:
        IntegrityError: nothing that could have happened by itself explains the rows.
    """
    recovering = intent is not None or new_boot
    removed: list[tuple[bytes, bytes]] = []
    if failed and context.matches(seen):
        return Verdict("burn", context.head.generation)
    if intent is not None and intent.operation in ("delete", "remove", "prune"):
        present = [pair for pair in intent.removes if _holds(seen, pair)]
        if (intent.operation == "delete" and seen.index.cells) or (intent.operation == "remove" and present):
            return Verdict("delete", intent.generation)
        if intent.operation == "delete":
            return Verdict("adopt", intent.generation)
        removed = [pair for pair in intent.removes if not _holds(seen, pair)]
    if context.matches(seen):
        return Verdict("burn", context.head.generation) if recovering else Verdict("clean")
    if not recovering:
        raise _ahead(context, seen) if seen.newer else incomplete(context, seen)
    if not _explained(context, seen, removed, window if new_boot else 1):
        raise _ahead(context, seen) if seen.newer else incomplete(context, seen)
    return Verdict("adopt", max(seen.top, intent.generation if removed and intent else 0))


def _holds(seen: Observation, pair: tuple[bytes, bytes]) -> bool:
    group, cell = pair
    return seen.index.member(group, cell[:MEMBER]) == cell


def _explained(context: Context, seen: Observation, removed: list[tuple[bytes, bytes]], window: int) -> bool:
    head = context.head
    operations: dict[int, list[Row]] = {}
    for row in seen.newer:
        if row.seal.fence != head.fence or row.seal.generation > head.generation + window:
            return False
        operations.setdefault(row.seal.generation, []).append(row)
    newest = operations.get(seen.top, []) if seen.newer else []
    if {row.seal.size for row in newest} - {len(newest)}:
        return False  # half of an operation
    first = operations.get(head.generation + 1, [])
    if any(row.seal.prev != context.commitment for row in first):
        return False
    return _rest_adds_up(context, seen, removed, holes=_holes(head.generation, seen.top, operations))


def _holes(generation: int, top: int, operations: dict[int, list[Row]]) -> bool:
    """Whether an operation between the head and the newest one is missing, or part of it is."""
    between = (operations.get(number, []) for number in range(generation + 1, top))
    return any(not rows or {row.seal.size for row in rows} != {len(rows)} for rows in between)


def _rest_adds_up(
    context: Context, seen: Observation, removed: list[tuple[bytes, bytes]], *, holes: bool
) -> bool:
    """Observed rows, less the newer ones, plus those of the head's time that went, add up to the head.

    Holes are explained only by newer rows that replaced rows which are not of the head's time either.
    """
    rest = seen.total - sum(context.term(r.group, r.cell) for r in seen.newer)
    rest += sum(context.term(group, cell) for group, cell in removed)
    count = seen.index.cells - len(seen.newer) + len(removed)
    replaced = newest_replaced(seen.newer)
    missing = context.head.cells - count
    if missing < 0 or missing > len(replaced) or (missing != len(replaced) and len(replaced) > MAX_REPLACED):
        return False
    if holes and missing == len(replaced):
        return False
    terms = [context.term(group, cell) for group, cell in replaced]
    return any((rest + sum(chosen)) % MODULUS == context.total for chosen in combinations(terms, missing))


def _ahead(context: Context, seen: Observation) -> IntegrityError:
    behind = seen.top - context.head.generation
    return AnchorError(
        f"the store is {behind} operation(s) ahead of its anchor.",
        case="anchor",
        code="MG415",
        record=f"{context.store} {context.id}",
        why="No announced operation explains the rows: the anchor was lost or rolled back, or rows were brought back.",
        do="memguard audit STORE. If the anchor's loss was yours: memguard anchor accept STORE --reason TEXT --apply",
    )
