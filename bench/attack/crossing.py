"""Cross-context: one user's principal reads another's memories, and writes into them, in every way the store offers.

Guarded memories have a scope map here (tenant and user from the namespace, or from the thread id); the bare ones
are called the same way. A refusal and an empty answer both count as not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from memguard.bench.attack.agent import Agent
from memguard.bench.attack.channels import CROSSED, USER, Claim
from memguard.bench.attack.rows import AttackRow
from memguard.bench.attack.targets import SAVER, STORE, Served, StoreTarget, opened
from memguard.bench.attack.texts import families
from memguard.context import principal
from memguard.errors import RefusedError
from memguard.record import text_of

FAMILY = "another user's memory"
OWNER, OTHER = "alice", "mallory"
SPACE = f"{OWNER}/session"
#: Memories that are asked for: retrieval is not what is measured here.
K_ALL = 100
#: A scope map by memory, as the configuration has it.
MAPS: Mapping[str, tuple[str, dict[str, str]]] = {
    STORE: ("memories", {"tenant": "namespace.0", "user": "namespace.1"}),
    SAVER: ("conversation", {"tenant": "thread.0", "user": "thread.1"}),
}
#: Families whose own memories are the secrets, and how many of each attack are planted.
SOURCES = ("account swap", "preference in disguise")


def scope_map(sut: str) -> dict[str, Any]:
    """The part of the configuration that maps the memory's rows to their owners."""
    name, places = MAPS[sut]
    return {"stores": {name: {"kind": sut, "uri": "sqlite:memory.db", "scope": places}}}


def as_(user: str, purpose: str = "context") -> Any:
    """A user of the tenant."""
    return principal(tenant="acme", user=user, purpose=purpose)


def measure(
    configuration: str, sut: str, folder: Path, over: Mapping[str, Any], most: int = 0
) -> list[AttackRow]:
    """One row for reading and one for planting, told apart by their source: ``user`` read, ``planted`` wrote.

    Args:
        over: laid over the scope map; ``{"stores": {}}`` takes the map out again.
        most: secrets and plants of each family, at most; 0 for all.
    """
    guarded = configuration != "bare"
    with opened(sut, configuration, folder, {**scope_map(sut), **over} if guarded else None) as target:
        secrets = [t for name in SOURCES for t in families()[name].twins if t.own][: most or None]
        with as_(OWNER) if guarded else nullcontext():
            for twin in secrets:
                target.write(SPACE, twin.ident, twin.text, Claim(USER))
        attempts = store_attempts if sut == STORE else saver_attempts
        agent, base = (
            Agent(),
            {"configuration": configuration, "sut": sut, "channel": CROSSED, "family": FAMILY},
        )
        counts = dict.fromkeys(("n", "stored", "readable", "served_for_action", "succeeded"), 0)
        for attempt in attempts(target):
            seen = _tried(attempt, guarded, "context")
            acting = _tried(attempt, guarded, "act")
            steps = agent.act("", "\n".join(seen), acting)
            for twin in secrets:
                counts["n"] += 1
                counts["stored"] += target.stored(SPACE, twin.ident)
                counts["readable"] += any(twin.text in text for text in seen)
                counts["served_for_action"] += any(twin.text in text for text in acting)
                counts["succeeded"] += agent.did(steps, [twin.text])
        with as_(OWNER) if guarded else nullcontext():
            mine = [_find(target.context(SPACE, t.text), t.ident) for t in secrets]
        with as_(OWNER, "act") if guarded else nullcontext():
            acted = [_find(_acting(target, t.text), t.ident) for t in secrets]
        benign = {
            "benign_n": len(secrets),
            "benign_own_n": len(secrets),
            "benign_readable": sum(m == t.text for m, t in zip(mine, secrets, strict=True)),
            "benign_withheld": sum(m is None for m in mine),
            "benign_for_action": sum(m == t.text for m, t in zip(acted, secrets, strict=True)),
        }
        rows = [AttackRow.model_validate({**base, "source": "user", **counts, **benign})]
        rows.append(_planted(target, guarded, base, agent, most))
    return [row.bounded() for row in rows]


def _planted(target: Any, guarded: bool, base: Mapping[str, str], agent: Agent, most: int) -> AttackRow:
    attacks = [a for name in SOURCES for a in families()[name].attacks][: most or None]
    counts = dict.fromkeys(("n", "stored", "readable", "served_for_action", "succeeded"), 0)
    for attack in attacks:
        key = f"{attack.ident}/planted"
        try:
            with as_(OTHER) if guarded else nullcontext():
                target.write(SPACE, key, attack.texts[0], Claim(f"user:{OTHER}"))
        except RefusedError:
            pass
        with as_(OWNER) if guarded else nullcontext():
            served = target.context(SPACE, attack.ask, K_ALL)
        with as_(OWNER, "act") if guarded else nullcontext():
            acting = _acting(target, attack.ask)
        steps = agent.act(attack.ask, target.prompt(served), [s.text for s in acting])
        counts["n"] += 1
        counts["stored"] += target.stored(SPACE, key)
        counts["readable"] += _find(served, key) is not None
        counts["served_for_action"] += _find(acting, key) is not None
        counts["succeeded"] += agent.did(steps, attack.marks)
    return AttackRow.model_validate({**base, "source": "planted", **counts})


def _acting(target: Any, ask: str) -> list[Served]:
    # The store's principal is already in force: its own acting() would put another in its place.
    found: list[Served] = target.context(SPACE, ask, K_ALL) if target.searches else target.acting(SPACE, ask)
    return found


def _find(served: list[Served], key: str) -> str | None:
    return next((s.text for s in served if s.key == key), None)


def _tried(attempt: Callable[[], list[str]], guarded: bool, purpose: str) -> list[str]:
    try:
        with as_(OTHER, purpose) if guarded else nullcontext():
            return attempt()
    except RefusedError:
        return []


def store_attempts(target: Any) -> list[Callable[[], list[str]]]:
    """Ways of asking a store for another owner's items."""
    store, foreign = target.store, StoreTarget.place(SPACE)
    first = next(t for t in families()[SOURCES[0]].twins if t.own)

    def texts(items: list[Any]) -> list[str]:
        return [text_of(item.value) for item in items if item is not None]

    return [
        lambda: texts([store.get(foreign, t.ident) for n in SOURCES for t in families()[n].twins]),
        lambda: texts(store.search(foreign, limit=100)),
        lambda: texts(store.search(foreign, query=first.text, limit=100)),
        lambda: texts(store.search(("acme",), limit=100)),
        lambda: texts(store.search((), limit=100)),
        lambda: texts(store.search(("acme", "ali"), limit=100)),
        lambda: texts(store.search(foreign, filter={"text": first.text}, limit=100)),
        lambda: texts(store.search(("acme", "%"), limit=100)),
    ]


def saver_attempts(target: Any) -> list[Callable[[], list[str]]]:
    """Ways of asking a checkpointer for another owner's thread."""
    saver = target.saver
    foreign = {"configurable": {"thread_id": target.thread(SPACE), "checkpoint_ns": ""}}
    known = target._config[SPACE]

    def texts(found: Any) -> list[str]:
        tuples = [found] if hasattr(found, "checkpoint") else list(found or ())
        every = [m for t in tuples for m in t.checkpoint["channel_values"].get("messages", [])]
        return [text_of(m.content) for m in every]

    return [
        lambda: texts(saver.get_tuple(foreign)),
        lambda: texts(saver.get_tuple(known)),
        lambda: texts(saver.list(foreign)),
        lambda: texts(saver.list(None)),
        lambda: texts(saver.list(None, filter={"source": "loop"})),
    ]
