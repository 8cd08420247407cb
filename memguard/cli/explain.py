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
    """Every page of ``explain.toml`` by its code, in the order of the file."""
    source = importlib.resources.files("memguard.cli").joinpath("explain.toml").read_text(encoding="utf-8")
    found: dict[str, Page] = {}
    for code, entry in tomllib.loads(source).items():
        text = {name: entry.get(name, "").strip() for name in ("title", "means", "cause", "do")}
        found[code] = Page(code, **text)
    return found


def case_pages() -> Mapping[str, Page]:
    """The bench's own cases (X01...), as the bench itself describes them: one text, kept in one place."""
    from memguard import registry

    found = {}
    for name in registry.cases.names():
        case = registry.cases.get(name)
        edit, _, then = case.plain.partition("; ")
        subject = "The" if edit.startswith("the anchor is") else "An adversary"
        rest = edit.removeprefix("the ") if subject == "The" else edit
        means = f"{subject} {rest}{'; ' + then if then else ''}. A refusal shows that {case.passes}."
        found[name] = Page(name, case.title, means, "", "")
    return found


@click.command("explain")
@click.argument("code", required=False)
@reporting
def explain(code: str | None) -> Report:
    """Explain a code such as MG401 or a case such as T7.

    Without CODE, list every code and case with its title.
    """
    known = pages()
    wanted = code.strip().upper() if code is not None else ""
    if not wanted or wanted not in known:
        known = {**case_pages(), **known}
    if not wanted:
        rows = [{"code": page.code, "title": page.title} for _, page in sorted(known.items())]
        return Report("explain", columns=("code", "title"), rows=rows)
    page = known.get(wanted)
    if page is None:
        # Pages are numbered by subject: one that begins the same is nearer than one with the same digits elsewhere.
        near = [code for code in known if code[:4] == wanted[:4]] or known
        close = difflib.get_close_matches(wanted, near, n=1, cutoff=0.5)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        raise click.UsageError(f'No page for "{code}".{hint} Run memguard explain for the list.')
    facts = {"code": page.code, "title": page.title, "means": page.means, "cause": page.cause, "do": page.do}
    return Report("explain", facts=facts, rows=[facts], columns=("code", "title"), text=page.text())
