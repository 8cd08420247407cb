"""The exit codes of every command, and the one place where an exception becomes one of them.

    0    clean
    1    findings, a refusal, or a gate that failed
    2    usage or configuration: nothing was done
    3    cannot tell: the evidence is missing (no key, no anchor, an unreadable store)
    4    internal error
    130  interrupted

A finding that was looked at and is bad (1) and one that could not be looked at (3) never share a code: a
pipeline that treats "I had no key" as "tampered", or as "clean", is wrong both ways.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
from pathlib import Path

import click

from memguard import errors
from memguard.cli.output import plain

CLEAN = 0
FINDINGS = 1
USAGE = 2
CANNOT_TELL = 3
INTERNAL = 4
INTERRUPTED = 130


def code_for(error: BaseException) -> int:
    """The exit code that stands for ``error``."""
    if isinstance(error, (KeyboardInterrupt, click.Abort, EOFError)):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return USAGE
    if isinstance(error, errors.ConfigError) and error.code == "MG108":
        return CANNOT_TELL  # the key that is configured is not there
    if isinstance(error, (errors.ConfigError, errors.AlreadyGuardedError, errors.UnsupportedError)):
        return USAGE
    if isinstance(error, errors.UnknownKeyError):
        return CANNOT_TELL
    if isinstance(error, errors.AnchorError) and isinstance(error.__cause__, OSError):
        return CANNOT_TELL  # it could not be read at all, as against read and found wrong
    if isinstance(error, (errors.IntegrityError, errors.RefusedError)):
        return FINDINGS
    if isinstance(error, sqlite3.Error):
        return CANNOT_TELL
    if isinstance(error, OSError):
        return USAGE
    return INTERNAL


def message_for(error: BaseException) -> str:
    """One line for a person. Texts of foreign exceptions may quote memory content, so they are left out."""
    if isinstance(error, (KeyboardInterrupt, click.Abort, EOFError)):
        return "interrupted"
    if isinstance(error, click.UsageError):
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return f"{error.format_message()}{_moved(error)}{hint}"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, errors.MemguardError):
        return f"{type(error).__name__} {error}{_for_the_shell(error)}"
    if isinstance(error, OSError):
        place = f" [{error.filename}]" if error.filename else ""
        return f"{error.strerror or type(error).__name__}{place}"
    if isinstance(error, sqlite3.Error):
        return f"the store cannot be read: {type(error).__name__}"
    return f"MG900: internal error, {type(error).__name__} at {place_of(error)} -> run again with -v and report it"


#: Options of the root command that people look for after a subcommand.
_ROOT_OPTIONS = ("-q", "--quiet", "-v", "--verbose")


def _moved(error: click.UsageError) -> str:
    """Where an option of the root command goes, if it was given after a subcommand."""
    if not isinstance(error, click.NoSuchOption) or error.option_name not in _ROOT_OPTIONS or not error.ctx:
        return ""
    below = error.ctx.command_path.partition(" ")[2]
    return f" It goes before the command: memguard {error.option_name} {below}".rstrip()


def _for_the_shell(error: errors.MemguardError) -> str:
    """What somebody at the command line does about an error whose text speaks to somebody who writes Python."""
    if error.code == "MG103":
        return " Or make another one: memguard init --home DIR"
    if error.code == "MG131":
        return " At the command line: give the name of a [stores.NAME] table, which opens it synchronously"
    if error.code == "MG102" and isinstance(error.__context__, ValueError):
        return " -> It has a syntax error: correct that place, then memguard config validate FILE"
    return ""


def place_of(error: BaseException) -> str:
    """``file:line`` of the innermost frame, without its folder."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"


def wants_traceback(verbose: bool = False) -> bool:
    """Whether the user asked for a traceback, by ``-v`` or by ``MEMGUARD_LOG=debug``."""
    return verbose or os.environ.get("MEMGUARD_LOG", "").strip().lower() == "debug"


def report(error: BaseException, *, verbose: bool = False) -> int:
    """Print ``error`` as one line on stderr and give back its exit code."""
    if wants_traceback(verbose) and not isinstance(error, (click.ClickException, click.Abort)):
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)  # a help page of ours, not a line
        return code_for(error)
    # Names in it may be the store's, or an argument that came from there.
    click.echo(f"memguard: {plain(' '.join(message_for(error).split()))}", err=True)
    return code_for(error)
