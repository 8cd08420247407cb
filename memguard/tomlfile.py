"""memguard.toml as text: writing it, finding the line of a key in it, and sealing its bytes.

The writer knows only what a configuration can hold (strings, numbers, booleans, dates, tables of
these), so it needs no library. The seal is an HMAC over the file's bytes, kept beside it in
``memguard.toml.sig``: it shows an edit by somebody without the key. It does not stop somebody who
may replace both files from pointing the guard elsewhere, which is why keys and anchor given in code
or environment win.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memguard.errors import TamperedError

#: First word of a seal; a new form gets a new word.
SEAL_FORMAT = "memguard-config-seal-1"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[\[?\s*(?P<path>[^\]]+?)\s*\]\]?\s*(#.*)?$")
_PART = re.compile(
    r"""\s*(?:"(?P<basic>(?:[^"\\]|\\.)*)"|'(?P<literal>[^']*)'|(?P<bare>[A-Za-z0-9_-]+))\s*(?P<dot>\.)?"""
)


def dump(values: Mapping[str, Any]) -> str:
    """TOML text of nested tables; None is left out, because TOML has no null."""
    lines: list[str] = []
    _table((), values, lines)
    return "\n".join(lines).strip("\n") + "\n"


def _table(path: tuple[str, ...], values: Mapping[str, Any], lines: list[str]) -> None:
    plain = {k: v for k, v in values.items() if v is not None and not isinstance(v, Mapping)}
    if path and plain:
        lines += ["", f"[{'.'.join(_key(part) for part in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, Mapping):
            _table((*path, key), value, lines)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        # JSON's escapes are TOML's too, except that TOML escapes DEL and knows no surrogate pairs.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"a configuration cannot hold {type(value).__name__}")


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line (from 1) where the key at ``path`` is written, or its nearest table; None if neither is.

    A search by line rather than a parser: it names a place in a message and decides nothing.
    """
    best: int | None = None
    depth, wanted = 0, tuple(path)
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _path(header["path"])
            here = table
        elif "=" in line and not line.lstrip().startswith("#"):
            here = (*table, *_path(line))
        else:
            continue
        if len(here) > depth and wanted[: len(here)] == here:
            best, depth = number, len(here)
    return best


def _path(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        parts.append(match["basic"] or match["literal"] or match["bare"] or "")
        position = match.end()
        if not match["dot"]:
            break
    return tuple(parts)


def seal(content: bytes, key: bytes) -> bytes:
    """The bytes of ``memguard.toml.sig``: format and HMAC-SHA256 of ``content`` under ``key`` (32 bytes,
    a subkey made for this purpose)."""
    return f"{SEAL_FORMAT} {_mac(content, key)}\n".encode("ascii")


def unseal(content: bytes, signature: bytes, key: bytes) -> bytes:
    """``content``, if ``signature`` seals it.

    Raises:
        TamperedError: MG431, case ``state``: the file is not the one that was sealed.
    """
    expected = f"{SEAL_FORMAT} {_mac(content, key)}".encode("ascii")
    if not hmac.compare_digest(expected, signature.strip()):
        raise TamperedError(
            "the configuration file is not the one that was sealed",
            code="MG431",
            case="state",
            record="memguard.toml",
            why="Its bytes do not match memguard.toml.sig under this key, or that file is not there.",
            do="Compare it with a copy you trust; if you changed it yourself: memguard config seal --apply",
        )
    return content


def _mac(content: bytes, key: bytes) -> str:
    # The format is inside, so that no other HMAC under a wrongly shared key can pass for a seal.
    return hmac.new(key, SEAL_FORMAT.encode("ascii") + b"\x00" + content, hashlib.sha256).hexdigest()
