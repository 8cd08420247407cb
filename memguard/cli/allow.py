"""``memguard allow``: texts that a person has reviewed and that the guards let pass."""

from __future__ import annotations

import datetime
import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from memguard.cli.groups import Group
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session

if TYPE_CHECKING:
    from memguard.allowlist import AllowList, Entry

_COLUMNS = ("id", "author", "added", "expires", "state", "reason")
_REASON = click.option("--reason", required=True, metavar="TEXT", help="Why, in one line.")
_BY = click.option("--by", metavar="NAME", help="Who says so. Default: the user that runs this.")


@click.group("allow", cls=Group)
def allow() -> None:
    """List, add and remove texts that the guards let pass."""


@allow.command("list")
@with_session
@reporting
def list_(session: Session) -> Report:
    """List the allowed texts by their ids.

    The texts themselves are not kept, only a keyed hash of each.
    """
    with _opened(session) as allowed:
        rows = [_row(entry) for entry in allowed.entries()]
    notes = [] if rows else ["no text is allowed"]
    return Report("allow list", facts={"entries": len(rows)}, columns=_COLUMNS, rows=rows, notes=notes)


@allow.command("add")
@click.argument("text")
@_REASON
@_BY
@click.option(
    "--expires",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="The first day on which it is not allowed any more, in UTC. Default: never.",
)
@with_session
@reporting
def add(
    session: Session, text: str, reason: str, by: str | None, expires: datetime.datetime | None
) -> Report:
    """Let a text pass what guards say about its wording.

    TEXT "-" reads stdin. Case, width, spaces and invisible characters do not matter; everything else does. It
    passes as it is and as the one member of a stored value, as in {"text": TEXT}; a value of more members is allowed
    as a whole, by "quarantine release ID --allow-text". What the text is trusted for does not change: only its source
    gives that.
    """
    content = sys.stdin.read() if text == "-" else text
    until = expires.replace(tzinfo=datetime.UTC).timestamp() if expires else None
    with _opened(session) as allowed:
        entry = allowed.add(content, reason=reason, author=_author(by), expires=until)
    return Report("allow add", facts=_row(entry))


@allow.command("remove")
@click.argument("id", required=False)
@click.option("--all", "every", is_flag=True, help="Every entry, also of a list that was edited.")
@_REASON
@_BY
@with_session
@reporting
def remove(session: Session, id: str | None, every: bool, reason: str, by: str | None) -> Report:
    """Allow a text no longer.

    ID is what "allow list" prints. The removal stands in the table with its reason and author; with --all the table is
    emptied, and a signed note in the anchor's log says so.
    """
    if every == (id is not None):
        raise click.UsageError("give an ID, or --all")
    with _opened(session) as allowed:
        if id is None:
            rows = allowed.discard(reason=reason, author=_author(by))
            return Report("allow remove", facts={"removed": True, "rows": rows})
        entry = allowed.remove(id, reason=reason, author=_author(by))
    return Report("allow remove", facts={"id": entry.id, "removed": True})


@contextmanager
def _opened(session: Session) -> Iterator[AllowList]:
    """The allow-list of the home in use. The guard is opened first, which checks the seal and the anchor."""
    from memguard import statedb
    from memguard.allowlist import AllowList
    from memguard.anchorlog import AnchorLog
    from memguard.anchors import open_anchor

    with session.guard() as mg:
        store = open_anchor(mg.anchor.uri)
        log = AnchorLog(store, mg.keys)
        try:
            allowed = AllowList(statedb.opened(mg.home, mg.config.state, store), mg.keys, log)
            try:
                yield allowed
            finally:
                allowed.close()
        finally:
            log.close()


def _author(by: str | None) -> str:
    return by or getpass.getuser()


def _row(entry: Entry) -> dict[str, Any]:
    from memguard.allowlist import state_of

    return {
        "id": entry.id,
        "author": entry.author,
        "added": _day(entry.added),
        "expires": _day(entry.expires) if entry.expires is not None else None,
        "state": state_of(entry),
        "reason": entry.reason,
    }


def _day(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).date().isoformat()
