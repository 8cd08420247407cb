"""The commands of a memory tool on the text of one file, and how their answers read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from memguard.errors import UnsupportedError

#: Width of a line's number, followed by a tab.
_WIDTH = 6
#: Lines shown on both sides of a change.
_AROUND = 2
#: Levels of a listing.
_LEVELS = 2


def replaced(text: str, old: object, new: object) -> tuple[str, int]:
    """The text with its only occurrence of ``old`` replaced, and the line (from 0) where that begins.

    Raises:
        UnsupportedError: MG613, it occurs not at all or more than once.
    """
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        unusable("str_replace takes old_str, which is not empty, and new_str.")
    at = text.find(old)
    if at < 0:
        unusable(
            "the text to replace does not occur in the file.", "View the file and copy the text exactly."
        )
    if text.find(old, at + 1) >= 0:
        unusable("the text to replace occurs more than once.", "Give more of what stands around it.")
    return text[:at] + new + text[at + len(old) :], text.count("\n", 0, at)


def inserted(text: str, line: object, more: object) -> str:
    """The text with further lines after line ``line`` (0: in front).

    Raises:
        UnsupportedError: MG613, there is no such line.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not isinstance(more, str) or not isinstance(line, int) or isinstance(line, bool):
        unusable("insert takes insert_line, a number, and insert_text.")
    if not 0 <= line <= len(lines):
        unusable(f"there is no line {line} to insert after.", f"Lines are 0 to {len(lines)}.")
    lines.insert(line, more.rstrip("\n"))
    return "\n".join(lines) + "\n"


def numbered(text: str, span: object = None) -> str:
    """The lines with their numbers.

    Args:
        span: first and last line from 1; -1 for the last one.

    Raises:
        UnsupportedError: MG613, ``span`` is no span.
    """
    lines, first, last = text.split("\n"), 1, None
    if span is not None:
        good = isinstance(span, Sequence) and len(span) == 2 and all(type(n) is int for n in span)
        if not good or span[0] < 1 or (span[1] != -1 and span[1] < span[0]):  # type: ignore[index]
            unusable("view_range is two numbers, first and last line.", "Lines count from 1; -1 is the last.")
        first, last = span[0], None if span[1] == -1 else span[1]  # type: ignore[index]
    shown = lines[first - 1 : last]
    return "\n".join(f"{first + at:>{_WIDTH}}\t{line}" for at, line in enumerate(shown))


def around(text: str, line: int) -> str:
    """The numbered lines around a change."""
    first = max(0, line - _AROUND)
    shown = text.split("\n")[first : line + _AROUND + 1]
    return "\n".join(f"{first + 1 + at:>{_WIDTH}}\t{one}" for at, one in enumerate(shown))


def listing(title: str, sizes: Mapping[str, int]) -> str:
    """A folder's files, two levels deep, each with its size; a folder has the size of its files.

    Args:
        title: how the folder is called.
        sizes: bytes by path below that folder.
    """
    return listed(title, rows(title, sizes).values())


def listed(title: str, lines: Iterable[str]) -> str:
    """A listing of these lines."""
    return f"Files in {title}, two levels deep, hidden ones left out:\n" + "\n".join(lines)


def rows(title: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """The lines of :func:`listing` by the path that they show; the folder itself is ``""``, others end in ``/``."""
    totals: dict[str, int] = {}
    for name, size in sizes.items():
        parts = name.split("/")
        for at in range(1, min(len(parts), _LEVELS + 1)):
            folder = "/".join(parts[:at]) + "/"
            totals[folder] = totals.get(folder, 0) + size
        if len(parts) <= _LEVELS:
            totals[name] = size
    lines = {"": f"{_size(sum(sizes.values()))}\t{title}"}
    lines.update((name, f"{_size(totals[name])}\t{title}/{name}") for name in sorted(totals))
    return lines


def _size(count: int) -> str:
    amount, units = float(count), iter("BKMG")
    unit = next(units)
    while amount >= 1024 and unit != "G":
        amount, unit = amount / 1024, next(units)
    return f"{amount:.1f}{unit}" if amount != int(amount) else f"{int(amount)}{unit}"


def fields(command: object, names: Iterable[str]) -> dict[str, Any]:
    """The members of a command, which is a mapping or an object with attributes."""
    if isinstance(command, Mapping):
        return {name: command[name] for name in names if command.get(name) is not None}
    found = {name: getattr(command, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def unusable(what: str, do: str | None = None) -> NoReturn:
    """Refuse a command that cannot be carried out as it is.

    Raises:
        UnsupportedError: MG613.
    """
    raise UnsupportedError(what, code="MG613", do=do)


def missing(do: str = "View the folder to see what is there.") -> UnsupportedError:
    """There is nothing at a path."""
    return UnsupportedError("there is no file or folder at this path.", code="MG611", do=do)


def taken(what: str = "there is a file at this path already.") -> UnsupportedError:
    """Something stands at a path, or at one that some systems take for the same."""
    return UnsupportedError(what, code="MG612", do="Edit it, delete it first, or choose another name.")
