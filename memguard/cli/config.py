"""``memguard config``: show every value with its origin, check a file, print its schema, seal it, promote guards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from memguard.cli import exits
from memguard.cli.groups import Group
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session


@click.group("config", cls=Group)
def config() -> None:
    """Show, check and seal the configuration."""


def _flat(values: Any, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        return [leaf for key, value in values.items() for leaf in _flat(value, (*path, key))]
    return [(".".join(path), values)]


@config.command("show")
@with_session
@reporting
def show(session: Session) -> Report:
    """Print every value, and the file and line, variable or preset that set it."""
    from memguard.config import load

    loaded = load(session.target())
    rows = [
        {"option": name, "value": value, "origin": loaded.origins.get(name, f"preset {loaded.config.preset}")}
        for name, value in _flat(loaded.config.plain())
    ]
    facts = {
        "file": str(loaded.file) if loaded.file else None,
        "home": str(loaded.home) if loaded.home else None,
        "digest": loaded.config.digest(),
    }
    return Report("config show", facts=facts, columns=("option", "value", "origin"), rows=rows)


@config.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@with_session
@reporting
def validate(session: Session, file: Path | None) -> Report:
    """Check FILE, or the configuration that would be used.

    Exit code 2 with the line, the option and the nearest valid word if anything is wrong.
    """
    from memguard import registry
    from memguard.config import load

    loaded = load(file if file is not None else session.target())
    for store in loaded.config.stores.values():
        if store.kind not in registry.kinds:
            registry.kinds.get(store.kind)  # raises, with a suggestion
    facts = {
        "file": str(loaded.file) if loaded.file else None,
        "valid": True,
        "preset": loaded.config.preset,
        "digest": loaded.config.digest(),
        "seal": _seal_words(loaded),
    }
    return Report("config validate", facts=facts)


def _seal_words(loaded: Any) -> str:
    """Whether the seal of the file that was checked holds, and what to do if not."""
    from memguard.cli.place import beside
    from memguard.cli.sealing import is_sealed
    from memguard.errors import MemguardError
    from memguard.keys import open_keys

    if loaded.home is None or loaded.file is None or loaded.config.keys is None:
        return "not checked: no home and key belong to this file"
    try:
        ring = open_keys(beside(loaded.config.keys, loaded.file.parent))
    except MemguardError as error:
        return f"not checked: {error.code}, {error.what}"
    if is_sealed(loaded.file, ring):
        return "holds"
    return "DOES NOT MATCH this file: if the change is yours, memguard config seal --apply renews it"


@config.command("schema")
def schema() -> int:
    """Print the JSON Schema of memguard.toml, for editors."""
    from memguard.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return exits.CLEAN


@config.command("seal")
@click.option("--apply", is_flag=True, help="Do it. Without this, only what would be sealed is printed.")
@with_session
@reporting
def seal(session: Session, apply: bool) -> Report:
    """Authenticate memguard.toml as it stands now, after you have changed it yourself.

    The seal is made under the key, so an edit by anybody without it is noticed when the guard opens.
    """
    from memguard.cli.sealing import home_file, is_sealed, keys_of, reseal

    path, ring = home_file(session), keys_of(session)
    before = is_sealed(path, ring)
    if apply:
        reseal(path, ring)
    notes = [] if apply else ["nothing was changed: memguard config seal --apply seals the file as it stands"]
    facts = {"file": str(path), "matched_its_seal": before, "sealed": apply or before, "key_id": ring.current}
    return Report("config seal", facts=facts, notes=notes)


@config.command("promote")
@click.argument("guards", nargs=-1, metavar="[GUARD]...")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@with_session
@reporting
def promote(session: Session, guards: tuple[str, ...], apply: bool) -> Report:
    """Make guards that only observe enforce what they say: the named ones, or all of them.

    The plan says how many records each would have withheld while it observed (counts of this home, which
    whoever writes the home can change). "integrity" names the verification of reads.
    """
    from memguard.cli.observing import observing, values_of
    from memguard.cli.sealing import home_file, keys_of, reseal, with_values

    path = home_file(session)
    found = observing(session, guards)
    if apply and found:
        keys = keys_of(session)
        reseal(path, keys, with_values(path, keys, values_of(found)))
    notes = (
        [] if apply or not found else ["nothing was changed: memguard config promote --apply enforces them"]
    )
    if not found:
        notes = ["no guard only observes"]
    rows = [
        {
            "stage": o.stage,
            "guard": o.guard,
            "would_withhold": o.would,
            "since": o.since,
            "becomes": "enforce",
        }
        for o in found
    ]
    columns = ("stage", "guard", "would_withhold", "since", "becomes")
    return Report(
        "config promote", facts={"file": str(path), "applied": apply}, columns=columns, rows=rows, notes=notes
    )
