"""``memguard check TEXT``: what the guards would decide about a text, without storing it."""

from __future__ import annotations

import sys
from typing import Any

import click

from memguard.cli import exits
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session


@click.command("check")
@click.argument("text")
@click.option(
    "--source", metavar="KIND[:ID]", help='Where the text came from, such as "web:https://shop.example".'
)
@with_session
@reporting
def check(session: Session, text: str, source: str | None) -> Report:
    """Say what the guards would decide about a text.

    TEXT "-" reads stdin. Nothing is stored, and the answer is what the rules say, whatever the mode. The exit
    code is 0 for allow and 1 for anything else. The text itself is not repeated in the answer.
    """
    content = sys.stdin.read() if text == "-" else text
    with session.guard() as mg:
        decision = mg.check(content, source=source)
    verdict, allowed = str(decision.full), not decision.flagged
    rows: list[dict[str, Any]] = [item.as_dict() for item in decision.evidence]
    return Report(
        "check",
        code=exits.CLEAN if allowed else exits.FINDINGS,
        reason="" if allowed else f"the guards would {verdict} this text",
        facts={
            "disposition": verdict,
            "code": decision.code or None,
            "reason": decision.reason or None,
            "guard": decision.guard or None,
            "score": decision.score,
            "source": source,
        },
        columns=("rule", "score", "span", "reason"),
        rows=rows,
    )
