"""What a command answers, and the four forms it is printed in.

A command builds one :class:`Report`; this module alone writes it, to stdout and to every ``-o FILE``. Nothing
else of memguard prints data. Progress and warnings go to stderr through :func:`progress`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

FORMATS = ("table", "json", "jsonl", "md")
SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".md": "md", ".txt": "table", ".db": "db"}
SCHEMA = "memguard.cli/1"
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "SKIP": "cyan"}


@dataclass
class Report:
    """One command's answer.

    Args:
        command: its name, such as ``"audit"``.
        code: the exit code it ends with.
        reason: one sentence that explains a code other than 0.
        facts: single values, printed as a block before the table.
        columns: keys of ``rows`` in the order of a table; empty prints no table.
        rows: one mapping per line; values are plain JSON values.
        notes: sentences printed after the table.
        shown: rows that a table or a Markdown page shows at most; JSON and files of rows hold all.
        text: a page to print as it is instead of facts and table (``explain``); JSON keeps facts and rows.
    """

    command: str
    code: int = 0
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shown: int | None = None
    text: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, with its exit code and reason."""
        data: dict[str, Any] = {"schema": SCHEMA, "command": self.command, **self.facts, "rows": self.rows}
        if self.notes:
            data["notes"] = self.notes
        data["exit"] = {"code": self.code, "reason": self.reason}
        return data


def plain(value: object) -> str:
    """A cell's text on one line, with every invisible or control character made visible.

    Record ids come from the store, so an adversary chooses them; a terminal must not obey them.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value) or "-"
    text = str(value)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _page(text: str) -> str:
    """:func:`plain`, line by line."""
    return "\n".join(plain(line) for line in text.split("\n"))


_UNSEEN = re.compile(r"[^ -~]")


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    return json.dumps(char)[1:-1] if char > "~" else char  # JSON has escaped what is below; indents stay


def _json(value: object, indent: int | None = None) -> str:
    """JSON that a terminal may show: what is no printable character is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return _UNSEEN.sub(_escaped, text)


def width(text: str) -> int:
    """Columns that ``text`` takes in a terminal (wide characters take two, combining ones none)."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def colours_on() -> bool:
    """Whether stdout gets colours: ``NO_COLOR`` off, ``FORCE_COLOR`` on, otherwise only on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


_RESULT = re.compile(r"^(PASS|WARN|FAIL|SKIP)(?= )", re.MULTILINE)


def _coloured(found: re.Match[str]) -> str:
    return click.style(found[0], fg=_COLOURS[found[0]])


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], colour: bool) -> list[str]:
    cells = [[plain(row.get(name)) for name in columns] for row in rows]
    if not cells:
        return []
    lines = [[name.replace("_", " ").upper() for name in columns], *cells]
    widths = [max(width(line[i]) for line in lines) for i in range(len(columns))]
    out = []
    for line in lines:
        padded = [cell + " " * (w - width(cell)) for cell, w in zip(line, widths, strict=True)]
        if colour:
            padded = [
                click.style(p, fg=_COLOURS[c]) if c in _COLOURS else p
                for p, c in zip(padded, line, strict=True)
            ]
        out.append("  ".join(padded).rstrip())
    return out


def _markdown(report: Report) -> str:
    def cell(value: object) -> str:
        return plain(value).replace("|", "\\|").replace("<", "&lt;")

    lines = [f"### memguard {report.command}", ""]
    lines += [f"- {key.replace('_', ' ')}: {cell(value)}" for key, value in report.facts.items()]
    if report.rows and report.columns:
        lines += ["", "| " + " | ".join(report.columns) + " |", "|" + "---|" * len(report.columns)]
        for row in report.rows[: report.shown]:
            lines.append("| " + " | ".join(cell(row.get(c)) for c in report.columns) + " |")
    if report.notes:
        lines += ["", *(f"> {plain(note)}" for note in report.notes)]
    return "\n".join(lines)


def render(report: Report, form: str, *, colour: bool = False) -> str:
    """``report`` in one of :data:`FORMATS`, without a final newline."""
    if form == "json":
        return _json(report.as_dict(), indent=2)
    if form == "jsonl":
        rows = report.rows or [report.as_dict()]
        return "\n".join(_json(row) for row in rows)
    if form == "md":
        return _markdown(report)
    if report.text:
        page = _page(report.text)
        return _RESULT.sub(_coloured, page) if colour else page
    pad = max((len(key) for key in report.facts), default=0)
    lines = [f"{key.replace('_', ' '):<{pad}}  {plain(value)}" for key, value in report.facts.items()]
    table = _table(report.columns, report.rows[: report.shown], colour) if report.columns else []
    lines += ([""] if lines and table else []) + table
    return "\n".join(lines + [_page(note) for note in report.notes])


def _write_database(report: Report, path: Path) -> None:
    """Append the rows to a table named after the command, for sqlite-utils and datasette users."""
    from sqlite_utils import Database

    rows = report.rows or [dict(report.facts)]
    flat = [{k: json.dumps(v) if isinstance(v, (list, dict)) else v for k, v in row.items()} for row in rows]
    table = Database(path)[report.command.replace(" ", "_")]
    table.insert_all(flat, alter=True)  # type: ignore[union-attr]


def emit(report: Report, form: str = "table", files: Sequence[Path] = ()) -> int:
    """Print ``report`` on stdout, write it to ``files`` by their suffix, and give back its exit code."""
    for path in files:
        kind = SUFFIXES[path.suffix.lower()]
        if kind == "db":
            _write_database(report, path)
        else:
            path.write_text(render(report, kind) + "\n", encoding="utf-8")
        progress(f"wrote {path}")
    text = render(report, form, colour=form == "table" and colours_on())
    if text:
        click.echo(text, color=colours_on())
    return report.code


def progress(message: str) -> None:
    """One line of progress on stderr, unless ``--quiet``."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("quiet"):
        return
    click.echo(plain(message), err=True)


def _check_suffixes(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in files:
        if path.suffix.lower() not in SUFFIXES:
            raise click.BadParameter(f"{path.name}: the suffix must be one of {' '.join(SUFFIXES)}")
    return files


def reporting(function: Callable[..., Report]) -> Callable[..., int]:
    """Give a command ``--format`` and ``-o FILE``, and let it return a :class:`Report`."""

    @click.option(
        "--format", "form", type=click.Choice(FORMATS), default="table", help="Form of the answer on stdout."
    )
    @click.option(
        "-o",
        "--output",
        "files",
        multiple=True,
        metavar="FILE",
        callback=_check_suffixes,
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Also write it to FILE, in the form of its suffix (json jsonl md txt db). Repeatable.",
    )
    @functools.wraps(function)
    def run(*args: Any, form: str, files: tuple[Path, ...], **kwargs: Any) -> int:
        return emit(function(*args, **kwargs), form, files)

    return run
