"""``memguard bench reading``. Only click is imported until the command runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from memguard.bench.answers import answer, form_options, json_option

if TYPE_CHECKING:
    from memguard.bench.reading.rows import ReadingRow

_FULL = ("none", "a/a", "sanitize", "provenance", "anomaly", "rerank", "stacked")
_OFFLINE = ("anomaly-offline", "rerank-offline", "stacked-offline")
_PRESETS = ("observe", "balanced", "strict")


@click.command("reading")
@click.option(
    "--data",
    required=True,
    metavar="locomo:PATH",
    help="The conversations: locomo10.json, which is not part of memguard, checked by its SHA-256.",
)
@click.option("--quick", is_flag=True, help="The first conversation, memguard's presets and no defence.")
@click.option(
    "--profile",
    type=click.Choice(["seed-000", "full"]),
    default="seed-000",
    show_default=True,
    help="seed-000: five conversations of 150 turns, as the paper cuts them; full: all ten, whole.",
)
@click.option(
    "--condition", "conditions", multiple=True, metavar="NAME", help="Only this condition. Repeatable."
)
@click.option(
    "--embedder", default="hashing", show_default=True, metavar="NAME", help="hashing, or minilm (an extra)."
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(["user", "unknown", "mixed"]),
    help="Only with the turns from this source. Repeatable. Default: all three, one after the other.",
)
@click.option(
    "-k", "k", type=click.IntRange(1, 100), default=10, show_default=True, help="Memories asked for."
)
@json_option
@form_options
@click.pass_context
def reading(
    context: click.Context,
    data: str,
    quick: bool,
    profile: str,
    conditions: tuple[str, ...],
    embedder: str,
    sources: tuple[str, ...],
    k: int,
    json_file: Path | None,
    form: str,
    files: tuple[Path, ...],
) -> int:
    """Read memories of conversations without an attack, and count what a defence takes away.

    Each condition gets a SqliteStore of its own; the bare store's answers on the same embedder are the reference.
    Exit 1 if one of memguard's presets withholds more than 0.5 % of what is read, or any evidence of a question, or
    finds all evidence for fewer questions than the bare store.
    """
    kind, _, path = data.partition(":")
    if kind != "locomo" or not path:
        raise click.BadParameter("write it as locomo:PATH", param_hint="--data")
    from memguard import registry
    from memguard.bench.conditions.build import NAMES
    from memguard.bench.data import locomo
    from memguard.bench.reading.embedding import Remembering
    from memguard.bench.reading.run import SOURCES, measure

    for name in conditions:
        if name not in NAMES:
            raise click.BadParameter(f"{name}: choose from {', '.join(NAMES)}", param_hint="--condition")
    chosen = conditions or (("none", *_PRESETS) if quick else (*_FULL, *_OFFLINE, *_PRESETS))
    found = locomo.load(Path(path))
    if profile == "seed-000":
        found = tuple(c.truncated() for c in found if c.id in locomo.SEED_000)
    quiet, started = bool(context.find_root().params.get("quiet")), time.monotonic()

    def say(message: str) -> None:
        if not quiet:
            click.echo(f"  {time.monotonic() - started:5.1f} s  {message}", err=True)

    made = Remembering(registry.embedders.get(embedder).open())
    try:
        with TemporaryDirectory(prefix="memguard-reading-") as folder:
            place, talks = Path(folder), found[:1] if quick else found
            rows = list(measure(talks, chosen, made, place, sources=sources or SOURCES, k=k, say=say))
    except KeyboardInterrupt:
        click.echo("stopped. nothing is kept: this is measured in one run", err=True)
        return 130
    config = {
        "bench": "reading",
        "data": {"name": "locomo", "sha256": locomo.SHA256, "profile": profile, "quick": quick},
        "conditions": list(chosen),
        "embedder": embedder,
        "sources": list(sources or SOURCES),
        "k": k,
    }
    document = result(rows, config)
    answer(lambda kind: render(document, rows, kind), form, files, json_files=[json_file])
    if document["exit"]["reason"]:
        click.echo(document["exit"]["reason"], err=True)
    return int(document["exit"]["code"])


def result(rows: Sequence[ReadingRow], config: dict[str, Any]) -> dict[str, Any]:
    """The published document."""
    from datetime import UTC, datetime

    from memguard.bench.integrity.rows import digest, environment
    from memguard.bench.reading.rows import missed

    reasons = missed(rows)
    return {
        "schema": "memguard.bench/1",
        "bench": "reading",
        "environment": environment(),
        "config": config,
        "config_digest": digest(config),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [row.model_dump() for row in rows],
        "exit": {"code": 1 if reasons else 0, "reason": "; ".join(reasons)},
    }


def render(document: dict[str, Any], rows: Sequence[ReadingRow], form: str) -> str:
    """The result in one form."""
    if form == "json":
        return json.dumps(document, indent=1, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in document["rows"])
    from memguard.bench.reading.rows import summary, table

    text = f"{table(rows)}\n\n{summary(rows)}"
    return f"### memguard bench reading\n\n```\n{text}\n```" if form == "md" else text
