"""Files and folders that ``[stores.NAME] uri`` names."""

from __future__ import annotations

from pathlib import Path

from memguard.errors import ConfigError


def local(uri: str, scheme: str, what: str, example: str) -> Path:
    """The path behind ``SCHEME:PATH`` (relative to the working directory). Nothing is made.

    Args:
        what: what must be there, for the error: ``folder`` looks for a folder, anything else for a file.
        example: a path, for the error.

    Raises:
        ConfigError: MG151, another scheme, or there is nothing of the kind.
    """
    found, _, rest = uri.partition(":")
    path = Path(rest).expanduser()
    if found != scheme or not rest:
        form = "FOLDER" if what == "folder" else "PATH"
        raise ConfigError(
            f"this kind of store is opened by {scheme}:{form}",
            code="MG151",
            where=uri,
            do=f'Write uri = "{scheme}:{example}".',
        )
    if not (path.is_dir() if what == "folder" else path.is_file()):
        raise ConfigError(
            f"there is no {what} at this path",
            code="MG151",
            where=str(path),
            do="Paths are relative to the working directory; correct the uri in [stores.NAME].",
        )
    return path
