"""Mem0 guarded and bare over each of its vector stores, offline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("MEM0_TELEMETRY", "False")  # Mem0 reads it once, when it is imported
pytest.importorskip("mem0")

from memguard import MemGuard
from memguard.bench.suts.mem0_offline import Facts, close, config

PROVIDERS = ("qdrant", "faiss", "chroma", "pgvector")


@dataclass
class World:
    """One vector store, one home, and the Memory over them; :meth:`restart` opens everything anew."""

    folder: Path
    provider: str
    uri: str | None = None
    asynchronous: bool = False
    home: dict[str, Any] = field(default_factory=dict)
    scope: dict[str, str] | None = None
    name: str = "agent"
    hook: Any = None
    mg: Any = None
    bare: Any = None
    memory: Any = None
    model: Facts = field(default_factory=Facts)

    def start(self) -> World:
        from mem0 import AsyncMemory, Memory

        place = self.folder / "home"
        if place.exists():
            self.mg = MemGuard.open(place, on_decision=self.hook)
        else:
            self.mg = MemGuard.create(
                place,
                preset=self.home.get("preset", "balanced"),
                anchor=f"file:{self.folder / 'anchor'}",
                keys=f"file:{self.folder / 'key.json'}",
                config=self.home.get("config"),
                on_decision=self.hook,
            )
        self.model = Facts(prompts=[])
        kind = AsyncMemory if self.asynchronous else Memory
        self.bare = kind.from_config(config(self.provider, self.folder / "store", self.uri, self.model))
        extra = {} if self.scope is None else {"scope": self.scope}
        self.memory = self.mg.guard(self.bare, name=self.name, **extra)
        return self

    def stop(self) -> None:
        if self.mg is not None:
            self.mg.close()
        if self.memory is not None:
            self.memory._calls.keeping.table.close()
            close(self.bare)
        self.mg = self.bare = self.memory = None

    def restart(self) -> World:
        self.stop()
        return self.start()


Make = Callable[..., World]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    os.environ.setdefault("MEM0_TELEMETRY", "False")


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes worlds; all are stopped after the test."""
    made: list[World] = []

    def world(provider: str = "qdrant", **options: Any) -> World:
        folder = tmp_path / f"world-{len(made)}"
        (folder / "store").mkdir(parents=True)
        uri = request.getfixturevalue("new_database")() if provider == "pgvector" else None
        made.append(World(folder, provider, uri, **options))
        return made[-1].start()

    yield world
    for each in made:
        each.stop()


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest, make: Make) -> World:
    """A guarded Memory over each store."""
    return make(request.param)
