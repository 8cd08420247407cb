"""How the effects of a home's guards are performed: embedder, judge and histories, each opened when first asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from memguard import embedders, registry
from memguard.errors import UnsupportedError
from memguard.guard import Ask, Compare, Embed, Standing
from memguard.histories import Histories
from memguard.ports import Embedder, KeyRing
from memguard.screening import Screening
from memguard.settings import Config
from memguard.statedb import State

if TYPE_CHECKING:
    from memguard.judge.openai_compatible import OpenAICompatible


class Performers:
    """What a home's configuration names, opened once. Threads may share it.

    Args:
        state: path of state.db, or where else the home's tables are: there histories are kept.
    """

    def __init__(self, config: Config, keys: KeyRing, state: Path | State) -> None:
        self._config, self._keys, self._state = config, keys, state
        self._mutex = threading.Lock()
        self._embedder: Embedder | None = None
        self._histories: Histories | None = None
        self._judge: OpenAICompatible | None = None

    def register(self, screening: Screening) -> None:
        """Have the guards' questions answered here. What could be remote is given a time limit."""
        local = self._config.guards.embedder in embedders.NAMES
        screening.perform(Embed, self.embed, timed=not local)
        screening.perform(Compare, self.compare, look=self.look)
        screening.perform(Ask, self.ask, timed=True)

    @property
    def embedder(self) -> Embedder:
        """The one that ``guards.embedder`` names.

        Raises:
            ConfigError, UnsupportedError: there is none of that name, or its extra is not installed.
        """
        with self._mutex:
            if self._embedder is None:
                self._embedder = registry.embedders.get(self._config.guards.embedder).open()
            return self._embedder

    def embed(self, effect: Embed) -> list[list[float]]:
        """Vectors of texts."""
        return self.embedder.embed(effect.texts)

    def compare(self, effect: Compare) -> Standing:
        """How a record stands in its scope's history, which then knows it."""
        return self._history().compare(effect)

    def look(self, effect: Compare) -> Standing:
        """The same, without being remembered."""
        return self._history().look(effect)

    def _history(self) -> Histories:
        name = self.embedder.name
        with self._mutex:
            if self._histories is None:
                self._histories = Histories(self._state, self._keys, name)
            return self._histories

    def ask(self, effect: Ask) -> str:
        """The judge's answer.

        Raises:
            UnsupportedError: MG134, no judge is configured.
            MemguardError: the judge failed.
        """
        settings = self._config.judge
        if settings is None:
            raise UnsupportedError(
                "no judge is configured", code="MG134", do="Configure [judge], or switch off what asks it."
            )
        with self._mutex:
            if self._judge is None:  # only then is an HTTP client worth its import
                from memguard.judge.openai_compatible import OpenAICompatible

                self._judge = OpenAICompatible(settings, seconds=self._config.policy.effect_seconds)
        return self._judge.ask(effect)

    def close(self) -> None:
        """Write the histories down. Idempotent."""
        with self._mutex:
            if self._histories is not None:
                self._histories.close()
