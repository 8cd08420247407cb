"""``memguard bench cost``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memguard.bench.answers import answer, form_options, json_option

if TYPE_CHECKING:
    from memguard.bench.cost.rows import CostRow
    from memguard.bench.data.conversations import Conversation

#: What is measured unless told otherwise: everything that asks no model.
CONDITIONS = ("none", "a/a", "sanitize", "provenance", "anomaly-offline", "rerank-offline", "stacked-offline")
PRESETS = ("balanced", "strict")


@click.command()
@click.option(
    "--data",
    default="bundled",
    show_default=True,
    metavar="SPEC",
    help="bundled, locomo:PATH (locomo10.json) or longmemeval:PATH.",
)
@click.option(
    "--profile",
    type=click.Choice(["seed-000", "full"]),
    default="full",
    show_default=True,
    help="seed-000: 150 turns a conversation and at most 75 questions, as the paper cuts them; full: all of it.",
)
@click.option("--quick", is_flag=True, help="One conversation; none, rerank-offline and the presets.")
@click.option(
    "--condition", "conditions", multiple=True, metavar="NAME", help="Only this condition. Repeatable."
)
@click.option(
    "--retriever",
    type=click.Choice(["hashing", "bm25", "minilm"]),
    default="bm25",
    show_default=True,
    help="Who finds memories; minilm needs its extra.",
)
@click.option(
    "-k", "k", type=click.IntRange(1, 100), default=10, show_default=True, help="Memories asked for."
)
@click.option("--replicates", type=int, default=1, show_default=True, help="How often each cell; odd.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes.")
@click.option(
    "--run", "run", type=click.Path(file_okay=False, path_type=Path), help="Folder of the run's cells."
)
@click.option("--resume", is_flag=True, help="Go on with a run that was interrupted.")
@json_option
@form_options
@click.pass_context
def cost(
    context: click.Context,
    data: str,
    profile: str,
    quick: bool,
    conditions: tuple[str, ...],
    retriever: str,
    k: int,
    replicates: int,
    seed: int,
    jobs: int,
    run: Path | None,
    resume: bool,
    json_file: Path | None,
    form: str,
    files: tuple[Path, ...],
) -> int:
    """What a defence costs when nobody attacks: benign utility, paired; tokens; false quarantines.

    Every condition gets a store of its own; backend, retrieval, questions and grading are the same. Exit 1 if
    balanced or strict costs more than half a point of utility, withholds more than 0.5 % of reads or 0.1 % of writes,
    or any evidence.
    """
    from memguard.bench.conditions.build import NAMES
    from memguard.bench.cost.retrieval import GUARDED, Settings
    from memguard.bench.cost.rows import rows_of
    from memguard.bench.cost.run import cells_of, config_of, measure_all, tasks_of
    from memguard.bench.cost.talks import talks_of
    from memguard.bench.integrity.rows import digest
    from memguard.bench.report.rundir import RUNS, RunDir
    from memguard.bench.stats.grades import check_replicates

    for name in conditions:
        if name not in (known := dict.fromkeys((*NAMES, *GUARDED))):
            raise click.BadParameter(f"{name}: choose from {', '.join(known)}", param_hint="--condition")
    check_replicates(replicates)
    chosen = conditions or (("none", "rerank-offline", *PRESETS) if quick else (*CONDITIONS, *PRESETS))
    talks, about = talks_of(data, profile)
    talks = talks[:1] if quick else talks
    settings = Settings(retriever, k)
    config = config_of(settings, chosen, replicates, seed, {**about, "profile": profile, "quick": quick})
    place = RunDir(run or RUNS / f"cost-{digest(config)[:12]}")
    date = place.begin(config, digest(config), resume=resume or run is None)
    tasks = tasks_of(talks, chosen, replicates, settings, place, seed=seed)
    try:
        measure_all(tasks, jobs=jobs, done=_teller(context, sum(len(task.cells) for task in tasks)))
    except KeyboardInterrupt:
        click.echo(
            f"stopped; finished cells are kept. Go on: the same command with --run {place.path} --resume",
            err=True,
        )
        return 130
    rows = rows_of(cells_of(place, talks, chosen, replicates), seed=seed)
    document = result(rows, config, date, talks)
    place.finish(document)
    answer(lambda kind: render(document, rows, kind), form, files, json_files=[json_file])
    if document["exit"]["reason"]:
        click.echo(document["exit"]["reason"], err=True)
    return int(document["exit"]["code"])


def _teller(context: click.Context, total: int) -> Any:
    """Progress with the time that is left, on stderr."""
    quiet, started, count = bool(context.find_root().params.get("quiet")), time.monotonic(), 0

    def tell(name: str, seconds: float) -> None:
        nonlocal count
        count += 1
        if not quiet:
            gone = time.monotonic() - started
            left = gone / count * (total - count)
            shown = " ".join(name.split()[:-1])
            click.echo(f"  {count}/{total}  {gone:6.1f} s, about {left:.0f} s left  {shown}", err=True)

    return tell


def result(
    rows: Sequence[CostRow], config: dict[str, Any], date: str, talks: Sequence[Conversation]
) -> dict[str, Any]:
    """The published document."""
    from memguard.bench.cost.gates import missed
    from memguard.bench.integrity.rows import digest, environment

    reasons = missed(rows)
    return {
        "schema": "memguard.bench/1",
        "bench": "cost",
        "environment": environment(),
        "config": config,
        "config_digest": digest(config),
        "date": date,
        "questions": {talk.id: len(talk.questions) for talk in talks},
        "rows": [row.model_dump() for row in rows],
        "exit": {"code": 1 if reasons else 0, "reason": "; ".join(reasons)},
    }


def render(document: dict[str, Any], rows: Sequence[CostRow], form: str) -> str:
    """The result in one form."""
    if form == "json":
        return json.dumps(document, indent=1, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    from memguard.bench.cost.gates import summary, table

    kept = "questions kept  " + ", ".join(f"{name}: {count}" for name, count in document["questions"].items())
    text = f"{table(rows)}\n\n{summary(rows)}\n{kept}"
    return f"### memguard bench cost\n\n```\n{text}\n```" if form == "md" else text
