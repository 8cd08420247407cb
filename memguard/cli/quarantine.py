"""``memguard quarantine``: look at withheld writes, put them back, drop them, export them."""

from __future__ import annotations

import datetime
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from memguard.cli import exits
from memguard.cli.groups import Group
from memguard.cli.output import Report, plain, reporting
from memguard.cli.session import Session, with_session
from memguard.cli.stores import opened
from memguard.errors import ConfigError, MemguardError
from memguard.quarantine.entry import Entry

_STATES = ("waiting", "released", "dropped", "purged", "all")
_COLUMNS = ("id", "age", "stage", "rule", "score", "source", "trust", "store", "like", "state")
_REVIEW = click.option(
    "--review-key",
    metavar="URI",
    help="The review key, such as file:/safe/review.json. Default: the configured one.",
)
_BY = click.option("--by", metavar="NAME", help="Who says so. Default: the user that runs this.")


@click.group("quarantine", cls=Group)
def quarantine() -> None:
    """Look at withheld writes, release or drop them."""


def _row(entry: Entry, now: float) -> dict[str, Any]:
    from memguard.quarantine.desk import age_in_words

    return {
        **entry.as_dict(),
        "stage": "write",
        "rule": entry.code or entry.guard,
        "reason": entry.rule,
        "age": age_in_words(now - entry.time),
    }


@quarantine.command("list")
@click.option(
    "--state", type=click.Choice(_STATES), default="waiting", show_default=True, help="Which entries."
)
@click.option("--source", metavar="SOURCE", help="Only from this source.")
@click.option("--show", is_flag=True, help="Open them with the review key and print their text.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Entries in a table."
)
@_REVIEW
@with_session
@reporting
def list_(
    session: Session, state: str, source: str | None, show: bool, limit: int, review_key: str | None
) -> Report:
    """List withheld writes, oldest first.

    Texts are sealed: --show opens them and needs the review key. LIKE counts the entries that say the same.
    Entries past their age are destroyed first, which the log says.
    """
    with session.guard() as mg:
        entries = mg.quarantine.list(None if state == "all" else state)
        entries = [entry for entry in entries if source is None or entry.source == source]
        now = time.time()
        rows = [_row(entry, now) for entry in entries]
        if show:
            for row in rows[:limit]:
                if row["state"] != "purged":
                    row["text"] = _short(mg.quarantine.show(str(row["id"]), review_key=review_key).text)
    notes = [] if show or not rows else ["texts are sealed; --show opens them with the review key"]
    if len(rows) > limit:
        notes.append(f"... and {len(rows) - limit} more: --limit {len(rows)}, or -o entries.jsonl for all")
    if not rows:
        notes = ["nothing waits for review" if state == "waiting" else f"no entry is {state}"]
    columns = (*_COLUMNS, "text") if show else _COLUMNS
    return Report(
        "quarantine list", facts={"entries": len(rows)}, columns=columns, rows=rows, notes=notes, shown=limit
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"


@quarantine.command("show")
@click.argument("id")
@_REVIEW
@with_session
@reporting
def show(session: Session, id: str, review_key: str | None) -> Report:
    """Show one entry, and its text if the review key is here.

    Invisible and control characters are written out.
    """
    with session.guard() as mg:
        entry = mg.quarantine.vault.entry(id)
        facts: dict[str, Any] = entry.as_dict()
        facts["time"], facts["changed"] = _moment(entry.time), _moment(entry.changed)
        notes = []
        if entry.state == "purged":
            notes.append("its content was destroyed; this is the stub")
        else:
            try:
                shown = mg.quarantine.show(id, review_key=review_key)
            except ConfigError as error:
                if error.code != "MG342" or review_key is not None:
                    raise
                notes.append(f"its text is sealed: {error.why} {error.do}")
            else:
                facts |= _content(shown.kept, shown.text)
    return Report("quarantine show", facts=facts, notes=notes)


def _content(kept: Any, text: str) -> dict[str, Any]:
    evidence = [f"{item['rule']}: {item['reason']}" for item in kept.decision.get("evidence", [])]
    return {
        "namespace": kept.context,
        "key": kept.key,
        "parents": [parent.id for parent in kept.lineage.parents],
        "ttl_minutes": kept.ttl,
        "evidence": evidence,
        "releasable": kept.exact,
        "text": text,
    }


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


@quarantine.command("release")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--store", metavar="STORE", help="Where to: a [stores.NAME] or module:attr. Default: as it was named."
)
@click.option(
    "--trust", metavar="LEVEL", help="The trust it has from now on. Default: what its source is worth."
)
@click.option("--replace", is_flag=True, help="Also over a value that was written at its key since.")
@click.option("--allow-text", is_flag=True, help="Let this text pass from now on; needs --reason.")
@click.option("--reason", metavar="TEXT", default="", help="Why.")
@_BY
@_REVIEW
@with_session
@reporting
def release(
    session: Session,
    ids: tuple[str, ...],
    store: str | None,
    trust: str | None,
    replace: bool,
    allow_text: bool,
    reason: str,
    by: str | None,
    review_key: str | None,
) -> Report:
    """Put withheld records back in their places.

    Each goes back with its source and lineage, no longer flagged, and says that you released it. Nothing that was
    written at its key since is overwritten without --replace, and what was deleted since stays deleted.
    """
    rows: list[dict[str, Any]] = []
    failed = ""
    with session.guard() as mg, ExitStack() as stack:
        targets: dict[str, Any] = {}
        for id in ids:
            try:
                name = mg.quarantine.vault.entry(id).store
                if name not in targets:
                    targets[name] = stack.enter_context(opened(session, mg, store or name))
                (done,) = mg.quarantine.release(
                    id,
                    targets[name],
                    by=by,
                    reason=reason,
                    trust=trust,
                    replace=replace,
                    allow_text=allow_text,
                    review_key=review_key,
                )
            except MemguardError as error:
                if not rows and id == ids[-1]:
                    raise
                failed = f"{id}: {error}"
                rows.append({"id": id, "state": "NOT RELEASED", "note": str(error)})
                continue
            rows.append({"id": done.id, "state": done.state, "by": done.by, "note": done.note})
    allowed = " · allowed by keyed hash of its text" if allow_text else ""
    notes = [
        f"released {row['id']}{allowed} · undo: memguard quarantine undo {row['id']}"
        for row in rows
        if row["state"] == "released"
    ]
    return Report(
        "quarantine release",
        code=exits.FINDINGS if failed else exits.CLEAN,
        reason=failed,
        columns=("id", "state", "by", "note"),
        rows=rows,
        notes=notes,
    )


