"""One virtual environment per package, made with the newest releases and thrown away when asked."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INSTALL_SECONDS = 900


class NotInstalled(Exception):
    """An environment could not be made; the text is the reason of its rows."""


def _run(words: Sequence[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"the installation took longer than {INSTALL_SECONDS} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith(("ERROR", "error", "  ×"))]
        raise NotInstalled(f"it does not install: {(said or ['no message'])[-1][:140]}")


class Environments:
    """The environments of a catalogue, below one folder.

    Args:
        folder: where they are kept.
        catalogue: the parsed rows.toml.
        upgrade: look for newer releases in environments that exist already.
    """

    def __init__(self, folder: Path, catalogue: Mapping[str, Any], *, upgrade: bool) -> None:
        self._folder, self._catalogue, self._upgrade = folder.resolve(), catalogue, upgrade
        self._made: dict[str, Path | NotInstalled] = {}

    def python(self, name: str) -> Path:
        """The interpreter of an environment, made if need be.

        Raises:
            NotInstalled: with the reason.
        """
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except NotInstalled as reason:
                self._made[name] = reason
        found = self._made[name]
        if isinstance(found, NotInstalled):
            raise found
        return found

    def _make(self, name: str) -> Path:
        folder = self._folder / name
        python = folder / "bin" / "python"
        fresh = not python.exists()
        if fresh:
            venv.create(folder, with_pip=True, clear=True)
        if not (fresh or self._upgrade):
            return python
        dated = self._catalogue.get("dated", {}).get(name)
        harness = self._catalogue["harness"]
        if dated:
            uv = [str(self._uv()), "pip", "install", "--quiet", "--python", str(python)]
            _run([*uv, "--exclude-newer", dated["until"], *dated["install"]])
            _run([*uv, harness])
        else:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
            _run([*pip, harness, *self._catalogue["environments"][name]])
        return python

    def _uv(self) -> Path:
        """pip cannot install libraries as of a day; uv can."""
        folder = self._folder / "uv"
        if not (folder / "bin" / "uv").exists():
            venv.create(folder, with_pip=True, clear=True)
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
        return folder / "bin" / "uv"


def newest(kind: str, name: str) -> str | None:
    """The newest version of a package under that name on an index (``pip`` or ``npm``); None if there is none."""
    if kind == "npm":
        words = ["npm", "view", name, "version"]
    else:
        words = [sys.executable, "-m", "pip", "index", "versions", name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=90)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    text = done.stdout.strip()
    first = text.splitlines()[0] if text else ""
    return first.partition("(")[2].rstrip(")") or None if kind == "pip" else first or None
