"""The guarded half of a SUT: the same store behind ``MemGuard.guard``, in every configuration the bench compares."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import ANCHOR, HOME, KEYS, STORE, Record, Sut
from memguard.errors import IntegrityError, RefusedError

if TYPE_CHECKING:
    from memguard import MemGuard

#: Integrity is what is measured here; content guards have a bench of their own and are kept out of the way.
_QUIET: dict[str, Any] = {"write": {"sanitizer": "off", "provenance": "off", "anomaly": "off"}}
_LEVELS = {"tag": "tag", "chain": "chain", "head-beside": "head", "": "head"}


class Guarded(Sut):
    """A SUT that may be behind memguard, as its name says. Subclasses put their store through :meth:`wrap`."""

    def __init__(self, cell: Any, name: Name, store_name: str) -> None:
        super().__init__(cell)
        self.spec = name
        self.name = str(name)
        self.guarded = self.has_audit = name.guarded
        self.signal_loggers = ("memguard.integrity", "memguard.read") if name.guarded else ()
        self._store_name = store_name
        self._mg: MemGuard | None = None
        self._wrapped: Any = None

    @property
    def adversary_holds(self) -> tuple[str, ...]:
        """Store and, where there is a guard, its home; the anchor only where the name says so."""
        if not self.guarded:
            return (STORE,)
        return (STORE, HOME, ANCHOR) if self.spec.anchor_held else (STORE, HOME)

    @property
    def anchor_folder(self) -> str:
        """Where the anchor is, relative to the cell."""
        return f"{HOME}/{ANCHOR}" if self.spec.rung == "head-beside" else ANCHOR

    @property
    def keeps_head(self) -> bool:
        """Whether the configuration keeps a head, which the ladder's lower rungs do not."""
        return self.guarded and self.spec.rung not in ("tag", "chain")

    def setup(self) -> None:
        """Make the store's folder and, for a guarded SUT, create the guard's home, key and anchor."""
        super().setup()
        if not self.guarded:
            return
        from memguard import MemGuard

        (self.cell / KEYS).mkdir(parents=True, exist_ok=True)
        MemGuard.create(
            self.cell / HOME,
            preset="balanced",
            anchor=f"file:{self.cell / self.anchor_folder}",
            keys=f"file:{self.cell / KEYS / 'key.json'}",
            config={**_QUIET, "integrity": {"level": _LEVELS[self.spec.rung]}},
        ).close()

    def wrap(self, inner: Any) -> Any:
        """``inner`` itself, or guarded by a freshly opened MemGuard."""
        if not self.guarded:
            return inner
        from memguard import MemGuard

        self._mg = MemGuard.open(self.cell / HOME)
        self._wrapped = self._mg.guard(inner, name=self._store_name)
        return self._wrapped

    def sister(self, context: str) -> None:
        """The same life in a second database: stopped here, started there under another name, and back again."""
        self.stop()
        here = self._store_name, self._file, self.records
        self._store_name, self._file, self.records = f"other-{here[0]}", "sister.db", {}
        try:
            self.start()
            self.retell(here[2], context)
            last = here[2][context][-1]
            said = f"{last.text}, said elsewhere"
            self.write(replace(last, n=last.n + 1, text=said, earlier=(*last.earlier, last.text)))
            self.stop()
        finally:
            self._store_name, self._file, self.records = here
        self.start()

    def retell(self, records: Mapping[str, Sequence[Record]], context: str) -> None:
        """Write one context's records again, in a store that holds nothing yet."""
        for record in records[context]:
            self.write(record)

    def unwrap(self) -> None:
        """Close the guard, if there is one."""
        mg, self._mg, self._wrapped = self._mg, None, None
        if mg is not None:
            mg.close()

    def audit(self) -> list[str]:
        """Findings of ``mg.audit``, as case and record identifiers."""
        if self._mg is None:
            return super().audit()
        report = self._mg.audit(self._wrapped)
        return [f"{f.code} {f.case} {f.record}" for f in report.findings]

    def is_integrity_error(self, error: BaseException) -> bool:
        """memguard's integrity errors, and its refusal to write to what was deleted."""
        return self.guarded and isinstance(error, (IntegrityError, RefusedError))

    def guard_features(self) -> dict[str, str]:
        """What the guard adds, in the report's words."""
        if not self.guarded:
            return {"memguard": "off (off by default)"}
        words = {
            "tag": "on: every record tagged; no chain, no head",
            "chain": "on: records tagged and chained; no head",
            "head-beside": "on: tags, chain and head; the head lies in the guard's own folder, beside the store",
            "": "on: tags, chain and head; the head lies in an anchor outside store and home",
        }
        return {"memguard": words[self.spec.rung]}

    @staticmethod
    def package_versions(*names: str) -> dict[str, str]:
        """Installed versions of the named distributions."""
        return {name: importlib.metadata.version(name) for name in names}
