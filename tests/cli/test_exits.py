"""The table of exit codes: every kind of exception, and real invocations of each code."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys

import click
import pytest

from memguard import errors
from memguard.cli import exits
from memguard.cli.app import cli


def _caused(error: errors.MemguardError, cause: BaseException) -> errors.MemguardError:
    error.__cause__ = cause
    return error


TABLE = [
    (errors.ConfigError("x"), 2),
    (errors.ConfigError("no key file", code="MG108"), 3),
    (errors.AlreadyGuardedError("x"), 2),
    (errors.UnsupportedError("x"), 2),
    (errors.IntegrityError("x"), 1),
    (errors.TamperedError("x"), 1),
    (errors.RollbackError("x"), 1),
    (errors.ForkError("x"), 1),
    (errors.UnknownKeyError("x"), 3),
    (errors.AnchorError("read, and wrong"), 1),
    (_caused(errors.AnchorError("could not be read"), PermissionError(13, "denied")), 3),
    (errors.RefusedError("x"), 1),
    (errors.RejectedError("x"), 1),
    (errors.QuarantinedError("x"), 1),
    (errors.ScopeError("x"), 1),
    (errors.ForgottenError("x"), 1),
    (errors.MemguardError("x"), 4),
    (click.UsageError("x"), 2),
    (click.FileError("x"), 2),
    (FileNotFoundError(2, "no such file", "f"), 2),
    (sqlite3.DatabaseError("malformed"), 3),
    (KeyboardInterrupt(), 130),
    (click.Abort(), 130),
    (RuntimeError("x"), 4),
]


@pytest.mark.parametrize(("error", "code"), TABLE, ids=lambda value: type(value).__name__)
def test_the_table(error: BaseException, code: int) -> None:
    assert exits.code_for(error) == code
    assert "\n" not in exits.message_for(error)


def test_every_error_class_has_its_line() -> None:
    classes = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert classes == {type(error) for error, _ in TABLE} & classes


def test_an_internal_error_names_its_place_and_not_its_text() -> None:
    try:
        raise RuntimeError("the memory of alice")
    except RuntimeError as error:
        message = exits.message_for(error)
    assert "alice" not in message
    assert "test_exits.py:" in message
    assert message.startswith("MG900")


@pytest.fixture
def broken() -> object:
    """A command that fails in a way nobody foresaw."""

    @click.command("broken")
    def command() -> None:
        """Fail."""
        raise RuntimeError("the memory of alice")

    return command


@pytest.mark.parametrize(
    ("arguments", "traceback"), [(("broken",), False), (("-v", "broken"), True)], ids=["plain", "verbose"]
)
def test_no_traceback_unless_asked(arguments, traceback, broken, run, monkeypatch) -> None:
    monkeypatch.setattr("memguard.cli.app._registered", lambda: ("broken",))
    monkeypatch.setattr("memguard.cli.app._load_registered", lambda name: broken)
    result = run(*arguments)
    assert result.exit_code == 4
    assert ("Traceback" in result.stderr) is traceback
    assert result.stdout == ""
    assert result.stderr.rstrip().count("\n") == 0 or traceback


def test_debug_log_asks_for_the_traceback_too(broken, run, monkeypatch) -> None:
    monkeypatch.setattr("memguard.cli.app._registered", lambda: ("broken",))
    monkeypatch.setattr("memguard.cli.app._load_registered", lambda name: broken)
    monkeypatch.setenv("MEMGUARD_LOG", "debug")
    assert "Traceback" in run("broken").stderr


def test_interrupted(run, monkeypatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memguard.cli.explain.pages", interrupt)
    result = run("explain", "T1")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("explain", "T1"), 0, ""),
        (("explain", "T99"), 2, "No page"),
        (("adit", "x"), 2, 'Did you mean "audit"?'),
        (("audit",), 2, "Missing argument"),
        (("explain", "-o", "x.pdf"), 2, "suffix"),
        (("audit", "checkpoints"), 2, "MG102"),
        (("keys", "list"), 3, "MG108"),
        (("init", "-q"), 2, "It goes before the command: memguard -q init"),
        (("keys", "list", "--verbose"), 2, "memguard --verbose keys list"),
        (("-q", "explain", "T1"), 0, ""),
    ],
)
def test_real_processes(arguments, code, says, process) -> None:
    done = process(*arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert code == 0 or done.stderr.count("\n") == 1


@pytest.mark.parametrize("group", [[], ["config"]])
def test_a_bare_call_shows_the_help_page_and_not_one_line_of_it(group, run) -> None:
    bare, asked = run(*group), run(*group, "--help")
    assert bare.exit_code == 2
    assert bare.stderr == asked.stdout
    assert "\n  validate" in bare.stderr if group else "\n  doctor" in bare.stderr


def test_the_group_returns_nothing_but_exit_codes() -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["explain", "T1"])
    assert end.value.code == 0


WAITING = """
import sys
from memguard.cli import main

class Stdin:
    def read(self):
        print("waiting", file=sys.stderr, flush=True)
        return sys.__stdin__.read()

sys.stdin = Stdin()
main()
"""


def test_an_interrupted_process_exits_130(place) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", WAITING, "check", "-"],
        cwd=place,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stderr.readline() == "waiting\n"
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=30)
    assert running.returncode == 130, error
    assert error.strip() == "memguard: interrupted"
