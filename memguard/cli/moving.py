"""Moving an anchor, and starting a new one where the old is lost. Both leave a signed note in the log."""

from __future__ import annotations

import os
import time
from pathlib import Path

from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.cli.place import beside, local_path, split_uri
from memguard.cli.sealing import home_file, keys_of, reseal, sealed_content
from memguard.cli.session import Session
from memguard.config import load
from memguard.errors import AnchorError, ConfigError, UnsupportedError
from memguard.integrity.logview import LogView, Note
from memguard.ports import KeyRing
from memguard.tomlfile import dump, line_of

_LOG = "anchor.log"


def current_uri(session: Session) -> str:
    """The anchor that the home's own configuration names, as an absolute URI.

    Raises:
        ConfigError: it names none, or a variable or another file outranks it.
    """
    loaded, path = load(session.target()), home_file(session)
    uri, origin = loaded.config.anchor, loaded.origins.get("anchor", "")
    if uri is None:
        raise ConfigError(
            "the configuration names no anchor", code="MG102", do="memguard init makes a home with one."
        )
    if not origin.startswith(str(path)):
        raise ConfigError(
            "the anchor is not named by the home's memguard.toml",
            code="MG153",
            where=origin,
            do="Change it there, or unset it: what this command writes would not be used.",
        )
    return beside(uri, path.parent)


def log_file(uri: str) -> Path:
    """The file that holds the log of a local anchor.

    Raises:
        UnsupportedError: the anchor is not a local file.
    """
    path = local_path(uri)
    if path is None:
        raise UnsupportedError(
            "only file: and sqlite: anchors can be moved or recovered from here",
            where=uri,
            do="Use the tools of the service that keeps this one.",
        )
    return path / _LOG if split_uri(uri)[0] == "file" else path


def move(session: Session, target: str) -> str:
    """Copy the log to ``target``, point the configuration there, and put the old log aside.

    The old anchor's lock is held throughout: a running program waits, then finds its log gone and stops.

    Returns:
        Where the old log is now.
    """
    uri, path, keys = current_uri(session), home_file(session), keys_of(session)
    old_file = log_file(uri)
    log_file(target)
    content = sealed_content(path, keys)  # it is sealed again: nobody else may have changed it
    old = open_anchor(uri)
    try:
        old.acquire()
        try:
            records, _, _ = old.read(None)
            view = LogView(keys)
            view.feed(records)
            note = view.note(Note("", "move", {"from": uri, "to": target, "time": time.time()}))
            _fill(target, [*records, note])
            reseal(path, keys, with_anchor(content.decode(), target).encode())
            return _put_aside(old_file, "moved")
        finally:
            old.release()
    finally:
        old.close()


def begin_again(session: Session, reason: str) -> str | None:
    """Put what is left of the anchor aside and start a new log in its place, with a signed note.

    Returns:
        Where the old log is now; None if there was none.
    """
    from memguard.home import note_configuration

    uri, keys = current_uri(session), keys_of(session)
    file = log_file(uri)
    aside = _put_aside(file, "lost") if file.exists() else None
    fresh = open_anchor(uri, create=True)
    try:
        AnchorLog.begin(fresh, keys)
        log = AnchorLog(fresh, keys)
        log.write([Note("", "recover", {"reason": reason, "time": time.time()})], sync=True)
        note_configuration(log, home_file(session).read_bytes())
    finally:
        fresh.close()
    return aside


def problem(session: Session, keys: KeyRing) -> AnchorError | None:
    """What is wrong with the anchor that the configuration names; None if its log holds."""
    try:
        anchor = open_anchor(current_uri(session))
        try:
            AnchorLog(anchor, keys)
        finally:
            anchor.close()
    except AnchorError as error:
        return error
    return None


def with_anchor(text: str, uri: str) -> str:
    """The configuration ``text`` with ``anchor`` set to ``uri``; every other line stays as it is."""
    new = dump({"anchor": uri}).rstrip("\n")
    lines, number = text.splitlines(), line_of(text, ("anchor",))
    if number is not None:
        lines[number - 1] = new
    else:  # a top-level key must stand above the first table
        first = next((i for i, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
        lines.insert(first, new)
    return "\n".join(lines) + "\n"


def _fill(uri: str, records: list[bytes]) -> None:
    new = open_anchor(uri, create=True)
    try:
        new.acquire()
        try:
            new.append(records, sync=True)
        finally:
            new.release()
    finally:
        new.close()


def _put_aside(file: Path, word: str) -> str:
    aside = file.with_name(f"{file.name}.{word}-{int(time.time())}")
    os.rename(file, aside)
    return str(aside)
