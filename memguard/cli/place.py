"""Where things are: which volume a folder is on, whether one holds another, and who may write to it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path


def split_uri(uri: str) -> tuple[str, str]:
    """``scheme, rest`` of a ``scheme:rest`` URI; a bare path has scheme ``"file"``."""
    scheme, colon, rest = uri.partition(":")
    # A single letter before the colon is a Windows drive and not a scheme.
    return (scheme, rest) if colon and len(scheme) > 1 else ("file", uri)


def local_path(uri: str) -> Path | None:
    """The path behind a ``file:`` or ``sqlite:`` URI; None where the URI names no local file."""
    scheme, rest = split_uri(uri)
    return Path(rest).expanduser() if scheme in ("file", "sqlite") and rest else None


def beside(uri: str, folder: Path) -> str:
    """``uri`` with a relative path taken from ``folder``, as a home's own configuration means it."""
    path = local_path(uri)
    if path is None or path.is_absolute():
        return uri
    return f"{split_uri(uri)[0]}:{folder / path}"


def nearest(path: Path) -> Path:
    """``path``, or the closest folder above it that exists."""
    path = path.expanduser().absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def same_volume(first: Path, second: Path) -> bool:
    """Whether both are on one volume (by ``st_dev`` of what exists of them).

    One device number means one volume. Two numbers may still be one disk (partitions, bind mounts of
    overlays), so "another volume" is a necessary sign of separation and never a sufficient one.
    """
    return nearest(first).stat().st_dev == nearest(second).stat().st_dev


def inside(path: Path, folder: Path) -> bool:
    """Whether ``path`` lies in ``folder``, after links are resolved."""
    return nearest(path).resolve().is_relative_to(folder.expanduser().resolve())


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read and write a file, by its permission bits."""

    mode: int
    group_or_other_read: bool
    group_or_other_write: bool
    owned: bool


def access(path: Path) -> Access:
    """Permission bits of ``path``, and whether this user owns it."""
    info = path.stat()
    mode = stat.S_IMODE(info.st_mode)
    return Access(
        mode=mode,
        group_or_other_read=bool(mode & (stat.S_IRGRP | stat.S_IROTH)),
        group_or_other_write=bool(mode & (stat.S_IWGRP | stat.S_IWOTH)),
        owned=not hasattr(os, "getuid") or info.st_uid == os.getuid(),
    )
