"""Every command that exists: its help, its place in the table, and what a bare call costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from memguard.cli.app import COMMANDS, cli


def every_command() -> Iterator[tuple[str, ...]]:
    def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from walk(child, (*path, name))

    yield from walk(cli, ())


ALL = list(every_command())


def test_the_commands_of_this_version_are_there_and_no_stub_is() -> None:
    ours = {path[0] for path in ALL if path}
    assert set(COMMANDS) <= ours
    # DESIGN lists these for later; a command that answers "not yet" would be a lie in --help.
    assert ours.isdisjoint({"scan", "console", "forget", "witness", "receipt", "log"})


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help(path: tuple[str, ...], run) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: memguard")
    # A command without a sentence about itself, or an option without one, is not finished.
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    assert command.help
    assert command.help.split("\n")[0].endswith(".")
    if path and path[0] in COMMANDS:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{' '.join(path)} {parameter.opts}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_repeats_each_commands_own_line(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help is not None
    assert command.help.split("\n")[0] == COMMANDS[name][2]


def test_help_imports_neither_a_framework_nor_cryptography() -> None:
    code = (
        "import sys\n"
        "from memguard.cli.app import cli\n"
        "try: cli.main(['explain', 'T7'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "bad = {'langgraph', 'langchain_core', 'numpy', 'nacl', 'cryptography', 'pydantic'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("memguard ")


@pytest.mark.parametrize("group", ["allow", "anchor", "bench", "config", "keys", "quarantine"])
def test_a_group_lists_its_commands_by_whole_sentences(group: str, run) -> None:
    commands = cli.get_command(click.Context(cli), group).commands
    told = " ".join(run(group, "--help").stdout.partition("Commands:")[2].split())
    for name, command in commands.items():
        assert f"{name} {command.help.strip().splitlines()[0]}" in told
