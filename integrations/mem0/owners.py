"""Whose a memory is: identities, the contexts they name, and what a filter picks of them. No I/O.

Mem0 gives a memory up to three identities (``user_id``, ``agent_id``, ``run_id``). The three together are its owner,
and one context of the guard: nothing is missing from it, and nothing comes into it from another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from memguard.errors import ScopeError
from memguard.record import check_identity

IDENTITIES = ("user_id", "agent_id", "run_id")
#: Kinds of contexts: memories, entities, history rows, raw messages.
MEMORY, ENTITY, HISTORY, MESSAGES = "mem", "ent", "his", "msg"
_LOGICAL = ("AND", "OR", "NOT", "$and", "$or", "$not")


class Owner(NamedTuple):
    """Whose something is; None where an identity is not given."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Owner:
        """As a payload says. What is no text there is no identity that memguard ever wrote."""
        return cls(*(_said(values.get(name)) for name in IDENTITIES))

    def context(self, kind: str) -> str:
        """The context id of what is theirs."""
        return json.dumps([kind, *self], ensure_ascii=False, separators=(",", ":"))

    def fields(self) -> dict[str, str]:
        """The identities that are given."""
        return {name: value for name, value in zip(IDENTITIES, self, strict=True) if value is not None}


#: Owner of rows that name none: a history from before the guard.
NOBODY = Owner()


def _said(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else f"\x00{value!r}"


def kind_of(context: str) -> str:
    """The kind of a context."""
    return str(json.loads(context)[0])


def owner_of(context: str) -> Owner:
    """Whose a context of memories, entities or history is."""
    return Owner(*json.loads(context)[1:])


def messages_context(scope: str) -> str:
    """The context of the raw messages that Mem0 keeps under a session scope."""
    return json.dumps([MESSAGES, scope], ensure_ascii=False, separators=(",", ":"))


def scope_of(context: str) -> str:
    """The session scope of a context of messages."""
    return str(json.loads(context)[1])


def identity(name: str, value: object) -> str:
    """An identity as Mem0 will use it: text, trimmed; a number counts as its digits.

    Raises:
        ScopeError: MG221, it is None, empty, white space, a wildcard, or names no one.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return check_identity(name, value.strip() if isinstance(value, str) else value)


def given(values: Mapping[str, Any]) -> Owner:
    """The owner that a call names by keyword; at least one identity.

    Raises:
        ScopeError: MG221, none, or one that names no one.
    """
    found = {name: identity(name, values[name]) for name in IDENTITIES if values.get(name) is not None}
    if not found:
        raise _nobody("a call")
    return Owner(*(found.get(name) for name in IDENTITIES))


def checked_filters(filters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The filters of a search or a list, with identities as Mem0 will use them.

    Raises:
        ScopeError: MG221, no identity, or one that names nobody or everybody; MG541, an identity inside AND, OR or
            NOT, where it may replace the one that the call names.
    """
    made = dict(filters or {})
    if not any(name in made for name in IDENTITIES):
        raise _nobody("a filter")
    for name in IDENTITIES:
        if name in made:
            value = made[name]
            made[name] = (
                _operator(name, value) if isinstance(value, Mapping | list) else identity(name, value)
            )
    for word in _LOGICAL:
        _no_identity(made.get(word))
    return made


def _operator(name: str, value: Any) -> Any:
    """Several owners may be named, each by name: a list, ``in``, or ``eq``."""
    if isinstance(value, list) and value:
        return [identity(name, item) for item in value]
    if isinstance(value, Mapping) and len(value) == 1:
        ((word, said),) = value.items()
        if word == "eq":
            return {"eq": identity(name, said)}
        if word == "in" and isinstance(said, list) and said:
            return {"in": [identity(name, item) for item in said]}
    raise ScopeError(
        f"the filter on {name} does not name owners.",
        code="MG221",
        why="Comparisons, negations and patterns pick owners that nobody named.",
        do=f'Name them: {{"{name}": "…"}}, {{"{name}": {{"in": ["…"]}}}}.',
    )


def _no_identity(conditions: Any) -> None:
    if conditions is None:
        return
    for condition in conditions if isinstance(conditions, list) else [conditions]:
        if not isinstance(condition, Mapping):
            continue
        if any(name in condition for name in IDENTITIES):
            raise ScopeError(
                "an identity stands inside a logical operator of a filter.",
                code="MG541",
                why="Mem0 lets it replace the identity that the call names.",
                do="Name identities beside the operator, not inside it.",
            )
        for word in _LOGICAL:
            _no_identity(condition.get(word))


def picks(filters: Mapping[str, Any] | None) -> Callable[[Owner], bool]:
    """Which owners' contexts an answer under these filters may come from."""
    wanted = {name: _values(filters[name]) for name in IDENTITIES if filters and name in filters}

    def pick(owner: Owner) -> bool:
        return all(getattr(owner, name) in values for name, values in wanted.items())

    return pick


def _values(value: Any) -> frozenset[str]:
    if isinstance(value, Mapping):
        value = value.get("in", value.get("eq"))
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset((str(value),))


def _nobody(what: str) -> ScopeError:
    return ScopeError(
        f"{what} names no owner.",
        code="MG221",
        why="Without user_id, agent_id or run_id it would reach everybody's memories, or nobody's.",
        do="Pass the identity of the request.",
    )
