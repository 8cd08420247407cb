"""The reader: which of the candidates a search found are served, in which order, and what stands beside them.

Pure: candidates in, a :class:`Selection` out. The rules, in order of what wins:

 1. What a guard withheld is not served. Nothing else withholds: not an unknown source, not repetition, not a
    contradiction.
 2. For ``purpose="act"`` only records at or above the act level are served, and none that is flagged.
 3. Among what is left, the store's own order of relevance stands, so a search in which nothing speaks against a
    record answers exactly as the bare store does.
 4. A record that contradicts trusted ones comes directly behind the last of them, and stays in the answer as far
    as the asked number reaches.
 5. Whatever was taken out is made up from the candidates behind (the caller fetches more while
    :meth:`Selection.short` says so).

Contradiction is judged by slots (:mod:`memguard.slots`), between a record below the act level and unflagged
records at or above it; two trusted records never demote each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memguard.record import Record, Trust
from memguard.slots import Slot, contradiction, field_slots, slots_of

#: Candidates whose texts are compared; those behind are served by rules 1 to 3 alone.
MAX_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """One record that a search found, with its stored label's trust in ``record.trust``.

    ``flagged`` is whether its stored label holds a flag. ``fields`` are the members of a structured value,
    ``space`` the namespace in which ``record.key`` is a key.
    """

    record: Record
    flagged: bool = False
    fields: Mapping[str, Any] | None = None
    space: str = ""

    @property
    def trust(self) -> Trust:
        """Its level; unknown without a label."""
        return self.record.trust or Trust.UNKNOWN


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the other candidates say about one: places of trusted ones that it contradicts, and of one that
    declares to replace it."""

    rivals: tuple[int, ...] = ()
    successor: int | None = None

    def __bool__(self) -> bool:
        return bool(self.rivals) or self.successor is not None


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate after the read chain. ``would`` is whether enforcing every guard would withhold it."""

    trust: Trust
    flagged: bool = False
    withheld: bool = False
    would: bool = False
    rivals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Places of candidates: what is served in order, and what happened to the others.

    ``filtered`` is what the purpose filter took out, ``would_filter`` what it would take out were it enforced.
    ``asked`` is the number that was asked for.
    """

    served: tuple[int, ...]
    demoted: tuple[int, ...] = ()
    withheld: tuple[int, ...] = ()
    would: tuple[int, ...] = ()
    filtered: tuple[int, ...] = ()
    would_filter: tuple[int, ...] = ()
    asked: int = 0

    @property
    def short(self) -> int:
        """How many are missing to the asked number."""
        return max(0, self.asked - len(self.served))


def neighbours(candidates: Sequence[Candidate], level: Trust) -> list[Neighbours]:
    """For each candidate, what the others say about it. Does not depend on their order but for the places.

    Args:
        level: from which trust on a record is believed against others (``policy.act_level``).
    """
    found = [Neighbours()] * len(candidates)
    compared = range(min(len(candidates), MAX_COMPARED))
    trusted = [i for i in compared if candidates[i].trust >= level and not candidates[i].flagged]
    doubted = [i for i in compared if candidates[i].trust < level]
    replaced = _replaced(candidates, compared)
    if not (trusted and doubted) and not replaced:
        return found
    slots: dict[int, tuple[Slot, ...]] = {}
    if trusted and doubted:
        slots = {i: _slots(candidates[i]) for i in (*trusted, *doubted)}
    for i in compared:
        rivals: tuple[int, ...] = ()
        if slots.get(i) and candidates[i].trust < level:
            rivals = tuple(t for t in trusted if slots[t] and contradiction(slots[i], slots[t]))
        found[i] = Neighbours(rivals, replaced.get(i))
    return found


def doubtful(candidates: Sequence[Candidate], level: Trust) -> bool:
    """Whether any candidate below the level says something that a trusted record could contradict."""
    return any(c.trust < level and _slots(c) for c in candidates[:MAX_COMPARED])


