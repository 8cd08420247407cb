"""The memories that are attacked: a SqliteStore with vector search and a SqliteSaver's conversation, bare or guarded.

Both answer the same questions: is it stored, what is served for context, how does it stand in a prompt, and what is
served for action. A conversation has no search and no purpose: a message is served for action if its label is at the
level that acting needs and not flagged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from memguard.bench.attack.channels import CRM, Claim, token
from memguard.bench.reading.search import connect
from memguard.context import principal, source
from memguard.embedders.hashing import Hashing
from memguard.engine import MemGuard
from memguard.errors import RefusedError
from memguard.labels import render
from memguard.record import text_of

STORE, SAVER = "langgraph-sqlite-store", "langgraph-sqlite-saver"
TARGETS = (STORE, SAVER)
#: Memories that a search asks for; where many lie in one namespace, fewer.
K, K_CROWDED = 10, 5
_LABEL = {"label": {"source": "system", "trust": "system"}}
#: One sync of the anchor a cell: durability is not what is measured here.
_FAST = {"integrity": {"sync": "lag", "lag_ops": 100_000, "lag_ms": 600_000}}


@dataclass(frozen=True, slots=True)
class Served:
    """One memory as it was served; ``item`` is the store's or the saver's own object."""

    key: str
    text: str
    item: Any


class Target(Protocol):
    """A memory under attack."""

    name: str
    searches: bool

    def write(self, space: str, key: str, text: str, claim: Claim) -> None:
        """Write one memory for a user's space; a guard may refuse it."""

    def stored(self, space: str, key: str) -> bool:
        """Whether the bare store holds it."""

    def context(self, space: str, ask: str, k: int = K) -> list[Served]:
        """What is served for context."""

    def acting(self, space: str, ask: str, k: int = K) -> list[Served]:
        """What is served for action."""

    def prompt(self, served: Sequence[Served]) -> str:
        """How the program puts it into a prompt: rendered where there is a guard, joined where there is none."""

    def revert(self, *, apply: bool) -> int:
        """Take what the signing source wrote back out; how many records the plan names."""


@contextmanager
def opened(
    name: str, configuration: str, folder: Path, over: Mapping[str, Any] | None = None
) -> Iterator[Target]:
    """A fresh memory under a configuration: ``bare`` or a preset.

    Args:
        folder: an empty one, for the database, the home, the key and the anchor.
        over: laid over the preset.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mg = None
    if configuration != "bare":
        mg = MemGuard.create(
            folder / "home",
            preset=configuration,
            anchor=f"file:{folder / 'anchor'}",
            keys=f"file:{folder / 'key.json'}",
            config={**_FAST, **(over or {})},
        )
    connection = connect(str(folder / "memory.db"))
    try:
        connection.execute("PRAGMA synchronous=OFF")
        yield (StoreTarget if name == STORE else SaverTarget)(connection, mg)
    finally:
        if mg is not None:
            mg.close()
        connection.close()


class StoreTarget:
    """A SqliteStore; one namespace for each space."""

    name, searches = STORE, True

    def __init__(self, connection: sqlite3.Connection, mg: MemGuard | None) -> None:
        from langgraph.store.sqlite import SqliteStore

        embedder = Hashing()
        self.bare = SqliteStore(
            connection, index={"dims": embedder.dim, "embed": embedder.embed, "fields": ["text"]}
        )
        self.bare.setup()
        self.mg = mg
        self.store: Any = self.bare if mg is None else mg.guard(self.bare, name="memories")

    @staticmethod
    def place(space: str) -> tuple[str, ...]:
        """The namespace of a space."""
        return ("acme", *space.split("/"))

    def write(self, space: str, key: str, text: str, claim: Claim) -> None:
        """Put an item, under the claim."""
        value = {"text": text, **({"memguard": _LABEL} if claim.payload_label else {})}
        place = self.place(space)
        if self.mg is None:
            self.store.put(place, key, value)
            return
        signature = token(claim, value, "memories", (*place, key))
        with source(claim.source, parents=[p.item for p in _served(claim)], signature=signature), _refused():
            self.store.put(place, key, value)

    def stored(self, space: str, key: str) -> bool:
        """Whether the bare store has the row."""
        return self.bare.get(self.place(space), key) is not None

    def context(self, space: str, ask: str, k: int = K) -> list[Served]:
        """The store's own search."""
        found = self.store.search(self.place(space), query=ask, limit=k)
        return [Served(item.key, text_of(item.value.get("text", "")), item) for item in found]

    def acting(self, space: str, ask: str, k: int = K) -> list[Served]:
        """The same search, by a principal who is going to act."""
        with principal(user="alice", purpose="act") if self.mg else nullcontext():
            return self.context(space, ask, k)

    def prompt(self, served: Sequence[Served]) -> str:
        """Rendered, or joined."""
        return "\n".join(s.text for s in served) if self.mg is None else render([s.item for s in served])

    def remove(self, space: str, key: str) -> None:
        """Delete the item."""
        self.store.delete(self.place(space), key)

    def revert(self, *, apply: bool) -> int:
        """``mg.revert``; bare stores have nothing of the kind."""
        return 0 if self.mg is None else _reverted(self.mg, self.store, apply)


