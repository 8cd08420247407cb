"""A run: a folder of append-only cells, one file per worker, resumable by id.

RUN/run.json            the configuration, its digest and the date of the first start
RUN/cells/NAME.jsonl    finished cells: {"id", "value", "digest"}; a line that a kill cut short is dropped
RUN/result.json         the result, written when every cell is there
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memguard.errors import ConfigError

RUNS = Path(".memguard") / "runs"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class RunDir:
    """One run's folder.

    Args:
        path: the folder; made if absent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def result(self) -> Path:
        """The result file."""
        return self.path / "result.json"

    def begin(self, config: Mapping[str, Any], config_digest: str, *, resume: bool) -> str:
        """Start or continue; the date of the first start.

        Raises:
            ConfigError: the folder holds another run, or a started one that was not asked to be resumed.
        """
        file = self.path / "run.json"
        if not file.exists():
            (self.path / "cells").mkdir(parents=True, exist_ok=True)
            date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            made = {"config": dict(config), "config_digest": config_digest, "date": date}
            file.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
            return date
        found = json.loads(file.read_text(encoding="utf-8"))
        if found.get("config_digest") != config_digest:
            raise ConfigError(
                f"{self.path} holds a run of another configuration",
                why="Cells of different configurations are never mixed.",
                do="give another --run DIR, or the same options as then",
            )
        if not resume and any(self._lines()):
            raise ConfigError(f"{self.path} holds cells already", do="add --resume to go on with them")
        return str(found["date"])

    def _lines(self) -> Iterator[dict[str, Any]]:
        for file in sorted((self.path / "cells").glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict) and entry.get("digest") == _digest(entry.get("value")):
                    yield entry

    def cells(self) -> dict[str, Any]:
        """Finished cells by id; the first one counts."""
        found: dict[str, Any] = {}
        for entry in self._lines():
            found.setdefault(entry["id"], entry["value"])
        return found

    def append(self, writer: str, cell_id: str, value: Any) -> None:
        """Add one finished cell to a writer's own file, with one write."""
        name = re.sub(r"[^A-Za-z0-9.-]", "_", writer)
        line = (
            json.dumps({"id": cell_id, "value": value, "digest": _digest(value)}, ensure_ascii=False) + "\n"
        )
        handle = os.open(self.path / "cells" / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def finish(self, document: Mapping[str, Any]) -> None:
        """Write the result beside the cells."""
        self.result.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def latest(root: Path = RUNS) -> Path | None:
    """The newest run folder under ``root``."""
    found = [p for p in root.glob("*") if (p / "run.json").exists()] if root.is_dir() else []
    return max(found, key=lambda p: (p / "run.json").stat().st_mtime, default=None)
