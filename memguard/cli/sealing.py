"""The seal of memguard.toml: whether it holds, and making a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.anchorlog import AnchorLog
from memguard.anchors import open_anchor
from memguard.cli.session import Session
from memguard.config import load, seal, unseal, write_toml
from memguard.errors import AnchorError, ConfigError, TamperedError
from memguard.home import check_newest, check_seal, note_configuration
from memguard.keys import open_keys
from memguard.ports import KeyRing

SUFFIX = ".sig"
#: The purpose of the subkey that seals; the engine checks with the same one.
PURPOSE = "config"


def home_file(session: Session) -> Path:
    """The memguard.toml of the home in use.

    Raises:
        ConfigError: MG102, there is no home.
    """
    loaded = load(session.target())
    if loaded.home is None or loaded.file is None or loaded.file.name == "pyproject.toml":
        raise ConfigError(
            "there is no home here", code="MG102", do="memguard init makes one, or give --home DIR."
        )
    return loaded.file


def keys_of(session: Session) -> KeyRing:
    """The key ring of the home in use.

    Raises:
        ConfigError: the configuration names none, or it cannot be opened.
    """
    from memguard.cli.place import beside

    uri = load(session.target()).config.keys
    if uri is None:
        raise ConfigError(
            "the configuration names no keys", code="MG102", do="memguard init makes a home with a key."
        )
    return open_keys(beside(uri, home_file(session).parent))


def is_sealed(path: Path, keys: KeyRing) -> bool:
    """Whether the seal beside ``path`` is over the file as it stands, under any key of the ring."""
    try:
        signature, content = path.with_name(path.name + SUFFIX).read_bytes(), path.read_bytes()
    except FileNotFoundError:
        return False
    for kid in keys.ids:
        try:
            unseal(content, signature, keys.subkey(PURPOSE, kid))
        except TamperedError:
            continue
        return True
    return False


def reseal(path: Path, keys: KeyRing, content: bytes | None = None) -> None:
    """Seal ``path``, after replacing its bytes by ``content`` if given; each file changes in one step.

    Between the two steps the file does not match its seal, so an interruption is noticed and not passed over.
    What is sealed are bytes in hand: the file may be another one a moment later.
    """
    if content is None:
        content = path.read_bytes()
    else:
        _replace(path, content)
    _replace(path.with_name(path.name + SUFFIX), seal(content, keys.subkey(PURPOSE)))
    log = _log(path, keys)
    if log is not None:
        try:
            note_configuration(log, content)
        finally:
            log.close()


def sealed_content(path: Path, keys: KeyRing) -> bytes:
    """The bytes of ``path``, which carry a good seal and are the newest that the anchor knows.

    A command that changes one value seals all the others with it: none of them may be somebody else's.

    Raises:
        TamperedError: MG431, they are not.
    """
    content = path.read_bytes()
    check_seal(path.parent, content, keys)
    log = _log(path, keys)
    if log is not None:  # an anchor that is lost knows nothing; to recover it leads through here
        try:
            check_newest(log, content)
        finally:
            log.close()
    return content


def with_values(path: Path, keys: KeyRing, values: Mapping[str, Any]) -> bytes:
    """The file at ``path`` with ``values`` laid over what it says. Environment and flags have no part in it;
    comments are not kept.

    Raises:
        TamperedError: MG431, the file was changed since it was sealed.
        ConfigError: the file, or what it would say, is not a configuration.
    """
    content = sealed_content(path, keys)
    loaded = load(path, keywords=values, environ={})
    if loaded.content != content:
        raise TamperedError(
            "the configuration file changed while it was read.", case="state", record=path.name, code="MG431"
        )
    return write_toml(loaded.config).encode()


def _log(path: Path, keys: KeyRing) -> AnchorLog | None:
    """The log of the anchor that the file names; None if it names none, or it is lost or away."""
    from memguard.cli.place import beside

    uri = load(path).config.anchor
    if uri is None:
        return None
    try:
        return AnchorLog(open_anchor(beside(uri, path.parent)), keys)
    except AnchorError:
        return None


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)  # left over, or a link to a file that this must not write
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
