"""``memguard audit``, ``adopt`` and ``repair``: three looks at a whole store, two of which may change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from memguard.cli import exits
from memguard.cli.output import Report, progress, reporting
from memguard.cli.plans import Plans
from memguard.cli.session import Session, with_session
from memguard.cli.stores import opened

_COLUMNS = ("case", "code", "record", "what")


def _rows(answer: Any) -> list[dict[str, Any]]:
    return [{name: getattr(finding, name, None) for name in _COLUMNS} for finding in answer.findings]


@click.command("audit")
@click.argument("store")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Findings in a table."
)
@with_session
@reporting
def audit(session: Session, store: str, limit: int) -> Report:
    """Compare a whole store with its tags and its head.

    STORE is a name from [stores.NAME] of the configuration, or module:attr of a guarded object or a compiled
    graph. Nothing is decoded and nothing is changed. Exit code 1 if anything is not as it was left.
    """
    with session.guard() as mg, opened(session, mg, store) as target:
        progress(f"auditing {store} ...")
        answer = mg.audit(target)
    facts = {
        "store": store,
        "clean": answer.clean,
        "contexts": answer.contexts,
        "records": answer.records,
        "findings": len(answer.findings),
        "anchor": answer.anchor,
        "level": answer.level,
    }
    rows = _rows(answer)
    notes = []
    if len(rows) > limit:
        notes.append(f"... and {len(rows) - limit} more: --limit {len(rows)}, or -o findings.jsonl for all")
    return Report(
        "audit",
        code=exits.CLEAN if answer.clean else exits.FINDINGS,
        reason=""
        if answer.clean
        else f"{len(rows)} of the store's records or contexts are not as they were left",
        facts=facts,
        columns=_COLUMNS,
        rows=rows,
        notes=notes,
        shown=limit,
    )


def _planned(session: Session, store: str, apply: bool, verb: str, act: Callable[[Any, Any], Any]) -> Report:
    """Run a verb that plans first; what it answers is its plan, or what it did."""
    with session.guard() as mg, opened(session, mg, store) as target:
        plans = Plans([act(mg, target)])
    notes = [] if apply else [f"nothing was changed: memguard {verb} {store} --apply does it"]
    return plans.report(verb, apply, notes)


@click.command("adopt")
@click.argument("store")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def adopt(session: Session, store: str, apply: bool) -> Report:
    """Put existing records under the guard, once.

    Every record that has no tag yet is tagged as it stands now: the guard vouches from now on for what is
    there, and cannot know what happened to it before. Records with a tag are left alone.
    """
    return _planned(session, store, apply, "adopt", lambda mg, target: mg.adopt(target, apply=apply))


@click.command("repair")
@click.argument("store")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def repair(session: Session, store: str, apply: bool) -> Report:
    """Drop what an audit proves to be no memory of yours.

    Only rows that no acknowledged write produced are dropped: a stray row of a writer that was refused, a
    forged row. A record that is missing or was changed cannot be made again from a tag; restore a copy.
    """
    return _planned(session, store, apply, "repair", lambda mg, target: mg.repair(target, apply=apply))
