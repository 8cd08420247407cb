"""``memguard keys``: make, rotate, list and destroy the keys of a ring. No secret is ever printed."""

from __future__ import annotations

from typing import Any

import click

from memguard.cli.groups import Group
from memguard.cli.output import Report, reporting
from memguard.cli.session import Session, with_session
from memguard.errors import UnsupportedError

_COLUMNS = ("key", "state", "current", "public_key")
_OPTION = click.option("--keys", "uri", metavar="URI", help="The ring, such as file:/etc/agent/key.json.")


def _ring(session: Session, uri: str | None) -> Any:
    """The ring of ``--keys``, else of the configuration, else the user's own file."""
    from memguard.cli.init import default_keys
    from memguard.config import load
    from memguard.keys import open_keys

    return open_keys(uri or load(session.target()).config.keys or default_keys())


def _writable(ring: Any, verb: str) -> Any:
    """The ring, if its keys can be changed from here."""
    if not hasattr(ring, verb):
        raise UnsupportedError(
            f"keys of a {ring.uri.partition(':')[0]}: ring cannot be changed from here",
            where=ring.uri,
            do="Change them where they are kept; only file: rings are managed by memguard keys.",
        )
    return ring


def _rows(ring: Any) -> list[dict[str, Any]]:
    states = dict(getattr(ring, "states", {})) or dict.fromkeys(ring.ids, "active")
    held = set(ring.ids)
    return [
        {
            "key": kid,
            "state": state,
            "current": kid == ring.current,
            "public_key": ring.public_key(kid).hex() if kid in held else None,
        }
        for kid, state in states.items()
    ]


@click.group("keys", cls=Group)
def keys() -> None:
    """Make, rotate, list and destroy keys.

    The key ring is that of the configuration, unless --keys names another.
    """


@keys.command("list")
@_OPTION
@with_session
@reporting
def list_(session: Session, uri: str | None) -> Report:
    """List key ids, their state and their public keys.

    The public key is the one that verifies head signatures; an auditor takes it from here once.
    """
    ring = _ring(session, uri)
    return Report("keys list", facts={"ring": ring.uri}, columns=_COLUMNS, rows=_rows(ring))


@keys.command("new")
@click.option("--id", "kid", metavar="ID", help="Its id. Default: the year, the month and a letter.")
@_OPTION
@with_session
@reporting
def new(session: Session, kid: str | None, uri: str | None) -> Report:
    """Make a key, or a first key file.

    A key that is added to a ring verifies and does not write until memguard keys rotate ID makes it current:
    copy the ring to every reader in between. A file that is not there is made (0600), one that is there is
    never overwritten.
    """
    from memguard.cli.init import default_keys
    from memguard.cli.place import local_path, split_uri
    from memguard.config import load
    from memguard.keys import open_keys

    target = uri or load(session.target()).config.keys or default_keys()
    path = local_path(target)
    if split_uri(target)[0] == "file" and path is not None and not path.exists():
        if kid is not None:
            from memguard.keys.file import FileKeyRing

            ring: Any = FileKeyRing.create(path, kid=kid)
        else:
            ring = open_keys(target, create=True)
        made, done = ring.current, "made a key file with one key, which is current"
    else:
        ring = _writable(open_keys(target), "new")
        made = ring.new(kid)
        done = f"added; memguard keys rotate {made} makes it current"
    return Report(
        "keys new", facts={"ring": ring.uri, "made": made, "done": done}, columns=_COLUMNS, rows=_rows(ring)
    )


@keys.command("rotate")
@click.argument("kid", metavar="[ID]", required=False)
@_OPTION
@with_session
@reporting
def rotate(session: Session, kid: str | None, uri: str | None) -> Report:
    """Write under a new key, or under ID, from now on.

    The old key is retired: it verifies what it wrote and writes nothing more. Running programs take the new
    key when they open the ring again. One default ring serves all projects of a user: --keys names another.
    """
    from memguard.cli.init import default_keys

    ring = _writable(_ring(session, uri), "rotate")
    before = ring.current
    after = ring.rotate(kid)
    facts = {"ring": ring.uri, "was": before, "current": after}
    notes = [f"every home whose keys are {ring.uri} writes under {after} from now on"]
    if ring.uri == default_keys():
        notes.append("it is your default ring: all projects made by memguard init without --keys share it")
    return Report("keys rotate", facts=facts, columns=_COLUMNS, rows=_rows(ring), notes=notes)


@keys.command("destroy")
@click.argument("kid", metavar="ID")
@click.option("--apply", is_flag=True, help="Do it. Without this, only the plan is printed.")
@_OPTION
@with_session
@reporting
def destroy(session: Session, kid: str, apply: bool, uri: str | None) -> Report:
    """Remove a retired key's secret for good.

    Records that are still tagged under it can then be verified by nobody: reading them raises an unknown key
    error (MG410). Copies of the key file elsewhere are not reached.
    """
    ring = _writable(_ring(session, uri), "destroy")
    if kid == ring.current or kid not in ring.ids:
        ring.destroy(kid)  # raises, and says why
    if apply:
        ring.destroy(kid)
        notes = []
    else:
        notes = [
            f"nothing was changed: memguard keys destroy {kid} --apply removes its secret for good",
            "records still tagged under it will then raise MG410; memguard audit STORE shows whether there are any",
        ]
    facts = {"ring": ring.uri, "key": kid, "applied": apply}
    return Report("keys destroy", facts=facts, columns=_COLUMNS, rows=_rows(ring), notes=notes)
