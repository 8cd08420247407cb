"""Write the generated parts of the documentation: help texts, rule codes, settings, the bench's own cases.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. The tests
compare every part with what the code says now; after a change of the code run

    python tests/docs/refresh.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parents[2]
PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, in the order of its help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, f"{path} {name}")


def help_of(command: click.Command, path: str) -> str:
    """What ``--help`` prints, at a width of 100 whatever terminal this runs in."""
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    context.help_option_names = ["-h", "--help"]
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def helps() -> str:
    """One section per command with its help text."""
    from memguard.cli.app import cli

    sections = []
    for path, command in commands(cli, "memguard"):
        level = "##" if path.count(" ") < 2 else "###"
        sections.append(f"{level} {path}\n\n```text\n{help_of(command, path)}\n```\n")
    return "\n" + "\n".join(sections) + "\n"


def codes() -> str:
    """A table of every rule code with its title."""
    from memguard.cli.explain import pages

    rows = [f"| {page.code} | {page.title} |" for page in pages().values() if page.code.startswith("MG")]
    return "\n".join(["| code | title |", "|---|---|", *rows]) + "\n\n"


def own_cases() -> str:
    """A table of the bench's own cases."""
    from memguard.cli.explain import pages

    rows = [
        f"| {p.code} | {p.title} | {p.means} |" for p in pages().values() if re.fullmatch(r"X\d+", p.code)
    ]
    return "\n".join(["| case | title | what is done |", "|---|---|---|", *rows]) + "\n\n"


def words(annotation: Any) -> str:
    """The values that a field takes, for a table."""
    if get_origin(annotation) is None:
        return {"int": "whole number", "float": "number", "str": "text"}.get(
            getattr(annotation, "__name__", ""), getattr(annotation, "__name__", "")
        )
    inner = [value for value in get_args(annotation) if isinstance(value, str)]
    if inner:
        return ", ".join(inner)
    named = [words(value) for value in get_args(annotation) if value is not type(None)]
    return "table" if "Mapping" in str(get_origin(annotation)) else ", ".join(filter(None, named)) or "text"


def shown(value: Any) -> str:
    """A default as it would be written in TOML."""
    if value is None or value is PydanticUndefined:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}".replace(",", "_") if isinstance(value, int) else str(value)
    return f'"{value}"' if isinstance(value, str) else "see above"


def fields(model: type[BaseModel], path: str) -> Iterator[str]:
    """One row per setting of a model and of the tables in it."""
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias or name}"
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from fields(annotation, f"{key}.")
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        default_text = "-" if default == {} else shown(default)
        yield f"| `{key}` | {words(annotation)} | {default_text} | {field.description or ''} |"


def settings() -> str:
    """A table of every setting with its values, default and meaning."""
    from memguard.settings import Config, Store

    rows = [row for row in fields(Config, "") if not row.startswith("| `stores`")]
    rows += fields(Store, "stores.NAME.")
    return (
        "\n".join(["| setting | values | default (balanced) | meaning |", "|---|---|---|---|", *rows])
        + "\n\n"
    )


PARTS: dict[str, Callable[[], str]] = {
    "help": helps,
    "codes": codes,
    "own cases": own_cases,
    "settings": settings,
}


def refreshed(text: str) -> str:
    """A page with every generated part as the code has it now."""
    return PART.sub(lambda match: match[1] + PARTS[match[2]]() + match[3], text)


def pages_with_parts() -> list[Path]:
    """The pages that hold a generated part."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if PART.search(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for page in pages_with_parts():
        old = page.read_text(encoding="utf-8")
        new = refreshed(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}", file=sys.stderr)
