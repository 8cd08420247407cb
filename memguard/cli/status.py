"""``memguard status``: which home, keys, anchor and stores a program here would use, in one screen."""

from __future__ import annotations

import datetime
from typing import Any

import click

from memguard.cli.anchor import LogState
from memguard.cli.output import Report, reporting
from memguard.cli.place import local_path, same_volume
from memguard.cli.session import Session, with_session
from memguard.errors import IntegrityError
from memguard.pipeline import FAILED
from memguard.quarantine.desk import summary
from memguard.tally import Tally


@click.command("status")
@with_session
@reporting
def status(session: Session) -> Report:
    """Show the home, anchor, keys and stores in use.

    No store is opened; what was last written is read from the anchor.
    """
    with session.guard() as mg:
        state = LogState.read(mg.anchor, mg.keys)
        config, place = mg.config, local_path(mg.anchor.uri)
        facts: dict[str, Any] = {
            "home": str(mg.home),
            "preset": config.preset,
            "integrity": f"{config.integrity.mode}, level {config.integrity.level}, sync {config.integrity.sync}",
            "key_id": mg.keys.current,
            "keys": len(mg.keys.ids),
            "anchor": mg.anchor.uri,
            "t9_covered": None if place is None else not same_volume(place, mg.home),
            "config_digest": config.digest(),
        }
        names = list(dict.fromkeys([*config.stores, *state.stores()]))
        facts.update(_decided(mg.tally))
        facts.update(_withheld(mg))
        rows = [_store(name, config.stores.get(name), state) for name in names]
    notes = []
    if facts["t9_covered"] is False:
        notes.append(
            "WARN MG412 T9 (rollback of the whole store) is not covered: the anchor is on the home's volume"
        )
    expires = config.observe.expires
    if expires is not None and expires < datetime.datetime.now(datetime.UTC).date():
        notes.append(f"WARN MG167 observing was to end on {expires}")
    if facts["guard_failures"]:
        notes.append(
            f"WARN MG910 guards failed {facts['guard_failures']} times since {facts['counted_since']}; "
            "the log says which"
        )
    if facts["quarantine"] and not facts["quarantine"].startswith("none"):
        notes.append("memguard quarantine list shows what waits for review")
    if not rows:
        notes.append("no store was guarded yet, and no [stores.NAME] is configured")
    return Report(
        "status",
        facts=facts,
        columns=("store", "kind", "contexts", "records", "last_write"),
        rows=rows,
        notes=notes,
    )


def _decided(tally: Tally) -> dict[str, Any]:
    """What the guards did in the days that are counted."""
    counts = list(tally.counts())
    writes = [c for c in counts if c.stage == "write"]
    held = ("quarantine", "reject")
    return {
        "writes_screened": sum(c.n for c in writes),
        "writes_flagged": sum(c.n for c in writes if c.disposition in ("flag", "rewrite")),
        "writes_withheld": sum(c.n for c in writes if c.disposition in held),
        "would_withhold": sum(c.n for c in counts if c.would in held and c.disposition not in held),
        "writes_recalled": sum(c.n for c in counts if c.stage == "recalled"),
        "writes_repeated": sum(c.n for c in counts if c.stage == "repeated"),
        "guard_failures": sum(c.n for c in counts if c.code == FAILED),
        "counted_since": min((c.day for c in counts), default=None),
    }


def _withheld(mg: Any) -> dict[str, str]:
    """What waits in the quarantine, since when, and how much of its places is taken."""
    try:
        found = summary(mg.quarantine.vault.entries(None))
    except IntegrityError as error:
        return {"quarantine": f"FAIL {error.code} {error.what}"}
    limit = mg.config.quarantine.max_entries
    if not found["held"] and not found["expired"]:
        return {"quarantine": "none"}
    waits = f"{found['waiting']} wait" + (f", oldest {found['oldest']}" if found["oldest"] else "")
    late = f", {found['expired']} destroyed by age unreviewed" if found["expired"] else ""
    return {"quarantine": f"{waits}, {found['held']} of {limit} places, {found['bytes']} bytes{late}"}


def _store(name: str, configured: Any, state: LogState) -> dict[str, Any]:
    heads = state.heads_of(name)
    last = state.last_write(name)
    return {
        "store": name,
        "kind": configured.kind if configured else None,
        "contexts": len(heads),
        "records": sum(head.cells for head in heads),
        "last_write": datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat(timespec="seconds")
        if last
        else None,
    }
