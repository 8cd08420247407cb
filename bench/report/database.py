"""``-o FILE.db``: a result as plain tables, for datasette and sqlite-utils."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlite_utils import Database

_APART = ("cells", "controls")


def write(document: Mapping[str, Any], path: Path) -> None:
    """Write tables ``runs``, ``rows``, ``controls`` and ``cells``; a run that is there already is replaced."""
    database = Database(path)
    run = document["manifest"]["digest"][:12]
    about = {k: v for k, v in document.items() if k not in ("rows", "cases", "rules", "manifest")}
    _table(database, "runs", [{"run": run, **about}], ("run",))
    made = document["rows"]
    _table(database, "rows", [{"run": run, "row": _name(r), **_without(r)} for r in made], ("run", "row"))
    controls = [
        {"run": run, "row": _name(r), "control": name, **control}
        for r in made
        for name, control in r["controls"].items()
    ]
    _table(database, "controls", controls, ("run", "row", "control"))
    _table(database, "cells", list(_cells(document, run)), ("run", "row", "case"))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['sut']} {row['detection_point']}" + ("" if row["stopped"] else " alive")


def _without(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in _APART}


def _cells(document: Mapping[str, Any], run: str) -> Iterator[dict[str, Any]]:
    for row in document["rows"]:
        for case, cell in row["cells"].items():
            about = document["cases"][case]
            yield {
                "run": run,
                "row": _name(row),
                "case": case,
                "title": about["title"],
                "edit": about["edit"],
                **cell,
            }


def _table(database: Database, name: str, found: list[dict[str, Any]], key: tuple[str, ...]) -> None:
    flat = [{k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in row.items()} for row in found]
    database[name].insert_all(flat, pk=key, replace=True, alter=True)  # type: ignore[union-attr]
