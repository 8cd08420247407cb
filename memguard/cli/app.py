"""The root command: a table of subcommands loaded on demand, global options, and the mapping to exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn

import click

from memguard.cli import exits
from memguard.cli.session import Session

#: name -> (module, attribute, one line of help). The line is repeated here so that ``--help`` imports nothing;
#: a test compares it with the command's own.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "init": ("memguard.cli.init", "init", "Create the guard's home, key and anchor for a project."),
    "doctor": ("memguard.cli.doctor", "doctor", "Prove with a canary that the guard is in the path."),
    "status": ("memguard.cli.status", "status", "Show the home, anchor, keys and stores in use."),
    "check": ("memguard.cli.check", "check", "Say what the guards would decide about a text."),
    "audit": ("memguard.cli.audit", "audit", "Compare a whole store with its tags and its head."),
    "adopt": ("memguard.cli.audit", "adopt", "Put existing records under the guard, once."),
    "repair": ("memguard.cli.audit", "repair", "Drop what an audit proves to be no memory of yours."),
    "quarantine": (
        "memguard.cli.quarantine",
        "quarantine",
        "Look at withheld writes, release or drop them.",
    ),
    "revert": ("memguard.cli.revert", "revert", "Take records of a source, or of a time, back out."),
    "allow": ("memguard.cli.allow", "allow", "List, add and remove texts that the guards let pass."),
    "calibrate": (
        "memguard.cli.calibrate",
        "calibrate",
        "Set the statistical tier's thresholds by your own memories.",
    ),
    "keys": ("memguard.cli.keys", "keys", "Make, rotate, list and destroy keys."),
    "anchor": ("memguard.cli.anchor", "anchor", "Show, move, accept or recover the anchor."),
    "config": ("memguard.cli.config", "config", "Show, check and seal the configuration."),
    "explain": ("memguard.cli.explain", "explain", "Explain a code such as MG401 or a case such as T7."),
}


class Root(click.Group):
    """A group whose subcommands are imported when called, and whose ``main`` maps every exception once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Our commands in the order of the table, then those that other packages registered."""
        return [*COMMANDS, *sorted(set(_registered()) - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module behind ``cmd_name``; None if there is no such command."""
        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        return _load_registered(cmd_name) if cmd_name in _registered() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List our commands from the table, without importing them; registered ones are asked."""
        from memguard import registry

        lines = [(name, entry[2]) for name, entry in COMMANDS.items()]
        for name in self.list_commands(ctx)[len(COMMANDS) :]:
            lines.append((name, registry.commands.describe(name)))
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a command that was mistyped."""
        import difflib

        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f' Did you mean "{close[0]}"?' if close else ""
            raise click.UsageError(f'No such command "{name}".{hint}', ctx=ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run, and leave with an exit code of :mod:`memguard.cli.exits`; never with a traceback unless asked."""
        holder: MutableMapping[str, Any] = extra.setdefault("obj", Session()).__dict__
        try:
            code = super().main(
                args,
                prog_name or "memguard",
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place that maps all of them
            code = exits.report(error, verbose=bool(holder.get("verbose")))
        sys.exit(code if isinstance(code, int) else exits.CLEAN)


def _registered() -> tuple[str, ...]:
    """Commands that packages above the CLI's floor bring, by name."""
    from memguard import registry

    return registry.commands.names()


def _load_registered(name: str) -> click.Command:
    """Import a registered command."""
    from memguard import registry

    command: click.Command = registry.commands.get(name)
    return command


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"memguard {version('memguard-middleware')}")
        ctx.exit(0)


@click.group(
    "memguard", cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--home", metavar="DIR", help="The guard's home. Default: MEMGUARD_STATE, or ./.memguard.")
@click.option(
    "--config", "config", metavar="FILE", help="A memguard.toml. Default: MEMGUARD_CONFIG, or the home's."
)
@click.option("-v", "--verbose", is_flag=True, help="Tracebacks of internal errors, debug log on stderr.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Its version."
)
@click.pass_context
def cli(ctx: click.Context, home: str | None, config: str | None, verbose: bool, quiet: bool) -> None:
    """Guard the memory of LLM agents: tag what is written, prove what is read.

    Exit codes: 0 clean, 1 findings, 2 usage or configuration, 3 cannot tell, 4 internal error, 130 interrupted.
    """
    session: Session = ctx.obj
    session.home, session.config, session.verbose, session.quiet = home, config, verbose, quiet
    session.start_logging()
