"""``memguard anchor``: show the log of heads, move it, and the two signed ceremonies when it no longer fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from memguard.cli.groups import Group
from memguard.cli.output import Report, reporting
from memguard.cli.place import local_path, same_volume
from memguard.cli.session import Session, with_session
from memguard.integrity.head import Head
from memguard.integrity.logview import LogView, Note, signatures
from memguard.ports import Anchor, KeyRing


@dataclass
class LogState:
    """What an anchor's log says, read once and checked link by link."""

    records: int = 0
    bytes: int = 0
    signed: int = 0
    bad: int = 0
    heads: dict[tuple[str, str], Head] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    open: int = 0
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def read(cls, anchor: Anchor, keys: KeyRing) -> LogState:
        """Follow the log from its base record.

        Raises:
            AnchorError: it cannot be read, or is not what was appended.
            UnknownKeyError: a record is linked under a key that is not at hand.
        """
        payloads, _, _ = anchor.read(None)
        view = LogView(keys)
        state = cls(records=len(payloads), bytes=sum(map(len, payloads)))
        for record in view.feed(payloads):
            state.times[record.store] = max(record.time, state.times.get(record.store, 0.0))
        state.signed, state.bad, _ = signatures(payloads, keys)
        state.heads = {place: head for place, (_, head) in view.heads.items()}
        state.open, state.notes = len(view.intents), list(view.notes)
        return state

    def stores(self) -> list[str]:
        """Names of stores that have a head; what begins with @ is the guard's own."""
        return list(dict.fromkeys(store for store, _ in self.heads if not store.startswith("@")))

    def heads_of(self, store: str) -> list[Head]:
        """The heads of one store's contexts."""
        return [head for (name, _), head in self.heads.items() if name == store]

    def last_write(self, store: str) -> float | None:
        """When the store's newest head was written, by the writer's clock."""
        return self.times.get(store)


@click.group("anchor", cls=Group)
def anchor() -> None:
    """Show, move, accept or recover the anchor.

    The anchor is the log of heads that says what each store must hold. It protects as far as the adversary of
    the store cannot write to it.
    """


@anchor.command("show")
@with_session
@reporting
def show(session: Session) -> Report:
    """Show where the anchor is, whether its log holds, and what it says of each store."""
    with session.guard() as mg:
        state = LogState.read(mg.anchor, mg.keys)
        place = local_path(mg.anchor.uri)
        together = same_volume(place, mg.home) if place else None
        facts: dict[str, Any] = {
            "anchor": mg.anchor.uri,
            "volume": None
            if together is None
            else ("SAME as the home" if together else "another than the home's"),
            "log": f"{state.records} records, {state.bytes} bytes, every link holds",
            "signed": f"the first {state.signed} records",
            "bad_signatures": state.bad,
            "unfinished_operations": state.open,
            "operators_acts": [f"{note.operation} {note.store}".strip() for note in state.notes],
        }
        rows = [
            {
                "store": name,
                "contexts": len(heads := state.heads_of(name)),
                "records": sum(head.cells for head in heads),
                "operations": sum(head.generation for head in heads),
            }
            for name in state.stores()
        ]
    notes = ["WARN MG412 T9 (rollback of the whole store) is not covered: same volume"] if together else []
    code = 1 if state.bad else 0
    return Report(
        "anchor show",
        code=code,
        reason="records of the log carry a bad signature" if code else "",
        facts=facts,
        columns=("store", "contexts", "records", "operations"),
        rows=rows,
        notes=notes,
    )


@anchor.command("set")
@click.argument("uri")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def set_(session: Session, uri: str, apply: bool) -> Report:
    """Move the anchor to URI, such as file:/mnt/other/anchor.

    The log is copied as it is, the configuration is changed and sealed again, and the old log is put aside, so
    that a program that still uses it stops instead of writing to two places. Stop your programs first.
    """
    from memguard.cli.moving import move

    with session.guard() as mg:
        before, state = mg.anchor.uri, LogState.read(mg.anchor, mg.keys)
    target = _absolute(uri)
    facts: dict[str, Any] = {"from": before, "to": target, "records": state.records, "applied": apply}
    place = local_path(target)
    notes = []
    if place is not None and same_volume(place, Path(local_path(before) or ".")):
        notes.append("WARN MG412 the new place is on the same volume as the old one")
    if apply:
        facts["old_log"] = move(session, target)
    else:
        notes.append(
            f"nothing was changed: memguard anchor set {uri} --apply moves it; stop your programs first"
        )
    return Report("anchor set", facts=facts, notes=notes)


def _absolute(uri: str) -> str:
    from memguard.cli.place import beside

    return beside(uri, Path.cwd())


def _needs_reason(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("say why; it is signed into the log")
    return value.strip()


_REASON = click.option(
    "--reason", required=True, callback=_needs_reason, help="Why; it is signed into the log."
)
_APPLY = click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")


@anchor.command("accept")
@click.argument("stores", metavar="[STORE]...", nargs=-1)
@_REASON
@_APPLY
@with_session
@reporting
def accept(session: Session, stores: tuple[str, ...], reason: str, apply: bool) -> Report:
    """Accept what a store holds now, after you restored a backup on purpose.

    Each STORE (default: every configured one) gets a new head, signed, with the reason. What the newer state
    held is given up. Records without a good tag are never accepted: --apply DELETES rows that were changed, and
    the plan says how many. Copy the database first.
    """
    from memguard.cli.plans import accepted

    plans = accepted(session, stores, reason, apply)
    notes = [] if apply else ["nothing was changed: the same with --apply accepts it"]
    return plans.report("anchor accept", apply, notes)


@anchor.command("recover")
@click.argument("stores", metavar="[STORE]...", nargs=-1)
@_REASON
@_APPLY
@with_session
@reporting
def recover(session: Session, stores: tuple[str, ...], reason: str, apply: bool) -> Report:
    """Start a new anchor where the old one is lost for good.

    What is left of the old log is put aside. Each STORE (default: every configured one) is then accepted as it
    stands: records with a good tag count again, rows that were changed are DELETED, and nobody can tell any more
    whether some are missing. Copy the database first. STORE is a [stores.NAME] table: a program cannot be opened
    while its anchor is lost.
    """
    from memguard.cli.moving import begin_again, problem
    from memguard.cli.plans import accepted, resolved
    from memguard.cli.sealing import keys_of
    from memguard.errors import ConfigError

    found = problem(session, keys_of(session))
    if found is None:
        raise ConfigError(
            "the anchor is there and its log holds",
            code="MG154",
            do="Nothing is lost. After a restored backup: memguard anchor accept STORE --reason TEXT --apply",
        )
    names = resolved(
        session, stores
    )  # before the anchor is touched: half a recovery would be worse than none
    if not apply:
        facts = {"problem": f"{found.code}: {found.what}", "stores": list(names), "applied": False}
        notes = [
            "nothing was changed: with --apply the old log is put aside, a new one is begun, and every store listed",
            "above is accepted as it stands: rows that were changed are DELETED; copy the database first",
        ]
        return Report("anchor recover", facts=facts, notes=notes)
    aside = begin_again(session, reason)
    plans = accepted(session, names, f"recover: {reason}", True)
    report = plans.report("anchor recover", True, [])
    report.facts["old_log"] = aside
    return report
