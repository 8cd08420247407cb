"""Which guards of a home only observe, what they would have done, and the values that make them enforce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memguard import registry
from memguard.anchors import open_anchor
from memguard.cli.session import Session
from memguard.config import Loaded, load
from memguard.errors import ConfigError
from memguard.home import STATE
from memguard.record import did_you_mean
from memguard.statedb import opened
from memguard.tally import Count, Tally

_WITHHOLDS = ("quarantine", "reject")


@dataclass(frozen=True, slots=True)
class Observed:
    """One guard in observe mode. ``would`` counts records it would have withheld, None where nothing counts them."""

    stage: str
    guard: str
    would: int | None
    since: str | None


def observing(session: Session, names: Sequence[str] = ()) -> list[Observed]:
    """The guards that only observe, or those of them that are named.

    Raises:
        ConfigError: MG105, a name is no guard that observes.
    """
    loaded = load(session.target())
    counts = _counts(loaded)
    found = []
    for stage, table in (
        ("write", loaded.config.write),
        ("read", loaded.config.read),
        ("act", loaded.config.act),
    ):
        modes = {**table.modes(), **({"purpose": table.purpose} if stage == "read" else {})}  # type: ignore[union-attr]
        # A guard that this version does not have cannot be made to enforce.
        found += [
            _observed(stage, guard, counts)
            for guard, mode in modes.items()
            if mode == "observe" and (guard == "purpose" or guard in registry.guards)
        ]
    if loaded.config.integrity.mode == "report":
        found.append(Observed("read", "integrity", None, None))
    for name in names:
        if name not in {o.guard for o in found}:
            known = [o.guard for o in found]
            raise ConfigError(
                f"no guard {name!r} only observes",
                code="MG105",
                do=did_you_mean(name, known) if known else None,
            )
    return [o for o in found if not names or o.guard in names]


def _counts(loaded: Loaded) -> list[Count]:
    """What the guards of a home decided; empty where nothing was counted yet."""
    home, uri = loaded.home, loaded.config.anchor or ""
    if home is None:
        return []
    if loaded.config.state == "home" or not uri.startswith("postgres"):
        return list(Tally(home / STATE).counts()) if (home / STATE).is_file() else []
    anchor = open_anchor(uri)
    try:
        return list(Tally(opened(home, loaded.config.state, anchor)).counts())
    finally:
        anchor.close()


def _observed(stage: str, guard: str, counts: Sequence[Count]) -> Observed:
    mine = [c for c in counts if (c.stage, c.guard) == (stage, guard) and c.would in _WITHHOLDS]
    return Observed(stage, guard, sum(c.n for c in mine), min((c.day for c in mine), default=None))


def values_of(found: Sequence[Observed]) -> dict[str, Any]:
    """The configuration values that make these guards enforce."""
    values: dict[str, dict[str, str]] = {}
    for one in found:
        if one.guard == "integrity":
            values["integrity"] = {"mode": "enforce"}
        else:
            values.setdefault(one.stage, {})[one.guard] = "enforce"
    return dict(values)
