"""Entries as a database for sqlite-utils and datasette: one table, and views that answer the usual questions."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memguard.quarantine.entry import Entry, Kept
from memguard.record import text_of

#: Name of each view to its statement.
VIEWS = {
    "waiting": "SELECT * FROM quarantine WHERE state = 'waiting' ORDER BY time",
    "by_rule": "SELECT code, rule, source, state, count(*) AS entries, sum(times) AS writes, max(score) AS top_score "
    "FROM quarantine GROUP BY code, rule, source, state ORDER BY entries DESC",
    "by_source": "SELECT source, trust, state, count(*) AS entries, min(time) AS first, max(time) AS last "
    "FROM quarantine GROUP BY source, trust, state ORDER BY entries DESC",
    "never_reviewed": "SELECT * FROM quarantine WHERE state = 'purged' AND \"by\" = ''",
}


def write(path: Path, entries: Iterable[Entry], opened: Mapping[str, Kept], *, with_content: bool) -> None:
    """Write the table ``quarantine`` anew, with its views. Content only for what was opened."""
    from sqlite_utils import Database

    database = Database(path)
    table: Any = database["quarantine"]
    table.drop(ignore=True)
    rows = [_row(entry, opened.get(entry.id), with_content) for entry in entries]
    table.create(
        {name: kind for name, kind in _COLUMNS.items() if with_content or name not in _CONTENT}, pk="id"
    )
    table.insert_all(rows, pk="id")
    for name, statement in VIEWS.items():
        database.create_view(name, statement, replace=True)
    database.conn.close()


_CONTENT = ("namespace", "key", "text", "value", "evidence")
_COLUMNS: dict[str, Any] = {
    "id": str, "state": str, "time": str, "store": str, "context": str, "code": str, "rule": str, "guard": str,
    "source": str, "trust": str, "score": float, "times": int, "like": int, "size": int, "changed": str, "by": str,
    "note": str, "namespace": str, "key": str, "text": str, "value": str, "evidence": str,
}  # fmt: skip


def _row(entry: Entry, kept: Kept | None, with_content: bool) -> dict[str, Any]:
    values = {**entry.as_dict(), "time": _moment(entry.time), "changed": _moment(entry.changed)}
    if with_content:
        found = None if kept is None else {
            "namespace": _plain(kept.context),
            "key": _plain(kept.key),
            "text": _plain(text_of(kept.value)),
            "value": json.dumps(kept.value),
            "evidence": json.dumps(kept.decision.get("evidence", [])),
        }  # fmt: skip
        values |= found or dict.fromkeys(_CONTENT)
    return values


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _plain(text: str) -> str:
    """Text that a database can hold: lone surrogates spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
