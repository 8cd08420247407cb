"""The guard under measurement: its home, key and anchor in one working folder, content guards off or on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.engine import MemGuard

WRITE = ("provenance", "scope", "sanitizer", "anomaly")
READ = ("provenance", "scope", "validity", "reranker")


def configuration(sync: str, guards: str) -> dict[str, Any]:
    """What is laid over the preset.

    Args:
        sync: durability of the anchor: strict, lag, or bulk (none to speak of, to fill a history quickly).
        guards: ``"off"`` takes every content guard out.
    """
    lag = {"sync": "lag", "lag_ops": 100_000, "lag_ms": 600_000}
    over: dict[str, Any] = {"integrity": lag if sync == "bulk" else {"sync": sync}}
    if guards == "off":
        over["write"] = dict.fromkeys(WRITE, "off")
        over["read"] = {**dict.fromkeys(READ, "off"), "purpose": "off"}
    return over


@dataclass
class Guarding:
    """A MemGuard and where its parts are; ``reopen`` gives a second one that has seen nothing yet."""

    mg: MemGuard
    home: Path
    anchor: str
    keys: str

    @classmethod
    def create(
        cls, folder: Path, *, sync: str = "strict", guards: str = "off", preset: str = "balanced"
    ) -> Guarding:
        """Make home, key and anchor under ``folder``."""
        home, anchor, keys = folder / "home", f"file:{folder / 'anchor'}", f"file:{folder / 'key.json'}"
        mg = MemGuard.create(
            home, preset=preset, anchor=anchor, keys=keys, config=configuration(sync, guards)
        )
        return cls(mg, home, anchor, keys)

    def guard(self, inner: Any, name: str) -> Any:
        """``inner`` guarded under ``name``."""
        return self.mg.guard(inner, name=name)

    @property
    def syncs(self) -> int:
        """Durable writes of the anchor so far."""
        return int(self.mg.anchor.syncs)

    def reopen(self) -> None:
        """Close and open again, as a new process would: every context is verified anew on first touch."""
        self.mg.close()
        self.mg = MemGuard.open(self.home)

    def close(self) -> None:
        """Close the MemGuard; the wrapped objects stay open."""
        self.mg.close()
