"""A guard's home: the files in it, and how memguard.toml is authenticated.

The file is read once; those bytes must be under the seal beside them and be the newest that the anchor knows.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from memguard.anchorlog import AnchorLog
from memguard.config import seal, unseal
from memguard.errors import TamperedError
from memguard.integrity.head import Head
from memguard.integrity.logview import HeadRecord
from memguard.ports import KeyRing

CONFIG, SEAL, STATE, LOCKS = "memguard.toml", "memguard.toml.sig", "state.db", "locks"
#: Store name and context of the configuration's head in the log; its chain is the file's digest.
PLACE = ("@config", "config")


def note_configuration(log: AnchorLog, text: bytes) -> None:
    """Have the anchor know the newest memguard.toml, so that an older one with its own good seal is refused."""
    known = log.head(PLACE)
    before = known[1].generation if known else 0
    digest = hashlib.sha256(text).digest()
    if known and known[1].chain == digest and known[0] == log.keys.current:
        return
    head = Head(PLACE[1], generation=before + 1, chain=digest)
    record = HeadRecord(PLACE[0], "config", time.time(), log.keys.current, head, None)
    log.write([record], sync=True, expect=[(PLACE, before)])


def check_newest(log: AnchorLog, text: bytes) -> None:
    """That the anchor knows no newer configuration.

    Raises:
        TamperedError: it does: an older file was put back with its own good seal.
    """
    known = log.head(PLACE)
    if known is not None and known[1].chain != hashlib.sha256(text).digest():
        raise TamperedError(
            "the configuration file is not the newest that was sealed.",
            case="state",
            record="memguard.toml",
            code="MG431",
            why="The anchor knows another one.",
            do="Compare it with a copy you trust; if you changed it yourself: memguard config seal --apply",
        )


def check_seal(folder: Path, text: bytes, keys: KeyRing) -> None:
    """The bytes that were read as memguard.toml are authenticated under a key of the ring.

    Raises:
        TamperedError: they are not, or no seal stands beside the file: whoever could remove it could edit it.
    """
    try:
        sealed = (folder / SEAL).read_bytes()
    except OSError:  # not there, or no file
        sealed = b""
    for kid in reversed(keys.ids):
        try:
            unseal(text, sealed, keys.subkey("config", kid))
            if kid != keys.current:
                seal_anew(folder, text, keys)
            return
        except TamperedError as error:
            wrong = error
    raise wrong


def seal_anew(folder: Path, text: bytes, keys: KeyRing) -> None:
    """After a rotation: the old key may be destroyed one day. A home that cannot be written keeps its old seal."""
    fresh = folder / f"{SEAL}.{os.getpid()}"
    with suppress(OSError):
        fresh.unlink(missing_ok=True)  # nothing is written through a link that somebody left there
        with open(fresh, "xb") as file:
            file.write(seal(text, keys.subkey("config")))
        fresh.replace(folder / SEAL)


def beside(uri: str, folder: Path) -> str:
    """A relative path is relative to this folder: the home that a configuration stands in."""
    scheme, _, rest = uri.partition(":")
    if scheme in ("file", "sqlite") and rest and not os.path.isabs(os.path.expanduser(rest)):
        return f"{scheme}:{folder / rest}"
    return uri
