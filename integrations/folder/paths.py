"""What a path of a memory folder may be. Pure: the disk is not asked.

The path comes from a model, so anything that a file system might read in more than one way is refused: parts that
climb, hidden parts, control and invisible characters, backslashes, parts that end in a dot or a space. What is left
means one file on every system.
"""

from __future__ import annotations

import unicodedata
from typing import NoReturn

from memguard.errors import UnsupportedError
from memguard.labels import visible

#: The context of files that stand in the folder itself; a part is never spelled so.
TOP = "."
#: Longest part of a path in bytes of UTF-8, below what file systems take (255), and parts at most.
MAX_PART, MAX_DEPTH = 200, 8


def inner(path: object, prefix: str) -> str:
    """The path below the folder, parts joined by ``/``; empty for the folder itself.

    Args:
        path: as the model gave it, such as ``/memories/notes.md``.
        prefix: what the folder is called there.

    Raises:
        UnsupportedError: MG610.
    """
    if not isinstance(path, str):
        refuse("a path is no text.")
    if path != prefix and not path.startswith(f"{prefix}/"):
        refuse("a path does not lie in the memory folder.", do=f"Paths begin with {prefix}/.")
    parts = [part for part in path[len(prefix) :].split("/") if part]
    if len(parts) > MAX_DEPTH:
        refuse(f"a path has more than {MAX_DEPTH} parts.")
    for part in parts:
        _check(part)
    return "/".join(parts)


def _check(part: str) -> None:
    if part.startswith("."):
        refuse(
            "a path climbs, or names something hidden.", why="Parts that begin with a dot are never memory."
        )
    if "\\" in part or part != part.rstrip(" .") or part != part.lstrip(" "):
        refuse("a path is spelled in a way that some systems read otherwise.")
    if visible(part) != part or "\n" in part or unicodedata.normalize("NFC", part) != part:
        refuse("a path holds characters that nobody sees, or in a form that another file may share.")
    if len(part.encode("utf-8")) > MAX_PART:
        refuse(f"a part of a path is longer than {MAX_PART} bytes.")


def refuse(what: str, *, why: str | None = None, do: str | None = None) -> NoReturn:
    """Refuse a path, without repeating it.

    Raises:
        UnsupportedError: MG610.
    """
    raise UnsupportedError(
        what, code="MG610", why=why, do=do or "Use plain names of letters, digits, '-', '_' and '.'."
    )


def context_of(name: str) -> str:
    """The context of a file: the folder of the first level that it lies in."""
    first, slash, _ = name.partition("/")
    return first if slash else TOP


def folded(name: str) -> str:
    """What two names share that are one file on a system that does not tell cases apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def collides(name: str, others: list[str]) -> bool:
    """Whether a file of this name, or one of its folders, differs from one that is there only in case or form."""
    mine = _prefixes(name)
    alike = {folded(prefix): prefix for prefix in mine}
    for other in others:
        for prefix in _prefixes(other):
            found = alike.get(folded(prefix))
            if found is not None and found != prefix:
                return True
    return False


def _prefixes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:at]) for at in range(1, len(parts) + 1)]
