"""What adapters of conversations share: whose word a message is, and whose conversation a key names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from memguard.binding import Binding, Stage
from memguard.context import current_source
from memguard.errors import ScopeError
from memguard.record import FIRST_HAND, MAX_ID, Lineage, Parent, Source, Trust
from memguard.scopes import foreign


def speaker(kind: str, name: object = "") -> Source:
    """The source that a message's role says; a name that cannot be an id is left out."""
    said = name if isinstance(name, str) and name.isprintable() and len(name) <= MAX_ID else ""
    return Source(kind, said)


def attributed(own: Source, trust: Callable[[Source], Trust | None]) -> tuple[Source, Lineage]:
    """Where a message is from, inside a ``with source(...)`` block or outside.

    What a person passes on is from where it was declared. An answer, a tool's output and a system message keep
    their own source, and are worth at most what the run came from: that stands in their lineage.

    Args:
        trust: the level of a source, by its name.
    """
    declared = current_source()
    if declared is None:
        return own, FIRST_HAND
    if own.kind in ("user", "unknown") or str(declared.source) == str(own):
        return declared.source, declared.lineage
    # A signature is over what was asked and not over this answer.
    level = Trust.UNTRUSTED if declared.source.signature is not None else trust(declared.source)
    return own, Lineage((*declared.lineage.parents, Parent(str(declared.source), level or Trust.UNKNOWN)))


def owned(bound: Binding | None, key: object, stage: Stage) -> bool:
    """Whether a call may go on: without a scope map always, else if the principal owns the conversation.

    Returns:
        False for a read of another owner's conversation, which answers as one that nobody has begun.

    Raises:
        ScopeError: MG222, there is no principal; MG221, the key is missing, empty or a wildcard; MG220, a write
            into another owner's conversation.
    """
    if bound is None:
        return True
    scope = bound.scope(stage)
    if scope is None:
        return True  # only reported
    try:
        mine = bound.map.owns_thread(scope, key)
    except ScopeError as error:
        bound.refused(stage, error)
        return True
    if mine:
        return True
    if stage == "write":
        bound.refused(stage, foreign(bound.map.store, "the key of a conversation"))
        return True
    return not bound.hidden(stage, "another owner's conversation was named")


def standing(said: Sequence[bytes], before: Sequence[bytes], trusts: Sequence[Trust]) -> list[int | None]:
    """Which message of a history each message of the one in its place is; None for one that is new.

    Words alone do not say that a message stood there: whoever repeats an approval would be given the trust of the
    one who gave it. So a message is taken once, and none is taken behind one that followed it.

    Args:
        said: what the new messages say.
        before: what those say that stood there.
        trusts: what these are worth. Where several may be meant, the least is.
    """
    places: dict[bytes, list[int]] = {}
    for place, words in enumerate(before):
        places.setdefault(words, []).append(place)
    found: list[int | None] = []
    free = 0
    for words in said:
        same = places.get(words, [])
        at = bisect_left(same, free)
        found.append(same[at] if at < len(same) else None)
        free = same[at] + 1 if at < len(same) else free
    end = len(before)
    for number in reversed(range(len(said))):
        first = found[number]
        if first is not None:
            same = places[said[number]]
            meant = same[bisect_left(same, first) : bisect_left(same, end)]
            found[number], end = min(meant, key=trusts.__getitem__), first
    return found
