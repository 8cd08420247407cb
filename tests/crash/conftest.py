"""The programs of this folder run as processes of their own; tests reach their modules by this folder's name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # crash_model and crash_machine, which the programs import in the same way


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The full runs take minutes: they are asked for with ``-m crash_full`` (``make crash``)."""
    if "crash_full" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("crash_full"):
            item.add_marker(pytest.mark.skip(reason="minutes long: make crash"))
