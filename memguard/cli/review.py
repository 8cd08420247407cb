"""The review key at the command line: which one is in force, and sealing to another one."""

from __future__ import annotations

from typing import Any

from memguard.cli.output import Report
from memguard.cli.place import access, local_path
from memguard.cli.sealing import home_file, keys_of, reseal, with_values
from memguard.cli.session import Session
from memguard.config import Config, load
from memguard.errors import ConfigError, MemguardError
from memguard.quarantine import review


def facts_of(config: Config, uri: str | None) -> dict[str, Any]:
    """What may be printed of a review key: its public half, and whether the private one can be read here."""
    public = config.quarantine.review_public
    facts: dict[str, Any] = {"public": public, "private": review.described(config), "readable_here": False}
    try:
        facts["readable_here"] = public in review.Opening.at(uri).publics if uri is not None else False
    except MemguardError as error:
        facts["why"] = error.why or error.what
    path = local_path(uri) if uri is not None else None
    if path is not None and path.exists():
        facts["mode"] = f"{access(path).mode:04o}"
    return facts


def described(session: Session) -> Report:
    """The review key in force."""
    with session.guard() as mg:
        facts = facts_of(mg.config, mg.quarantine.review_key)
    notes = []
    if facts["public"] is None:
        notes.append("MG341 nothing can be withheld: memguard quarantine key --apply makes a review key")
    elif facts["readable_here"]:
        notes.append(
            "MG340 the private half can be read here: what runs as this user can open what was withheld"
        )
    return Report("quarantine key", facts=facts, notes=notes)


def changed(session: Session, uri: str | None, apply: bool) -> Report:
    """Seal to another review key from now on: a plan, or with ``apply`` the act."""
    path = home_file(session)
    config = load(session.target()).config
    wanted = uri or config.quarantine.review_key or review.default_uri(config.keys or "", path.parent)
    if apply:
        if wanted == config.keys:
            raise ConfigError("the review key is the agent's own key.", code="MG340", do="Name another one.")
        public = review.made(wanted)
        values = {
            "quarantine": {**config.quarantine.model_dump(), "review_key": wanted, "review_public": public}
        }
        keys = keys_of(session)
        reseal(path, keys, with_values(path, keys, values))
        config = load(session.target()).config
    facts = {**facts_of(config, wanted), "file": str(path), "applied": apply}
    notes = (
        []
        if apply
        else [f"nothing was changed: --apply seals what is withheld to {wanted.partition(':')[2]}"]
    )
    return Report("quarantine key", facts=facts, notes=notes)
