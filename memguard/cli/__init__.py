"""The ``memguard`` command: one module per command group, each loaded only when it is called.

``main`` is the console entry point. Anything heavier than click (cryptography, pydantic, a framework) is
imported inside the command that needs it, so ``memguard --help`` and shell completion stay quick.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave the process with one of the exit codes of :mod:`memguard.cli.exits`."""
    from memguard.cli.app import cli

    cli.main(prog_name="memguard")
