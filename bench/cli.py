"""``memguard bench``: the command group. Data to stdout, progress to stderr, exit codes of the design page.

0 clean, 1 a gate failed, 2 usage or configuration, 3 not evaluable (beats 1), 130 interrupted and resumable.
Gates look at guarded SUTs with a head elsewhere; bare ones and the ladder are there to be compared with.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from memguard.bench.answers import FORMATS, SUFFIXES, json_option
from memguard.bench.attack.command import attack
from memguard.bench.cost.command import cost
from memguard.bench.overhead.command import overhead
from memguard.bench.reading.command import reading
from memguard.cli.groups import Group

_SUFFIX = {**SUFFIXES, ".db": "db"}


@click.group(cls=Group)
def bench() -> None:
    """Measure a memory: what it costs to guard it, and what that buys."""


bench.add_command(attack)
bench.add_command(cost)
bench.add_command(overhead)
bench.add_command(reading)


def exit_for(document: Mapping[str, Any], fail_on: str) -> tuple[int, str]:
    """Exit code and its reason, for a finished result."""
    rows = [r for r in document["rows"] if r["stopped"]]
    broken = [r["sut"] for r in rows if not r["evaluable"]]
    if broken:
        return 3, f"not evaluable: {', '.join(dict.fromkeys(broken))}"
    astray = [r["sut"] for r in rows if not r["controls"]["C3"]["ok"]]
    if astray:
        return 3, f"an edit did not land: {', '.join(dict.fromkeys(astray))}"
    if fail_on == "none":
        return 0, ""
    gated = [r for r in rows if r["guarded"] and "@" not in r["sut"] and ":" not in r["sut"]]
    alarmed = [r["sut"] for r in gated if not r["controls"]["C4"]["ok"]]
    if alarmed:
        return 1, f"a clean store raised an alarm (C4): {', '.join(dict.fromkeys(alarmed))}"
    points = ("read", "audit") if fail_on == "audit" else ("read",)
    failed = []
    for row in gated:
        if row["detection_point"] in points:
            bad = [c for c, cell in row["cells"].items() if cell["strict_verdict"] in ("ACCEPTED", "ERROR")]
            failed += [f"{row['sut']} {row['detection_point']}: {' '.join(bad)}"] if bad else []
    return (1, "served or not refused properly: " + "; ".join(failed)) if failed else (0, "")


def _markdown(document: Mapping[str, Any]) -> str:
    from memguard.bench.integrity import table

    return "### memguard bench integrity\n\n```\n" + table.render(document) + "\n```"


def _form(document: Mapping[str, Any], form: str) -> str:
    from memguard.bench.integrity import table

    if form == "json":
        return json.dumps(document, indent=1, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    return _markdown(document) if form == "md" else table.render(document)


@bench.command()
@click.option(
    "--sut",
    "suts",
    multiple=True,
    metavar="NAME",
    help="A system under test. Repeatable; several may follow.",
)
@click.argument("more", nargs=-1)
@click.option(
    "--quick", is_flag=True, help="SqliteSaver and SqliteStore, bare and guarded, without the ladder."
)
@json_option
@click.option(
    "--run", "run", type=click.Path(file_okay=False, path_type=Path), help="Folder of the run's cells."
)
@click.option(
    "--resume", is_flag=True, help="Go on with a run that was interrupted (the newest, without --run)."
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Number from which the seeded records follow."
)
@click.option("--alive", is_flag=True, help="Add a row with the edit made under the running process.")
@click.option("--jobs", type=int, default=None, help="Worker processes. Default: one more than processors.")
@click.option(
    "--fail-on",
    type=click.Choice(["accepted", "audit", "none"]),
    default="accepted",
    show_default=True,
    help="Exit 1 if a guarded system serves an edit; audit: or if its audit misses one.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", help="Form of the answer on stdout."
)
@click.option(
    "-o", "--output", "files", multiple=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE"
)
@click.pass_context
def integrity(
    context: click.Context,
    suts: tuple[str, ...],
    more: tuple[str, ...],
    quick: bool,
    json_file: Path | None,
    run: Path | None,
    resume: bool,
    seed: int,
    alive: bool,
    jobs: int | None,
    fail_on: str,
    form: str,
    files: tuple[Path, ...],
) -> int:
    """Edit stores at rest, nine ways and more, and see what is served.

    Each SUT is seeded through its own write path, stopped, edited once with generic tools, started again and read.
    """
    from memguard.bench.integrity import rows
    from memguard.bench.integrity import run as running
    from memguard.bench.report import rundir
    from memguard.bench.suts import names

    for file in files:
        if file.suffix not in _SUFFIX:
            raise click.BadParameter(f"{file.name}: the suffix must be one of {' '.join(_SUFFIX)}")
    if more and not suts:
        raise click.UsageError("names of systems come after --sut")
    chosen = tuple(dict.fromkeys([*suts, *more])) or (names.QUICK if quick else names.DEFAULT)
    for name in chosen:
        names.build(name, Path("unused"))  # a wrong or missing one is said before anything runs
    config = rows.configuration(chosen, seed, alive)
    where = run or (rundir.latest() if resume else None) or rundir.RUNS / uuid.uuid4().hex[:6]
    folder = rundir.RunDir(where)
    quiet = bool(context.find_root().params.get("quiet"))
    date = folder.begin(config, rows.digest(config), resume=resume)
    try:
        running.run_all(chosen, where, seed, alive=alive, quiet=quiet, jobs=jobs)
    except KeyboardInterrupt:
        kept = len(folder.cells())
        click.echo(
            f"stopped. {kept} cells kept. go on: memguard bench integrity --resume --run {where}", err=True
        )
        return 130
    document = rows.document(config, running.assemble(chosen, where, alive), date)
    code, reason = exit_for(document, fail_on)
    document["exit"] = {"code": code, "reason": reason}
    folder.finish(document)
    for file in [*([json_file] if json_file else []), *files]:
        kind = "json" if file == json_file else _SUFFIX[file.suffix]
        if kind == "db":
            from memguard.bench.report import database

            database.write(document, file)
        else:
            file.write_text(_form(document, kind) + "\n", encoding="utf-8")
    click.echo(_form(document, form))
    if reason:
        click.echo(reason, err=True)
    return code


@bench.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
def verify(path: Path, form: str) -> int:
    """Recount a result FILE, or the result of a run folder, from its evidence; exit 1 if anything differs."""
    from memguard.bench.integrity import verify as recount

    found = recount.verify(path)
    if form == "json":
        wrong = [
            {"ground": r.ground, "where": r.where, "means": recount.GROUNDS[r.ground]}
            for r in found.rejections
        ]
        counts = {"rows": found.rows, "cells": found.cells, "numbers": found.numbers}
        click.echo(json.dumps({"ok": found.ok, **counts, "rejections": wrong}, indent=1))
    else:
        click.echo(f"{found.rows} rows, {found.cells} cells, {found.numbers} numbers recomputed")
        for rejection in found.rejections:
            click.echo(f"  {rejection}")
        click.echo("ok: every printed number follows from the evidence" if found.ok else "REJECTED")
    return 0 if found.ok else 1


@bench.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def summary(files: tuple[Path, ...]) -> int:
    """Print what FILES, results of the two benches, say in five lines; make bench ends with it.

    A file that is not there, because its bench was stopped, is said to have no result.
    """
    from memguard.bench.report import short

    found: dict[str, dict[str, Any]] = {}
    for file in files:
        document = _result(file) if file.exists() else None
        if file.exists() and document is None:
            raise click.UsageError(f"{file} is no result of a bench")
        if document is not None:
            found[document["bench"]] = document
    click.echo("\n".join(short.lines(found.get("integrity"), found.get("overhead"))))
    return 0


@bench.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare(before: Path, after: Path) -> int:
    """Compare two results of the integrity bench, cell by cell; exit 1 if a guarded system got worse."""
    old, new = _load(before), _load(after)
    if old["config"].get("suite") != new["config"].get("suite"):
        click.echo("the two results are of different suites: cells are not compared", err=True)
        return 3
    lines, worse = differences(old["rows"], new["rows"])
    click.echo("\n".join(lines) if lines else "no verdict differs")
    return 1 if worse else 0


_RANK = {"ACCEPTED": 0, "ERROR": 1, "REPORTED": 2, "REJECTED": 3}


def differences(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    """Lines that name every cell whose strict verdict differs, and whether a guarded SUT got worse."""
    lines, worse = [], False
    earlier = {(r["sut"], r["detection_point"], r["stopped"]): r for r in old}
    for row in new:
        before = earlier.pop((row["sut"], row["detection_point"], row["stopped"]), None)
        if before is None:
            lines.append(f"{row['sut']} {row['detection_point']}: new")
            continue
        for case, cell in row["cells"].items():
            was = before["cells"].get(case, {}).get("strict_verdict", "absent")
            now = cell["strict_verdict"]
            if was != now:
                lines.append(f"{row['sut']} {row['detection_point']} {case}: {was} -> {now}")
                worse |= row["guarded"] and _RANK.get(now, 9) < _RANK.get(was, 0)
        for key in ("strict_metric", "strict_level"):
            if before[key] != row[key]:
                lines.append(f"{row['sut']} {row['detection_point']} {key}: {before[key]} -> {row[key]}")
    lines += [f"{sut} {point}: gone" for sut, point, _ in earlier]
    return lines, worse


def _load(path: Path) -> dict[str, Any]:
    found = _result(path)
    if found is None or found["bench"] != "integrity":
        raise click.UsageError(f"{path} is no result of the integrity bench")
    return found


def _result(path: Path) -> dict[str, Any] | None:
    """The published document in a file or a run's folder; None if it is none."""
    file = path / "result.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["schema"] == "memguard.bench/1" and found["bench"] in ("integrity", "overhead"):
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