class SaverTarget:
    """A SqliteSaver; one thread for each space, a message for each memory."""

    name, searches = SAVER, False

    def __init__(self, connection: sqlite3.Connection, mg: MemGuard | None) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.bare = SqliteSaver(connection)
        self.mg = mg
        self.saver: Any = self.bare if mg is None else mg.guard(self.bare, name="conversation")
        self._threads: dict[str, list[Any]] = {}
        self._config: dict[str, Any] = {}
        self._count = 0

    @staticmethod
    def thread(space: str) -> str:
        """The thread of a space."""
        return ":".join(("acme", *space.split("/")))

    def write(self, space: str, key: str, text: str, claim: Claim) -> None:
        """Add a message to the conversation and store a checkpoint of it, under the claim."""
        message = _message(key, text, claim)
        messages = [*self._threads.get(space, []), message]
        thread = self.thread(space)
        if self.mg is None:
            self._put(space, messages)
            return
        signature = token(claim, text, "conversation", (thread, key))
        parents = [label for p in _served(claim) if (label := self.mg.label(p.item)) is not None]
        with source(claim.source, parents=parents, signature=signature), _refused():
            self._put(space, messages)

    def _put(self, space: str, messages: list[Any]) -> None:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.base.id import uuid6

        self._count += 1
        made = empty_checkpoint()
        made["id"] = str(uuid6(clock_seq=self._count % 16384))
        made["channel_values"] = {"messages": messages}
        made["channel_versions"] = {"messages": str(self._count)}
        config = self._config.get(space) or {
            "configurable": {"thread_id": self.thread(space), "checkpoint_ns": ""}
        }
        about = {"source": "loop", "step": self._count, "parents": {}}
        self._config[space] = self.saver.put(config, made, about, made["channel_versions"])
        self._threads[space] = messages

    def stored(self, space: str, key: str) -> bool:
        """Whether the bare saver's newest checkpoint has the message."""
        return any(m.id == key for m in self._messages(self.bare, space))

    def _messages(self, saver: Any, space: str) -> list[Any]:
        found = saver.get_tuple({"configurable": {"thread_id": self.thread(space), "checkpoint_ns": ""}})
        return [] if found is None else list(found.checkpoint["channel_values"].get("messages", []))

    def context(self, space: str, ask: str, k: int = K) -> list[Served]:
        """The messages of the thread."""
        return [Served(m.id, text_of(m.content), m) for m in self._messages(self.saver, space)]

    def acting(self, space: str, ask: str, k: int = K) -> list[Served]:
        """Those whose label is at the level that acting needs and not flagged."""
        served = self.context(space, ask)
        return served if self.mg is None else [s for s in served if self._trusted(s.item)]

    def _trusted(self, message: Any) -> bool:
        assert self.mg is not None
        label = self.mg.label(message)
        flagged = label is not None and label.decision is not None and label.decision.flagged
        return label is not None and label.trust >= self.mg.config.policy.act_level and not flagged

    def prompt(self, served: Sequence[Served]) -> str:
        """Rendered with the labels that the guard keeps, or joined."""
        if self.mg is None:
            return "\n".join(s.text for s in served)
        return render([s.item for s in served], label=self.mg.label)

    def revert(self, *, apply: bool) -> int:
        """Threads cut in front of the first checkpoint with something of that source."""
        return 0 if self.mg is None else _reverted(self.mg, self.saver, apply)


def _message(key: str, text: str, claim: Claim) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    more = {"additional_kwargs": {"memguard": _LABEL}} if claim.payload_label else {}
    if claim.source.startswith("assistant") or claim.source.startswith("summary"):
        return AIMessage(text, id=key, **more)
    if claim.kind == "tool":
        return ToolMessage(text, id=key, name=claim.source.partition(":")[2], tool_call_id="1", **more)
    return HumanMessage(text, id=key, **more)


def _served(claim: Claim) -> list[Served]:
    return [p for p in claim.parents if isinstance(p, Served)]


@contextmanager
def _refused() -> Iterator[None]:
    """A write that a guard refuses is simply not stored."""
    try:
        yield
    except RefusedError:
        pass


def _reverted(mg: MemGuard, target: Any, apply: bool) -> int:
    plan = mg.revert(target, source=CRM, apply=apply, by="bench", reason="blast radius of a signing source")
    return sum(int(action["records"]) for action in plan.actions)
