"""``memguard bench attack``. Only click is imported until the command runs."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memguard.bench.answers import answer, form_options, json_option

if TYPE_CHECKING:
    from memguard.bench.attack.rows import AttackRow

_CONFIGURATIONS = ("bare", "observe", "balanced", "strict")
_SUTS = ("langgraph-sqlite-store", "langgraph-sqlite-saver")
_CHANNELS = ("untrusted", "forged", "signed", "reworded", "cross-context")
#: Stands over what content alone says of corpora.
FITTED = (
    "Content alone, with the released weights. Sources that they were fitted on are not held out here: "
    "python -m memguard.bench.attack.content does that."
)


@click.command("attack")
@click.option("--quick", is_flag=True, help="Four attacks of each family, bare and balanced.")
@click.option(
    "--configuration",
    "configurations",
    multiple=True,
    type=click.Choice(_CONFIGURATIONS),
    help="Only this configuration. Repeatable.",
)
@click.option("--sut", "suts", multiple=True, type=click.Choice(_SUTS), help="Only this memory. Repeatable.")
@click.option(
    "--channel",
    "channels",
    multiple=True,
    type=click.Choice(_CHANNELS),
    help="Only this channel. Repeatable.",
)
@click.option("--family", "names", multiple=True, metavar="NAME", help="Only this family. Repeatable.")
@click.option(
    "--corpus",
    "corpora",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Also texts from elsewhere: a folder with manifest.json, or JSON lines with text and label. Repeatable; "
    "several may follow.",
)
@click.argument("more", nargs=-1, metavar="[PATH]...", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--amg", is_flag=True, help="Also the scenarios of agent-memory-guard 0.3.3, if it is installed."
)
@json_option
@click.option(
    "--run", "run", type=click.Path(file_okay=False, path_type=Path), help="Folder of the run's cells."
)
@click.option(
    "--resume", is_flag=True, help="Go on with a run that was interrupted (the newest, without --run)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Number from which the order follows.")
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes. Default: one per processor.")
@click.option(
    "--fail-on",
    type=click.Choice(["missed", "none"]),
    default="missed",
    show_default=True,
    help="Exit 1 if balanced or strict misses a target.",
)
@form_options
@click.pass_context
def attack(
    context: click.Context,
    quick: bool,
    configurations: tuple[str, ...],
    suts: tuple[str, ...],
    channels: tuple[str, ...],
    names: tuple[str, ...],
    corpora: tuple[Path, ...],
    more: tuple[Path, ...],
    amg: bool,
    json_file: Path | None,
    run: Path | None,
    resume: bool,
    seed: int,
    jobs: int | None,
    fail_on: str,
    form: str,
    files: tuple[Path, ...],
) -> int:
    """Plant poison in real memories, beside honest twins, and count how far each gets.

    Four places are counted: stored, readable, served for action, done by a stand-in agent without a model. Exit 1 if
    balanced or strict serves more than 2 % of what comes from outside for action, or anything forged or another
    user's, or keeps less than 95 % of the honest memories readable or of the user's own for action.
    """
    if more and not corpora:
        raise click.UsageError("paths of corpora come after --corpus")
    from memguard.bench.attack import corpus as by_path
    from memguard.bench.attack import run as running
    from memguard.bench.attack.texts import families
    from memguard.bench.integrity.rows import digest
    from memguard.bench.report import rundir

    for name in names:
        if name not in families():
            raise click.BadParameter(f"{name}: choose from {', '.join(families())}", param_hint="--family")
    default = running.QUICK_CONFIGURATIONS if quick else running.CONFIGURATIONS
    plan = running.Plan(
        configurations=configurations or default,
        suts=suts or _SUTS,
        channels=channels or _CHANNELS,
        families=names,
        attacks=running.QUICK_ATTACKS if quick else 0,
        seed=seed,
    )
    paths = [*corpora, *more]
    config = {
        "bench": "attack",
        "configurations": list(plan.configurations),
        "suts": list(plan.suts),
        "channels": list(plan.channels),
        "families": list(names) or list(families()),
        "attacks": plan.attacks,
        "seed": seed,
        "texts": _digest_of_texts(),
    }
    read = by_path.load(paths)
    where = run or (rundir.latest() if resume else None) or rundir.RUNS / uuid.uuid4().hex[:6]
    folder = rundir.RunDir(where)
    folder.begin(config, digest(config), resume=resume)
    quiet, started = bool(context.find_root().params.get("quiet")), time.monotonic()

    def say(message: str) -> None:
        if not quiet:
            click.echo(f"  {time.monotonic() - started:5.1f} s  {message}", err=True)

    done, workers = folder.cells(), jobs or os.cpu_count() or 1
    document: dict[str, Any] = {}
    try:
        rows = running.measure(
            plan,
            done=done,
            keep=lambda ident, value: folder.append("attack", ident, value),
            say=say,
            jobs=workers,
        )
        if read:
            most, most_stored = by_path.QUICK if quick else by_path.FULL
            say(f"{len(read)} corpora, content alone")
            document["content"] = [r.model_dump() for r in by_path.content(read, most, seed)]
            say(f"{len(read)} corpora, in a store")
            rows += by_path.stored(read, plan.configurations, most_stored, seed, workers)
        if amg:
            from memguard.bench.attack import amg as other

            say(f"agent-memory-guard {other.VERSION}")
            with running.quietly():
                document["amg"] = [r.model_dump() for r in other.measure(plan.configurations)]
    except KeyboardInterrupt:
        kept = len(folder.cells())
        click.echo(
            f"stopped. {kept} cells kept. go on: memguard bench attack --resume --run {where}", err=True
        )
        return 130
    found = result(rows, {**config, "corpora": [c.name for c in read]}, document, fail_on)
    folder.finish(found)
    answer(lambda kind: render(found, rows, kind), form, files, json_files=[json_file])
    if found["exit"]["reason"]:
        click.echo(found["exit"]["reason"], err=True)
    return int(found["exit"]["code"])


def _digest_of_texts() -> str:
    """SHA-256 over the attack and twin texts, so that a result says which it is of."""
    import hashlib

    from memguard.bench.attack.texts import FILES, FOLDER

    content = b"".join((FOLDER / f"{name}.toml").read_bytes() for name in FILES)
    return hashlib.sha256(content).hexdigest()


def result(
    rows: Sequence[AttackRow], config: dict[str, Any], more: dict[str, Any], fail_on: str
) -> dict[str, Any]:
    """The published document; ``more`` holds the parts for corpora and amg-bench."""
    from datetime import UTC, datetime

    from memguard.bench.attack import amg
    from memguard.bench.attack.rows import missed
    from memguard.bench.integrity.rows import digest, environment, tool

    reasons = missed(rows) + amg.missed([amg.AmgRow(**row) for row in more.get("amg", ())])
    return {
        "schema": "memguard.bench/1",
        "bench": "attack",
        "environment": environment(),
        "tool": tool(),
        "config": config,
        "config_digest": digest(config),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [row.model_dump() for row in rows],
        **more,
        "missed": reasons,
        "exit": {"code": 1 if reasons and fail_on != "none" else 0, "reason": "; ".join(reasons)},
    }


def render(document: dict[str, Any], rows: Sequence[AttackRow], form: str) -> str:
    """The result in one form."""
    if form == "json":
        return json.dumps(document, indent=1, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    from memguard.bench.attack import amg, content
    from memguard.bench.attack.rows import in_short, summary, table

    parts = [table(rows), in_short(rows), summary(rows)]
    if "content" in document:
        told = content.table([content.ContentRow(**row) for row in document["content"]])
        parts.append(f"{FITTED}\n\n{told}")
    if "amg" in document:
        parts.append(amg.table([amg.AmgRow(**row) for row in document["amg"]]))
    text = "\n\n".join(parts)
    return f"### memguard bench attack\n\n```\n{text}\n```" if form == "md" else text
