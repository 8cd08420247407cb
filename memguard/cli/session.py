"""What one run of the command line carries around: the flags, and the guard they name, opened on first use."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memguard.engine import MemGuard


class Session:
    """Flags of the root command; :meth:`guard` opens the MemGuard that they name."""

    def __init__(self) -> None:
        self.home: str | None = None
        self.config: str | None = None
        self.verbose = False
        self.quiet = False

    def target(self) -> str | None:
        """What to give to ``MemGuard.open``: the folder or file of the flags, else None (discovered)."""
        return self.config or self.home

    @contextmanager
    def guard(self) -> Iterator[MemGuard]:
        """The MemGuard of this run, closed afterwards.

        Raises:
            ConfigError: there is no home, or its configuration is wrong.
            AnchorError: its anchor is missing or not readable.
        """
        from memguard.engine import MemGuard

        mg = MemGuard.open(self.target())
        try:
            yield mg
        finally:
            mg.close()

    def start_logging(self) -> None:
        """Send memguard's own log to stderr at the level of ``-v`` or ``MEMGUARD_LOG`` (default warning)."""
        name = "debug" if self.verbose else os.environ.get("MEMGUARD_LOG", "warning").strip().lower()
        level = getattr(logging, name.upper(), None)
        logger = logging.getLogger("memguard")
        logger.setLevel(level if isinstance(level, int) else logging.WARNING)
        if not any(getattr(handler, "memguard_cli", False) for handler in logger.handlers):
            handler = logging.StreamHandler(_Stderr())
            handler.setFormatter(logging.Formatter("memguard: %(levelname)s %(message)s"))
            handler.memguard_cli = True  # type: ignore[attr-defined]
            logger.addHandler(handler)


class _Stderr:
    """Whatever ``sys.stderr`` is when a line is written: test runners and progress bars replace it."""

    def write(self, text: str) -> int:
        """Write to the stderr of this moment."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush it."""
        sys.stderr.flush()


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the run's :class:`Session` first, and ``--home``/``--config`` after its name as well."""

    @click.option("--home", "own_home", metavar="DIR", help="The guard's home.")
    @click.option("--config", "own_config", metavar="FILE", help="A memguard.toml.")
    @click.pass_context
    @functools.wraps(function)
    def run(
        ctx: click.Context, /, *args: Any, own_home: str | None, own_config: str | None, **kwargs: Any
    ) -> Any:
        session = ctx.find_object(Session) or Session()
        session.home, session.config = own_home or session.home, own_config or session.config
        return function(session, *args, **kwargs)

    return run


def user_config_dir(platform: str | None = None) -> Path:
    """The user's folder for memguard's configuration, by each platform's own convention.

    XDG_CONFIG_HOME or ~/.config on Linux, Application Support on macOS, APPDATA on Windows.
    """
    system = platform or sys.platform
    if system == "win32":
        base = os.environ.get("APPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Roaming") / "memguard"
    if system == "darwin":
        return Path.home() / "Library" / "Application Support" / "memguard"
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "memguard"
