"""``memguard conformance``: a suite for one's own store, written once and run by its maintainers and their CI.

Exit codes: 0 nothing to find, 1 a claim is not kept, 2 usage (no suite, no pytest, a suite that does not run), 3 a
control failed or an edit did not land.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from memguard.bench.integrity.cases import BY_ID
from memguard.cli.groups import Group
from memguard.errors import ConfigError, UnsupportedError

_TEMPLATE = Path(__file__).with_name("templates") / "test_memory_store.py.txt"
#: pytest's own exit codes.
_NO_TESTS, _RAN = 5, (0, 1)


@click.group(cls=Group)
def conformance() -> None:
    """Measure your own store with the bench's cases, bare and guarded."""


@conformance.command()
@click.argument("path", default="tests/test_memory_store.py", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(path: Path, force: bool) -> int:
    """Write a suite to PATH that runs as it is, for a small store in a JSON file; put yours in its place."""
    if path.exists() and not force:
        raise ConfigError(
            f"{path} is there already",
            code="MG620",
            why="A suite that somebody wrote is not written over.",
            do="Give another PATH, or --force.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    click.echo(f"wrote {path}\nrun it:  memguard conformance run {path}    (or: pytest {path})")
    return 0


@conformance.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the result to FILE."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML to FILE.")
@click.option("--md", type=click.Path(dir_okay=False, path_type=Path), help="Write Markdown to FILE.")
@click.option(
    "--badge",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an SVG badge of the last guarded row (the last bare one, if none is guarded) to FILE.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "md"]),
    default="table",
    help="Form on stdout.",
)
@click.pass_context
def run(
    context: click.Context,
    path: Path,
    cases: tuple[str, ...],
    json_file: Path | None,
    junit: Path | None,
    md: Path | None,
    badge: Path | None,
    form: str,
) -> int:
    """Run the suites in PATH, a file or folder for pytest, and say what each store serves after each edit."""
    from memguard.bench.conformance import findings, measure, report

    for case in cases:
        if case not in BY_ID:
            raise click.BadParameter(f"there is no case {case!r}; memguard explain T1 describes one")
    quiet = bool(context.find_root().params.get("quiet"))
    suites = _suites(path, cases, quiet)
    code, reasons = findings.exit_for(suites)
    document = measure.document(report.rows_of(suites))
    document["exit"] = {"code": code, "reason": "; ".join(reasons)}
    forms: dict[str, Callable[[], str]] = {
        "json": lambda: json.dumps(document, indent=1, ensure_ascii=False),
        "md": lambda: report.markdown(suites).rstrip(),
        "table": lambda: report.table(suites),
    }
    rows = report.rows_of(suites)
    shown = [row for row in rows if row["guarded"]] or rows
    files: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (json_file, forms["json"]),
        (junit, lambda: report.junit(suites).rstrip()),
        (md, forms["md"]),
        (badge, lambda: report.badge(shown[-1]).rstrip()),
    )
    for file, make in files:
        if file is not None:
            file.write_text(make() + "\n", encoding="utf-8")
    click.echo(forms[form]())
    for reason in reasons:
        click.echo(reason, err=True)
    return code


def _suites(path: Path, cases: Sequence[str], quiet: bool) -> list[dict[str, Any]]:
    """What the suites in a file or folder measured, by running pytest on it in a process of its own.

    Raises:
        UnsupportedError: MG621, pytest is not installed.
        ConfigError: MG622, there is no suite there; MG623, pytest could not run it.
    """
    if find_spec("pytest") is None:
        raise UnsupportedError(
            "memguard conformance run needs pytest, which is not installed",
            code="MG621",
            do="pip install 'memguard-middleware[conformance]'",
        )
    with tempfile.TemporaryDirectory(prefix="memguard-conformance-") as folder:
        more = {"MEMGUARD_CONFORMANCE_OUT": folder, "MEMGUARD_CONFORMANCE_CASES": ",".join(cases)}
        # One test per suite is enough to measure it; the verdicts are read from the rows.
        words = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", str(path)]
        words += ["-k", "test_controls and bare"]
        done = subprocess.run(words, env={**os.environ, **more}, capture_output=True, text=True)
        if not quiet and done.returncode not in _RAN:
            click.echo(done.stdout[-4000:], err=True)
        found = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(Path(folder).glob("*.json"))]
    if found:
        return sorted(found, key=lambda suite: str(suite["suite"]))
    if done.returncode == _NO_TESTS:
        raise ConfigError(
            f"there is no suite in {path}",
            code="MG622",
            why="A suite is a class named Test... that inherits from StoreConformance.",
            do="memguard conformance init writes one.",
        )
    raise ConfigError(
        f"the suite in {path} could not be run",
        code="MG623",
        why="pytest ended without a result; its output is above.",
        do=f"pytest {path}",
    )
