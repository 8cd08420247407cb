"""``memguard explain CODE|CASE``: what a code or a case means, what usually causes it, what to do."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

import click

from memguard.cli.output import Report, reporting


@dataclass(frozen=True, slots=True)
class Page:
    """One page of ``explain.toml``.

    ``code`` is a rule code, a case of the integrity bench or a control; ``cause`` and ``do`` may be empty for
    cases, which are edits an adversary makes and have no "typical cause".
    """

    code: str
    title: str
    means: str
    cause: str
    do: str

    def text(self) -> str:
        """The page for a terminal."""
        parts = [f"{self.code}  {self.title}", "", _fill(self.means)]
        if self.cause:
            parts += ["", "Usual cause", _fill(self.cause)]
        if self.do:
            parts += ["", "What to do", _fill(self.do)]
        return "\n".join(parts)


def _fill(text: str) -> str:
    import textwrap

    return textwrap.fill(
        " ".join(text.split()),
        width=98,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@functools.cache
def pages() -> Mapping[str, Page]:
    """Every page by its code, in the order of the file."""
    source = importlib.resources.files("memguard.cli").joinpath("explain.toml").read_text(encoding="utf-8")
    found: dict[str, Page] = {}
    for code, entry in tomllib.loads(source).items():
        found[code] = Page(
            code,
            entry["title"],
            entry["means"].strip(),
            entry.get("cause", "").strip(),
            entry.get("do", "").strip(),
        )
    return found


@click.command("explain")
@click.argument("code", required=False)
@reporting
def explain(code: str | None) -> Report:
    """Explain a code such as MG401 or a case such as T7.

    Without CODE, list every code and case with its title.
    """
    known = pages()
    if code is None:
        rows = [{"code": page.code, "title": page.title} for page in known.values()]
        return Report("explain", columns=("code", "title"), rows=rows)
    wanted = code.strip().upper()
    page = known.get(wanted)
    if page is None:
        close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        raise click.UsageError(f'No page for "{code}".{hint} Run memguard explain for the list.')
    facts = {"code": page.code, "title": page.title, "means": page.means, "cause": page.cause, "do": page.do}
    return Report("explain", facts=facts, rows=[facts], columns=("code", "title"), text=page.text())
