"""How a bench answers: the options of every bench command, and writing one answer in several forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "json", "jsonl", "md")
SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".md": "md", ".txt": "table"}

#: ``--json FILE``.
json_option = click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the result to FILE."
)


def _checked(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    for file in files:
        if file.suffix not in SUFFIXES:
            raise click.BadParameter(f"{file.name}: the suffix must be one of {' '.join(SUFFIXES)}")
    return files


def form_options(command: F) -> F:
    """``--format`` and ``-o FILE``; what is given is passed as ``form`` and ``files``."""
    output = click.option(
        "-o",
        "--output",
        "files",
        multiple=True,
        metavar="FILE",
        callback=_checked,
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write it to FILE, in the form of its suffix (json jsonl md txt). Repeatable.",
    )
    form = click.option(
        "--format", "form", type=click.Choice(FORMATS), default="table", help="Form of the answer on stdout."
    )
    return form(output(command))


def answer(
    render: Callable[[str], str], form: str, files: Iterable[Path], *, json_files: Iterable[Path | None] = ()
) -> None:
    """Write an answer to files, each in the form of its suffix, and print it.

    Args:
        render: form to text.
        json_files: files that get JSON whatever they are called; None for none.
    """
    outputs = [(file, "json") for file in json_files if file is not None]
    for path, kind in [*outputs, *((file, SUFFIXES[file.suffix]) for file in files)]:
        path.write_text(render(kind) + "\n", encoding="utf-8")
    click.echo(render(form))