@quarantine.command("drop")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--purge", is_flag=True, help="Destroy the content now; cannot be undone. Needs --apply.")
@click.option("--apply", is_flag=True, help="With --purge: do it. Without this, only the plan is printed.")
@click.option("--reason", metavar="TEXT", default="", help="Why.")
@_BY
@with_session
@reporting
def drop(
    session: Session, ids: tuple[str, ...], purge: bool, apply: bool, reason: str, by: str | None
) -> Report:
    """Decide that withheld records stay out.

    Their content is kept sealed for [quarantine] undo_days and then destroyed; a stub without content stays.
    """
    with session.guard() as mg:
        if purge and not apply:
            entries = [mg.quarantine.vault.entry(id) for id in ids]
            rows = [
                {"id": e.id, "state": e.state, "bytes": e.size, "action": "destroy its content"}
                for e in entries
            ]
            notes = ["nothing was changed: --apply destroys their content, which cannot be undone"]
            columns: tuple[str, ...] = ("id", "state", "bytes", "action")
        else:
            done = mg.quarantine.drop(ids, by=by, reason=reason, purge=purge)
            rows = [{"id": e.id, "state": e.state, "by": e.by, "note": e.note} for e in done]
            days = mg.config.quarantine.undo_days
            notes = [] if purge else [f"undo within {days:g} days: memguard quarantine undo {ids[0]}"]
            columns = ("id", "state", "by", "note")
    return Report("quarantine drop", columns=columns, rows=rows, notes=notes)


@quarantine.command("undo")
@click.argument("id")
@click.option("--store", metavar="STORE", help="Where it was released to: a [stores.NAME] or module:attr.")
@_BY
@_REVIEW
@with_session
@reporting
def undo(session: Session, id: str, store: str | None, by: str | None, review_key: str | None) -> Report:
    """Take back a release or a drop.

    The entry waits for review again. A released record leaves the store, unless it was written over since.
    """
    with session.guard() as mg, ExitStack() as stack:
        entry = mg.quarantine.vault.entry(id)
        target = None
        if entry.state == "released":
            target = stack.enter_context(opened(session, mg, store or entry.store))
        done = mg.quarantine.undo(id, target, by=by, review_key=review_key)
    return Report(
        "quarantine undo", facts={"id": done.id, "was": entry.state, "state": done.state, "by": done.by}
    )


@quarantine.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--state", type=click.Choice(_STATES), default="all", show_default=True, help="Which entries.")
@click.option("--content", is_flag=True, help="With the records in clear; needs the review key.")
@_REVIEW
@with_session
@reporting
def export(session: Session, file: Path, state: str, content: bool, review_key: str | None) -> Report:
    """Write entries to an SQLite database with views.

    Browse it with datasette FILE or sqlite-utils. Views: waiting, by_rule, by_source, never_reviewed. Texts are in
    it with --content only; keep such a file as you would keep what was withheld.
    """
    with session.guard() as mg:
        wanted = None if state == "all" else state
        count = mg.quarantine.export(file, state=wanted, content=content, review_key=review_key)
    facts = {"file": plain(file), "entries": count, "content": content}
    return Report("quarantine export", facts=facts, notes=[f"datasette {file}"])


@quarantine.command("key")
@click.option(
    "--review-key",
    "uri",
    metavar="URI",
    help="Where the private half is or is made. Default: its own folder.",
)
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def key(session: Session, uri: str | None, apply: bool) -> Report:
    """Show the review key, or seal to another one from now on.

    The public half goes into memguard.toml, which is sealed again; the private half is made where the URI says if
    there is none. Entries that wait stay sealed to the key they were sealed to.
    """
    from memguard.cli.review import changed, described

    return changed(session, uri, apply) if uri is not None or apply else described(session)


@quarantine.command("accept")
@click.option("--reason", metavar="TEXT", required=True, help="Why what is lost may be.")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def accept(session: Session, reason: str, apply: bool) -> Report:
    """Write off entries that are missing or were changed.

    What still verifies is kept. A signed note in the anchor's log says how much was given up, and why.
    """
    with session.guard() as mg:
        tables = mg.quarantine.vault.tables
        lost = tables.lost()
        if apply and lost:
            lost = tables.write_off(reason)
    notes = [] if apply or not lost else [f"nothing was changed: --apply writes {lost} rows off"]
    if not lost:
        notes = ["nothing is lost"]
    return Report("quarantine accept", facts={"lost": lost, "applied": bool(apply and lost)}, notes=notes)
