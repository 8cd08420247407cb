"""The scenarios of another project's benchmark, run against a memory behind memguard and against the bare one.

OWASP agent-memory-guard has a benchmark of its own: fifteen attacks and six benign controls, each a few writes, a
new session and a read, judged by whether the attack's mark is in what is read. Its harness, scenarios and scores are
used as they are; here is only the adapter. Every source class of its contract is declared as the source it names.

A memory behind memguard is read for two purposes. ``act`` is what may steer the next turn, which is what that
contract grades; ``context`` is everything readable, fenced, which memguard does not withhold by design. Its attacks
all come from ``external_tool`` and its controls all from ``user_input``, so a gate by source alone reaches 100 here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pydantic import BaseModel, ConfigDict

from memguard.bench.attack.targets import STORE, opened
from memguard.context import principal, source
from memguard.errors import ConfigError, RefusedError

VERSION = "0.3.3"
#: What must be reached for purpose act, with no benign control lost.
LEAST = 97.0
#: Source classes of that contract, as memguard names sources.
SOURCES = {
    "external_tool": "tool:external",
    "user_input": "user",
    "agent_authored": "assistant",
    "system": "system",
}


class AmgRow(BaseModel):
    """One configuration read for one purpose. ``score`` is that benchmark's own, 0 to 100."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    configuration: str
    purpose: str
    version: str
    score: float
    attacks: int
    defended: int
    benign: int
    false_positives: int
    breached: tuple[str, ...] = ()


def measure(
    configurations: Sequence[str], only: Callable[[Any], bool] = lambda scenario: True
) -> list[AmgRow]:
    """Rows of each configuration: the bare store once, a guarded one for both purposes.

    Args:
        only: which scenarios, all by default.

    Raises:
        ConfigError: MG102, agent-memory-guard is not installed, or another version is.
    """
    harness, scenarios, scoring = _installed()
    corpus = [s for s in scenarios.default_corpus() if only(s)]
    rows = []
    for configuration in configurations:
        for purpose in ("context",) if configuration == "bare" else ("act", "context"):
            with ExitStack() as closing:
                report = harness.run_suite(_factory(configuration, purpose, closing), corpus)
            card = scoring.score_report(report)
            rows.append(
                AmgRow(
                    configuration=configuration,
                    purpose=purpose,
                    version=VERSION,
                    score=round(card.score, 1),
                    attacks=card.malicious_total,
                    defended=card.defended_total,
                    benign=card.benign_total,
                    false_positives=card.false_positives,
                    breached=tuple(run.scenario_id for run in report.runs if run.breached),
                )
            )
    return rows


def missed(rows: Sequence[AmgRow], gated: Sequence[str] = ("balanced", "strict")) -> list[str]:
    """What a configuration that enforces misses for purpose act."""
    return [
        f"amg-bench, {row.configuration}: {row.score} with {row.false_positives} false positives"
        for row in rows
        if row.configuration in gated and row.purpose == "act" and (row.score < LEAST or row.false_positives)
    ]


def table(rows: Sequence[AmgRow]) -> str:
    """The rows for people."""
    lines = [
        f"{'AMG-BENCH ' + VERSION:16} {'PURPOSE':8} {'SCORE':>6} {'DEFENDED':>9} {'FALSE POSITIVES':>16}"
    ]
    for row in rows:
        lines.append(
            f"{row.configuration:16} {row.purpose:8} {row.score:>6.1f} {f'{row.defended}/{row.attacks}':>9} "
            f"{f'{row.false_positives}/{row.benign}':>16}"
        )
    return "\n".join(lines)


def _installed() -> tuple[Any, Any, Any]:
    """Harness, scenarios and scoring of that package."""
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("agent-memory-guard")
        parts = [import_module(f"agent_memory_guard.bench.{n}") for n in ("harness", "scenarios", "scoring")]
    except (ImportError, PackageNotFoundError) as error:
        raise _needed("is not installed") from error
    if found != VERSION:
        raise _needed(f"is installed in version {found}")
    return parts[0], parts[1], parts[2]


def _needed(what: str) -> ConfigError:
    return ConfigError(
        f"agent-memory-guard, whose scenarios --amg runs, {what}.",
        code="MG102",
        why=f"Scores of other versions are not comparable; this bench knows {VERSION}.",
        do=f"pip install agent-memory-guard=={VERSION}",
    )


def _factory(configuration: str, purpose: str, closing: ExitStack) -> Callable[[], Any]:
    """Makes an adapter with a store of its own, as that harness asks for one for each scenario."""
    from agent_memory_guard.bench.adapter import (  # type: ignore[import-not-found,unused-ignore]
        MemorySystemAdapter,
        RememberOutcome,
    )

    class Memory(MemorySystemAdapter):  # type: ignore[misc,unused-ignore]
        """A SqliteStore, bare or guarded."""

        name, version = f"sqlite-store {configuration} {purpose}", VERSION

        def __init__(self) -> None:
            folder = Path(mkdtemp(prefix="memguard-amg-"))
            closing.callback(shutil.rmtree, folder, ignore_errors=True)
            self._target: Any = closing.enter_context(opened(STORE, configuration, folder))
            self._place = ("acme", "alice")

        def remember(self, key: str, value: Any, *, source_class: str = "external_tool") -> Any:
            """Put it under the source that its class names."""
            try:
                with source(SOURCES.get(source_class, "unknown")):
                    self._target.store.put(self._place, key, {"text": value})
            except RefusedError:
                return RememberOutcome.BLOCKED
            kept = self._target.bare.get(self._place, key)
            if kept is None:
                return RememberOutcome.QUARANTINED
            same = kept.value.get("text") == value
            return RememberOutcome.STORED if same else RememberOutcome.REDACTED

        def recall(self, key: str) -> Any | None:
            """Get it for the purpose."""
            with principal(user="alice", purpose=purpose):
                item = self._target.store.get(self._place, key)
            return None if item is None else item.value.get("text")

    return Memory
