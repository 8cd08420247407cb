"""``memguard bench overhead``. Only click is imported until the command runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from memguard.bench.answers import answer, form_options, json_option

if TYPE_CHECKING:
    from memguard.bench.overhead.rows import Row


@click.command("overhead")
@click.option("--quick", is_flag=True, help="Fewer sizes and repetitions, shorter histories: half a minute.")
@click.option(
    "--sut", "suts", multiple=True, metavar="NAME", help="A guarded system. Repeatable; several may follow."
)
@click.argument("more", nargs=-1, metavar="[NAME]...")
@json_option
@click.option(
    "--run",
    "run",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that gets the result as well.",
)
@click.option("--resume", is_flag=True, help="Print what --run DIR already holds, if it is of this plan.")
@click.option("--seed", type=int, default=0, show_default=True, help="Number from which the messages follow.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to work in, on the volume that is to be measured. Default: the system's temporary folder.",
)
@form_options
@click.pass_context
def overhead(
    context: click.Context,
    quick: bool,
    suts: tuple[str, ...],
    more: tuple[str, ...],
    json_file: Path | None,
    run: Path | None,
    resume: bool,
    seed: int,
    work: Path | None,
    form: str,
    files: tuple[Path, ...],
) -> int:
    """Time the guarded operations against the bare ones, interleaved in one run.

    Medians of wall clock and CPU, with what one sync and one bare commit cost here. Targets are printed beside
    the ratios and fail nothing: a timing belongs to the machine that made it. An interrupted run is measured
    from the start, because halves of two moments are not one run.
    """
    from memguard.bench.overhead.rows import Row
    from memguard.bench.overhead.run import KNOWN, SUTS, Plan, measure

    if more and not suts:
        raise click.UsageError("names of systems come after --sut")
    chosen = tuple(dict.fromkeys(_known(name, KNOWN) for name in (*suts, *more))) or SUTS
    quiet = bool(context.find_root().params.get("quiet"))
    started = time.monotonic()

    def say(message: str) -> None:
        if not quiet:
            click.echo(f"  {time.monotonic() - started:5.1f} s  {message}", err=True)

    config = {"bench": "overhead", "quick": quick, "suts": list(chosen), "seed": seed}
    document = _finished(run, config) if resume else None
    if document is None:
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
        plan = Plan.quick() if quick else Plan.full()
        try:
            with TemporaryDirectory(prefix="memguard-overhead-", dir=work) as folder:
                rows = measure(replace(plan, seed=seed), Path(folder) / "run", suts=chosen, say=say)
        except KeyboardInterrupt:
            click.echo("stopped. nothing is kept: this is measured in one run", err=True)
            return 130
        document = result(rows, config)
    rows = [Row.from_dict(row) for row in document["rows"]]
    kept = None
    if run is not None:
        run.mkdir(parents=True, exist_ok=True)
        kept = run / "result.json"
    answer(lambda kind: render(document, rows, kind), form, files, json_files=[json_file, kept])
    return 0


def _known(name: str, suts: Sequence[str]) -> str:
    full = name if name.endswith("+memguard") else f"{name}+memguard"
    if full not in suts:
        raise click.BadParameter(
            f"{name} is not measured here; choose from {', '.join(suts)}", param_hint="--sut"
        )
    return full


def _finished(run: Path | None, config: dict[str, Any]) -> dict[str, Any] | None:
    """The result that a run folder holds, if it is of this configuration."""
    try:
        found = json.loads((run / "result.json").read_text(encoding="utf-8")) if run is not None else {}
    except (OSError, ValueError):
        return None
    return dict(found) if isinstance(found, dict) and found.get("config") == config else None


def result(rows: Sequence[Row], config: dict[str, Any]) -> dict[str, Any]:
    """The published document."""
    from datetime import UTC, datetime

    from memguard.bench.integrity.rows import digest, environment

    return {
        "schema": "memguard.bench/1",
        "bench": "overhead",
        "environment": environment(),
        "config": config,
        "config_digest": digest(config),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [row.as_dict() for row in rows],
        "exit": {"code": 0, "reason": ""},
    }


def render(document: dict[str, Any], rows: Sequence[Row], form: str) -> str:
    """The result in one form."""
    if form == "json":
        return json.dumps(document, indent=1, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    from memguard.bench.overhead.rows import summary, table

    text = f"{table(rows)}\n\n{summary(rows)}"
    return f"### memguard bench overhead\n\n```\n{text}\n```" if form == "md" else text
