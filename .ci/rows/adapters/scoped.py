"""Adapters of the reference implementation, changed in one place each.

``OneContext``: adapters whose victims are all records of the store, narrowed to one context. Control C3 of edit T6
asks that seeding a second context leaves the first one's records as they were. Where an adapter lists every record of
the store as a victim, that control fails and the cell is an error of the harness.

``LangGraphLedgerHeld``: the whole store of T9 holds "every file and sidecar", so the ledger goes back too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from agmi.adapters.base import Record


class OneContext:
    """Victims are the records of the owner of the oldest record. The first context is seeded first, so the
    positions of its records stay what they are in the whole store."""

    def read_all_raw(self) -> list[Record]:
        found: list[Record] = super().read_all_raw()  # type: ignore[misc]
        mine: Any = self
        return [r for r in found if mine.owner_of(r) == mine.owner_of(found[0])] if found else found


def _narrowed(module: str, name: str) -> type:
    import importlib

    return type(name, (OneContext, getattr(importlib.import_module(f"agmi.adapters.{module}"), name)), {})


def _ledger_held() -> type:
    from agmi.adapters.langgraph_ledger import LangGraphLedgerAdapter

    class LangGraphLedgerHeld(LangGraphLedgerAdapter):
        """The checkpoint database and the ledger beside it, copied and put back together."""

        name = "langgraph-ledger+dir"

        def snapshot_store(self) -> object:
            copy = Path(tempfile.mkdtemp(prefix="rows-ledger-")) / "traces"
            token = super().snapshot_store()
            shutil.copytree(self._traces, copy)
            return token, copy

        def restore_store(self, token: Any) -> None:
            shutil.rmtree(self._traces)
            shutil.copytree(token[1], self._traces)
            super().restore_store(token[0])

    return LangGraphLedgerHeld


def __getattr__(name: str) -> type:
    """The narrowed adapter of that name; each package is imported only in its own environment."""
    if name == "Mem0AtRestAdapter":
        return _narrowed("mem0_at_rest", name)
    if name.startswith("Inspeximus"):
        return _narrowed("inspeximus_rows", name)
    if name == "LangGraphLedgerHeld":
        return _ledger_held()
    raise AttributeError(name)
