"""A working directory, a user's home and an environment of their own for every command that is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memguard.cli.app import cli


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; no configuration of this machine is seen."""
    for name in ("MEMGUARD_CONFIG", "MEMGUARD_STATE", "MEMGUARD_MODE", "MEMGUARD_ANCHOR", "MEMGUARD_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MEMGUARD_KEY_FILE", "MEMGUARD_LOG", "MEMGUARD_PASSPHRASE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    work, user = tmp_path / "work", tmp_path / "user"
    work.mkdir()
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user / ".config"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(work)
    return work


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run the command line in this process; ``.exit_code``, ``.stdout`` and ``.stderr`` come back."""

    def invoke(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(cli, list(args), input=input)

    return invoke


@pytest.fixture
def data() -> Callable[[Result], dict[str, Any]]:
    """The JSON document that a command printed."""

    def parse(result: Result) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return parse


@pytest.fixture
def process(place: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a process of its own, in the working directory."""

    def start(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from memguard.cli import main; main()", *args],
            cwd=place,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start
