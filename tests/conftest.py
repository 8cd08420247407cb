"""What every test shares: Hypothesis without wall-clock deadlines, and the package as a user gets it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# A deadline would measure the machine. On a CI the examples are the same each time, to repeat a red run.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the freshly built wheel unpacked (.ci/unpack.py fails if the wheel is not the tree).

    Tests that ask for it carry the mark `xdist_group("wheel")`, so that one worker builds it once.
    """
    spec = importlib.util.spec_from_file_location("unpack", ROOT / ".ci" / "unpack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("wheel") / "unpacked"
    module.unpack(folder)
    return folder
