"""The reference implementation's adversary against our adapters: nine of nine rejected, on the read path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agmi.adapters.langgraph_sqlite import LangGraphSqliteAdapter
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from agmi.check import verdict
from agmi.runner import run_matrix


def load() -> ModuleType:
    """The adapters beside this file; they are no package, so that ``agmi-check --adapter`` finds them too."""
    spec = importlib.util.spec_from_file_location(
        "agmi_adapters", Path(__file__).with_name("agmi_adapters.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agmi_adapters"] = module
    spec.loader.exec_module(module)
    return module


ADAPTERS = load()


def verdicts(adapter: Any) -> dict[str, tuple[str, str]]:
    found = run_matrix([adapter], [attack() for attack in AT_REST_ATTACKS_WITH_SNAPSHOT])
    assert len(found) == 9
    return {r.attack: (verdict(r, adapter), r.guard or r.error or r.detail) for r in found}


@pytest.mark.parametrize("name", ["GuardedSqliteSaver", "GuardedAsyncSqliteSaver", "GuardedSqliteStore"])
def test_nine_of_nine_are_rejected_on_read(name: str) -> None:
    adapter = getattr(ADAPTERS, name)()
    assert getattr(adapter, "detection_point", "read") == "read"
    found = verdicts(adapter)
    assert {attack: word for attack, (word, _) in found.items()} == dict.fromkeys(found, "REJECTED"), found
    for attack, (
        _,
        detail,
    ) in found.items():  # and each is ours, not some crash that agmi would count as well
        assert any(e in detail for e in ("TamperedError", "RollbackError")), (attack, detail)


@pytest.mark.parametrize(
    "adapter", [LangGraphSqliteAdapter, ADAPTERS.BareSqliteStore], ids=lambda a: a.__name__
)
def test_the_same_edits_are_accepted_bare(adapter: Any) -> None:
    found = verdicts(adapter())
    assert {word for word, _ in found.values()} == {"ACCEPTED"}, found
