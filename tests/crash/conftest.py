"""The programs of this folder run as processes of their own; tests reach their modules by this folder's name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import memguard.anchorlog
import memguard.engine

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # crash_model and crash_machine, which the programs import in the same way


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that runs in this process sets a short harvest and a boot of its own: not for the tests after it."""
    monkeypatch.setattr(memguard.anchorlog, "HARVEST", memguard.anchorlog.HARVEST)
    monkeypatch.setattr(memguard.engine, "boot_id", memguard.engine.boot_id)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The full runs take minutes: they are asked for with ``-m crash_full`` (``make crash``)."""
    if "crash_full" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("crash_full"):
            item.add_marker(pytest.mark.skip(reason="minutes long: make crash"))