def _slots(candidate: Candidate) -> tuple[Slot, ...]:
    said = slots_of(candidate.record.content)
    if candidate.fields is None:
        return said
    return (*said, *field_slots(candidate.record.key, candidate.fields))


def _replaced(candidates: Sequence[Candidate], compared: range) -> dict[int, int]:
    """Candidates that another, no less trusted and not flagged, declares to replace."""
    by_key: dict[tuple[str, str], int] = {}
    found: dict[int, int] = {}
    claims = [(i, key) for i in compared for key in _declared(candidates[i].record)]
    if claims:
        by_key = {(candidates[i].space, candidates[i].record.key): i for i in compared}
    for i, key in claims:
        at = by_key.get((candidates[i].space, key))
        newer = candidates[i]
        if at is not None and at != i and not newer.flagged and newer.trust >= candidates[at].trust:
            found[at] = min(i, found.get(at, i))
    return found


def _declared(record: Record) -> Iterable[str]:
    return tuple(record.data.get("supersedes", ()))


def select(
    judged: Sequence[Judged],
    asked: int,
    *,
    act_level: Trust | None = None,
    enforce_purpose: bool = True,
) -> Selection:
    """The answer: at most ``asked`` places, by the rules above.

    Args:
        judged: all candidates, in the store's order of relevance.
        asked: how many are wanted; 0 or less gives none.
        act_level: the least trust that is served; None where the purpose is not to act.
        enforce_purpose: False only reports what the purpose filter would take out.
    """
    withheld = tuple(i for i, c in enumerate(judged) if c.withheld)
    would = tuple(i for i, c in enumerate(judged) if c.would and not c.withheld)
    below: tuple[int, ...] = ()
    if act_level is not None:
        below = tuple(
            i for i, c in enumerate(judged) if not c.withheld and (c.trust < act_level or c.flagged)
        )
    out = {*withheld, *(below if enforce_purpose else ())}
    kept = [i for i in range(len(judged)) if i not in out]
    order, demoted = _behind_rivals(judged, kept)
    return Selection(
        tuple(order[: max(0, asked)]),
        demoted,
        withheld,
        would,
        below if enforce_purpose else (),
        () if enforce_purpose else below,
        max(0, asked),
    )


def reordered(judged: Sequence[Judged], order: Sequence[int]) -> list[Judged]:
    """The candidates in another order, their rivals' places with them.

    Args:
        order: places of all candidates.
    """
    place = {at: new for new, at in enumerate(order)}
    return [replace(judged[at], rivals=tuple(place[rival] for rival in judged[at].rivals)) for at in order]


def placed(chosen: Selection, order: Sequence[int]) -> Selection:
    """A selection from :func:`reordered` candidates, by their places before."""

    def before(places: Sequence[int]) -> tuple[int, ...]:
        return tuple(order[at] for at in places)

    return Selection(
        before(chosen.served),
        before(chosen.demoted),
        before(chosen.withheld),
        before(chosen.would),
        before(chosen.filtered),
        before(chosen.would_filter),
        chosen.asked,
    )


def _behind_rivals(judged: Sequence[Judged], kept: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """The kept places with every record behind the trusted ones that it contradicts, nothing else moved."""
    here = set(kept)
    waiting: dict[int, list[int]] = {}  # by the place of the last rival
    demoted = []
    order: list[int] = []
    for i in kept:
        last = max((r for r in judged[i].rivals if r in here), default=-1)
        if last > i:
            waiting.setdefault(last, []).append(i)
            demoted.append(i)
        else:
            order.append(i)
            order += waiting.pop(i, ())
    return order, tuple(demoted)


def next_window(asked: int, fetched: int, kept: int, most: int) -> int | None:
    """How many candidates to fetch next when ``kept`` of ``fetched`` are left and more are needed.

    At least twice as many, and as many as the share that was kept so far lets expect; never more than ``most``.
    None when there is no more to fetch.
    """
    if fetched >= most:
        return None
    expected = asked * fetched // kept + 1 if kept else 4 * fetched
    return min(most, max(2 * fetched, expected, 1))
