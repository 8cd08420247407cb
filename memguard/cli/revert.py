"""``memguard revert``: take records of a source, or of a time, back out of a store. A plan until --apply."""

from __future__ import annotations

from typing import Any

import click

from memguard.cli import exits
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session
from memguard.cli.stores import opened

_COLUMNS = ("store", "context", "record", "why", "action")


@click.command("revert")
@click.argument("store")
@click.option(
    "--source", metavar="SOURCE", help='Everything from it and derived from it: "web:https://x", "tool:*".'
)
@click.option("--since", metavar="TIME", help="Everything written from then on: 2026-12-01T09:30:00 (UTC).")
@click.option("--to", metavar="CHECKPOINT|TIME", help="The last state to keep.")
@click.option("--thread", metavar="ID", help="Of a checkpointer, this thread only.")
@click.option(
    "--reason", metavar="TEXT", default="", help="Why; noted under a signature in the anchor's log."
)
@click.option("--by", metavar="NAME", help="Who says so. Default: the user that runs this.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Records in a table."
)
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def revert(
    session: Session,
    store: str,
    source: str | None,
    since: str | None,
    to: str | None,
    thread: str | None,
    reason: str,
    by: str | None,
    limit: int,
    apply: bool,
) -> Report:
    """Take records of a source, or of a time, back out.

    Give one of --source, --since and --to. Lineage is followed: what was derived from a record that goes, goes too.
    A checkpointer's threads are cut in front of the first checkpoint that holds any of it. The history keeps the
    operation; a text that was overwritten or deleted cannot be made again, and the plan says where that is so.
    """
    with session.guard() as mg, opened(session, mg, store) as target:
        plan = mg.revert(
            target, source=source, since=since, to=to, thread=thread, apply=apply, by=by, reason=reason
        )
    rows: list[dict[str, Any]] = []
    for action in plan.actions:
        for item in action["keys"] or [{"key": None, "why": action.get("why")}]:
            lost = ", its earlier text cannot be restored" if item.get("replaced") else ""
            rows.append(
                {
                    "store": plan.store,
                    "context": action["context"],
                    "record": item["key"],
                    "why": item["why"],
                    "action": f"{action['action']}{lost}",
                }
            )
    records = sum(int(action["records"]) for action in plan.actions)
    facts = {"store": plan.store, "applied": plan.applied, "contexts": len(plan.actions), "records": records}
    notes = list(plan.notes)
    if len(rows) > limit:
        notes.append(f"... and {len(rows) - limit} more: --limit {len(rows)}, or -o plan.jsonl for all")
    if not rows:
        notes.append("nothing to do")
    elif not apply:
        notes.append("nothing was changed: --apply does it")
    return Report(
        "revert", code=exits.CLEAN, facts=facts, columns=_COLUMNS, rows=rows, notes=notes, shown=limit
    )
